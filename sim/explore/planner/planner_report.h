/* The planner's answer, for people and for scripts. */
#pragma once
#include "planner.h"
#include "sensitivity.h"
#include "training_cost.h"

typedef struct {
  const PlannerRequest *request;
  const PlannerResult *result;
  const GArray *sensitivity; /* of SensitivityStep */
  const TrainingCost *cost;  /* NULL: no tokens were given */
  const Launch *launch;      /* NULL: none is shown */
  const char *framework;     /* of `launch` */
} PlannerReport;

void planner_text(GString *out, const PlannerReport *report);
/* One object and a newline; owned by the caller. */
char *planner_json(const PlannerReport *report);
/* "--tp 8 --pp 16 …": what a plan's step is simulated with. Owned by the caller. */
char *planner_options(const PlanOutcome *outcome);
