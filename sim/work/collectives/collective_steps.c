/* Sends are generated step by step. The state is advanced separately, so that a wrong schedule shows (a value added
 * twice, a chunk sent before it has arrived). */
#include "collective_steps.h"

static void add_ring_lap(CollectiveSteps *steps, const char *phase, int shift, gboolean adds) {
  int n = steps->n_gpus;
  for (int s = 0; s < n - 1; s++) {
    steps->n_steps++;
    for (int gpu = 0; gpu < n; gpu++) {
      int chunk = (2 * n + gpu - shift - s) % n;
      ChunkSend send = {steps->n_steps, phase, gpu, (gpu + 1) % n, chunk, adds};
      g_array_append_val(steps->sends, send);
    }
  }
}

CollectiveSteps collective_steps_ring(Collective collective, int n_gpus) {
  g_assert(n_gpus >= 2 && n_gpus <= MAX_STEPS_GPUS);
  CollectiveSteps steps = {collective, n_gpus, n_gpus, 0, g_array_new(FALSE, FALSE, sizeof(ChunkSend))};
  if (collective != COLLECTIVE_ALL_GATHER)
    add_ring_lap(&steps, "reduce-scatter", 1, TRUE);
  if (collective != COLLECTIVE_REDUCE_SCATTER)
    add_ring_lap(&steps, "all-gather", 0, FALSE);
  return steps;
}

CollectiveSteps collective_steps_naive(int n_gpus) {
  g_assert(n_gpus >= 2 && n_gpus <= MAX_STEPS_GPUS);
  CollectiveSteps steps = {COLLECTIVE_ALL_REDUCE, n_gpus, 1, 0, g_array_new(FALSE, FALSE, sizeof(ChunkSend))};
  for (int gpu = 1; gpu < n_gpus; gpu++) {
    ChunkSend send = {++steps.n_steps, "reduce", gpu, 0, 0, TRUE};
    g_array_append_val(steps.sends, send);
  }
  for (int gpu = 1; gpu < n_gpus; gpu++) {
    ChunkSend send = {++steps.n_steps, "broadcast", 0, gpu, 0, FALSE};
    g_array_append_val(steps.sends, send);
  }
  return steps;
}

enum { NO_PARENT = -1 };

/* A tree whose inner nodes are the even places and whose leaves are the odd ones; place 0 is the root, with one
 * child. The parent of a place is the nearest one with more trailing zero bits. */
static int parent_place(int place, int n) {
  if (place == 0)
    return NO_PARENT;
  int bit = place & -place;
  int parent = (place ^ bit) | bit << 1;
  return parent < n ? parent : place ^ bit;
}

/* The second tree is the first one over mirrored GPUs (n even), or shifted by one (n odd). */
static int gpu_at(int tree, int place, int n) {
  if (tree == 0)
    return place;
  return n % 2 == 0 ? n - 1 - place : (place + 1) % n;
}

typedef struct {
  int n_children_left[2][MAX_STEPS_GPUS]; /* [tree][place]: children whose sums have not arrived yet */
  gboolean is_done[2][MAX_STEPS_GPUS];    /* has sent its sum up; or has the result */
} TreeState;

/* One step up one tree: places whose children have all sent send to their parents, at most one to each. Returns
 * whether any did. */
static gboolean add_tree_up(CollectiveSteps *steps, TreeState *state, int tree) {
  int n = steps->n_gpus;
  gboolean was_ready[MAX_STEPS_GPUS], is_taken[MAX_STEPS_GPUS] = {FALSE}, any = FALSE;
  for (int place = 0; place < n; place++)
    was_ready[place] = state->n_children_left[tree][place] == 0 && !state->is_done[tree][place];
  for (int place = 1; place < n; place++) {
    int parent = parent_place(place, n);
    if (!was_ready[place] || is_taken[parent])
      continue;
    ChunkSend send = {steps->n_steps + 1, "reduce", gpu_at(tree, place, n), gpu_at(tree, parent, n), tree, TRUE};
    g_array_append_val(steps->sends, send);
    is_taken[parent] = state->is_done[tree][place] = any = TRUE;
    state->n_children_left[tree][parent]--;
  }
  return any;
}

/* One step down: every place that had the result before sends it to one child that has not. */
static gboolean add_tree_down(CollectiveSteps *steps, TreeState *state, int tree) {
  int n = steps->n_gpus;
  gboolean had[MAX_STEPS_GPUS], has_sent[MAX_STEPS_GPUS] = {FALSE}, any = FALSE;
  for (int place = 0; place < n; place++)
    had[place] = state->is_done[tree][place];
  for (int place = n - 1; place > 0; place--) {
    int parent = parent_place(place, n);
    if (had[place] || !had[parent] || has_sent[parent])
      continue;
    ChunkSend send = {steps->n_steps + 1, "broadcast", gpu_at(tree, parent, n), gpu_at(tree, place, n), tree, FALSE};
    g_array_append_val(steps->sends, send);
    has_sent[parent] = state->is_done[tree][place] = any = TRUE;
  }
  return any;
}

/* Runs both trees at once until neither has anything to send. */
static void add_tree_phase(CollectiveSteps *steps, TreeState *state,
                           gboolean (*add)(CollectiveSteps *, TreeState *, int)) {
  for (;;) {
    gboolean first = add(steps, state, 0), second = add(steps, state, 1);
    if (!first && !second)
      return;
    steps->n_steps++;
  }
}

CollectiveSteps collective_steps_tree(int n_gpus) {
  g_assert(n_gpus >= 2 && n_gpus <= MAX_STEPS_GPUS);
  CollectiveSteps steps = {COLLECTIVE_ALL_REDUCE, n_gpus, 2, 0, g_array_new(FALSE, FALSE, sizeof(ChunkSend))};
  TreeState state = {0};
  for (int tree = 0; tree < 2; tree++)
    for (int place = 1; place < n_gpus; place++)
      state.n_children_left[tree][parent_place(place, n_gpus)]++;
  add_tree_phase(&steps, &state, add_tree_up);
  for (int tree = 0; tree < 2; tree++)
    for (int place = 0; place < n_gpus; place++)
      state.is_done[tree][place] = place == 0;
  add_tree_phase(&steps, &state, add_tree_down);
  return steps;
}

void collective_steps_clear(CollectiveSteps *steps) {
  g_clear_pointer(&steps->sends, g_array_unref);
}

void collective_steps_start(const CollectiveSteps *steps, ChunkState *state) {
  *state = (ChunkState){0};
  guint all = (1u << steps->n_gpus) - 1;
  for (int gpu = 0; gpu < steps->n_gpus; gpu++)
    for (int chunk = 0; chunk < steps->n_chunks; chunk++)
      if (steps->collective != COLLECTIVE_ALL_GATHER)
        state->of[gpu][chunk] = 1u << gpu;
      else if (gpu == chunk) /* nothing is summed: the owner's chunk is complete */
        state->of[gpu][chunk] = all;
}

void collective_steps_advance(const CollectiveSteps *steps, int step, ChunkState *state) {
  const ChunkState before = *state;
  for (guint i = 0; i < steps->sends->len; i++) {
    const ChunkSend *send = &g_array_index(steps->sends, ChunkSend, i);
    if (send->step != step)
      continue;
    guint sent = before.of[send->from][send->chunk], *at = &state->of[send->to][send->chunk];
    g_assert(sent != 0 && (!send->adds || (*at & sent) == 0));
    *at = send->adds ? *at | sent : sent;
  }
}
