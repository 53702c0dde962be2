/* Times of collectives from the latencies and bandwidths fitted on a machine (machine/hardware/measured_links.h). The
 * model transfers them to groups that were not measured.
 *
 *     time(S) = least over the rows of the nearest group g of   α' + S·factor(g)/busbw · wire(wanted, S) / wire(g, S)
 *     α'      = α + latency(wanted) − latency(g)     if α ≥ latency(g): what the model lacks is a fixed cost
 *               α · latency(wanted) / latency(g)     else: its steps are too slow
 *
 * latency is the model's time without bytes, wire what the bytes add, both for the row's algorithm and protocol.
 * Nearest is defined as for measured curves (measured_links_cost.h): fits inside a domain never serve groups over
 * several, nor the reverse. For the group that was fitted both corrections vanish. If the wanted group cannot run a
 * row's algorithm, the model uses the plain one for that row. */
#pragma once
#include "collective_algorithms.h"

typedef struct {
  double time_s;
  Algorithm algorithm;
  Protocol protocol;
} FittedTime;

/* FALSE: no fit applies to that operation and group. `algorithm` ≥ 0: only rows of that algorithm. shape->n > 1. */
gboolean fitted_collective(const Cluster *cluster, Collective collective, const GroupShape *shape, double bytes,
                           int algorithm, FittedTime *fitted);
