/* Each stage's F, I and W are costed whole, as in a folded run. What a rank may hold for its micro-batches is its
 * GPU's memory, less
 *
 *     weights, gradients, optimizer of its stages     as the memory pass counts them
 *     the largest transient of its stages             one pass runs at a time
 *     four boundary tensors                           received and not used yet, both directions of both lanes
 *     ZeRO ≥ 2: two buckets, or, if gradients are reduced once, these whole, less the shard counted above
 *     ZeRO-3: the gathered pieces of the prefetch window and the one in use */
#include "plan_run.h"

#include "auto_order.h"
#include "effect_chains.h"
#include "error.h"
#include "lowering.h"
#include "mixed_gpus.h"
#include "stage_works.h"
#include "timing_model.h"

enum { BOUNDARY_TENSORS = 4 };

static void take_times(const Workload *workload, const Cluster *cluster, StageCost *costs, gint64 *send_ns) {
  g_auto(StageWorks) works;
  stage_works_init(&works, workload);
  g_autoptr(Timing) timing = timing_model(works.program, workload, cluster, NULL);
  for (int stage = 0; stage < workload->n_stages; stage++) {
    const gint32 *work = &works.work[3 * stage];
    costs[stage].f_ns = timing->works[work[0]].run_ns;
    costs[stage].i_ns = timing->works[work[1]].run_ns;
    costs[stage].w_ns = timing->works[work[2]].run_ns;
  }
  *send_ns = timing->n_transfers > 0 ? timing->transfers[0].run_ns : 0;
}

static void take_memory(const Workload *workload, int stage, StageCost *cost) {
  PieceMemory memory = stage_memory(workload, stage);
  cost->f_holds = memory.saved_bytes;
  cost->i_drops = memory.released_by_I - memory.held_for_W;
  cost->w_drops = memory.saved_bytes - cost->i_drops;
}

/* ZeRO's buckets and gathered pieces. */
static double zero_buffers(const Workload *workload) {
  const Method *method = workload->method;
  const Part part = {.n_layers = 1};
  double layer = part_sharded_parameters(workload, &part), buffers = 0;
  if (!lowering_is_sharded(workload))
    return 0;
  if (zero_shards_gradients(method->zero) && !method->reduces_once)
    buffers += 2 * MAX(layer, (double)method->bucket_parameters) * method->recipe.gradients;
  if (zero_shards_weights(method->zero))
    buffers += (method->prefetch + 1) * layer * method->recipe.weights;
  return buffers;
}

/* [ranks] what is left of a GPU for the micro-batches of each rank; owned by the caller. */
static double *caps_of(const Workload *workload, const Cluster *cluster) {
  const Method *method = workload->method;
  const Placement *placement = workload->placement;
  const double asked = method->memory_cap > 0 ? method->memory_cap : mixed_gpus_room_bytes(workload, cluster);
  const double most = method->order_cap > 0 ? method->order_cap : asked;
  double *caps = g_new(double, placement->n_ranks);
  g_autofree double *transients = g_new0(double, placement->n_ranks);
  for (int rank = 0; rank < placement->n_ranks; rank++)
    caps[rank] =
        most - workload->framework_bytes - BOUNDARY_TENSORS * workload->boundary_bytes - zero_buffers(workload);
  for (int stage = 0; stage < workload->n_stages; stage++) {
    const int rank = placement->stage_rank[stage];
    StateBytes tiers[N_TIERS];
    workload_stage_tiers(workload, stage, tiers);
    caps[rank] -= state_memory_total(&tiers[TIER_GPU]);
    const Part whole = part_of_stage(workload, stage);
    if (method->reduces_once)
      caps[rank] -= effect_gradient_bytes(workload, &whole, TRUE) +
                    (whole.n_embedding > 0 ? effect_table_gradient_bytes(workload, TRUE) : 0);
    transients[rank] = MAX(transients[rank], stage_memory(workload, stage).transient_bytes);
  }
  for (int rank = 0; rank < placement->n_ranks; rank++)
    caps[rank] = MAX(caps[rank] - transients[rank], 0);
  return caps;
}

Order *auto_plan_order(const Workload *workload, const Cluster *cluster, GError **error) {
  g_autofree StageCost *costs = g_new(StageCost, workload->n_stages);
  g_autofree double *caps = caps_of(workload, cluster);
  OrderProblem problem = {.placement = workload->placement,
                          .n_micro_batches = (int)workload->method->n_micro_batches,
                          .stages = costs,
                          .cap = caps,
                          .is_in_bytes = TRUE,
                          .by_makespan = workload->method->grad_norm_barrier};
  take_times(workload, cluster, costs, &problem.send_ns);
  for (int stage = 0; stage < workload->n_stages; stage++)
    take_memory(workload, stage, &costs[stage]);
  Order *order = auto_order_new(&problem, NULL, error);
  if (order == NULL)
    g_prefix_error(error, "schedule auto: ");
  return order;
}
