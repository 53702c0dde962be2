/* A network as a search for routes walks it: what leaves and enters each vertex, and who is of each node. */
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

/* Of the network as it is now. */
RouteGraph *route_graph_new(const Network *network);
void route_graph_free(RouteGraph *graph);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(RouteGraph, route_graph_free)

/* What leaves (is_into: what enters; then `to` is where it comes from) a vertex, in the order of the links; dead links
 * left out. */
const RouteArc *route_graph_arcs(const RouteGraph *graph, gint32 vertex, gboolean is_into, gint32 *n_arcs);
/* The vertices of a node, or of the fabric, by `local`. */
const gint32 *route_graph_members(const RouteGraph *graph, gint32 node, gint32 *n_members);
RoutePlace route_graph_place(const RouteGraph *graph, gint32 vertex);
