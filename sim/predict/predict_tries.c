/* How many micro-batches may tell of all: p + 2 of 1f1b, some groups of interleaved. */
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

gint64 predict_first_micro_batches(const PlanOrder *choice, const Workload *workload) {
  const Plan *plan = workload->plan;
  const gint64 all = plan->n_micro_batches, group = plan_order_group(choice, plan);
  const gint64 first = fewest_of(group, plan);
  return group == 0 || all < first ? all : all - (all - first) / group * group;
}

/* The first, and more where stages differ by more than they wait. Under ZeRO-3 ranks are held up by their own gathers,
 * some more than others, and the slack that the faster ones gain in every group lasts for many rounds of the pipeline:
 * of a sweep's plans of GPT-3 175B that had not come back to a state at once 4 of 51 did in three rounds, which was not
 * worth the others' runs. */
int predict_tries(gint64 group, const Workload *workload, PredictTry tries[PREDICT_MOST_TRIES]) {
  enum { GROUPS = 6, ROUNDS = 3, MORE = 3 };
  const Plan *plan = workload->plan;
  const double little = 0.25;
  int n = 0;
  tries[n++] = (PredictTry){fewest_of(group, plan), little};
  if (plan->zero < 3)
    tries[n++] = (PredictTry){group > 1 ? GROUPS * group : ROUNDS * (gint64)plan->pp + MORE, little};
  return n;
}
