/* {objective, best, runners_up[], losers{…}, sensitivity[], training, launch, search{…}}. */
#include <math.h>
#include <string.h>

#include "json_values.h"
#include "plan_fields.h"
#include "planner_report.h"

static void add_field(JsonBuilder *builder, const char *key, const PlanField *field, const Plan *plan) {
  const PlanValue value = plan_field_value(field, plan);
  g_autofree char *text = value.text;
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

/* Every field of a plan, under its name in tables; what no field has is null, or an empty text. */
static void add_plan(JsonBuilder *builder, const Plan *plan) {
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
  g_autofree char *options = planner_options(outcome);
  add_plan(builder, outcome->completed);
  json_add_text(builder, "options", options);
  json_add_text(builder, "model", outcome->model->name);
  json_add_text(builder, "cluster", outcome->cluster->name);
  json_add_number(builder, "step_time_s", outcome->step_time_s);
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

static void add_kept(JsonBuilder *builder, const GPtrArray *kept) {
  json_begin_object(builder, "best");
  add_outcome(builder, kept->pdata[0], kept->pdata[0]);
  json_builder_end_object(builder);
  json_begin_list(builder, "runners_up");
  for (guint i = 1; i < kept->len; i++) {
    json_begin_object(builder, NULL);
    add_outcome(builder, kept->pdata[0], kept->pdata[i]);
    json_builder_end_object(builder);
  }
  json_builder_end_array(builder);
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
    const PlannerReason *reason = &g_array_index(result->reasons, PlannerReason, i);
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
    const SensitivityStep *step = &g_array_index(steps, SensitivityStep, i);
    json_begin_object(builder, NULL);
    json_add_text(builder, "option", step->option);
    json_add_text(builder, "from", step->from);
    json_add_text(builder, "to", step->to);
    json_add_text(builder, "impossible", step->problem);
    if (step->outcome != NULL)
      add_outcome(builder, best, step->outcome);
    json_builder_end_object(builder);
  }
  json_builder_end_array(builder);
}

static void add_failures(JsonBuilder *builder, const TrainingCost *cost) {
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

static void add_training(JsonBuilder *builder, const TrainingCost *cost) {
  if (cost == NULL)
    return;
  json_begin_object(builder, "training");
  json_add_number(builder, "tokens", cost->tokens);
  json_add_number(builder, "days", cost->days);
  json_add_number(builder, "gpu_hours", cost->gpu_hours);
  json_add_number(builder, "dollars", cost->dollars > 0 ? cost->dollars : NAN);
  json_add_number(builder, "gpu_energy_Wh", cost->gpu_energy_Wh > 0 ? cost->gpu_energy_Wh : NAN);
  add_failures(builder, cost);
  json_builder_end_object(builder);
}

static void add_launch(JsonBuilder *builder, const PlannerReport *report) {
  if (report->launch == NULL)
    return;
  json_begin_object(builder, "launch");
  json_add_text(builder, "framework", report->framework);
  json_add_text(builder, "text", report->launch->text);
  json_add_texts(builder, "notices", report->launch->notices);
  json_builder_end_object(builder);
}

char *planner_json(const PlannerReport *report) {
  const PlannerResult *result = report->result;
  JsonBuilder *builder = json_builder_new();
  json_builder_begin_object(builder);
  json_add_text(builder, "objective", objective_names()[report->request->scoring.objective]);
  add_kept(builder, result->kept);
  add_losers(builder, result);
  planner_json_steps(builder, result->kept->pdata[0], report->sensitivity);
  add_training(builder, report->cost);
  add_launch(builder, report);
  json_begin_object(builder, "search");
  json_add_count(builder, "configurations", result->n_configurations);
  json_add_count(builder, "simulated", result->n_simulated);
  json_add_number(builder, "wall_s", result->wall_s);
  json_builder_end_object(builder);
  json_builder_end_object(builder);
  return json_finish(builder);
}
