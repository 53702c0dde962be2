/* How long a plan's step takes at least, known before it is simulated: so that a search may leave out what cannot win
 * and still find what trying everything would have found. */
#pragma once
#include "workload.h"

/* No simulation of this workload on this cluster has a shorter step: the kernels and tensor-parallel collectives of a
 * pipeline rank, its exchanges with experts where nothing stands beside them, one after the other, and the least bubble
 * of its schedule; without sends, gradients, optimizer or host. 0 where nothing is known: ranks that differ. */
gint64 plan_bound_step_ns(const Workload *workload, const Cluster *cluster);
