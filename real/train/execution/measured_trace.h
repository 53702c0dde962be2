/* Measurements in the simulator's trace format. */
#pragma once
#include "executor.h"

/* All ranks' records on one clock, rank 0's; time 0 is the earliest issue time. Collective; NULL on all but rank 0.
 * Borrows the program. */
Trace *measured_trace(World *world, const Workload *workload, const Program *program, const ExecutionResult *result);
/* Sum of all ranks' losses of each step. Collective; NULL on all but rank 0. Owned by the caller. */
double *measured_losses(World *world, const Workload *workload, int n_steps, const ExecutionResult *result);
/* How far ahead of the device the host issued kernels:
 *
 *     host     │ issues op k │ issues op k + 1 │
 *     device        waits ▮ ▮ ▮  op k   ▮▮▮▮▮▮▮▮▮  op k + 1
 *                       late               not late
 *
 * An op is late if the device reached it before the host had issued all of its kernels: its time may contain launches,
 * at most from its start until then. */
typedef struct {
  gint64 n_ops, n_late; /* of kernels, in the steps after the first (or the only one), on all ranks */
  double late_s;        /* time of the late ones, mean over ranks and steps */
  double launch_s;      /* the part of it that may be launches */
} HostLead;
/* One rank's, summed over steps. `list`: its ops. */
HostLead host_lead_of_rank(const OpList *list, int n_steps, const ExecutionResult *result);
/* Collective; zeros on all but rank 0. */
HostLead measured_host_lead(World *world, const Workload *workload, const Program *program,
                            const ExecutionResult *result);
/* Wall-clock time of each step: from the latest end in the step before (the first: from 0). */
gint64 *measured_steps_ns(const Trace *trace);
/* Median of the steps after the first, which warms up (of the first if it is the only one). */
gint64 measured_median_ns(const gint64 *steps_ns, int n_steps);
