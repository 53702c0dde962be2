/* The best plan with one option changed by one step: what each choice is worth. */
#pragma once
#include "planner.h"

typedef struct {
  const char *option;   /* static: "--tp" */
  char *from, *to;      /* owned: "8", "4" */
  PlanOutcome *outcome; /* owned; NULL: impossible */
  char *problem;        /* owned; why; NULL: possible */
} SensitivityStep;

/* Sizes are halved and doubled (the data parallel size follows; chunks go to the next number that cuts the layers
 * evenly, and the schedule to interleaved or 1f1b with them), ZeRO and recomputation go a stage up and down, switches
 * the other way, bf16 to fp8 and back, the schedule to each of a few others, the framework to its variant (framework.h).
 * Of SensitivityStep, in that order; owned by the caller. `request` says how to score; neither its space nor its
 * framework counts. */
GArray *sensitivity_new(const PlanOutcome *best, const PlannerRequest *request);
