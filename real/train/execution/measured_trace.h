/* What was measured, in the form the simulator writes. */
#pragma once
#include "executor.h"

/* All ranks' records on one clock: rank 0's, 0 where the first of them could begin. Collective; NULL on all but rank 0.
 * Borrows the program. */
Trace *measured_trace(World *world, const Workload *workload, const Program *program, const ExecutionResult *result);
/* Sum of all ranks' losses of each step; collective; NULL on all but rank 0. Owned by the caller. */
double *measured_losses(World *world, const Workload *workload, int n_steps, const ExecutionResult *result);
/* Wall-clock time of each step: from the latest end of the one before (the first: from 0). */
gint64 *measured_steps_ns(const Trace *trace);
/* Middle one of the steps after the first, which warms up (of the first when it is alone). */
gint64 measured_median_ns(const gint64 *steps_ns, int n_steps);
