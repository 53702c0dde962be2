/* What collectives and sends take of a rank's ways while they run alone (WayLoad, timing.h): of its scale-up links, and
 * of its part of the NICs and of each level of the fabric above, which it has while all GPUs of its node, pod … send as
 * it does.
 *
 *     way 0      scale-up links of the GPU
 *     way 1      its part of its node's NICs, out of the scale-up domain (and of level 0)
 *     way 1 + t  its part of what leaves the spans of level t − 1
 *
 * A ring or tree goes at the rate of the narrowest boundary it crosses and takes of each wider one as much: 1 of the
 * first, B/Bps of the others. What a protocol spends on flags is taken too. Rooted and direct ones take all of every
 * boundary they cross. */
#pragma once
#include "enclosures.h"
#include "timing.h"

/* Shares; latency_ns is left. n = 1: none. */
void collective_way_load(const Cluster *cluster, const GroupShape *shape, gboolean is_direct, WayLoad *load);
/* Shares of a send between two ranks by placement, and its latency in seconds. */
double send_way_load(const Cluster *cluster, int from, int to, WayLoad *load);
