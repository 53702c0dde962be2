/* A lower bound on a plan's step time, known before simulation: lets a search skip what cannot win and still return
 * what an exhaustive search would. */
#pragma once
#include "costs.h"
#include "workload.h"

/* No simulation of this workload on this cluster has a shorter step. Counts a pipeline rank's kernels and
 * tensor-parallel collectives, its expert exchanges if nothing overlaps them, its sends where it waits for them, one
 * after the other, and the minimum bubble of its schedule; or the way of one micro-batch through all stages; or what it
 * gathers and reduces in every micro-batch, unless the bound is to hold for shards over any of its ranks too. No
 * once-per-step gradients, optimizer or host. 0 if nothing is known: ranks that differ, kernels that differ with
 * shards. `costs` as for timing_model(). */
gint64 plan_bound_step_ns(const Workload *workload, const Cluster *cluster, gboolean of_any_shards, Costs *costs);
