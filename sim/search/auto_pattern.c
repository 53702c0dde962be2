/* With p ranks, each wave advances by a fixed number of slots per rank:
 *
 *     F0 on rank r   r · f0
 *     F1             (p − 1) · f0 + turn_f + (p − 1 − r) · f1
 *     I1             F1 on rank 0 + turn_loss + r · i1
 *     I0             I1 on rank p − 1 + turn_i + (p − 1 − r) · i0
 *
 * F0 and I1 may change their speed at some rank (a bend), to use an amount of memory between those of two straight
 * patterns. Micro-batch j comes 6 · j slots later. The two slots left in each period are for W's. Two waves collide
 * on a rank if their slots are equal modulo 6; as each advances by whole slots per rank, it is enough to check 6
 * ranks from the first and 6 from the bend. The slots between F and I of a chunk, divided by 6, are the micro-batches
 * that it holds. */
#include "auto_pattern.h"

enum { PERIOD = 6, N_WAVES = 4, MAX_STEP = 4, MAX_TURN = 2, MAX_LOSS = 6, MAX_BENDS = 64 };

static gboolean is_v_of_two(const FlatProblem *flat) {
  if (flat->n_ranks < 2 || flat->n_stages != 2 * flat->n_ranks)
    return FALSE;
  for (int stage = 0; stage < flat->n_stages; stage++)
    if (flat->rank_of[stage] != MIN(stage, flat->n_stages - 1 - stage))
      return FALSE;
  return TRUE;
}

/* Slots from rank 0 to `rank` for F0 or I1, at `step` slots per rank up to the bend. */
static gint64 way_out(const VPattern *pattern, int step, int rank) {
  return (gint64)MIN(rank, pattern->bend) * step + (gint64)MAX(0, rank - pattern->bend) * pattern->bent;
}

/* Slots of micro-batch 0 on a rank: F0, F1, I1, I0. */
static void waves_of(const VPattern *pattern, int n_ranks, int rank, gint64 slots[N_WAVES]) {
  gint64 last = n_ranks - 1, to_go = last - rank;
  gint64 f1 = way_out(pattern, pattern->f0, n_ranks - 1) + pattern->turn_f,
         i1 = f1 + last * pattern->f1 + pattern->turn_loss;
  slots[0] = way_out(pattern, pattern->f0, rank);
  slots[1] = f1 + to_go * pattern->f1;
  slots[2] = i1 + way_out(pattern, pattern->i1, rank);
  slots[3] = i1 + way_out(pattern, pattern->i1, n_ranks - 1) + pattern->turn_i + to_go * pattern->i0;
}

static gboolean waves_meet_on(const VPattern *pattern, int n_ranks, int rank) {
  gint64 slots[N_WAVES];
  waves_of(pattern, n_ranks, rank, slots);
  guint taken = 0;
  for (int wave = 0; wave < N_WAVES; wave++) {
    guint bit = 1u << (slots[wave] % PERIOD);
    if (taken & bit)
      return TRUE;
    taken |= bit;
  }
  return FALSE;
}

static gboolean waves_meet(const VPattern *pattern, int n_ranks) {
  for (int n = 0; n < PERIOD; n++)
    if ((n < n_ranks && waves_meet_on(pattern, n_ranks, n)) ||
        (pattern->bend + n < n_ranks && waves_meet_on(pattern, n_ranks, pattern->bend + n)))
      return TRUE;
  return FALSE;
}

/* Total slots for which a rank holds micro-batches, most on any rank: the waves are straight between the ends and the
 * bend, so the maximum is at one of these. */
static gint64 slots_held(const VPattern *pattern, int n_ranks) {
  gint64 most = 0;
  const int ends[] = {0, n_ranks - 1, MIN(pattern->bend, n_ranks - 1)};
  for (gsize end = 0; end < G_N_ELEMENTS(ends); end++) {
    gint64 slots[N_WAVES];
    waves_of(pattern, n_ranks, ends[end], slots);
    most = MAX(most, slots[3] - slots[0] + slots[2] - slots[1]);
  }
  return most;
}

/* Micro-batches of one chunk that fit on every rank. */
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

/* Straight patterns first, then most memory first. */
static int compare_found(gconstpointer a, gconstpointer b, gpointer data) {
  const Found *x = a, *y = b;
  const int n_ranks = GPOINTER_TO_INT(data);
  gboolean x_is_bent = x->pattern.bend < n_ranks, y_is_bent = y->pattern.bend < n_ranks;
  if (x_is_bent != y_is_bent)
    return x_is_bent ? 1 : -1;
  return x->held > y->held ? -1 : x->held < y->held;
}

typedef struct {
  const FlatProblem *flat;
  double most;   /* limit of slots held */
  GArray *found; /* of Found */
} Finder;

/* Tries all turns; keeps those with no collision that fit the memory. */
static void try_turns(Finder *finder, VPattern pattern) {
  for (int turn = 0; turn < MAX_TURN * MAX_TURN * MAX_LOSS; turn++) {
    pattern.turn_f = (guint8)(1 + turn % MAX_TURN);
    pattern.turn_loss = (guint8)(1 + turn / MAX_TURN % MAX_LOSS);
    pattern.turn_i = (guint8)(1 + turn / (MAX_TURN * MAX_LOSS));
    Found one = {slots_held(&pattern, finder->flat->n_ranks), pattern};
    if ((double)one.held <= finder->most && !waves_meet(&pattern, finder->flat->n_ranks))
      g_array_append_val(finder->found, one);
  }
}

static void try_straight(Finder *finder) {
  for (int step = 0; step < MAX_STEP * MAX_STEP * MAX_STEP * MAX_STEP; step++)
    try_turns(finder, (VPattern){.f0 = (guint8)(1 + step % MAX_STEP),
                                 .f1 = (guint8)(1 + step / MAX_STEP % MAX_STEP),
                                 .i1 = (guint8)(1 + step / (MAX_STEP * MAX_STEP) % MAX_STEP),
                                 .i0 = (guint8)(1 + step / (MAX_STEP * MAX_STEP * MAX_STEP)),
                                 .bend = finder->flat->n_ranks});
}

static void try_bent(Finder *finder) {
  const int n_ranks = finder->flat->n_ranks, stride = 1 + n_ranks / MAX_BENDS;
  for (guint8 step = 1; step <= MAX_STEP; step++)
    for (guint8 bent = 1; bent <= MAX_STEP; bent++)
      for (int bend = 1; bent != step && bend < n_ranks - 1; bend += stride)
        try_turns(finder, (VPattern){.f0 = step, .f1 = 1, .i1 = step, .i0 = 1, .bent = bent, .bend = bend});
}

void v_patterns_find(const FlatProblem *flat, GArray *patterns) {
  if (!is_v_of_two(flat))
    return;
  g_autoptr(GArray) found = g_array_new(FALSE, FALSE, sizeof(Found));
  Finder finder = {flat, chunks_that_fit(flat) * PERIOD, found};
  try_straight(&finder);
  try_bent(&finder);
  g_array_sort_with_data(found, compare_found, GINT_TO_POINTER(flat->n_ranks));
  for (guint i = 0; i < found->len; i++)
    g_array_append_val(patterns, g_array_index(found, Found, i).pattern);
}

/* Slots until the next one after `from` that is `residue` modulo 6. */
static gint64 wait_for(gint64 from, int residue) {
  return 1 + (residue + PERIOD - 1 - from % PERIOD + PERIOD) % PERIOD;
}

/* W1 and W0: each in one of the two free slots, with the shortest total wait. */
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
