/* What degraded and dead links leave of a job's bandwidths. Costs are closed forms of sound links; each of their
 * bandwidths is scaled by what the graph of the cluster carries with its faults over what it carries without, max-min
 * fair, while every GPU of the job's domains sends at once:
 *
 *     scale-up     to the next GPU of its domain                          the slowest over its sound rate, as a ring is
 *                                                                         as slow as its slowest hop
 *     domain       to the GPU at its place in the next domain, and in     what the m slowest of a domain send or
 * receive the next group of leaves                               together, for groups of m members in it tier to the
 * same in the next span of the tier below         what a span sends or receives together
 *
 * A GPU whose own NIC is dead goes over the next GPU's of its node that is alive, at both ends (NVLink to it, its NIC,
 * its partner's, NVLink), so that two share one. Every transfer is taken to pass the worst of these places: a step
 * waits for its slowest part, but where that is beside the step's critical path, this is too long. */
#pragma once
#include "cluster.h"

/* A copy of `cluster` with its `health` set, sharing all else with it; free with link_health_cluster_free(), before
 * `cluster`. `gpus`: those of the job, or of its ranks; NULL: 0 to n − 1. IMPOSSIBLE: a dead link and no way around it;
 * INPUT: a fault that names what is not there. */
Cluster *link_health_cluster(const Cluster *cluster, const int *gpus, int n, GError **error);
void link_health_cluster_free(Cluster *cluster);

/* The same as shares alone; free with link_health_free(). */
LinkHealth *link_health_new(const Cluster *cluster, const int *gpus, int n, GError **error);
