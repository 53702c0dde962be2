/* A Program's Timing on a described cluster: every distinct work and transfer costed once. */
#pragma once
#include "cluster.h"
#include "repeats.h"
#include "timing.h"

/* `workload` is what the program was lowered from. Times are rounded up to whole nanoseconds here, once per item and
 * transfer. */
Timing *timing_model(const Program *program, const Workload *workload, const Cluster *cluster);
/* The same, where no collectives of tp inside compute ops meet other transfers: *met is NULL then. Else NULL, and *met:
 * transfers of the program [transfers] that use links which these use as well (tp over nodes, say, or stages and
 * replicas inside a scale-up domain) and do enough to matter; owned by the caller. In an expanded program these
 * collectives then take part in contention. Of so many more groups of micro-batches than `repeats` (NULL: none) is of;
 * workload's plan has the batch of all. Without contention nothing meets. An expanded program is not timed. */
Timing *timing_model_unless_met(const Program *program, const ProgramRepeats *repeats, double n_more,
                                const Workload *workload, const Cluster *cluster, gboolean **met);
/* *met alone, of any program. */
gboolean *timing_model_met_by_tp_in(const ProgramRepeats *repeats, double n_more, const Workload *workload,
                                    const Cluster *cluster);
/* timing_model() where it is known whether collectives of tp meet others. */
Timing *timing_model_meeting(const Program *program, const Workload *workload, const Cluster *cluster,
                             gboolean tp_meets);
