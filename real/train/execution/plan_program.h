/* The Program of a plan, ready to execute. */
#pragma once
#include "passes.h"

/* Uses the plan's schedule, steps and passes; expanded. IMPOSSIBLE as in order_new() and lower(). */
Program *program_of_plan(const Workload *workload, GError **error);
