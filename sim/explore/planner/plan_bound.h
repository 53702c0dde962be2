/* A lower bound on a plan's step time, known before simulation: lets a search skip what cannot win and still return
 * what an exhaustive search would. */
#pragma once
#include "workload.h"

/* No simulation of this workload on this cluster has a shorter step. Counts a pipeline rank's kernels and
 * tensor-parallel collectives, its expert exchanges if nothing overlaps them, one after the other, and the minimum
 * bubble of its schedule; no sends, gradients, optimizer or host. 0 if nothing is known: ranks that differ. */
gint64 plan_bound_step_ns(const Workload *workload, const Cluster *cluster);
