#include <math.h>

#include "json_values.h"
#include "topology_report.h"
#include "wiring.h"

static void append_key(GString *out, const char *key) {
  json_append_string(out, key);
  g_string_append(out, ": ");
}

static void append_number(GString *out, const char *key, double value) {
  append_key(out, key);
  json_append_number(out, value); /* not finite: null */
}

static void append_text(GString *out, const char *key, const char *text) {
  append_key(out, key);
  json_append_string(out, text);
}

static void append_name(GString *out, const char *key, const Topology *t, int vertex) {
  g_autofree char *name = topology_vertex_name(t, vertex);
  append_text(out, key, name);
}

static void append_head(GString *out, const Topology *t) {
  const Cluster *cluster = t->cluster;
  TopologyTotals totals = topology_totals(t);
  append_text(out, "name", cluster->name);
  g_string_append(out, ", ");
  append_text(out, "file", cluster->file);
  g_string_append_printf(out, ",\n  \"gpus\": %d, \"nodes\": %d, \"gpus_per_node\": %d, \"domain_gpus\": %d,\n  ",
                         t->n_gpus, t->n_nodes, cluster->gpus_per_node, cluster->domain_gpus);
  g_string_append(out, "\"totals\": {");
  append_number(out, "node_scale_up_Bps", totals.node_scale_up_Bps);
  g_string_append(out, ", ");
  append_number(out, "node_net_Bps", totals.node_net_Bps);
  g_string_append(out, ", ");
  append_number(out, "gpu_net_Bps", totals.gpu_net_Bps);
  g_string_append(out, ", ");
  append_number(out, "bisection_Bps", totals.bisection_Bps);
  g_string_append_c(out, '}');
}

/* Per GPU, `gap` 1 apart, by how many take part: from 2 on. */
static void append_rates(GString *out, const char *key, const Cluster *cluster, gboolean is_all) {
  append_key(out, key);
  for (int members = 2; members <= cluster->domain_gpus; members++) {
    g_string_append(out, members > 2 ? ", " : "[");
    json_append_number(out, cluster->scale_up_Bps * cluster->scale_up_efficiency *
                                wiring_group_share(cluster->wiring, members, 1, is_all));
  }
  g_string_append(out, cluster->domain_gpus > 1 ? "]" : "[]");
}

static void append_wiring(GString *out, const Cluster *cluster) {
  const NodeWiring *wiring = cluster->wiring;
  append_key(out, "wiring");
  if (wiring == NULL) {
    g_string_append(out, "null");
    return;
  }
  g_string_append_c(out, '{');
  append_text(out, "what", wiring->no_path != NULL ? wiring->no_path : wiring->text);
  if (wiring->no_path == NULL) {
    g_string_append(out, ",\n    ");
    append_rates(out, "ring_Bps", cluster, FALSE);
    g_string_append(out, ",\n    ");
    append_rates(out, "all_to_all_Bps", cluster, TRUE);
    g_string_append(out, ",\n    ");
    append_number(out, "net_Bps",
                  cluster->nics_per_node > 0
                      ? cluster->nic_Bps * cluster->nic_efficiency / cluster->node_egress_gpus * wiring->egress
                      : NAN);
  }
  g_string_append_c(out, '}');
}

static void append_vertex(GString *out, const Topology *t, int vertex) {
  const TopologyVertex *at = &t->vertices[vertex];
  append_name(out, "name", t, vertex);
  g_string_append(out, ", ");
  append_text(out, "kind", vertex_kind_name(at->kind));
  if (at->kind <= VERTEX_SOCKET)
    g_string_append_printf(out, ", \"node\": %d", at->owner);
}

static void append_link(GString *out, const Topology *t, const TopologyLink *link) {
  append_name(out, "a", t, link->a);
  g_string_append(out, ", ");
  append_name(out, "b", t, link->b);
  g_string_append(out, ", ");
  append_text(out, "kind", cable_kind_name(link->kind));
  g_string_append_printf(out, ", \"parallel\": %d, ", link->n_parallel);
  append_number(out, "bandwidth_Bps", link->Bps);
  g_string_append(out, ", ");
  append_number(out, "efficiency", link->efficiency);
  g_string_append(out, ", ");
  append_number(out, "factor", link->factor);
  g_string_append(out, ", ");
  append_number(out, "left_Bps", topology_link_left_Bps(link));
  g_string_append(out, ", ");
  append_number(out, "latency_s", link->latency_s);
}

static void append_finding(GString *out, const Finding *finding) {
  append_text(out, "severity", finding->is_error ? "error" : "warning");
  g_string_append(out, ", ");
  append_text(out, "what", finding->what);
  g_string_append(out, ", ");
  append_text(out, "advice", finding->advice);
}

static const char *boolean(gboolean value) {
  return value ? "true" : "false";
}

static void append_route(GString *out, const Topology *t, const Route *route) {
  g_string_append_printf(out, "{\"from\": %d, \"to\": %d, \"uses_network\": %s, ", route->from, route->to,
                         boolean(route->uses_net));
  g_string_append_printf(out, "\"staged_at_sender\": %s, \"staged_at_receiver\": %s, ", boolean(route->is_staged[0]),
                         boolean(route->is_staged[1]));
  append_number(out, "latency_s", route->latency_s);
  g_string_append(out, ", ");
  append_number(out, "left_Bps", route->left_Bps);
  g_string_append_printf(out, ", \"bottleneck\": %d, \"hops\": [", route->bottleneck);
  for (int i = 0; i < route->n_hops; i++) {
    g_string_append(out, i > 0 ? ", {" : "{");
    append_name(out, "from", t, route->hops[i].from);
    g_string_append(out, ", ");
    append_name(out, "to", t, route->hops[i].to);
    g_string_append_printf(out, ", \"link\": %d}", route->hops[i].link);
  }
  g_string_append(out, "]}");
}

char *topology_json(const Topology *t, const GArray *findings, const Route *route) {
  GString *out = g_string_new("{\n  ");
  append_head(out, t);
  g_string_append(out, ",\n  ");
  append_wiring(out, t->cluster);
  g_string_append(out, ",\n  \"vertices\": [");
  for (int v = 0; v < t->n_vertices; v++) {
    g_string_append(out, v > 0 ? ",\n    {" : "\n    {");
    append_vertex(out, t, v);
    g_string_append_c(out, '}');
  }
  g_string_append(out, "],\n  \"links\": [");
  for (int i = 0; i < t->n_links; i++) {
    g_string_append(out, i > 0 ? ",\n    {" : "\n    {");
    append_link(out, t, &t->links[i]);
    g_string_append_c(out, '}');
  }
  g_string_append(out, "],\n  \"findings\": [");
  for (guint i = 0; i < findings->len; i++) {
    g_string_append(out, i > 0 ? ",\n    {" : "\n    {");
    append_finding(out, &g_array_index(findings, Finding, i));
    g_string_append_c(out, '}');
  }
  g_string_append(out, "],\n  \"route\": ");
  if (route != NULL)
    append_route(out, t, route);
  else
    g_string_append(out, "null");
  g_string_append(out, "\n}\n");
  return g_string_free(out, FALSE);
}
