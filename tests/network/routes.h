/* Which links a message uses: shortest routes, computed on request and kept.
 *
 * Shortest means by latency, then hops, or by hops, then latency (RouteOrder). Among equally short routes a rule
 * chooses, hop by hop as switches do; equal requests always get equal routes. A route between nodes passes through only
 * these two nodes and the fabric, which keeps the search small on tens of thousands of GPUs.
 *
 * Memory: for each GPU that ends a route, its distances to the vertices of its node; for each fabric vertex that leads
 * into a destination's node, its distances from the other fabric vertices; and the requested routes. Nothing grows with
 * the square of the GPUs unless all pairs are requested. */
#pragma once
#include "network.h"

typedef enum { ROUTE_BY_LATENCY, ROUTE_BY_HOPS } RouteOrder;

typedef enum {
  /* ECMP: a hash of (from, to, label) and the vertex where the routes split */
  ROUTE_HASHED,
  /* Rails and D-mod-k: leaves a node by the NIC or switch with the source's number in its node, enters the other node
   * by the destination's; in between, by the destination's digits (Zahavi, "Fat-tree routing and node ordering
   * providing contention free traffic for MPI global collectives", JPDC 72, 2012). Ignores the label. */
  ROUTE_BY_RAIL,
} RouteRule;

typedef struct Routes Routes;

/* The network must outlive the routes and must not grow any more. */
Routes *routes_new(const Network *network, RouteOrder order, RouteRule rule);
void routes_free(Routes *routes);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Routes, routes_free)

/* The number of the route between two vertices: 0, 1, … in the order of first request. `label` (0 … 65,535)
 * distinguishes flows of one pair under ROUTE_HASHED, as ports do. A route from a vertex to itself has no links.
 * Returns −1 with IMPOSSIBLE if there is no route, INPUT if a vertex does not exist. */
gint32 routes_find(Routes *routes, gint32 from, gint32 to, guint16 label, GError **error);
/* The links are borrowed, valid until the next routes_find(). */
NetRoute routes_get(const Routes *routes, gint32 route);
/* The names of the route's links: "gpu0>nic0, nic0>leaf0, leaf0>nic8, nic8>gpu8". Owned by the caller. */
char *routes_text(const Routes *routes, gint32 route);
