/* Measurements in the simulator's trace format. */
#pragma once
#include "executor.h"

/* All ranks' records on one clock, rank 0's; time 0 is the earliest issue time. Collective; NULL on all but rank 0.
 * Borrows the program. */
Trace *measured_trace(World *world, const Workload *workload, const Program *program, const ExecutionResult *result);
/* Sum of all ranks' losses of each step. Collective; NULL on all but rank 0. Owned by the caller. */
double *measured_losses(World *world, const Workload *workload, int n_steps, const ExecutionResult *result);
/* Wall-clock time of each step: from the latest end in the step before (the first: from 0). */
gint64 *measured_steps_ns(const Trace *trace);
/* Median of the steps after the first, which warms up (of the first if it is the only one). */
gint64 measured_median_ns(const gint64 *steps_ns, int n_steps);
