#include "result_json.h"

#include <math.h>

#include "plan_outcome.h"
#include "planner_report.h"

/* Prices are null where none is known. */
static void add_cost(const PlanOutcome *outcome, JsonBuilder *builder) {
  const double price = outcome->dollars_per_gpu_hour > 0 ? outcome->dollars_per_gpu_hour : NAN;
  const double per_s = price * outcome->completed->gpus / 3600;
  json_begin_object(builder, "cost");
  json_add_number(builder, "dollars_per_gpu_hour", price);
  json_add_number(builder, "dollars_per_step", per_s * outcome->step_time_s);
  json_add_number(builder, "dollars_per_million_tokens", per_s * 1e6 / outcome->tokens_per_s);
  json_builder_end_object(builder);
}

JsonBuilder *result_json_begin(const Prediction *prediction, const StepReport *report, const ResultOf *of) {
  const PlanScoring scoring = {OBJECTIVE_TOKENS_PER_S, of->dollars_per_gpu_hour};
  g_autoptr(PlanOutcome) outcome = plan_outcome_of(prediction, of->model, of->cluster, of->plan, &scoring);
  g_autofree char *options = plan_outcome_options(outcome);
  JsonBuilder *builder = json_builder_new();
  json_builder_begin_object(builder);
  json_add_text(builder, "model", of->model->name);
  json_add_text(builder, "cluster", of->cluster->name);
  json_add_text(builder, "options", options);
  planner_json_plan(builder, outcome->completed);
  add_cost(outcome, builder);
  json_report_step_into(builder, report);
  return builder;
}
