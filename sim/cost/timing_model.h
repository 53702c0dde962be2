/* A Program's Timing on a described cluster: every distinct work and transfer costed once. */
#pragma once
#include "cluster.h"
#include "repeats.h"
#include "timing.h"

/* `workload` is what the program was lowered from. Times are rounded up to whole nanoseconds here, once per item and
 * transfer. */
Timing *timing_model(const Program *program, const Workload *workload, const Cluster *cluster);
/* Transfers of the program [transfers] that use links which collectives of tp inside compute ops use as well (tp over
 * nodes, say, or stages and replicas inside a scale-up domain), where they do enough to matter; NULL: they do not. In
 * an expanded program these collectives then take part in contention. Owned by the caller. */
gboolean *timing_model_met_by_tp(const Program *program, const Workload *workload, const Cluster *cluster);
/* The same of a program with so many more groups of micro-batches than `repeats` is of; workload's plan has the batch
 * of all. */
gboolean *timing_model_met_by_tp_in(const ProgramRepeats *repeats, double n_more, const Workload *workload,
                                    const Cluster *cluster);
/* timing_model() where it is known whether collectives of tp meet others. */
Timing *timing_model_meeting(const Program *program, const Workload *workload, const Cluster *cluster,
                             gboolean tp_meets);
