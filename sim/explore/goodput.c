#include "goodput.h"

#include <math.h>

double goodput_share(double mtbf_s, double restart_s, double checkpoint_s, double interval_s) {
  return interval_s / mtbf_s * exp(-restart_s / mtbf_s) / expm1((interval_s + checkpoint_s) / mtbf_s);
}

/* With x = τ/M: log1p(−x) + x = −δ/M. The left falls from 0 at x = 0 without bound towards 1, so there is one x: halved
 * until it is found, in as many steps as a double has bits and some for its exponent. */
double goodput_best_interval_s(double mtbf_s, double checkpoint_s) {
  double low = 0, high = 1;
  for (int i = 0; i < 200 && low < high; i++) {
    const double x = (low + high) / 2;
    if (x == low || x == high)
      break;
    *(log1p(-x) + x > -checkpoint_s / mtbf_s ? &low : &high) = x;
  }
  return low * mtbf_s;
}

/* What a run goes on from: gradients are made anew. */
static double checkpoint_bytes(const Model *model, const Plan *plan) {
  return (double)model_parameters(model) * (plan->recipe.weights + recipe_optimizer_bytes(&plan->recipe));
}

/* What does not depend on the step's time, and the best interval. */
static double start(const Model *model, const Cluster *cluster, const Plan *plan, Goodput *goodput) {
  const Failures *failures = cluster->failures;
  const int n_nodes = (plan->gpus + cluster->gpus_per_node - 1) / cluster->gpus_per_node;
  goodput->mtbf_s = failures_job_mtbf_s(failures, plan->gpus, n_nodes);
  goodput->restart_s = failures->restart_s;
  goodput->checkpoint_bytes = checkpoint_bytes(model, plan);
  goodput->checkpoint_s = goodput->checkpoint_bytes / failures->checkpoint_Bps;
  return goodput_best_interval_s(goodput->mtbf_s, goodput->checkpoint_s);
}

static double share_of(const Goodput *goodput, double interval_s) {
  return goodput_share(goodput->mtbf_s, goodput->restart_s, goodput->checkpoint_s, interval_s);
}

gboolean goodput_of(const Model *model, const Cluster *cluster, const Plan *plan, double step_time_s,
                    Goodput *goodput) {
  if (cluster->failures == NULL)
    return FALSE;
  const double best_s = start(model, cluster, plan, goodput);
  goodput->interval_steps = MAX(llround(best_s / step_time_s), 1);
  goodput->interval_s = (double)goodput->interval_steps * step_time_s;
  goodput->share = share_of(goodput, goodput->interval_s);
  return TRUE;
}

double goodput_most_share(const Model *model, const Cluster *cluster, const Plan *plan) {
  Goodput goodput;
  if (cluster->failures == NULL)
    return 1;
  const double best_s = start(model, cluster, plan, &goodput);
  return share_of(&goodput, best_s);
}
