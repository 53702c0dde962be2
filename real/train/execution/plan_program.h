/* The Program of a plan, ready to be executed. */
#pragma once
#include "passes.h"

/* By the plan's own schedule, steps and passes; expanded. IMPOSSIBLE as order_new() and lower(). */
Program *program_of_plan(const Workload *workload, GError **error);
