#include "offload_state.h"

#include <math.h>

gboolean workload_gradients_leave(const Workload *workload, gboolean of_experts) {
  const Method *method = workload->method;
  const Layout *layout = &workload->layout;
  if (method->offload.optimizer == TIER_GPU || !zero_shards_gradients(method->zero))
    return FALSE;
  if (of_experts)
    return layout->n_expert_shards > 1 || layout_group_size(layout, AXIS_BIT_EXPERT_SHARD | AXIS_BIT_DP_REPLICA) == 1;
  return layout->n_shards > 1 || method->data_ranks == 1;
}

/* Gradients that stay on the GPU until the step's last are summed. */
static double staying_gradients(const Workload *workload, int stage) {
  const StageWork *work = &workload->stages[stage];
  const Layout *layout = &workload->layout;
  const gboolean is_cut = zero_shards_gradients(workload->method->zero);
  double parameters = 0;
  if (!workload_gradients_leave(workload, FALSE))
    parameters += (double)(work->parameters - work->expert_parameters) / (is_cut ? layout->n_shards : 1);
  if (!workload_gradients_leave(workload, TRUE))
    parameters += (double)work->expert_parameters / (is_cut ? layout->n_expert_shards : 1);
  return round(parameters * workload->method->recipe.gradients);
}

void workload_stage_tiers(const Workload *workload, int stage, StateBytes tiers[N_TIERS]) {
  const Offload *offload = &workload->method->offload;
  const StateBytes whole = workload_stage_state(workload, stage, workload->method->zero);
  for (int tier = 0; tier < N_TIERS; tier++)
    tiers[tier] = (StateBytes){0};
  tiers[offload->weights].weights_bytes = whole.weights_bytes;
  tiers[offload->optimizer].optimizer_bytes = whole.optimizer_bytes;
  if (offload->optimizer == TIER_GPU) {
    tiers[TIER_GPU].gradients_bytes = whole.gradients_bytes;
    return;
  }
  tiers[TIER_GPU].gradients_bytes = staying_gradients(workload, stage);
  tiers[method_gradient_tier(workload->method, workload->method->zero)].gradients_bytes =
      round(workload_optimizer_parameters(workload, stage) * workload->method->recipe.gradients);
}
