/* Sections: the best plan, its runners-up and where they lose, which of these to take, why the others lost, one step
 * from the best, how to start it. */
#include "planner_report.h"

#include <math.h>
#include <string.h>

#include "json_values.h"
#include "plan_family.h"
#include "plan_fields.h"
#include "plan_ties.h"
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

static PlanTie tie_of(const PlannerReport *report) {
  return plan_tie_of(report->result->kept, report->result->neighbours, report->request->compared);
}

/* How many others of its family were simulated, and how far behind the next is, as a share. */
static guint count_neighbours(const PlannerReport *report, const PlanOutcome *plan, double *nearest) {
  const GPtrArray *neighbours = report->result->neighbours;
  const char *const *compared = report->request->compared;
  g_autofree char *key = plan_family_key(plan->model, plan->cluster, plan->plan, compared);
  guint n = 0;
  *nearest = INFINITY;
  for (guint i = 0; i < neighbours->len; i++) {
    const PlanOutcome *other = neighbours->pdata[i];
    g_autofree char *of_other = plan_family_key(other->model, other->cluster, other->plan, compared);
    if (strcmp(key, of_other) != 0)
      continue;
    n++;
    *nearest = MIN(*nearest, other->score / plan->score - 1);
  }
  return n;
}

static void append_neighbours(GString *out, const PlannerReport *report, const PlanOutcome *plan) {
  double nearest;
  const guint n = count_neighbours(report, plan, &nearest);
  if (n > 0)
    g_string_append_printf(out, "; %u like it, the next %+.2f %%", n, units_percent(nearest));
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
  g_autofree char *line = plan_line(best), *options = plan_outcome_options(best);
  const Objective objective = report->request->scoring.objective;
  const gboolean is_priced = objective != OBJECTIVE_COST || best->dollars_per_gpu_hour > 0;
  g_string_append_printf(out, "%s on %d × %s (%s): the best of %" INT64 " plans by %s%s\n", best->model->name,
                         plan->gpus, best->cluster->gpu.name, best->cluster->name, report->result->n_configurations,
                         objective_names()[objective], is_priced ? "" : " (GPU time: no price is known)");
  g_string_append_printf(out, "  plan        %s\n  options     %s\n  step time   ", line, options);
  append_time(out, best->step_time_s);
  interval_append(out, &best->interval);
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

static void append_framework(GString *out, const PlannerReport *report) {
  const PlanOutcome *best = report->result->kept->pdata[0];
  if (best->completed->framework == NULL)
    g_string_append(out, "  framework   none: no framework's overheads are in these times and bytes, which are "
                         "optimistic; --framework names one (stepsim list frameworks)\n");
  else if (report->implies_framework)
    g_string_append_printf(out,
                           "  framework   %s, as it is today, implied by --emit %s; --framework names another "
                           "or a release\n",
                           best->completed->framework, report->framework);
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
  g_string_append_printf(out, "\nRunners-up%s: step, time lost for the same tokens, memory, where they differ\n",
                         report->request->compared != NULL ? ", the best of each other family" : "");
  for (guint i = 1; i < kept->len; i++) {
    const PlanOutcome *other = kept->pdata[i];
    g_autofree char *line = plan_line(other), *time = units_format(other->step_time_s, UNIT_SECONDS);
    g_string_append_printf(out, "  %u. %s\n     %10s %+7.2f %% %7.2f GB %3.0f %%  ", i, line, time,
                           units_percent(behind(best, other)), other->total_bytes / 1e9,
                           percent(plan_outcome_used(other)));
    append_difference(out, best, other);
    append_price(out, report, other);
    append_neighbours(out, report, other);
    g_string_append_c(out, '\n');
  }
}

/* "the best", "2.". */
static void append_rank(GString *out, guint rank) {
  if (rank == 0)
    g_string_append(out, "the best");
  else
    g_string_append_printf(out, "%u.", rank);
}

/* The tied plans that `is_ahead` of the recommended one, or behind it, and by how much. */
static void append_by_chance(GString *out, const GPtrArray *kept, const PlanTie *tie, gboolean is_ahead) {
  const PlanOutcome *recommended = kept->pdata[tie->recommended];
  guint n = 0;
  for (guint i = 0; i < tie->tied->len; i++) {
    const guint rank = g_array_index(tie->tied, guint, i);
    const PlanOutcome *other = kept->pdata[rank];
    if (rank == tie->recommended || (rank < tie->recommended) != is_ahead)
      continue;
    g_string_append_printf(out, n++ > 0 ? ", " : "  %s it only by chance: ", is_ahead ? "ahead of" : "behind");
    append_rank(out, rank);
    g_string_append_printf(out, " (%+.2f %%)", units_percent(other->score / recommended->score - 1));
  }
  if (n > 0)
    g_string_append_c(out, '\n');
}

static void append_recommended(GString *out, const PlannerReport *report) {
  const GPtrArray *kept = report->result->kept;
  if (kept->len == 1 && report->result->neighbours->len == 0)
    return;
  g_auto(PlanTie) tie = tie_of(report);
  const gboolean is_neighbour = tie.plan != kept->pdata[tie.recommended];
  g_string_append_printf(out, "\nRecommended: %s", is_neighbour ? "a neighbour of " : "");
  append_rank(out, tie.recommended);
  g_string_append(out, tie.tied->len > 1 ? "\n  the simplest of " : "\n  no other is tied with it");
  if (tie.tied->len > 1)
    g_string_append_printf(out, "%u that predictions cannot tell apart", tie.tied->len);
  g_string_append_printf(out, ": the ratio of two plans is off by up to %.1f %% in four of five cases\n",
                         percent(tie.width));
  append_by_chance(out, kept, &tie, TRUE);
  append_by_chance(out, kept, &tie, FALSE);
  if (tie.plan == kept->pdata[0])
    return;
  g_autofree char *line = plan_line(tie.plan), *options = plan_outcome_options(tie.plan);
  if (is_neighbour)
    g_string_append_printf(out, "  plan        %s (%+.2f %%)\n", line, units_percent(behind(kept->pdata[0], tie.plan)));
  g_string_append_printf(out, "  options     %s\n", options);
}

static void append_count(GString *out, gint64 n, const char *one_does, const char *many_do) {
  if (n > 0)
    g_string_append_printf(out, "  %9" INT64 "  %s\n", n, n == 1 ? one_does : many_do);
}

static const char beaten[] =
    "cannot beat the last plan above or its own family's: kernels with tp, ep and sends and the "
    "least bubble, or gathers and reductions, alone take longer";

static void append_losers(GString *out, const PlannerReport *report) {
  const PlannerResult *result = report->result;
  g_string_append(out, "\nWhy the others lost\n");
  append_count(out, result->n_same, "duplicates another plan", "duplicate another plan");
  append_count(out, result->n_impossible, "is impossible", "are impossible");
  for (guint i = 0; i < MIN(result->reasons->len, MOST_REASONS); i++) {
    const Reason *reason = &g_array_index(result->reasons, Reason, i);
    g_string_append_printf(out, "  %9s    %" INT64 ": %s\n", "", reason->n, reason->text);
  }
  if (result->reasons->len > MOST_REASONS)
    g_string_append_printf(out, "  %9s    and %u other reason%s\n", "", result->reasons->len - MOST_REASONS,
                           result->reasons->len == MOST_REASONS + 1 ? "" : "s");
  append_count(out, result->n_out_of_memory, "does not fit in memory", "do not fit in memory");
  append_count(out, result->n_late, "is too slow for the deadline", "are too slow for the deadline");
  append_count(out, result->n_beaten_by_bound, beaten, beaten);
  append_count(out, result->n_slower, "was simulated and is slower, most of all by",
               "were simulated and are slower, most of all by");
  for (int kind = 0; kind < N_BREAKDOWN; kind++)
    if (result->n_slower_by[kind] > 0)
      g_string_append_printf(out, "  %9s    %" INT64 ": %s\n", "", result->n_slower_by[kind],
                             breakdown_name((BreakdownKind)kind));
}

static void append_step(GString *out, const PlanOutcome *best, const Variant *step) {
  g_autofree char *change = g_strdup_printf("%s → %s", step->from, step->to);
  g_string_append_printf(out, "  %-20s %-22s ", step->option, change);
  if (step->outcome == NULL) {
    g_string_append_printf(out, "impossible: %s\n", step->problem->message);
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
    append_step(out, best, &g_array_index(steps, Variant, i));
}

static void append_sensitivity(GString *out, const PlannerReport *report) {
  g_string_append(out, "\nOne option changed from the best: time for the same tokens, where it goes\n");
  planner_text_steps(out, report->result->kept->pdata[0], report->sensitivity);
}

static void append_launch(GString *out, const PlannerReport *report) {
  if (report->launch == NULL)
    return;
  g_string_append_printf(out, "\nStart the recommended plan with %s (%s)\n", report->framework,
                         report->launch->release);
  if (report->launch->text[0] == '{') /* no comments there */
    for (guint i = 0; i < report->launch->notices->len; i++)
      g_string_append_printf(out, "notice: %s\n", (const char *)report->launch->notices->pdata[i]);
  g_string_append(out, report->launch->text);
}

void planner_text(GString *out, const PlannerReport *report) {
  append_best(out, report);
  append_framework(out, report);
  append_cost(out, report);
  append_runners_up(out, report);
  append_recommended(out, report);
  append_losers(out, report);
  append_sensitivity(out, report);
  append_launch(out, report);
  units_append_count(g_string_append_c(out, '\n'), report->result->n_simulated, "plan", "plans");
  g_string_append_printf(out, " simulated of %" INT64 " in ", report->result->n_configurations);
  append_time(out, report->result->wall_s);
  g_string_append_c(out, '\n');
}

/* --- JSON --- */

/* {objective, best, runners_up[], recommended{…}, losers{…}, sensitivity[], training, launch, search{…}}. */

static void add_field(JsonBuilder *builder, const char *key, const PlanField *field, const Plan *plan) {
  const PlanValue value = plan_field_value(field, plan);
  const char *text = value.text;
  if (strcmp(field->name, "expert-tp") == 0) /* open, it is that of tp */
    json_add_count(builder, key, plan_expert_tp(plan));
  else if (field->kind == PLAN_SWITCH && text != NULL)
    json_add_flag(builder, key, strcmp(text, "on") == 0);
  else if (value.type == PLAN_VALUE_WHOLE)
    json_add_count(builder, key, value.whole);
  else if (value.type == PLAN_VALUE_REAL)
    json_add_number(builder, key, value.real);
  else
    json_add_text(builder, key, text == NULL && field->kind == PLAN_OWN_TEXT ? "" : text);
}

void planner_json_plan(JsonBuilder *builder, const Plan *plan) {
  json_begin_object(builder, "plan");
  for (int i = 0; i < plan_n_fields(); i++) {
    const PlanField *field = plan_field(i);
    if (!plan_field_is_axis(field))
      continue;
    g_autofree char *key = plan_field_column(field);
    add_field(builder, key, field, plan);
  }
  json_builder_end_object(builder);
}

static void add_outcome(JsonBuilder *builder, const PlanOutcome *best, const PlanOutcome *outcome) {
  g_autofree char *options = plan_outcome_options(outcome);
  planner_json_plan(builder, outcome->completed);
  json_add_text(builder, "options", options);
  json_add_text(builder, "model", outcome->model->name);
  json_add_text(builder, "cluster", outcome->cluster->name);
  json_add_number(builder, "step_time_s", outcome->step_time_s);
  json_add_interval(builder, &outcome->interval);
  json_add_number(builder, "tokens_per_s", outcome->tokens_per_s);
  json_add_number(builder, "behind", best->tokens_per_s / outcome->tokens_per_s - 1);
  json_add_number(builder, "mfu", outcome->mfu);
  json_add_number(builder, "expected_dollars_per_million_tokens",
                  outcome->dollars_per_gpu_hour > 0 ? plan_outcome_dollars_per_million_tokens(outcome) : NAN);
  json_begin_object(builder, "memory");
  json_add_number(builder, "peak_bytes", outcome->peak_bytes);
  json_add_number(builder, "total_bytes", outcome->total_bytes);
  json_add_number(builder, "capacity_bytes", outcome->capacity_bytes);
  json_add_number(builder, "margin_bytes", outcome->margin_bytes);
  json_add_number(builder, "used", plan_outcome_used(outcome));
  json_add_flag(builder, "fits", outcome->fits);
  json_builder_end_object(builder);
  json_add_breakdown(builder, "breakdown_s", outcome->breakdown_s);
  g_autoptr(GPtrArray) warnings = plan_outcome_warnings(outcome);
  json_add_texts(builder, "warnings", warnings);
}

static void add_neighbours(JsonBuilder *builder, const PlannerReport *report, const PlanOutcome *plan) {
  double nearest;
  json_add_count(builder, "neighbours", count_neighbours(report, plan, &nearest));
}

static void add_kept(JsonBuilder *builder, const PlannerReport *report) {
  const GPtrArray *kept = report->result->kept;
  json_begin_object(builder, "best");
  add_outcome(builder, kept->pdata[0], kept->pdata[0]);
  add_neighbours(builder, report, kept->pdata[0]);
  json_builder_end_object(builder);
  json_begin_list(builder, "runners_up");
  for (guint i = 1; i < kept->len; i++) {
    json_begin_object(builder, NULL);
    add_outcome(builder, kept->pdata[0], kept->pdata[i]);
    add_neighbours(builder, report, kept->pdata[i]);
    json_builder_end_object(builder);
  }
  json_builder_end_array(builder);
}

/* Plans by their rank: 0 is the best, 1 the first runner-up. */
static void add_recommended(JsonBuilder *builder, const PlannerReport *report) {
  g_auto(PlanTie) tie = tie_of(report);
  g_autofree char *options = plan_outcome_options(tie.plan);
  json_begin_object(builder, "recommended");
  json_add_count(builder, "rank", tie.recommended);
  json_add_text(builder, "options", options);
  json_begin_list(builder, "tied");
  for (guint i = 0; i < tie.tied->len; i++)
    json_builder_add_int_value(builder, g_array_index(tie.tied, guint, i));
  json_builder_end_array(builder);
  json_add_number(builder, "tied_within", tie.width);
  json_builder_end_object(builder);
}

static void add_losers(JsonBuilder *builder, const PlannerResult *result) {
  json_begin_object(builder, "losers");
  json_add_count(builder, "same", result->n_same);
  json_add_count(builder, "impossible", result->n_impossible);
  json_add_count(builder, "out_of_memory", result->n_out_of_memory);
  json_add_count(builder, "late", result->n_late);
  json_add_count(builder, "beaten_by_bound", result->n_beaten_by_bound);
  json_add_count(builder, "slower", result->n_slower);
  json_begin_object(builder, "slower_by");
  for (int kind = 0; kind < N_BREAKDOWN; kind++)
    json_add_count(builder, breakdown_name((BreakdownKind)kind), result->n_slower_by[kind]);
  json_builder_end_object(builder);
  json_begin_list(builder, "impossible_reasons");
  for (guint i = 0; i < result->reasons->len; i++) {
    const Reason *reason = &g_array_index(result->reasons, Reason, i);
    json_begin_object(builder, NULL);
    json_add_text(builder, "reason", reason->text);
    json_add_count(builder, "count", reason->n);
    json_builder_end_object(builder);
  }
  json_builder_end_array(builder);
  json_builder_end_object(builder);
}

void planner_json_steps(JsonBuilder *builder, const PlanOutcome *best, const GArray *steps) {
  json_begin_list(builder, "sensitivity");
  for (guint i = 0; i < steps->len; i++) {
    const Variant *step = &g_array_index(steps, Variant, i);
    json_begin_object(builder, NULL);
    json_add_text(builder, "option", step->option);
    json_add_text(builder, "from", step->from);
    json_add_text(builder, "to", step->to);
    json_add_text(builder, "impossible", step->problem != NULL ? step->problem->message : NULL);
    if (step->outcome != NULL)
      add_outcome(builder, best, step->outcome);
    json_builder_end_object(builder);
  }
  json_builder_end_array(builder);
}

static void add_launch(JsonBuilder *builder, const PlannerReport *report) {
  if (report->launch == NULL)
    return;
  json_begin_object(builder, "launch");
  json_add_text(builder, "framework", report->framework);
  json_add_text(builder, "release", report->launch->release);
  json_add_text(builder, "text", report->launch->text);
  json_add_texts(builder, "notices", report->launch->notices);
  json_builder_end_object(builder);
}

char *planner_json(const PlannerReport *report) {
  const PlannerResult *result = report->result;
  JsonBuilder *builder = json_builder_new();
  json_builder_begin_object(builder);
  json_add_text(builder, "objective", objective_names()[report->request->scoring.objective]);
  add_kept(builder, report);
  add_recommended(builder, report);
  add_losers(builder, result);
  planner_json_steps(builder, result->kept->pdata[0], report->sensitivity);
  if (report->cost != NULL) {
    training_cost_json(report->cost, builder);
    json_builder_end_object(builder);
  }
  add_launch(builder, report);
  json_begin_object(builder, "search");
  json_add_count(builder, "configurations", result->n_configurations);
  json_add_count(builder, "simulated", result->n_simulated);
  json_add_number(builder, "wall_s", result->wall_s);
  json_builder_end_object(builder);
  json_builder_end_object(builder);
  return json_finish(builder);
}
