/* v-half and v-min: orders with a half and a third of 1f1b's activation memory, built from a block that is repeated
 * for every micro-batch (Qi et al., Pipeline Parallelism with Controllable Memory, arXiv 2405.15362, §3).
 *
 * The block. Two chunks in a V; time in slots, each long enough for one chunk's F, I or W, 6 per micro-batch and
 * rank. A block places the four passes F0 F1 I1 I0 (forward down and up the V, backward down and up again) of one
 * micro-batch on every rank, each a fixed number of slots after the same pass on the previous rank. v-min, steps 1 1
 * 1 1, p = 4:
 *
 *     rank 0   F0                      F1 I1                       I0
 *     rank 1      F0                F1       I1                 I0
 *     rank 2         F0          F1             I1           I0
 *     rank 3            F0 F1                      I1 I0
 *
 * Repeated every 6 slots, blocks must not collide: a rank's four slots must differ mod 6. The smallest waits at the
 * three turns that achieve this are found by search; everything repeats with ranks mod 6, so 6 ranks are enough to
 * check. A chunk is held from F to I; over a rank's chunks this adds up to 2p(mean step) slots on every rank, at one
 * chunk per 6 slots: steps 1 1 1 1 give 2p/3 chunks, a third of the 2p that 1f1b holds on rank 0; steps 1 2 1 2 give p,
 * a half.
 *
 * The order. Blocks give the sequence of passes; their waits at the ramps are of no use. So the sequences are
 * replayed with F = I = W, each pass as soon as its input is there, and W fills the gaps. Up to LOOK_AHEAD passes may
 * overtake one that waits (v-half: only while ramping up, else unequal times break the block's rhythm). An F may do
 * so only if the rank can run everything it overtakes without holding more than the block does plus SPARE chunks: so
 * nothing ever waits only for memory, and the run reaches its end. */
#include "generators.h"

enum { LOOK_AHEAD = 3, SPARE = 2, PERIOD = 6, N_PASSES = 4 };

/* Slots from one rank to the next, in the order F0 F1 I1 I0. */
typedef struct {
  int step[N_PASSES];
  int n_inputs_overtaking; /* overtaking ends after this many I on a rank */
} BlockKind;

static const BlockKind half = {{1, 2, 1, 2}, 2}, least = {{1, 1, 1, 1}, G_MAXINT};

typedef struct {
  const BlockKind *kind;
  int n_ranks;
  int wait[N_PASSES]; /* at the turn before a pass; 0 for F0 */
} Block;

/* Slot of a pass (of micro-batch 0) on a rank. Odd passes go up the V: from the last rank to the first. */
static gint64 slot_of(const Block *block, int pass, int rank) {
  gint64 slot = 0;
  for (int before = 0; before < pass; before++)
    slot += (gint64)block->kind->step[before] * (block->n_ranks - 1) + 1 + block->wait[before + 1];
  int from_turn = pass % 2 == 0 ? rank : block->n_ranks - 1 - rank;
  return slot + (gint64)block->kind->step[pass] * from_turn;
}

static gboolean meets_itself(const Block *block) {
  for (int rank = 0; rank < MIN(block->n_ranks, PERIOD); rank++)
    for (int a = 0; a < N_PASSES; a++)
      for (int b = 0; b < a; b++)
        if ((slot_of(block, a, rank) - slot_of(block, b, rank)) % PERIOD == 0)
          return TRUE;
  return FALSE;
}

/* The block with the smallest sum of waits whose repetitions do not collide. */
static Block block_new(const BlockKind *kind, int n_ranks) {
  Block block = {.kind = kind, .n_ranks = n_ranks};
  for (int sum = 0; sum < 3 * PERIOD; sum++)
    for (int first = 0; first <= sum; first++)
      for (int second = 0; first + second <= sum; second++) {
        block.wait[1] = first;
        block.wait[2] = second;
        block.wait[3] = sum - first - second;
        if (!meets_itself(&block))
          return block;
      }
  g_assert_not_reached(); /* one exists for n_ranks mod 6 = 0 … 5, and a test covers them all */
}

/* Chunks that a rank holds between F and I at a slot, in the steady state. */
static int held_at(const Block *block, int rank, gint64 slot) {
  gint64 held = 0;
  for (int pass = 0; pass < N_PASSES; pass++) { /* F0 and F1 add one, I1 and I0 release it */
    gint64 n_passed = (slot - slot_of(block, pass, rank)) / PERIOD;
    held += pass < 2 ? n_passed : -n_passed;
  }
  return (int)held;
}

static int most_held(const Block *block) {
  gint64 steady = (slot_of(block, N_PASSES - 1, 0) / PERIOD + 1) * PERIOD * 2;
  int most = 0;
  for (int rank = 0; rank < block->n_ranks; rank++)
    for (int slot = 0; slot < PERIOD; slot++)
      most = MAX(most, held_at(block, rank, steady + slot));
  return most;
}

/* --- replaying the sequences --- */

typedef struct {
  gint64 slot; /* in the repeated block */
  gint32 stage, micro_batch;
  gboolean is_forward;
} Pass;

typedef struct {
  int next[N_PASSES]; /* micro-batch */
  Pass ahead[LOOK_AHEAD];
  int n_ahead;
  int n_live;   /* chunks past F but not I */
  int n_held;   /* … but not W */
  int n_inputs; /* I's so far */
  guint n_weights;
  GArray *inputs; /* of Pass; owned */
} RankState;

typedef struct {
  const Block *block;
  Order *order;
  int max_held;
  gint64 now;
  RankState *ranks;
  gint64 *ready[2]; /* [stage · m + micro-batch] slot at which its gradient [0], its activation [1] is available */
} Squeeze;

