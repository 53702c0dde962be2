#include "plan_outcome.h"

#include <string.h>

#include "mixed_gpus.h"
#include "warnings.h"

static double price_of(const PlanScoring *scoring, const Cluster *cluster) {
  return scoring->dollars_per_gpu_hour >= 0 ? scoring->dollars_per_gpu_hour : cluster->dollars_per_gpu_hour;
}

/* A score is a step's seconds times this. */
static double weight_of(const PlanScoring *scoring, const Workload *workload, const Cluster *cluster) {
  const Plan *plan = workload->plan;
  double tokens = (double)plan->global_batch * (double)plan->seq_len, price = price_of(scoring, cluster);
  if (scoring->objective == OBJECTIVE_COST)
    return plan->gpus * (price > 0 ? price / 3600 : 1) / tokens;
  if (scoring->objective == OBJECTIVE_MFU)
    return plan->gpus * mixed_gpus_peak_flops(workload, cluster) / workload_model_flops(workload);
  return 1 / tokens;
}

double plan_score(const PlanScoring *scoring, const Workload *workload, const Cluster *cluster, gint64 step_ns,
                  double share) {
  const double paid_s = 1e-9 * (double)step_ns / (scoring->objective == OBJECTIVE_COST ? share : 1);
  return paid_s * weight_of(scoring, workload, cluster);
}

double plan_tokens_per_s(const Plan *plan, gint64 step_ns) {
  return (double)plan->global_batch * (double)plan->seq_len / (1e-9 * (double)step_ns);
}

static double excess_of(const Prediction *prediction, const PlanOutcome *outcome) {
  double excess_bytes = outcome->total_bytes - outcome->capacity_bytes;
  for (int tier = TIER_HOST; tier < N_TIERS; tier++)
    if (!prediction->tiers[tier].fits)
      excess_bytes = MAX(excess_bytes, prediction->tiers[tier].bytes - prediction->tiers[tier].capacity_bytes);
  return excess_bytes;
}

static PlanOutcome *outcome_of(const Prediction *prediction, const Model *model, const Cluster *cluster,
                               const Plan *plan, const PlanScoring *scoring) {
  PlanOutcome *outcome = g_new0(PlanOutcome, 1);
  const Workload *workload = prediction->workload;
  double reserved_bytes = cluster->gpu.reserved_bytes;
  outcome->index = -1;
  outcome->model = model;
  outcome->cluster = cluster; /* not the prediction's, which may be its own */
  outcome->plan = plan_copy(plan);
  outcome->completed = plan_copy(workload->plan);
  outcome->step_time_s = prediction->step_time_s;
  outcome->tokens_per_s = prediction->tokens_per_s;
  outcome->mfu = prediction->mfu;
  memcpy(outcome->breakdown_s, prediction->metrics->mean_s, sizeof outcome->breakdown_s);
  outcome->peak_bytes = prediction->memory->peak_bytes;
  outcome->total_bytes = outcome->peak_bytes + reserved_bytes;
  outcome->capacity_bytes = mixed_gpus_room_bytes(workload, cluster) + reserved_bytes;
  outcome->margin_bytes = mixed_gpus_smallest(workload, cluster)->margin_bytes;
  outcome->excess_bytes = excess_of(prediction, outcome);
  outcome->fits = prediction->fits;
  outcome->has_goodput = goodput_of(model, cluster, workload->plan, outcome->step_time_s, &outcome->goodput);
  outcome->score = plan_score(scoring, workload, cluster, prediction->metrics->step_ns,
                              outcome->has_goodput ? outcome->goodput.share : 1);
  outcome->dollars_per_gpu_hour = price_of(scoring, cluster);
  return outcome;
}

PlanOutcome *plan_outcome_new(const Model *model, const Cluster *cluster, const Plan *plan, const PlanScoring *scoring,
                              GError **error) {
  g_autoptr(Prediction) prediction = predict_numbers(model, cluster, plan, error);
  return prediction != NULL ? outcome_of(prediction, model, cluster, plan, scoring) : NULL;
}

void plan_outcome_free(PlanOutcome *outcome) {
  if (outcome == NULL)
    return;
  plan_free(outcome->plan);
  plan_free(outcome->completed);
  g_free(outcome);
}

double plan_outcome_kept_tokens_per_s(const PlanOutcome *outcome) {
  return outcome->tokens_per_s * (outcome->has_goodput ? outcome->goodput.share : 1);
}

double plan_outcome_dollars_per_million_tokens(const PlanOutcome *outcome) {
  return outcome->completed->gpus * outcome->dollars_per_gpu_hour / 3600 / plan_outcome_kept_tokens_per_s(outcome) *
         1e6;
}

double plan_outcome_used(const PlanOutcome *outcome) {
  return outcome->total_bytes / (outcome->capacity_bytes + outcome->margin_bytes);
}

GPtrArray *plan_outcome_warnings(const PlanOutcome *outcome) {
  return warnings_new(outcome->completed, outcome->cluster->gpus_per_node, plan_outcome_used(outcome));
}

int plan_outcome_compare(gconstpointer a, gconstpointer b) {
  const PlanOutcome *x = *(PlanOutcome *const *)a, *y = *(PlanOutcome *const *)b;
  if (x->score != y->score)
    return x->score < y->score ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}
