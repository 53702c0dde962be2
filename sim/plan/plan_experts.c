#include "plan.h"

static gboolean has_grace(const Cluster *cluster) {
  return cluster != NULL && cluster->gpu.host == HOST_GRACE;
}

/* As in most of today's recipes for Grace hosts, and few for others. Most recipes that recompute modules do not
 * replay, so a plan with recomputation is treated as one of those. */
static gboolean replays_step(const Plan *plan, const Model *model, const Cluster *cluster) {
  return plan->time.grace_mxfp8_step == GRACE_STEP_REPLAYED && has_grace(cluster) && model != NULL &&
         model_has_experts(model) && plan->ep > 1 && plan->precision == PRECISION_MXFP8 &&
         plan->recompute == RECOMPUTE_NONE && (plan->cuda_graphs < 0 || plan->cuda_graphs == CUDA_GRAPHS_FULL);
}

static gboolean has_rounds(const Plan *plan) {
  return plan->pp == 1 || (plan->chunks > 1 && plan_schedule(plan)->has_rounds);
}

/* As in recipes, which differ by the host that launches the kernels. Recomputation is in no graph except that of a
 * whole step: transformer_config.py of Megatron Core 0.17 (2026) refuses it for whole layers and for experts. */
static CudaGraphs graphs_left_open(const Plan *plan, const Model *model, const Cluster *cluster) {
  if (replays_step(plan, model, cluster))
    return CUDA_GRAPHS_FULL;
  const gboolean may_replay =
      !recompute_is_of_layers(plan->recompute) && (plan_recompute_modules(plan) & MODULE_BIT(MODULE_MOE)) == 0;
  return has_grace(cluster) && may_replay && model != NULL && model_has_experts(model)
             ? (CudaGraphs)plan->time.grace_expert_graphs
             : CUDA_GRAPHS_NONE;
}

void plan_complete_experts(Plan *plan, const Model *model, const Cluster *cluster) {
  if (plan->expert_dispatch < 0)
    plan->expert_dispatch = plan->time.expert_dispatch;
  if (plan->overlap_experts < 0 && replays_step(plan, model, cluster) && has_rounds(plan))
    plan->overlap_experts = !plan_gathers_tokens(plan);
  plan->overlap_experts = plan_overlaps_experts(plan);
  if (plan->cuda_graphs < 0)
    plan->cuda_graphs = graphs_left_open(plan, model, cluster);
}
