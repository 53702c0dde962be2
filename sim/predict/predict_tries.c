/* How many micro-batches may tell of all: p + 2 of 1f1b, some groups of interleaved, more where stages are unlike. */
#include "predict_parts.h"

/* Enough for the pipeline to fill and to repeat itself once. As a rule it has settled by then: on its first rank a
 * micro-batch waits for the one that is a round trip ahead of it, and the others have no slack to run up but that of
 * receives which are begun ahead. Of interleaved groups the first fills it, and of the next two the first rank runs
 * 2 − 1/chunks in turn. */
static gint64 fewest_of(gint64 group, const Plan *plan) {
  enum { GROUPS = 3, MORE = 2, AHEAD = 2 };
  const int groups = GROUPS + (plan->zero >= 2); /* gradients, reduced in every group, settle a group later */
  return group > 1 ? groups * group : (gint64)plan->pp + MORE + (plan->pp > 1 && plan->overlap_p2p ? AHEAD : 0);
}

gint64 predict_enough_micro_batches(const PlanOrder *choice, const Plan *plan) {
  const gint64 all = plan->n_micro_batches, group = plan_order_group(choice, plan), fewest = fewest_of(group, plan);
  return group == 0 || all < fewest ? all : all - (all - fewest) / group * group;
}

/* Of layers. */
static gboolean is_even(const Workload *workload) {
  for (int stage = 1; stage < workload->n_stages; stage++)
    if (workload->stages[stage].layers.n_layers != workload->stages[0].layers.n_layers)
      return FALSE;
  return TRUE;
}

/* Enough as a rule. Stages of fewer layers that reduce gradients in every group run ahead of the others for one more.
 */
static gint64 first_try(gint64 group, const Workload *workload) {
  const gint64 fewest = fewest_of(group, workload->plan);
  return fewest + (group == 1 && workload->plan->zero >= 2 && !is_even(workload) ? 1 : 0);
}

gint64 predict_first_micro_batches(const PlanOrder *choice, const Workload *workload) {
  const Plan *plan = workload->plan;
  const gint64 all = plan->n_micro_batches, group = plan_order_group(choice, plan);
  const gint64 first = first_try(group, workload);
  return group == 0 || all < first ? all : all - (all - first) / group * group;
}

/* The first, and more where stages differ by more than they wait: gradients that are reduced beside every group hold
 * the first stage up a little, and then it takes most of a round of the pipeline until the others have no slack left.
 * Under ZeRO-3 ranks are held up by their own gathers, some more than others, and the slack that the faster ones gain
 * in every group lasts for four rounds and more: that is tried where it is cheap. All found on sweeps of GPT-3 175B,
 * Llama 2 13B and Llama 3 70B (2026-11); none changes a result. */
int predict_tries(gint64 group, const Workload *workload, PredictTry tries[PREDICT_MOST_TRIES]) {
  enum { GROUPS = 6, ROUNDS = 3, ROUNDS_OF_GATHERS = 4, MORE = 3 };
  const Plan *plan = workload->plan;
  const gint64 pp = plan->pp, first = first_try(group, workload);
  const double little = 0.25, most = 0.6;
  int n = 0;
  tries[n++] = (PredictTry){first, little};
  if (group == 1 && plan->zero == 2 && pp > 1)
    tries[n++] = (PredictTry){first + 3 * pp / 4, little};
  const gint64 rounds = plan->zero == 3 ? ROUNDS_OF_GATHERS : ROUNDS;
  tries[n++] = (PredictTry){group > 1 ? GROUPS * group : rounds * pp + MORE, plan->zero == 3 ? most : little};
  return n;
}
