/* Predicts a plan whose schedule is a name or a file: records, and the numbers derived from them. */
#include "predict_parts.h"

#include "mixed_gpus.h"

static void derive(Prediction *prediction) {
  const Workload *workload = prediction->workload;
  const Plan *plan = workload->plan;
  if (prediction->metrics == NULL)
    prediction->metrics = metrics_new(prediction->trace);
  prediction->memory = memory_profile_new(prediction->trace);
  double step_s = prediction->metrics->step_ns * 1e-9;
  prediction->step_time_s = step_s;
  prediction->tokens_per_s = (double)plan->global_batch * plan->seq_len / step_s;
  prediction->tokens_per_s_per_gpu = prediction->tokens_per_s / plan->gpus;
  prediction->peak_flops = mixed_gpus_peak_flops(workload, prediction->cluster);
  double per_gpu = workload_model_flops(workload) / step_s / plan->gpus;
  prediction->tflops_per_gpu = per_gpu * 1e-12;
  prediction->mfu = per_gpu / prediction->peak_flops;
  prediction->hfu = workload_hardware_flops(workload) / step_s / plan->gpus / prediction->peak_flops;
  prediction->gpu_names = mixed_gpus_names(workload, prediction->cluster);
  prediction->fits = prediction->memory->peak_bytes <= mixed_gpus_room_bytes(workload, prediction->cluster);
  tier_memory_of(prediction->trace, workload, prediction->cluster, prediction->tiers);
  for (int tier = 0; tier < N_TIERS; tier++)
    prediction->fits &= prediction->tiers[tier].fits;
}

Workload *predict_workload(const Model *model, const Cluster *cluster, const Plan *plan, PlanOrder *choice,
                           GError **error) {
  g_autoptr(Plan) completed = plan_copy(plan);
  return plan_order_workload(choice, model, cluster, completed, error);
}

Prediction *predict_derived(Prediction *prediction) {
  if (prediction != NULL)
    derive(prediction);
  return prediction;
}

Prediction *predict_as_named(const Model *model, const Cluster *cluster, const Plan *plan, GError **error) {
  g_auto(PlanOrder) choice = {0};
  Workload *workload = predict_workload(model, cluster, plan, &choice, error);
  return workload != NULL ? predict_derived(predict_records(workload, &choice, cluster, error)) : NULL;
}

Prediction *predict_numbers_as_named(const Model *model, const Cluster *cluster, const Plan *plan, GError **error) {
  g_auto(PlanOrder) choice = {0};
  g_autoptr(Workload) workload = predict_workload(model, cluster, plan, &choice, error);
  if (workload == NULL)
    return NULL;
  Prediction *fewer = predict_fewer(workload, &choice, cluster, TRUE);
  if (fewer == NULL)
    return predict_derived(predict_records(g_steal_pointer(&workload), &choice, cluster, error));
  fewer->workload = g_steal_pointer(&workload);
  return predict_derived(fewer);
}
