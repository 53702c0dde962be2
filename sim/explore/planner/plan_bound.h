/* What a plan takes at least, known before it is simulated: so that a search may leave out what cannot win or cannot
 * fit, and still find what trying everything would have found. */
#pragma once
#include "workload.h"

/* No simulation of this workload on this cluster has a shorter step: the kernels and tensor-parallel collectives of a
 * pipeline rank, one after the other, and the least bubble of its schedule; without sends, gradients, optimizer or
 * host. 0 where nothing is known: ranks that differ. */
gint64 plan_bound_step_ns(const Workload *workload, const Cluster *cluster);
/* … and no GPU of it holds less at the fullest: model state, and what one micro-batch leaves behind in a stage (1f1b:
 * as many micro-batches as are under way there). Bytes, without what the GPU reserves. */
double plan_bound_bytes(const Workload *workload);
