/* A Program's Timing on a described cluster: every distinct work and transfer costed once. */
#pragma once
#include "cluster.h"
#include "costs.h"
#include "repeats.h"
#include "timing.h"

/* Whether transfers slow the kernels beside them (Timing.taxes): a cluster may say so, and compressed gradients bring
 * kernels of their own. */
gboolean timing_model_has_taxes(const Method *method, const Cluster *cluster);

/* `workload` is what the program was lowered from. Times are rounded up to whole nanoseconds here, once per item and
 * transfer. What `costs` know is not computed again, and they learn the rest; NULL: nothing is kept. */
Timing *timing_model(const Program *program, const Workload *workload, const Cluster *cluster, Costs *costs);
/* The same for a step of n_more groups of micro-batches more than the program of `repeats` (NULL: as many); the batch
 * of the workload's plan counts them all. */
Timing *timing_model_beyond(const Program *program, const ProgramRepeats *repeats, double n_more,
                            const Workload *workload, const Cluster *cluster, Costs *costs);
/* timing_model(), unless the tp collectives inside compute ops compete with other transfers for links (tp across
 * nodes, say, or stages and replicas inside a scale-up domain) for long enough to matter. If none do, *met is NULL
 * and the Timing is returned. If some do, returns NULL, and *met, [transfers of the program] and the caller's, tells
 * which transfers use links that tp does; the program is then to be expanded, so that these collectives take part in
 * contention. `repeats` and n_more as above. Without contention in the plan nothing competes. An expanded program
 * is not timed here: NULL. */
Timing *timing_model_unless_met(const Program *program, const ProgramRepeats *repeats, double n_more,
                                const Workload *workload, const Cluster *cluster, Costs *costs, gboolean **met);