/* A rank's next pass in the repeated block; FALSE if there is none. */
static gboolean next_pass(Squeeze *run, int rank, Pass *pass) {
  RankState *state = &run->ranks[rank];
  int earliest = -1, m = run->order->n_micro_batches;
  for (int kind = 0; kind < N_PASSES; kind++) {
    gint64 slot = slot_of(run->block, kind, rank) + (gint64)PERIOD * state->next[kind];
    if (state->next[kind] == m || (earliest >= 0 && slot > pass->slot))
      continue;
    earliest = kind;
    pass->slot = slot;
  }
  if (earliest < 0)
    return FALSE;
  pass->is_forward = earliest < 2;
  pass->stage = earliest == 0 || earliest == 3 ? rank : 2 * run->block->n_ranks - 1 - rank;
  pass->micro_batch = state->next[earliest]++;
  return TRUE;
}

static gint64 *ready_slot(const Squeeze *run, gboolean is_forward, int stage, int micro_batch) {
  return &run->ready[is_forward][(gsize)stage * (gsize)run->order->n_micro_batches + (gsize)micro_batch];
}

static gboolean has_input(const Squeeze *run, const Pass *pass) {
  int from = stage_next(pass->stage, !pass->is_forward, run->order->placement->n_stages, 1);
  if (!pass->is_forward && *ready_slot(run, TRUE, pass->stage, pass->micro_batch) > run->now)
    return FALSE;
  return from < 0 || *ready_slot(run, pass->is_forward, from, pass->micro_batch) <= run->now;
}

/* Which of the upcoming passes to run now; −1: none. */
static int choose(const Squeeze *run, const RankState *state) {
  gboolean may_overtake = state->n_inputs < run->block->kind->n_inputs_overtaking;
  int live = state->n_live, most_live = live;
  for (int i = 0; i < (may_overtake ? state->n_ahead : MIN(state->n_ahead, 1)); i++) {
    const Pass *pass = &state->ahead[i];
    gboolean has_room = !pass->is_forward || (most_live < run->max_held && state->n_held < run->max_held);
    if (has_room && has_input(run, pass))
      return i;
    if (i == 0 && !has_room && has_input(run, pass))
      return -1; /* a W makes room */
    live += pass->is_forward ? 1 : -1;
    most_live = MAX(most_live, live);
  }
  return -1;
}

static void run_pass(Squeeze *run, int rank, int chosen) {
  RankState *state = &run->ranks[rank];
  Pass pass = state->ahead[chosen];
  state->n_ahead--;
  for (int i = chosen; i < state->n_ahead; i++)
    state->ahead[i] = state->ahead[i + 1];
  order_add(run->order, rank, pass.is_forward ? ACTION_F : ACTION_I, pass.stage, pass.micro_batch);
  *ready_slot(run, pass.is_forward, pass.stage, pass.micro_batch) = run->now + 1;
  state->n_live += pass.is_forward ? 1 : -1;
  if (pass.is_forward) {
    state->n_held++;
  } else {
    state->n_inputs++;
    g_array_append_val(state->inputs, pass);
  }
}

static void run_weight(Squeeze *run, int rank) {
  RankState *state = &run->ranks[rank];
  const Pass *input = &g_array_index(state->inputs, Pass, state->n_weights++);
  order_add(run->order, rank, ACTION_W, input->stage, input->micro_batch);
  state->n_held--;
}

/* Runs one slot of one rank. Returns whether anything is left to do. */
static gboolean run_slot(Squeeze *run, int rank) {
  RankState *state = &run->ranks[rank];
  while (state->n_ahead < LOOK_AHEAD && next_pass(run, rank, &state->ahead[state->n_ahead]))
    state->n_ahead++;
  int chosen = choose(run, state);
  if (chosen >= 0)
    run_pass(run, rank, chosen);
  else if (state->n_weights < state->inputs->len)
    run_weight(run, rank);
  return state->n_ahead > 0 || state->n_weights < state->inputs->len;
}

static void run_all(Squeeze *run) {
  for (gboolean is_left = TRUE; is_left; run->now++) {
    is_left = FALSE;
    for (int rank = 0; rank < run->block->n_ranks; rank++)
      is_left |= run_slot(run, rank);
  }
}

static void generate_from_block(Order *order, OrderShape shape, const BlockKind *kind) {
  Block block = block_new(kind, shape.n_ranks);
  gsize n_cells = (gsize)order->placement->n_stages * (gsize)shape.n_micro_batches;
  g_autofree gint64 *ready = g_new(gint64, 2 * n_cells);
  g_autofree RankState *ranks = g_new0(RankState, (guint)shape.n_ranks);
  for (gsize i = 0; i < 2 * n_cells; i++)
    ready[i] = G_MAXINT64;
  for (int rank = 0; rank < shape.n_ranks; rank++)
    ranks[rank].inputs = g_array_new(FALSE, FALSE, sizeof(Pass));
  Squeeze run = {.block = &block,
                 .order = order,
                 .max_held = most_held(&block) + SPARE,
                 .ranks = ranks,
                 .ready = {ready, ready + n_cells}};
  run_all(&run);
  for (int rank = 0; rank < shape.n_ranks; rank++)
    g_array_unref(ranks[rank].inputs);
}

void generate_v_half(Order *order, OrderShape shape) {
  generate_from_block(order, shape, &half);
}

void generate_v_min(Order *order, OrderShape shape) {
  generate_from_block(order, shape, &least);
}
