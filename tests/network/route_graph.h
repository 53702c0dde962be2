/* A network as the route search sees it: the arcs out of and into each vertex, and the vertices of each node. */
#pragma once
#include "network.h"

/* One direction of a link, as seen from the vertex it leaves. */
typedef struct {
  gint32 link, to;
} RouteArc;

typedef struct {
  gint32 number; /* 0, 1, … among those of its kind and node, in the order they were added: the rail of a GPU or NIC */
  gint32 local;  /* 0, 1, … among all of its node, or of the fabric */
} RoutePlace;

typedef struct RouteGraph RouteGraph;

/* The graph of the network as it is now. */
RouteGraph *route_graph_new(const Network *network);
void route_graph_free(RouteGraph *graph);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(RouteGraph, route_graph_free)

/* Arcs out of a vertex (is_into: arcs into it; `to` is then where they come from), in link order, without dead links.
 */
const RouteArc *route_graph_arcs(const RouteGraph *graph, gint32 vertex, gboolean is_into, gint32 *n_arcs);
/* The vertices of a node, or of the fabric, by `local`. */
const gint32 *route_graph_members(const RouteGraph *graph, gint32 node, gint32 *n_members);
RoutePlace route_graph_place(const RouteGraph *graph, gint32 vertex);
