/* Which links a message passes: shortest routes, worked out when asked for and kept.
 *
 * Shortest is by latency, then by hops, or by hops, then by latency (RouteOrder). Among equally short ones a rule
 * chooses, hop by hop as switches do; the same question always has the same answer. A route from node to node passes
 * through these two nodes and the fabric only, which is what keeps the search small on tens of thousands of GPUs.
 *
 * Memory: per GPU that was an end of a route its distances to the vertices of its own node; per fabric vertex that is a
 * way into a destination's node its distances from the other fabric vertices; and the routes asked for. Nothing grows
 * with the square of the GPUs unless all pairs are asked for. */
#pragma once
#include "network.h"

typedef enum { ROUTE_BY_LATENCY, ROUTE_BY_HOPS } RouteOrder;

typedef enum {
  /* ECMP: hash of (from, to, label) and of the vertex where the ways part */
  ROUTE_HASHED,
  /* Rails and D-mod-k: out of a node by the NIC or switch that counts the source's number in its node, into the other
   * node by the destination's; between, digit by digit of the destination (Zahavi, "Fat-tree routing and node ordering
   * providing contention free traffic for MPI global collectives", JPDC 72, 2012). No label. */
  ROUTE_BY_RAIL,
} RouteRule;

typedef struct Routes Routes;

/* The network must outlive it and not grow any more. */
Routes *routes_new(const Network *network, RouteOrder order, RouteRule rule);
void routes_free(Routes *routes);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Routes, routes_free)

/* The number of the route between two vertices: 0, 1, … in the order they were first asked for. `label` (0 … 65,535)
 * tells flows of one pair apart under ROUTE_HASHED, as ports do. From a vertex to itself: no links. Returns −1:
 * IMPOSSIBLE when no way leads there, INPUT when a vertex is not there. */
gint32 routes_find(Routes *routes, gint32 from, gint32 to, guint16 label, GError **error);
/* Its links are the routes' own, until the next one is found. */
NetRoute routes_get(const Routes *routes, gint32 route);
/* The names of its links, as "gpu0>nic0, nic0>leaf0, leaf0>nic8, nic8>gpu8". Owned by the caller. */
char *routes_text(const Routes *routes, gint32 route);
