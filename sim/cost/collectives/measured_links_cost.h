/* Time of collectives and sends from the cluster's measured curves (describe/hardware/measured_links.h), with the
 * analytic model to carry them to what was not measured.
 *
 * A curve is read as a straight line in bytes between two points, the first point's time below it (latency), and the
 * slope of the last two points beyond them (bandwidth; of one point alone: its bytes over its time).
 *
 * Collectives.
 *   measured      A curve of the same operation, group size and number of nodes serves as it is. Inside one scale-up
 *                 domain the number of nodes does not matter, as all its links are alike.
 *   interpolated  Else the curve of the same operation whose group is nearest in |Δ log2 gpus| + |Δ log2 nodes|, among
 *                 those that stay inside one domain if the wanted group does, among those that do not if it does not:
 *
 *                     time(S) = model(wanted group, S) · curve(S) / model(curve's group, S)
 *
 *   modelled      No such curve.
 *
 *   Assumed: the model is right about how time grows with the group (steps, bytes per link) and wrong about rates and
 *   latencies by factors that depend on size, not on the group. The curve's group lies on neighbouring nodes, as many
 *   members in each. A group that is spread otherwise over as many nodes takes the curve as it is.
 *
 * Sends. The curve of the link: in a node, in a domain (each serves for the other where it has none), over the fabric.
 * A fabric send that crosses tiers above the first takes the model's ratio of it to one that does not, times the
 * curve. */
#pragma once
#include "cluster.h"
#include "layout.h"
#include "measured_cost.h"

/* Of a group that a table names: consecutive nodes, as many members in each. */
GroupShape measured_group_shape(const Cluster *cluster, int gpus, int nodes);
/* Between a wanted and a measured group, in octaves; +∞ when one stays inside a domain and the other does not. */
double measured_group_distance(const GroupShape *wanted, const GroupShape *group);

typedef double (*CollectiveModel)(const Cluster *cluster, Collective collective, const GroupShape *shape, double bytes);

/* shape->n > 1; cluster->measured may be NULL: `model` alone. */
double measured_collective_s(const Cluster *cluster, Collective collective, const GroupShape *shape, double bytes,
                             CollectiveModel model, CostSource *source);
/* `model_s`: the model's time over the way taken; `first_level_s`: over the first level of the fabric alone (other
 * links: the same). */
double measured_send_s(const Cluster *cluster, SendLink link, double bytes, double model_s, double first_level_s);
