/* Time of collectives and sends from the cluster's measured curves (machine/hardware/measured_links.h). The analytic
 * model transfers them to what was not measured.
 *
 * A curve is linear in bytes between two points; below the first point it has that point's time (latency), and beyond
 * the last it has the slope of the last two points (bandwidth; with a single point: its bytes over its time).
 *
 * Collectives.
 *   measured      A curve of the same operation, group size and number of nodes is used as it is. Inside one scale-up
 *                 domain the number of nodes does not matter, as all its links are alike.
 *   interpolated  Otherwise the curve of the same operation whose group is nearest in |Δ log2 gpus| + |Δ log2 nodes|.
 *                 Groups inside one domain are compared only with each other, and so are groups over several:
 *
 *                     time(S) = model(wanted group, S) · curve(S) / model(curve's group, S)
 *
 *   modelled      No such curve.
 *
 *   Assumed: the model is right about how time grows with the group (steps, bytes per link), and wrong about rates
 *   and latencies by factors that depend on size, not on the group. The curve's group lies on neighbouring nodes with
 *   equal numbers of members. A group spread differently over as many nodes uses the curve as it is.
 *
 * Sends. The curve of the link: in a node, in a domain (each serves for the other where it has none), over the
 * fabric. For a fabric send that crosses tiers above the first, the curve is multiplied by the model's ratio of that
 * send to one that does not. */
#pragma once
#include "cluster.h"
#include "layout.h"
#include "measured_cost.h"

/* The shape of a group that a table names: consecutive nodes, with equal numbers of members. */
GroupShape measured_group_shape(const Cluster *cluster, int gpus, int nodes);
/* The distance between a wanted and a measured group, in octaves; +∞ when one stays inside a domain and the other
 * does not. */
double measured_group_distance(const GroupShape *wanted, const GroupShape *group);

typedef double (*CollectiveModel)(const Cluster *cluster, Collective collective, const GroupShape *shape, double bytes);

/* shape->n > 1; cluster->measured may be NULL: then `model` alone. */
double measured_collective_s(const Cluster *cluster, Collective collective, const GroupShape *shape, double bytes,
                             CollectiveModel model, CostSource *source);
/* `model_s`: the model's time over the path taken; `first_level_s`: over the first level of the fabric alone (on
 * other links the same). */
double measured_send_s(const Cluster *cluster, SendLink link, double bytes, double model_s, double first_level_s);
