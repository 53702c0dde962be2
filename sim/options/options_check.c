/* Options against the given model: those without meaning for them are refused. */
#include <string.h>

#include "error.h"
#include "options.h"
#include "plan_schedule.h"

static gboolean check_experts(const Plan *plan, const Model *model, GError **error) {
  if (model_has_experts(model))
    return plan_check_turns(plan, error);
  if (plan->expert_dispatch > DISPATCH_ALL_TO_ALL && plan->time.expert_dispatch != plan->expert_dispatch)
    return fail_input(error,
                      "--expert-dispatch %s says how tokens reach their experts: model %s has none; expected it "
                      "left out, or all_to_all",
                      expert_dispatch_names()[plan->expert_dispatch], model->name);
  if (plan->overlap_experts > 0 && plan->time.expert_overlap != EXPERT_OVERLAP_ROUNDS)
    return fail_input(error,
                      "--overlap-experts on hides exchanges with experts: model %s has none; expected it left out",
                      model->name);
  if (plan->cuda_graphs == CUDA_GRAPHS_ROUTER || plan->cuda_graphs == CUDA_GRAPHS_ATTENTION)
    return fail_input(
        error,
        "--cuda-graphs %s says what of layers with experts is replayed: model %s has none; expected none or "
        "full",
        cuda_graphs_names()[plan->cuda_graphs], model->name);
  return TRUE;
}

gboolean plan_options_check_model(const Plan *plan, const Model *model, GError **error) {
  const gboolean is_asked_for = plan->norm_kernel == FRAMEWORK_KERNELS_PLAIN &&
                                plan->time.kernels != FRAMEWORK_KERNELS_PLAIN &&
                                plan->layer_kernels != FRAMEWORK_KERNELS_PLAIN;
  if (!is_asked_for || model->norm == NORM_RMSNORM)
    return check_experts(plan, model, error);
  return fail_input(error,
                    "--norm-kernel plain says how an RMSNorm runs: model %s has LayerNorms, one kernel each; expected "
                    "it left out, or fused",
                    model->name);
}
