/* What degraded and dead links leave of a job's bandwidths. Costs are closed forms of sound links; each of their
 * bandwidths is scaled by what the graph of the cluster carries with its faults over what it carries without, max-min
 * fair, while every GPU of the job's domains sends at once:
 *
 *     scale-up     to the next GPU of its domain           the slowest over its sound rate, as a ring is as slow as its
 *                                                          slowest hop
 *     domain       to the GPU at its place in the next     what a group of m members, `gap` apart, sends or receives in
 *                  domain, and in the next group of        equal parts over its NICs (below)
 *                  leaves where these are no level
 *     level        to the same in the next span of the     what a span sends or receives together
 *                  level of the fabric below
 *
 * A GPU whose own NIC is dead goes over the next GPU's of its node that is alive, at both ends (route.h), so that two
 * share one.
 *
 * Equal parts: a collective library cuts a buffer evenly over its channels and binds each to a NIC, so it is done when
 * its slowest channel is. A dead NIC is none of them; a slow one is, and all wait for it:
 *
 *     share = min over NICs in use (left / sound) · sum over NICs in use (sound) / sum over members (sound)
 *
 * where the flows of GPUs without a NIC count as left, but not as sound, on the NIC that takes them in (one that no
 * other member has is theirs in place of their own). Of 8 NICs a dead one leaves 7/8 to all 8 GPUs, 1/2 to a group that
 * has the GPU without but not the one whose NIC it shares; a halved one leaves 1/2 to every group it is part of. That
 * is NCCL 2.30.7 (2026): its search gives all channels of a node one bandwidth (src/graph/search.cc), counts and
 * bandwidths are the least of all ranks (src/init.cc), parts are equal (src/enqueue.cc), and ports that are not active
 * are no devices (src/transport/net_ib/init.cc). It reads a port's speed only as a communicator is made; a NIC that is
 * slow from then on takes fewer channels, but as the least count of all nodes is used, none of them is left out.
 *
 * Plain sends (all-to-all and the like) are no channels: each waits for its own NIC, so for them m is 1. Every transfer
 * is taken to pass the worst of these places: a step waits for its slowest part, but where that is beside the step's
 * critical path, this is too long. */
#pragma once
#include "cluster.h"

/* A copy of `cluster` with its `health` set, sharing all else with it; free with link_health_cluster_free(), before
 * `cluster`. `gpus`: those of the job, or of its ranks; NULL: 0 to n − 1. IMPOSSIBLE: a dead link and no way around it;
 * INPUT: a fault that names what is not there. */
Cluster *link_health_cluster(const Cluster *cluster, const int *gpus, int n, GError **error);
void link_health_cluster_free(Cluster *cluster);

/* The same as shares alone; free with link_health_free(). */
LinkHealth *link_health_new(const Cluster *cluster, const int *gpus, int n, GError **error);
