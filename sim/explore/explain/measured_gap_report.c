/* {options in a table, costs in a table} for people and for scripts. */
#include <math.h>

#include "json_values.h"
#include "measured_gap.h"
#include "units.h"

/* Of the difference that an option makes up. */
static double share(const MeasuredGap *gap, const GapOption *option) {
  return (option->step_time_s - gap->predicted_s) / (gap->measured_s - gap->predicted_s);
}

static void append_options(GString *out, const MeasuredGap *gap) {
  if (gap->options->len == 0)
    return;
  g_string_append(out, "\n  If an option of the run differs: step, change, share of the difference, closest first\n");
  for (guint i = 0; i < gap->options->len; i++) {
    const GapOption *option = &g_array_index(gap->options, GapOption, i);
    g_autofree char *name = g_strdup_printf("%s %s", option->option, option->value);
    g_autofree char *time = units_format(option->step_time_s, UNIT_SECONDS);
    g_string_append_printf(out, "    %-32s %10s %+7.2f %% %7.0f %%\n", name, time,
                           units_percent(option->step_time_s / gap->predicted_s - 1), 100 * share(gap, option));
  }
}

static void append_cost(GString *out, const MeasuredGap *gap, const GapCost *cost) {
  g_autofree char *time = units_format(cost->step_time_s, UNIT_SECONDS);
  g_string_append_printf(out, "    %-32s ", gap_cost_name(cost));
  g_autofree char *option = gap_cost_option(cost);
  const char *as = gap_cost_is_of_rows(cost) ? "many" : "long";
  if (!isnan(cost->times)) {
    g_string_append_printf(out, "%10.4g × as %s", cost->times, as);
    if (option != NULL)
      g_string_append_printf(out, " (%s)", option);
    if (!gap_cost_is_near(cost, gap))
      g_string_append_printf(out, " makes it %s, the nearest found", time);
  } else if (cost->tried > 0) {
    g_string_append_printf(out, "%10s %.3g × as %s makes it only %s", "not enough:", cost->tried, as, time);
  } else {
    g_string_append_printf(out, "%10s %s the step is still %s",
                           "not enough:", gap_cost_has_peak(cost) ? "at the peak" : "taken away", time);
  }
  g_string_append_c(out, '\n');
}

void measured_gap_text(GString *out, const MeasuredGap *gap) {
  const double change = gap->measured_s / gap->predicted_s - 1;
  g_autofree char *measured = units_format(gap->measured_s, UNIT_SECONDS);
  g_autofree char *difference = units_format(fabs(gap->measured_s - gap->predicted_s), UNIT_SECONDS);
  g_string_append_printf(out, "\nMeasured %s", measured);
  if (gap->origin != NULL)
    g_string_append_printf(out, " (%s)", gap->origin);
  g_string_append(out, ": ");
  if (gap->costs->len == 0) {
    g_string_append(out, "as predicted\n");
    return;
  }
  g_string_append_printf(out, "%s %s than predicted, %+.2f %%\n", difference, change > 0 ? "longer" : "shorter",
                         units_percent(change));
  if (!gap->has_framework)
    g_string_append(out, "  No --framework is given, so the prediction has no framework overheads. Give it first.\n");
  append_options(out, gap);
  g_string_append_printf(out, "\n  If none does: what alone makes the step %s, smallest factor first\n", measured);
  for (guint i = 0; i < gap->costs->len; i++)
    append_cost(out, gap, &g_array_index(gap->costs, GapCost, i));
}

void measured_gap_json(JsonBuilder *builder, const MeasuredGap *gap) {
  json_begin_object(builder, "measured");
  json_add_number(builder, "step_time_s", gap->measured_s);
  json_add_number(builder, "difference_s", gap->measured_s - gap->predicted_s);
  json_begin_list(builder, "options");
  for (guint i = 0; i < gap->options->len; i++) {
    const GapOption *option = &g_array_index(gap->options, GapOption, i);
    json_begin_object(builder, NULL);
    json_add_text(builder, "option", option->option);
    json_add_text(builder, "value", option->value);
    json_add_number(builder, "step_time_s", option->step_time_s);
    json_add_number(builder, "share", share(gap, option));
    json_builder_end_object(builder);
  }
  json_builder_end_array(builder);
  json_begin_list(builder, "costs");
  for (guint i = 0; i < gap->costs->len; i++) {
    const GapCost *cost = &g_array_index(gap->costs, GapCost, i);
    json_begin_object(builder, NULL);
    json_add_text(builder, "cost", gap_cost_name(cost));
    json_add_number(builder, "times", cost->times);
    json_add_number(builder, "step_time_s", cost->step_time_s);
    json_builder_end_object(builder);
  }
  json_builder_end_array(builder);
  json_builder_end_object(builder);
}
