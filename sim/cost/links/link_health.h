/* What degraded and dead links leave of a job's bandwidths. Costs are closed forms for sound links. Each of their
 * bandwidths is scaled by a share: what the cluster's graph carries with its faults over what it carries without,
 * max-min fair, while every GPU of the job's domains sends at once:
 *
 *     scale-up     to the next GPU of its domain           the slowest over its sound rate, as a ring is as slow as
 *                                                          its slowest hop
 *     domain       to the GPU at its place in the next     what a group of m members, `gap` apart, sends or receives
 *                  domain, and in the next group of        in equal parts over its NICs (below)
 *                  leaves where these are no level
 *     level        to the same in the next span of the     what a span sends or receives together
 *                  level of the fabric below
 *
 * A GPU whose own NIC is dead uses that of the next GPU of its node that is alive, at both ends (route.h), so that
 * two share one.
 *
 * Equal parts: a collective library cuts a buffer evenly over its channels and binds each to a NIC, so it is done
 * when its slowest channel is. A dead NIC has no channel; a slow one has, and all others wait for it:
 *
 *     share = min over NICs in use (left / sound) · sum over NICs in use (sound) / sum over members (sound)
 *
 * where the flows of GPUs without a NIC count as left, but not as sound, on the NIC that takes them in (if no other
 * member has that NIC, it replaces their own). Of 8 NICs a dead one leaves 7/8 to all 8 GPUs, and 1/2 to a group that
 * has the GPU without a NIC but not the one whose NIC it shares; a halved NIC leaves 1/2 to every group it is part
 * of. That is NCCL 2.30.7 (2026): its search gives all channels of a node one bandwidth (src/graph/search.cc), counts
 * and bandwidths are the least of all ranks (src/init.cc), parts are equal (src/enqueue.cc), and inactive ports are
 * no devices (src/transport/net_ib/init.cc). It reads a port's speed only when a communicator is made. A NIC that is
 * slow from then on gets fewer channels, but as the least count of all nodes is used, none is left out.
 *
 * Plain sends (all-to-all and the like) have no channels: each waits for its own NIC, so m is 1 for them. Every
 * transfer is assumed to pass the worst of these places, since a step waits for its slowest part; where that part is
 * off the step's critical path, the result is too long. */
#pragma once
#include "cluster.h"

/* A copy of `cluster` with its `health` set, sharing everything else with it; free with link_health_cluster_free(),
 * before `cluster`. `gpus`: those of the job or of its ranks; NULL: 0 to n − 1. IMPOSSIBLE: a dead link with no way
 * around it; INPUT: a fault that names something that does not exist. */
Cluster *link_health_cluster(const Cluster *cluster, const int *gpus, int n, GError **error);
void link_health_cluster_free(Cluster *cluster);

/* The shares alone; free with link_health_free(). */
LinkHealth *link_health_new(const Cluster *cluster, const int *gpus, int n, GError **error);
