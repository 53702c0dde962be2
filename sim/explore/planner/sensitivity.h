/* The best plan with one option changed by one step: what each choice is worth. */
#pragma once
#include "planner.h"
#include "vary.h"

/* Sizes are halved and doubled (the data-parallel size follows; chunks move to the next number that cuts the layers
 * evenly, and the schedule to interleaved or 1f1b with them), ZeRO and recomputation move one stage up and down,
 * switches are flipped, bf16 becomes fp8 and back, the schedule becomes each of a few others, the framework its
 * variant (framework.h). Of Variant, in that order; owned by the caller. `request` says how to score; its
 * space and framework are ignored. */
GArray *sensitivity_new(const PlanOutcome *best, const PlannerRequest *request);
