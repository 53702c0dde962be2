/* The planner's answer, as text and as JSON. */
#pragma once
#include <json-glib/json-glib.h>

#include "planner.h"
#include "sensitivity.h"
#include "training_cost.h"

typedef struct {
  const PlannerRequest *request;
  const PlannerResult *result;
  const GArray *sensitivity;  /* of Variant */
  const TrainingCost *cost;   /* NULL: no tokens were given */
  const Launch *launch;       /* NULL: none is shown */
  const char *framework;      /* of --emit */
  gboolean implies_framework; /* none was named: it is what --emit implies */
} PlannerReport;

void planner_text(GString *out, const PlannerReport *report);
/* One object and a newline; owned by the caller. */
char *planner_json(const PlannerReport *report);
/* One line each: how long the same tokens take, and where that time goes. `steps` of Variant, from `best`. */
void planner_text_steps(GString *out, const PlanOutcome *best, const GArray *steps);
/* The member "plan" of an open object: every field, under its name in tables; what no field has is null, or an empty
 * text. */
void planner_json_plan(JsonBuilder *builder, const Plan *plan);
/* The member "sensitivity" of an open object. */
void planner_json_steps(JsonBuilder *builder, const PlanOutcome *best, const GArray *steps);
