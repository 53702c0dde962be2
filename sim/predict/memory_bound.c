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

#include "few_micro_batches.h"
#include "lowering.h"
#include "mixed_gpus.h"
#include "stage_works.h"

/* Sums of the same terms in another order may differ in their last bits. */
static const double rounding = 1e-9;

typedef struct {
  double saved, released_by_I, held_for_W;
  double transient; /* of the piece that backward begins with */
} StageHeld;

static StageHeld *stages_held(const Workload *workload) {
  StageHeld *stages = g_new(StageHeld, workload->n_stages);
  for (int s = 0; s < workload->n_stages; s++) {
    const StageLayers *layers = &workload->stages[s].layers;
    const Piece last = layers->has_head                     ? PIECE_HEAD
                       : layers->n_layers > layers->n_dense ? PIECE_LAYER
                       : layers->n_layers > 0               ? PIECE_DENSE_LAYER
                                                            : PIECE_EMBEDDING;
    const PieceMemory memory = stage_memory(workload, s);
    stages[s] = (StageHeld){memory.saved_bytes, memory.released_by_I, memory.held_for_W,
                            workload->memory[last].transient_bytes};
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

/* A forward in pieces that takes turns with the backward `next`. `is_first`: of its stage. */
static gboolean is_held_late(const Workload *workload, const Action *action, const Action *next, gboolean is_first) {
  const Method *method = workload->method;
  if (method->ep == 1 || !(action->overlaps_next || action->joins_next))
    return FALSE; /* as most are */
  const gboolean is_own = action->stage == next->stage && action->micro_batch == next->micro_batch;
  const gboolean takes_turns = lowering_takes_turns(workload), is_round = action->joins_next && takes_turns && !is_own;
  const gboolean is_cut = lowering_gathers_early(workload) && (zero_shards_weights(method->zero) || is_first);
  return (is_cut || takes_turns) && (action->overlaps_next || is_round);
}

/* Of two numbers; fmax() is a call, for what is none. */
static double larger(double a, double b) {
  return a > b ? a : b;
}

/* The most that a list of actions holds of activations. */
static double most_held(const Workload *workload, const GArray *actions, const StageHeld *stages) {
  g_autofree gboolean *seen = g_new0(gboolean, workload->n_stages);
  double held = 0, late = 0, most = 0;
  for (guint i = 0; i < actions->len; i++) {
    const Action *action = &g_array_index(actions, Action, i);
    if (!action_info(action->kind)->is_compute)
      continue;
    const StageHeld *stage = &stages[action->stage];
    switch ((ActionKind)action->kind) {
    case ACTION_F:
      if (i + 1 < actions->len && is_held_late(workload, action, action + 1, !seen[action->stage]))
        late = stage->saved;
      else
        held += stage->saved;
      seen[action->stage] = TRUE;
      most = larger(most, held);
      break;
    case ACTION_B:
      most = larger(most, held + stage->transient);
      held += late - stage->saved;
      most = larger(most, held);
      late = 0;
      break;
    case ACTION_I:
      most = larger(most, held + stage->transient);
      held += stage->held_for_W - stage->released_by_I;
      most = larger(most, held);
      break;
    default: /* W */
      held -= stage->saved - stage->released_by_I + stage->held_for_W;
      break;
    }
  }
  return most;
}

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

struct ShortOrder {
  const ScheduleFacts *schedule;
  OrderShape shape;
  Order *order; /* owned; NULL: none yet, or it cannot be */
};

ShortOrder *short_order_new(void) {
  return g_new0(ShortOrder, 1);
}

void short_order_free(ShortOrder *kept) {
  if (kept == NULL)
    return;
  order_free(kept->order);
  g_free(kept);
}

static gboolean is_same_shape(OrderShape a, OrderShape b) {
  return a.n_ranks == b.n_ranks && a.n_chunks == b.n_chunks && a.n_micro_batches == b.n_micro_batches &&
         a.group == b.group && a.takes_turns == b.takes_turns;
}

/* With no more micro-batches than it takes to hold the most. Borrowed from `kept`; NULL: it cannot be. */
static const Order *short_order(ShortOrder *kept, const ScheduleFacts *schedule, const Method *method) {
  const OrderShape shape = method_shape(method, few_micro_batches_of_order(method));
  if (kept->order != NULL && kept->schedule == schedule && is_same_shape(kept->shape, shape))
    return kept->order;
  order_free(kept->order);
  *kept = (ShortOrder){schedule, shape, order_new(schedule, shape, NULL)};
  return kept->order;
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
  const Order *order = short_order(kept, schedule, workload->method);
  for (int rank = 0; order != NULL && rank < n_ranks; rank++)
    most[rank] = most_held(workload, order->actions[rank], stages);
  take_most(states, most, n_ranks, bound);
  return fits(bound);
}
