/* Predicts a step without metrics, from as few micro-batches as possible. */
#include "predict_parts.h"

#include "link_health.h"
#include "mixed_gpus.h"

static gint64 step_ns_of(const Prediction *prediction) {
  const Trace *trace = prediction->trace;
  const gint64 from_ns = trace_last_step_begin(trace);
  return trace_end(trace) - from_ns + omitted_ns(prediction->omitted, from_ns);
}

static void fill_step(StepPrediction *step, const Workload *workload, Prediction *prediction) {
  const Cluster *cluster = prediction->cluster;
  const Plan *plan = workload->plan;
  g_autoptr(MemoryProfile) memory = memory_profile_new(prediction->trace);
  TierUse tiers[N_TIERS];
  tier_memory_of(prediction->trace, workload, cluster, tiers);
  *step = (StepPrediction){.step_time_s = (double)step_ns_of(prediction) * 1e-9,
                           .peak_bytes = memory->peak_bytes,
                           .fits = memory->peak_bytes <= mixed_gpus_room_bytes(workload, cluster) &&
                                   tiers[TIER_HOST].fits && tiers[TIER_NVME].fits,
                           .peak_flops = plan->gpus * mixed_gpus_peak_flops(workload, cluster),
                           .hardware_flops = workload_hardware_flops(workload),
                           .gpus = plan->gpus,
                           .global_batch = plan->global_batch,
                           .n_run = prediction->program->n_micro_batches};
}

static gboolean step_of_settled(const Model *model, const Cluster *cluster, const Plan *plan, StepPrediction *step,
                                GError **error) {
  g_auto(PlanOrder) choice = {0};
  g_autoptr(Workload) workload = predict_workload(model, cluster, plan, &choice, error);
  if (workload == NULL)
    return FALSE;
  g_autoptr(Prediction) prediction = predict_fewer(workload, &choice, cluster, FALSE);
  if (prediction != NULL) {
    fill_step(step, workload, prediction);
    return TRUE;
  }
  prediction = predict_records(g_steal_pointer(&workload), &choice, cluster, error);
  if (prediction == NULL)
    return FALSE;
  fill_step(step, prediction->workload, prediction);
  return TRUE;
}

gboolean predict_step(const Model *model, const Cluster *cluster, const Plan *plan, StepPrediction *step,
                      GError **error) {
  Cluster *worn;
  const Cluster *used = predict_cluster(cluster, plan, &worn, error);
  g_autoptr(Plan) settled = used != NULL ? predict_settled(model, used, plan, error) : NULL;
  const gboolean is_known = settled != NULL && step_of_settled(model, used, settled, step, error);
  link_health_cluster_free(worn);
  return is_known;
}
