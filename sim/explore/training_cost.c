#include "training_cost.h"

#include <math.h>

#include "trained_parameters.h"
#include "units.h"

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

/* Gradients are made anew, and frozen weights are where they came from. */
double goodput_checkpoint_bytes(const Model *model, const Plan *plan) {
  return trained_parameters(model, &plan->training, FALSE) *
         (plan->recipe.weights + recipe_optimizer_bytes(&plan->recipe));
}

/* What does not depend on the step's time, and the best interval. */
static double start(const Model *model, const Cluster *cluster, const Plan *plan, Goodput *goodput) {
  const Failures *failures = cluster->failures;
  const int n_nodes = (plan->gpus + cluster->gpus_per_node - 1) / cluster->gpus_per_node;
  goodput->mtbf_s = failures_job_mtbf_s(failures, plan->gpus, n_nodes);
  goodput->restart_s = failures_mean_restart_s(failures, failures->restart_s);
  goodput->checkpoint_bytes = goodput_checkpoint_bytes(model, plan);
  goodput->checkpoint_s = goodput->checkpoint_bytes / cluster_checkpoint_Bps(cluster, n_nodes, n_nodes);
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

TrainingCost training_cost_of(double tokens, double tokens_per_s, int gpus, double dollars_per_gpu_hour,
                              double gpu_power_W, const Goodput *goodput) {
  double hours = tokens / tokens_per_s / 3600;
  TrainingCost cost = {.tokens = tokens,
                       .days = hours / 24,
                       .gpu_hours = hours * gpus,
                       .dollars_per_gpu_hour = dollars_per_gpu_hour,
                       .dollars = hours * gpus * dollars_per_gpu_hour,
                       .gpu_energy_Wh = hours * gpus * gpu_power_W};
  if (goodput == NULL)
    return cost;
  cost.has_goodput = TRUE;
  cost.goodput = *goodput;
  cost.expected_days = cost.days / goodput->share;
  cost.expected_gpu_hours = cost.gpu_hours / goodput->share;
  cost.expected_dollars = cost.dollars / goodput->share;
  return cost;
}

static void append_sums(GString *out, double days, double gpu_hours, double dollars) {
  g_autofree char *hours = units_format_count(gpu_hours), *price = units_format_count(dollars);
  g_string_append_printf(out, "%.4g days, %s GPU-hours", days, hours);
  if (dollars > 0)
    g_string_append_printf(out, ", $%s", price);
}

static void append_failures(const TrainingCost *cost, GString *out) {
  const Goodput *goodput = &cost->goodput;
  g_autofree char *mtbf = units_format(goodput->mtbf_s, UNIT_SECONDS);
  g_autofree char *bytes = units_format(goodput->checkpoint_bytes, UNIT_BYTES);
  g_autofree char *takes = units_format(goodput->checkpoint_s, UNIT_SECONDS);
  g_autofree char *interval = units_format(goodput->interval_s, UNIT_SECONDS);
  g_autofree char *restart = units_format(goodput->restart_s, UNIT_SECONDS);
  g_string_append_printf(out,
                         "one in %s on average, %s to restart; with a checkpoint of %s (%s) every %" G_GINT64_FORMAT
                         " steps (%s) %.1f %% of the time trains: ",
                         mtbf, restart, bytes, takes, goodput->interval_steps, interval, 100 * goodput->share);
  if (!isfinite(cost->expected_days)) { /* the share is too small for a double */
    g_string_append(out, "the run is not expected to end\n");
    return;
  }
  append_sums(out, cost->expected_days, cost->expected_gpu_hours, cost->expected_dollars);
  g_string_append(out, " expected\n");
}

void training_cost_text(const TrainingCost *cost, const char *label, const char *failures_label, GString *out) {
  g_autofree char *tokens = units_format_count(cost->tokens);
  g_string_append_printf(out, "%s%s tokens at this rate: ", label, tokens);
  append_sums(out, cost->days, cost->gpu_hours, cost->dollars);
  if (cost->dollars > 0)
    g_string_append_printf(out, " at %.2f $ per GPU-hour", cost->dollars_per_gpu_hour);
  if (cost->gpu_energy_Wh > 0) {
    g_autofree char *energy = units_format(cost->gpu_energy_Wh, UNIT_WATT_HOURS);
    g_string_append_printf(out, ", at most %s at the GPUs' %.0f W", energy, cost->gpu_energy_Wh / cost->gpu_hours);
  }
  g_string_append(out, " (no failures, no restarts)\n");
  if (!cost->has_goodput)
    return;
  g_string_append(out, failures_label);
  append_failures(cost, out);
}

static void add_failures(const TrainingCost *cost, JsonBuilder *builder) {
  const Goodput *goodput = &cost->goodput;
  if (!cost->has_goodput)
    return;
  json_begin_object(builder, "failures");
  json_add_number(builder, "mtbf_s", goodput->mtbf_s);
  json_add_number(builder, "restart_s", goodput->restart_s);
  json_add_number(builder, "checkpoint_bytes", goodput->checkpoint_bytes);
  json_add_number(builder, "checkpoint_s", goodput->checkpoint_s);
  json_add_count(builder, "checkpoint_interval_steps", goodput->interval_steps);
  json_add_number(builder, "checkpoint_interval_s", goodput->interval_s);
  json_add_number(builder, "goodput", goodput->share);
  json_add_number(builder, "expected_days", cost->expected_days);
  json_add_number(builder, "expected_gpu_hours", cost->expected_gpu_hours);
  json_add_number(builder, "expected_dollars", cost->expected_dollars > 0 ? cost->expected_dollars : NAN);
  json_builder_end_object(builder);
}

void training_cost_json(const TrainingCost *cost, JsonBuilder *builder) {
  json_begin_object(builder, "training");
  json_add_number(builder, "tokens", cost->tokens);
  json_add_number(builder, "days", cost->days);
  json_add_number(builder, "gpu_hours", cost->gpu_hours);
  json_add_number(builder, "dollars", cost->dollars > 0 ? cost->dollars : NAN);
  json_add_number(builder, "gpu_energy_Wh", cost->gpu_energy_Wh > 0 ? cost->gpu_energy_Wh : NAN);
  add_failures(cost, builder);
}
