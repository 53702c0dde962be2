#include "route_graph.h"

typedef struct {
  GArray *out, *into; /* RouteArc; owned */
} Ends;

struct RouteGraph {
  gint32 n_vertices;
  Ends *ends;         /* [n_vertices] */
  RoutePlace *places; /* [n_vertices] */
  GPtrArray *nodes;   /* GArray of gint32: vertices of node − 1, so the fabric is first */
};

static void free_members(gpointer members) {
  g_array_free(members, TRUE);
}

static void add_member(RouteGraph *graph, const Network *network, gint32 vertex) {
  const NetVertex *at = network_vertex(network, vertex);
  while (graph->nodes->len <= (guint)(at->node + 1))
    g_ptr_array_add(graph->nodes, g_array_new(FALSE, FALSE, sizeof(gint32)));
  GArray *members = g_ptr_array_index(graph->nodes, at->node + 1);
  RoutePlace *place = &graph->places[vertex];
  place->local = members->len;
  for (guint i = members->len; i > 0; i--) { /* the last of its kind knows the number */
    gint32 other = g_array_index(members, gint32, i - 1);
    if (network_vertex(network, other)->kind == at->kind) {
      place->number = graph->places[other].number + 1;
      break;
    }
  }
  g_array_append_val(members, vertex);
}

static void add_arc(RouteGraph *graph, gint32 from, gint32 to, gint32 link) {
  RouteArc out = {link, to}, into = {link, from};
  g_array_append_val(graph->ends[from].out, out);
  g_array_append_val(graph->ends[to].into, into);
}

RouteGraph *route_graph_new(const Network *network) {
  RouteGraph *graph = g_new(RouteGraph, 1);
  gint32 n = network_n_vertices(network);
  *graph = (RouteGraph){n, g_new(Ends, n), g_new0(RoutePlace, n), g_ptr_array_new_with_free_func(free_members)};
  g_ptr_array_add(graph->nodes, g_array_new(FALSE, FALSE, sizeof(gint32)));
  for (gint32 v = 0; v < n; v++) {
    graph->ends[v] = (Ends){g_array_new(FALSE, FALSE, sizeof(RouteArc)), g_array_new(FALSE, FALSE, sizeof(RouteArc))};
    add_member(graph, network, v);
  }
  for (gint32 i = 0; i < network_n_links(network); i++) {
    const NetLink *link = network_link(network, i);
    if (link->capacity_Bps > 0)
      add_arc(graph, link->a, link->b, i);
    if (link->capacity_Bps > 0 && link->is_both_ways)
      add_arc(graph, link->b, link->a, i);
  }
  return graph;
}

void route_graph_free(RouteGraph *graph) {
  if (graph == NULL)
    return;
  for (gint32 v = 0; v < graph->n_vertices; v++) {
    g_array_free(graph->ends[v].out, TRUE);
    g_array_free(graph->ends[v].into, TRUE);
  }
  g_free(graph->ends);
  g_free(graph->places);
  g_ptr_array_unref(graph->nodes);
  g_free(graph);
}

const RouteArc *route_graph_arcs(const RouteGraph *graph, gint32 vertex, gboolean is_into, gint32 *n_arcs) {
  const GArray *arcs = is_into ? graph->ends[vertex].into : graph->ends[vertex].out;
  *n_arcs = arcs->len;
  return (const RouteArc *)arcs->data;
}

const gint32 *route_graph_members(const RouteGraph *graph, gint32 node, gint32 *n_members) {
  const GArray *members = g_ptr_array_index(graph->nodes, node + 1);
  *n_members = members->len;
  return (const gint32 *)members->data;
}

RoutePlace route_graph_place(const RouteGraph *graph, gint32 vertex) {
  return graph->places[vertex];
}
