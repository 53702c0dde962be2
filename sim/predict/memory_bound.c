/* A rank's compute stream runs its actions in list order, so what it holds between two of them does not depend on time:
 *
 *     held       weights, gradients, optimizer of its stages     as the memory pass counts them
 *     F          + saved                                          at its start
 *     B          + the first piece's transient                    while it runs, then − saved
 *     I          the same, then + held for W − released by I
 *     W          − what is left of the micro-batch
 *
 * The most along the list is a lower bound of the simulated peak. Left out is what depends on when transfers run: what
 * was received early, gathered pieces, buckets of gradients. A backward may be cut into pieces, of which the stage's
 * last one comes first, while everything saved is still there; so its transient counts and no other's. Where a forward
 * is cut as well, or takes turns with the backward behind it piece by piece (interleave.c, pass_expand.c), the last of
 * the one may find the first of the other dropped already: it counts once both are through. An order read from a file
 * or made for its times is not made here: one micro-batch of the largest stage is held in any order. */
#include "memory_bound.h"

#include <math.h>
#include <string.h>

#include "few_micro_batches.h"
#include "lowering.h"
#include "mixed_gpus.h"

/* Sums of the same terms in another order may differ in their last bits. */
static const double rounding = 1e-9;

typedef struct {
  double saved, released_by_I, held_for_W;
  double transient; /* of the piece that backward begins with */
} StageHeld;

/* The micro-batch that leaves least: every moment is bounded as if all were like it. */
static gint32 least_lengths(const Workload *workload) {
  const int n = workload->micro_batches != NULL ? workload->batch->n_micro_batches : 0;
  gint32 least = n > 0 ? 1 : 0;
  for (gint32 lengths = 2; lengths <= n; lengths++)
    if (workload_memory(workload, lengths, PIECE_LAYER)->saved_bytes <
        workload_memory(workload, least, PIECE_LAYER)->saved_bytes)
      least = lengths;
  return least;
}

static StageHeld *stages_held(const Workload *workload) {
  StageHeld *stages = g_new(StageHeld, workload->n_stages);
  const gint32 lengths = least_lengths(workload);
  for (int s = 0; s < workload->n_stages; s++) {
    Part part = part_of_stage(workload, s);
    int counts[N_PIECES];
    part.lengths = lengths;
    Piece last = PIECE_HEAD;
    part_pieces(&part, counts);
    while (counts[last] == 0 && last > PIECE_EMBEDDING)
      last--;
    const PieceMemory memory = part_memory(workload, &part);
    stages[s] = (StageHeld){memory.saved_bytes, memory.released_by_I, memory.held_for_W,
                            workload_memory(workload, lengths, last)->transient_bytes};
    if (workload->method->offload.activations != TIER_GPU) /* at times it has left, or has not come back yet */
      stages[s] = (StageHeld){.transient = stages[s].transient};
  }
  return stages;
}

/* Weights, gradients and optimizer of every pipeline rank. */
static double *states_held(const Workload *workload) {
  const Placement *placement = workload->placement;
  double *held = g_new0(double, placement->n_ranks);
  for (int s = 0; s < workload->n_stages; s++) {
    StateBytes tiers[N_TIERS];
    workload_stage_tiers(workload, s, tiers);
    held[placement->stage_rank[s]] += state_memory_total(&tiers[TIER_GPU]);
  }
  return held;
}

/* Of two numbers; fmax() is a call, for what is none. */
static double larger(double a, double b) {
  return a > b ? a : b;
}

/* --- what an order holds --- */

/* Which forwards in pieces take turns with the backward behind them; all FALSE without experts elsewhere, as most
 * are. */
typedef struct {
  gboolean takes_turns, cuts_first, cuts_all; /* forwards are cut: of a stage the first, or all */
} Turns;

static Turns turns_of(const Workload *workload) {
  if (workload->method->ep == 1)
    return (Turns){0};
  const gboolean is_cut = lowering_gathers_early(workload);
  return (Turns){lowering_takes_turns(workload), is_cut, is_cut && zero_shards_weights(workload->method->zero)};
}

static gboolean is_held_late(const Turns *turns, const Action *action, const Action *next, gboolean is_first) {
  const gboolean is_own = action->stage == next->stage && action->micro_batch == next->micro_batch;
  const gboolean is_round = action->joins_next && turns->takes_turns && !is_own;
  const gboolean is_cut = turns->cuts_all || (turns->cuts_first && is_first);
  return (is_cut || turns->takes_turns) && (action->overlaps_next || is_round);
}

/* What decides how an order's ranks hold activations, whatever their sizes. */
typedef struct {
  const ScheduleFacts *schedule;
  OrderShape shape;
  Turns turns;
} OrderKey;

