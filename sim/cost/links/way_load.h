/* What a collective or send takes of a rank's ways while it runs alone (WayLoad, timing.h). A way is the rank's part
 * of the scale-up links, of the NICs, or of one level of the fabric above: the part it has while all GPUs of its
 * node, pod … send as it does.
 *
 *     way 0      scale-up links of the GPU
 *     way 1      its part of its node's NICs, out of the scale-up domain (and of level 0)
 *     way 1 + t  its part of what leaves the spans of level t − 1
 *
 * A ring or tree runs at the rate B of the narrowest boundary it crosses and puts as much through each wider one: it
 * takes all of the first and B/Bps of the others. Bandwidth spent on protocol flags counts as taken. Rooted and
 * direct operations take all of every boundary they cross. */
#pragma once
#include "enclosures.h"
#include "timing.h"

/* Fills in the shares, not latency_ns. n = 1: none. */
void collective_way_load(const Cluster *cluster, const GroupShape *shape, gboolean is_direct, WayLoad *load);
/* Fills in the shares of a send between two GPUs by placement, and returns its latency in seconds. */
double send_way_load(const Cluster *cluster, int from, int to, WayLoad *load);
