/* With p ranks, wave w starts at slot start_w on its first rank and moves on by step_w slots a rank:
 *
 *     F0 on rank r   r · f0
 *     F1             (p − 1) · f0 + turn_f + (p − 1 − r) · f1
 *     I1             F1 on rank 0 + turn_loss + r · i1
 *     I0             I1 on rank p − 1 + turn_i + (p − 1 − r) · i0
 *
 * and micro-batch j comes 6 · j slots later. The two slots of a period that are left are the W's. Two waves meet on a
 * rank if their slots are equal modulo 6; as each moves by whole slots a rank, ranks 0 … 5 tell. Slots between F and I
 * of a chunk, over 6, are the micro-batches it holds. */
#include "auto_pattern.h"

enum { PERIOD = 6, N_WAVES = 4, MAX_STEP = 4, MAX_TURN = 2, MAX_LOSS = 6 };

static gboolean is_v_of_two(const FlatProblem *flat) {
  if (flat->n_ranks < 2 || flat->n_stages != 2 * flat->n_ranks)
    return FALSE;
  for (int stage = 0; stage < flat->n_stages; stage++)
    if (flat->rank_of[stage] != MIN(stage, flat->n_stages - 1 - stage))
      return FALSE;
  return TRUE;
}

/* Slots of micro-batch 0 on a rank: F0, F1, I1, I0. */
static void waves_of(const VPattern *pattern, int n_ranks, int rank, gint64 slots[N_WAVES]) {
  gint64 last = n_ranks - 1, to_go = last - rank;
  gint64 f1 = last * pattern->f0 + pattern->turn_f, i1 = f1 + last * pattern->f1 + pattern->turn_loss;
  slots[0] = (gint64)rank * pattern->f0;
  slots[1] = f1 + to_go * pattern->f1;
  slots[2] = i1 + (gint64)rank * pattern->i1;
  slots[3] = i1 + last * pattern->i1 + pattern->turn_i + to_go * pattern->i0;
}

static gboolean waves_meet(const VPattern *pattern, int n_ranks) {
  for (int rank = 0; rank < MIN(n_ranks, PERIOD); rank++) {
    gint64 slots[N_WAVES];
    waves_of(pattern, n_ranks, rank, slots);
    guint taken = 0;
    for (int wave = 0; wave < N_WAVES; wave++) {
      guint bit = 1u << (slots[wave] % PERIOD);
      if (taken & bit)
        return TRUE;
      taken |= bit;
    }
  }
  return FALSE;
}

/* Slots that a rank's micro-batches are held in all, most over ranks: the waves are straight lines, so an end has it.
 */
static gint64 slots_held(const VPattern *pattern, int n_ranks) {
  gint64 most = 0;
  for (int end = 0; end < 2; end++) {
    gint64 slots[N_WAVES];
    waves_of(pattern, n_ranks, end * (n_ranks - 1), slots);
    most = MAX(most, slots[3] - slots[0] + slots[2] - slots[1]);
  }
  return most;
}

/* Micro-batches of a chunk that fit on every rank. */
static double chunks_that_fit(const FlatProblem *flat) {
  double least = G_MAXDOUBLE;
  for (int stage = 0; flat->cap && stage < flat->n_stages; stage++)
    if (flat->stages[stage].f_holds > 0)
      least = MIN(least, flat->cap[flat->rank_of[stage]] / flat->stages[stage].f_holds);
  return least;
}

typedef struct {
  gint64 held;
  VPattern pattern;
} Found;

static int by_held(gconstpointer a, gconstpointer b, gpointer data) {
  gint64 x = ((const Found *)a)->held, y = ((const Found *)b)->held;
  return x > y ? -1 : x < y;
}

void v_patterns_find(const FlatProblem *flat, GArray *patterns) {
  if (!is_v_of_two(flat))
    return;
  double most = chunks_that_fit(flat) * PERIOD;
  g_autoptr(GArray) found = g_array_new(FALSE, FALSE, sizeof(Found));
  const int n_steps = MAX_STEP * MAX_STEP * MAX_STEP * MAX_STEP, n_turns = MAX_TURN * MAX_TURN * MAX_LOSS;
  for (int i = 0; i < n_steps * n_turns; i++) {
    int step = i / n_turns, turn = i % n_turns;
    VPattern pattern = {(guint8)(1 + step % MAX_STEP),
                        (guint8)(1 + step / MAX_STEP % MAX_STEP),
                        (guint8)(1 + step / (MAX_STEP * MAX_STEP) % MAX_STEP),
                        (guint8)(1 + step / (MAX_STEP * MAX_STEP * MAX_STEP)),
                        (guint8)(1 + turn % MAX_TURN),
                        (guint8)(1 + turn / MAX_TURN % MAX_LOSS),
                        (guint8)(1 + turn / (MAX_TURN * MAX_LOSS))};
    Found one = {slots_held(&pattern, flat->n_ranks), pattern};
    if ((double)one.held <= most && !waves_meet(&pattern, flat->n_ranks))
      g_array_append_val(found, one);
  }
  g_array_sort_with_data(found, by_held, NULL);
  for (guint i = 0; i < found->len; i++)
    g_array_append_val(patterns, g_array_index(found, Found, i).pattern);
}

/* Slots until the first one after `from` that equals `residue` modulo 6. */
static gint64 wait_for(gint64 from, int residue) {
  return 1 + (residue + PERIOD - 1 - from % PERIOD + PERIOD) % PERIOD;
}

/* W1 and W0: each in one of the two slots left, so that they wait least. */
static void place_w(const gint64 slots[N_WAVES], gint64 w_slots[2]) {
  int left[PERIOD], n_left = 0;
  for (int residue = 0; residue < PERIOD; residue++) {
    gboolean is_taken = FALSE;
    for (int wave = 0; wave < N_WAVES; wave++)
      is_taken = is_taken || slots[wave] % PERIOD == residue;
    if (!is_taken)
      left[n_left++] = residue;
  }
  gint64 straight = wait_for(slots[2], left[0]) + wait_for(slots[3], left[1]);
  gint64 crossed = wait_for(slots[2], left[1]) + wait_for(slots[3], left[0]);
  w_slots[0] = slots[2] + wait_for(slots[2], left[straight > crossed]);
  w_slots[1] = slots[3] + wait_for(slots[3], left[straight <= crossed]);
}

void v_pattern_fill(const FlatProblem *flat, const VPattern *pattern, FlatOrder *order) {
  static const ActionKind kinds[N_WAVES + 2] = {ACTION_F, ACTION_F, ACTION_I, ACTION_I, ACTION_W, ACTION_W};
  Action *out = order->actions;
  for (int rank = 0; rank < flat->n_ranks; rank++) {
    const int near = rank, far = flat->n_stages - 1 - rank;
    const int stages[N_WAVES + 2] = {near, far, far, near, far, near};
    gint64 slots[N_WAVES + 2];
    int done[N_WAVES + 2] = {0};
    waves_of(pattern, flat->n_ranks, rank, slots);
    place_w(slots, slots + N_WAVES);
    for (int n = 0; n < (N_WAVES + 2) * flat->n_micro_batches; n++) {
      int next = -1;
      for (int wave = 0; wave < N_WAVES + 2; wave++)
        if (done[wave] < flat->n_micro_batches && (next < 0 || slots[wave] < slots[next]))
          next = wave;
      *out++ = (Action){.stage = stages[next], .micro_batch = done[next]++, .kind = (guint8)kinds[next]};
      slots[next] += PERIOD;
    }
  }
}
