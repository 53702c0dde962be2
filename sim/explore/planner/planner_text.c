/* Sections: the best plan, its runners-up and where they lose, why the others lost, one step from the best, how to
 * start it. */
#include "planner_report.h"

#include <math.h>
#include <string.h>

#include "int64_format.h"
#include "step_report.h"
#include "units.h"

enum { MOST_PARTS = 3, MOST_REASONS = 6 };
/* A part of the step that differs by less than this share of the best step is not worth a word. */
static const double least_part = 0.001;

static double percent(double share) {
  return 100 * share;
}

static void append_time(GString *out, double seconds) {
  g_autofree char *text = units_format(seconds, UNIT_SECONDS);
  g_string_append(out, text);
}

/* How much longer than the best for the same tokens: +0.05 is 5 %. */
static double behind(const PlanOutcome *best, const PlanOutcome *outcome) {
  return best->tokens_per_s / outcome->tokens_per_s - 1;
}

/* ", $ 0.0123 per million tokens", where plans are ranked by it. */
static void append_price(GString *out, const PlannerReport *report, const PlanOutcome *outcome) {
  const double dollars = plan_outcome_dollars_per_million_tokens(outcome);
  if (report->request->scoring.objective != OBJECTIVE_COST || !(dollars > 0) || !isfinite(dollars))
    return;
  g_string_append_printf(out, ", $%.4g per million tokens%s", dollars, outcome->has_goodput ? " with failures" : "");
}

static char *plan_line(const PlanOutcome *outcome) {
  g_autofree char *line = step_report_plan_line(outcome->completed);
  return g_strdup_printf("%s; micro-batch %" INT64, line, outcome->completed->micro_batch);
}

static void append_memory(GString *out, const PlanOutcome *best) {
  const double used = plan_outcome_used(best);
  g_string_append_printf(out, "  memory      %.2f GB of %.2f GB on the fullest GPU, %.1f %% (GB = 1e9 bytes)",
                         best->total_bytes / 1e9, (best->capacity_bytes + best->margin_bytes) / 1e9, percent(used));
  if (best->margin_bytes > 0)
    g_string_append_printf(out, "; %.2f GB are kept free (--memory-margin)", best->margin_bytes / 1e9);
  g_string_append_c(out, '\n');
  g_autoptr(GPtrArray) warnings = plan_outcome_warnings(best);
  for (guint i = 0; i < warnings->len; i++)
    g_string_append_printf(out, "  warning     %s\n", (const char *)warnings->pdata[i]);
}

static void append_best(GString *out, const PlannerReport *report) {
  const PlanOutcome *best = report->result->kept->pdata[0];
  const Plan *plan = best->completed;
  g_autofree char *line = plan_line(best), *options = planner_options(best);
  const Objective objective = report->request->scoring.objective;
  const gboolean is_priced = objective != OBJECTIVE_COST || best->dollars_per_gpu_hour > 0;
  g_string_append_printf(out, "%s on %d × %s (%s): the best of %" INT64 " plans by %s%s\n", best->model->name,
                         plan->gpus, best->cluster->gpu.name, best->cluster->name, report->result->n_configurations,
                         objective_names()[objective], is_priced ? "" : " (GPU time: no price is known)");
  g_string_append_printf(out, "  plan        %s\n  options     %s\n  step time   ", line, options);
  append_time(out, best->step_time_s);
  g_string_append_printf(out, "\n  throughput  %.0f tokens/s, MFU %.2f %%", best->tokens_per_s, percent(best->mfu));
  append_price(out, report, best);
  g_string_append_c(out, '\n');
  append_memory(out, best);
  g_string_append(out, "  step      ");
  for (int kind = 0; kind < N_BREAKDOWN; kind++)
    if (best->breakdown_s[kind] > least_part * best->step_time_s)
      g_string_append_printf(out, "  %s %.1f %%", breakdown_name((BreakdownKind)kind),
                             percent(best->breakdown_s[kind] / best->step_time_s));
  g_string_append_c(out, '\n');
}

static void append_cost(GString *out, const PlannerReport *report) {
  if (report->cost != NULL)
    training_cost_text(report->cost, "  training    ", "  failures    ", out);
}

/* The parts of the step that differ most, per step of the best's tokens: "bubble +120 ms, tp −3.1 ms". */
static void append_difference(GString *out, const PlanOutcome *best, const PlanOutcome *other) {
  double scale = (1 + behind(best, other)) * best->step_time_s / other->step_time_s;
  double lost_s[N_BREAKDOWN];
  for (int kind = 0; kind < N_BREAKDOWN; kind++)
    lost_s[kind] = other->breakdown_s[kind] * scale - best->breakdown_s[kind];
  int n = 0;
  for (; n < MOST_PARTS; n++) {
    int most = 0;
    for (int kind = 1; kind < N_BREAKDOWN; kind++)
      if (ABS(lost_s[kind]) > ABS(lost_s[most]))
        most = kind;
    if (ABS(lost_s[most]) < least_part * best->step_time_s)
      break;
    g_string_append_printf(out, "%s%s %s", n > 0 ? ", " : "", breakdown_name((BreakdownKind)most),
                           lost_s[most] > 0 ? "+" : "−");
    append_time(out, ABS(lost_s[most]));
    lost_s[most] = 0;
  }
  if (n == 0)
    g_string_append(out, "nothing changes");
}