static gboolean is_same_key(const OrderKey *a, const OrderKey *b) {
  return a->schedule == b->schedule && a->shape.n_ranks == b->shape.n_ranks && a->shape.n_chunks == b->shape.n_chunks &&
         a->shape.n_micro_batches == b->shape.n_micro_batches && a->shape.group == b->shape.group &&
         a->shape.takes_turns == b->shape.takes_turns && a->turns.takes_turns == b->turns.takes_turns &&
         a->turns.cuts_first == b->turns.cuts_first && a->turns.cuts_all == b->turns.cuts_all;
}

/* The moments of each rank at which it may hold most. A moment is gint32[2·n_own + 1]: of each of the rank's stages the
 * micro-batches that are saved, and those whose W is waited for; then the stage whose backward begins, −1: none. Of two
 * moments one of which holds what the other does and more, whatever the sizes, that one is kept. */
typedef struct {
  OrderKey key;
  int n_own;        /* stages of a rank */
  int *stages;      /* [n_ranks][n_own] */
  GArray **moments; /* [n_ranks]; NULL: there is no such order */
} HeldOrder;

static void held_order_clear(HeldOrder *held) {
  for (int rank = 0; held->moments != NULL && rank < held->key.shape.n_ranks; rank++)
    g_array_unref(held->moments[rank]);
  g_free(held->moments);
  g_free(held->stages);
}

static const gint32 *nth_moment(const GArray *moments, guint i, int n_own) {
  return (const gint32 *)(gconstpointer)moments->data + i * (2 * (guint)n_own + 1);
}

static gboolean holds_no_less(const gint32 *a, const gint32 *b, int n_own) {
  for (int k = 0; k < n_own; k++)
    if (a[k] < b[k] || a[n_own + k] != b[n_own + k])
      return FALSE;
  return b[2 * n_own] < 0 || a[2 * n_own] == b[2 * n_own];
}

/* Where a moment stands, or is to stand: they are sorted, as most that a list comes to are known already. */
static guint place_of(const GArray *moments, const gint32 *now, int n_own) {
  guint first = 0, end = moments->len;
  while (first < end) {
    const guint middle = (first + end) / 2;
    if (memcmp(nth_moment(moments, middle, n_own), now, (2 * (gsize)n_own + 1) * sizeof *now) < 0)
      first = middle + 1;
    else
      end = middle;
  }
  return first;
}

static void add_moment(GArray *moments, gint32 *now, int n_own, int begins) {
  now[2 * n_own] = begins;
  guint place = place_of(moments, now, n_own);
  if (place < moments->len && memcmp(nth_moment(moments, place, n_own), now, (2 * (gsize)n_own + 1) * sizeof *now) == 0)
    return;
  for (guint i = 0; i < moments->len; i++)
    if (holds_no_less(nth_moment(moments, i, n_own), now, n_own))
      return;
  for (guint i = moments->len; i > 0; i--)
    if (holds_no_less(now, nth_moment(moments, i - 1, n_own), n_own)) {
      g_array_remove_index(moments, i - 1);
      place -= i - 1 < place;
    }
  g_array_insert_vals(moments, place, now, 1);
}

/* `local`: the place of each stage among its rank's. */
static GArray *moments_of(const GArray *actions, const int *local, int n_own, const Turns *turns) {
  GArray *moments = g_array_new(FALSE, FALSE, (2 * (guint)n_own + 1) * sizeof(gint32));
  g_autofree gint32 *now = g_new0(gint32, 2 * (gsize)n_own + 1);
  g_autofree gboolean *seen = g_new0(gboolean, n_own);
  g_autofree int *told = g_new0(int, n_own); /* n_raised at the last B of a stage, which held what the next one does */
  int late = -1, n_raised = 1;
  for (guint i = 0; i < actions->len; i++) {
    const Action *action = &g_array_index(actions, Action, i);
    if (!action_info(action->kind)->is_compute)
      continue;
    const int k = local[action->stage];
    if (action->kind == ACTION_B ? told[k] != n_raised : action->kind != ACTION_F) /* what F adds is still there then */
      add_moment(moments, now, n_own, action->kind == ACTION_W ? -1 : k);
    switch ((ActionKind)action->kind) {
    case ACTION_F:
      if (i + 1 < actions->len && is_held_late(turns, action, action + 1, !seen[k]))
        late = k;
      else
        now[k]++;
      seen[k] = TRUE;
      n_raised++;
      break;
    case ACTION_B:
      told[k] = n_raised;
      n_raised += late >= 0;
      if (late >= 0)
        now[late]++;
      now[k]--;
      late = -1;
      break;
    case ACTION_I:
      now[n_own + k]++;
      n_raised++;
      break;
    default: /* W */
      now[k]--;
      now[n_own + k]--;
      n_raised++;
      break;
    }
  }
  add_moment(moments, now, n_own, -1);
  return moments;
}

