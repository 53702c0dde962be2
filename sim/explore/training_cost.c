#include "training_cost.h"

#include <math.h>

#include "units.h"

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