static void append_runners_up(GString *out, const PlannerReport *report) {
  const GPtrArray *kept = report->result->kept;
  const PlanOutcome *best = kept->pdata[0];
  if (kept->len == 1)
    return;
  g_string_append(out, "\nRunners-up: step, time lost for the same tokens, memory, where they differ\n");
  for (guint i = 1; i < kept->len; i++) {
    const PlanOutcome *other = kept->pdata[i];
    g_autofree char *line = plan_line(other), *time = units_format(other->step_time_s, UNIT_SECONDS);
    g_string_append_printf(out, "  %u. %s\n     %10s %+7.2f %% %7.2f GB %3.0f %%  ", i, line, time,
                           units_percent(behind(best, other)), other->total_bytes / 1e9,
                           percent(plan_outcome_used(other)));
    append_difference(out, best, other);
    append_price(out, report, other);
    g_string_append_c(out, '\n');
  }
}

static void append_count(GString *out, gint64 n, const char *one_does, const char *many_do) {
  if (n > 0)
    g_string_append_printf(out, "  %9" INT64 "  %s\n", n, n == 1 ? one_does : many_do);
}

static void append_losers(GString *out, const PlannerReport *report) {
  const PlannerResult *result = report->result;
  g_string_append(out, "\nWhy the others lost\n");
  append_count(out, result->n_same, "duplicates another plan", "duplicate another plan");
  append_count(out, result->n_impossible, "is impossible", "are impossible");
  for (guint i = 0; i < MIN(result->reasons->len, MOST_REASONS); i++) {
    const PlannerReason *reason = &g_array_index(result->reasons, PlannerReason, i);
    g_string_append_printf(out, "  %9s    %" INT64 ": %s\n", "", reason->n, reason->text);
  }
  if (result->reasons->len > MOST_REASONS)
    g_string_append_printf(out, "  %9s    and %u other reason%s\n", "", result->reasons->len - MOST_REASONS,
                           result->reasons->len == MOST_REASONS + 1 ? "" : "s");
  append_count(out, result->n_out_of_memory, "does not fit in memory", "do not fit in memory");
  append_count(out, result->n_late, "is too slow for the deadline", "are too slow for the deadline");
  append_count(
      out, result->n_beaten_by_bound,
      "cannot beat the last plan above: kernels, tp and ep communication and the least bubble alone take longer",
      "cannot beat the last plan above: kernels, tp and ep communication and the least bubble alone take longer");
  append_count(out, result->n_slower, "was simulated and is slower, most of all by",
               "were simulated and are slower, most of all by");
  for (int kind = 0; kind < N_BREAKDOWN; kind++)
    if (result->n_slower_by[kind] > 0)
      g_string_append_printf(out, "  %9s    %" INT64 ": %s\n", "", result->n_slower_by[kind],
                             breakdown_name((BreakdownKind)kind));
}

static void append_step(GString *out, const PlanOutcome *best, const SensitivityStep *step) {
  g_autofree char *change = g_strdup_printf("%s → %s", step->from, step->to);
  g_string_append_printf(out, "  %-20s %-22s ", step->option, change);
  if (step->outcome == NULL) {
    g_string_append_printf(out, "impossible: %s\n", step->problem);
    return;
  }
  g_string_append_printf(out, "%+7.2f %%  ", units_percent(behind(best, step->outcome)));
  if (!step->outcome->fits)
    g_string_append_printf(out, "does not fit, %.2f GB too much; ", step->outcome->excess_bytes / 1e9);
  append_difference(out, best, step->outcome);
  g_string_append_c(out, '\n');
}

void planner_text_steps(GString *out, const PlanOutcome *best, const GArray *steps) {
  for (guint i = 0; i < steps->len; i++)
    append_step(out, best, &g_array_index(steps, SensitivityStep, i));
}

static void append_sensitivity(GString *out, const PlannerReport *report) {
  g_string_append(out, "\nOne option changed from the best: time for the same tokens, where it goes\n");
  planner_text_steps(out, report->result->kept->pdata[0], report->sensitivity);
}

static void append_launch(GString *out, const PlannerReport *report) {
  if (report->launch == NULL)
    return;
  g_string_append_printf(out, "\nStart it with %s\n", report->framework);
  if (report->launch->text[0] == '{') /* no comments there */
    for (guint i = 0; i < report->launch->notices->len; i++)
      g_string_append_printf(out, "notice: %s\n", (const char *)report->launch->notices->pdata[i]);
  g_string_append(out, report->launch->text);
}

void planner_text(GString *out, const PlannerReport *report) {
  append_best(out, report);
  append_cost(out, report);
  append_runners_up(out, report);
  append_losers(out, report);
  append_sensitivity(out, report);
  append_launch(out, report);
  units_append_count(g_string_append_c(out, '\n'), report->result->n_simulated, "plan", "plans");
  g_string_append_printf(out, " simulated of %" INT64 " in ", report->result->n_configurations);
  append_time(out, report->result->wall_s);
  g_string_append_c(out, '\n');
}