static HeldOrder held_order_of(const OrderKey *key) {
  HeldOrder held = {.key = *key};
  g_autoptr(Order) order = order_new(key->schedule, key->shape, NULL);
  if (order == NULL)
    return held;
  const Placement *placement = order->placement;
  g_autofree int *local = g_new(int, placement->n_stages), *n_seen = g_new0(int, placement->n_ranks);
  held.n_own = placement->n_stages / placement->n_ranks;
  held.stages = g_new(int, placement->n_stages);
  held.moments = g_new(GArray *, placement->n_ranks);
  for (int stage = 0; stage < placement->n_stages; stage++) {
    const int rank = placement->stage_rank[stage];
    local[stage] = n_seen[rank]++;
    held.stages[rank * held.n_own + local[stage]] = stage;
  }
  for (int rank = 0; rank < placement->n_ranks; rank++)
    held.moments[rank] = moments_of(order->actions[rank], local, held.n_own, &key->turns);
  return held;
}

/* The most that a rank holds of activations: whole bytes, so that sums are exact in any order. */
static double most_held(const HeldOrder *held, int rank, const StageHeld *stages) {
  const int n_own = held->n_own, *own = held->stages + rank * n_own;
  double most = 0;
  for (guint i = 0; i < held->moments[rank]->len; i++) {
    const gint32 *moment = nth_moment(held->moments[rank], i, n_own);
    double bytes = moment[2 * n_own] >= 0 ? stages[own[moment[2 * n_own]]].transient : 0;
    for (int k = 0; k < n_own; k++) {
      const StageHeld *stage = &stages[own[k]];
      bytes += moment[k] * stage->saved + moment[n_own + k] * (stage->held_for_W - stage->released_by_I);
    }
    most = larger(most, bytes);
  }
  return most;
}

/* --- the bound --- */

/* One micro-batch of each rank's largest stage; entries of `most`, per pipeline rank. */
static void hold_one(const Workload *workload, const StageHeld *stages, double *most) {
  for (int s = 0; s < workload->n_stages; s++) {
    double *rank = &most[workload->placement->stage_rank[s]];
    *rank = fmax(*rank, stages[s].saved);
  }
}

static void take_most(const double *states, const double *most, int n_ranks, MemoryBound *bound) {
  for (int rank = 0; rank < n_ranks; rank++) {
    const double bytes = states[rank] + most[rank];
    if (bytes <= bound->least_bytes)
      continue;
    bound->least_bytes = bytes;
    bound->state_bytes = states[rank];
    bound->activation_bytes = most[rank];
    bound->rank = rank;
  }
}

gboolean memory_bound_is_within(const MemoryBound *bound, double bytes) {
  return bound->least_bytes <= bytes * (1 + rounding);
}

static gboolean fits(const MemoryBound *bound) {
  return memory_bound_is_within(bound, bound->room_bytes);
}

enum { MOST_KEPT = 64 };

struct ShortOrder {
  HeldOrder orders[MOST_KEPT];
  int n, next; /* next: the oldest, once all places are taken */
};

ShortOrder *short_order_new(void) {
  return g_new0(ShortOrder, 1);
}

void short_order_free(ShortOrder *kept) {
  if (kept == NULL)
    return;
  for (int i = 0; i < kept->n; i++)
    held_order_clear(&kept->orders[i]);
  g_free(kept);
}

/* With no more micro-batches than it takes to hold the most. */
static const HeldOrder *short_order(ShortOrder *kept, const ScheduleFacts *schedule, const Workload *workload) {
  const Method *method = workload->method;
  const OrderKey key = {schedule, method_shape(method, few_micro_batches_of_order(method)), turns_of(workload)};
  for (int i = 0; i < kept->n; i++)
    if (is_same_key(&kept->orders[i].key, &key))
      return &kept->orders[i];
  HeldOrder *place = &kept->orders[kept->next];
  if (kept->n == MOST_KEPT)
    held_order_clear(place);
  kept->n = MAX(kept->n, kept->next + 1);
  kept->next = (kept->next + 1) % MOST_KEPT;
  *place = held_order_of(&key);
  return place;
}

gboolean memory_bound_fits(const Workload *workload, const Cluster *cluster, ShortOrder *kept, MemoryBound *bound) {
  const int n_ranks = workload->placement->n_ranks;
  *bound = (MemoryBound){.room_bytes = mixed_gpus_room_bytes(workload, cluster)};
  g_autofree double *states = states_held(workload), *most = g_new0(double, n_ranks);
  g_autofree StageHeld *stages = stages_held(workload);
  hold_one(workload, stages, most);
  take_most(states, most, n_ranks, bound);
  const ScheduleFacts *schedule = method_schedule(workload->method);
  if (!fits(bound) || schedule == NULL)
    return fits(bound);
  const HeldOrder *held = short_order(kept, schedule, workload);
  for (int rank = 0; held->moments != NULL && rank < n_ranks; rank++)
    most[rank] = most_held(held, rank, stages);
  take_most(states, most, n_ranks, bound);
  return fits(bound);
}
