#include "plan_shards.h"

#include "far_gathers.h"

enum { WIDER = 2 };

/* Whole nodes of a domain that divide the job, at least one node's GPUs; all of the job where none do. */
static gint64 near_gpus(const Cluster *cluster, gint64 gpus) {
  const gint64 node = cluster->gpus_per_node;
  for (gint64 n = MAX(cluster->domain_gpus, node) / node * node; n > 0; n -= node)
    if (gpus % n == 0)
      return n;
  return gpus;
}

/* These, halved while that goes: an odd number, or two. */
static gint64 least_gpus(const Cluster *cluster, gint64 gpus) {
  gint64 least = near_gpus(cluster, gpus);
  while (least % WIDER == 0 && least > WIDER)
    least /= WIDER;
  return least;
}

/* Ranks of a set of shards over so many GPUs; 0: none are. */
static gint64 ranks_over(const Plan *plan, gint64 gpus) {
  const gint64 span = far_gathers_span(plan, plan->cp), ranks = gpus / span * plan->cp;
  return gpus % span == 0 && ranks > 1 && plan_data_ranks(plan) % ranks == 0 ? ranks : 0;
}

static gboolean is_run_by_framework(const PlannerRequest *request, const PlanOutcome *whole, const Plan *plan) {
  if (request->framework == PLANNER_ANY_FRAMEWORK)
    return TRUE;
  g_autoptr(Workload) workload = workload_complete(whole->model, whole->cluster, plan, NULL);
  return workload != NULL && launch_check((LaunchFramework)request->framework, workload, NULL);
}

/* Whether there is something to win that counts. */
static gboolean is_worth_it(const PlanOutcome *whole, double most) {
  const double waits = whole->breakdown_s[BREAKDOWN_DP] / whole->step_time_s;
  return waits > 0 && whole->score * (1 - waits) < most;
}

PlanOutcome *plan_shards_best(const PlannerRequest *request, PlanOutcome *whole, double most) {
  const Plan *plan = whole->completed;
  if (!request->seeks_shards || !zero_shards_weights(plan->zero) || !whole->fits || !is_worth_it(whole, most))
    return whole;
  g_autoptr(PlanOutcome) best = whole;
  for (gint64 gpus = least_gpus(whole->cluster, plan->gpus); gpus < plan->gpus; gpus *= WIDER) {
    const gint64 ranks = ranks_over(plan, gpus);
    if (ranks == 0 || ranks >= plan_data_ranks(plan))
      continue;
    g_autoptr(Plan) tried = plan_copy(best->plan);
    tried->zero_ranks = (int)ranks;
    g_autoptr(PlanOutcome) outcome = is_run_by_framework(request, best, tried)
                                         ? plan_outcome_new(best->model, best->cluster, tried, &request->scoring, NULL)
                                         : NULL;
    if (outcome == NULL || !outcome->fits || outcome->score >= best->score)
      continue;
    outcome->index = best->index;
    PlanOutcome *beaten = best;
    best = g_steal_pointer(&outcome);
    if (beaten != whole)
      plan_outcome_free(beaten);
  }
  if (best != whole)
    plan_outcome_free(whole);
  return g_steal_pointer(&best);
}
