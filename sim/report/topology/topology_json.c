#include <math.h>

#include "json_values.h"
#include "rank_grid.h"
#include "topology_report.h"
#include "wiring.h"

/* One member: ", " unless it is the first, then its key. */
static void begin(GString *out, const char *key) {
  const char last = out->str[out->len - 1];
  g_string_append(out, last == '{' || last == ' ' || last == '\n' ? "" : ", ");
  json_append_string(out, key);
  g_string_append(out, ": ");
}

static void add_number(GString *out, const char *key, double value) {
  begin(out, key);
  json_append_number(out, value); /* not finite: null */
}

static void add_text(GString *out, const char *key, const char *text) {
  begin(out, key);
  json_append_string(out, text);
}

static void add_name(GString *out, const char *key, const Topology *t, int vertex) {
  g_autofree char *name = topology_vertex_name(t, vertex);
  add_text(out, key, name);
}

static void add_flag(GString *out, const char *key, gboolean value) {
  begin(out, key);
  g_string_append(out, value ? "true" : "false");
}

static void append_head(GString *out, const Topology *t) {
  const Cluster *cluster = t->cluster;
  TopologyTotals totals = topology_totals(t);
  add_text(out, "name", cluster->name);
  add_text(out, "file", cluster->file);
  g_string_append_printf(out, ",\n  \"gpus\": %d, \"nodes\": %d, \"gpus_per_node\": %d, \"domain_gpus\": %d,\n  ",
                         t->n_gpus, t->n_nodes, cluster->gpus_per_node, cluster->domain_gpus);
  g_string_append(out, "\"totals\": {");
  add_number(out, "node_scale_up_Bps", totals.node_scale_up_Bps);
  add_number(out, "node_net_Bps", totals.node_net_Bps);
  add_number(out, "gpu_net_Bps", totals.gpu_net_Bps);
  add_number(out, "bisection_Bps", totals.bisection_Bps);
  g_string_append_c(out, '}');
}

/* Per GPU, `gap` 1 apart, by how many take part: from 2 on. */
static void append_rates(GString *out, const char *key, const Cluster *cluster, gboolean is_all) {
  begin(out, key);
  for (int members = 2; members <= cluster->domain_gpus; members++) {
    g_string_append(out, members > 2 ? ", " : "[");
    json_append_number(out, cluster->scale_up_Bps * cluster->scale_up_efficiency *
                                wiring_group_share(cluster->wiring, members, 1, is_all));
  }
  g_string_append(out, cluster->domain_gpus > 1 ? "]" : "[]");
}

static void append_wiring(GString *out, const Cluster *cluster) {
  const NodeWiring *wiring = cluster->wiring;
  begin(out, "wiring");
  if (wiring == NULL) {
    g_string_append(out, "null");
    return;
  }
  g_string_append_c(out, '{');
  add_text(out, "what", wiring->no_path != NULL ? wiring->no_path : wiring->text);
  if (wiring->no_path == NULL) {
    g_string_append(out, ",\n    ");
    append_rates(out, "ring_Bps", cluster, FALSE);
    g_string_append(out, ",\n    ");
    append_rates(out, "all_to_all_Bps", cluster, TRUE);
    g_string_append(out, ",\n    ");
    add_number(out, "net_Bps",
               cluster->nics_per_node > 0
                   ? cluster->nic_Bps * cluster->nic_efficiency / cluster->node_egress_gpus * wiring->egress
                   : NAN);
  }
  g_string_append_c(out, '}');
}

static void append_vertex(GString *out, const Topology *t, int vertex) {
  const TopologyVertex *at = &t->vertices[vertex];
  add_name(out, "name", t, vertex);
  add_text(out, "kind", vertex_kind_name(at->kind));
  if (at->kind <= VERTEX_SOCKET)
    add_number(out, "node", at->owner);
}

static void append_link(GString *out, const Topology *t, const TopologyLink *link) {
  add_name(out, "a", t, link->a);
  add_name(out, "b", t, link->b);
  add_text(out, "kind", cable_kind_name(link->kind));
  add_number(out, "parallel", link->n_parallel);
  add_number(out, "bandwidth_Bps", link->Bps);
  add_number(out, "efficiency", link->efficiency);
  add_number(out, "factor", link->factor);
  add_number(out, "left_Bps", topology_link_left_Bps(link));
  add_number(out, "latency_s", link->latency_s);
}

static void append_finding(GString *out, const Finding *finding) {
  add_text(out, "severity", finding->is_error ? "error" : "warning");
  add_text(out, "what", finding->what);
  add_text(out, "advice", finding->advice);
}

static void append_route(GString *out, const Topology *t, const Route *route) {
  g_string_append_c(out, '{');
  add_number(out, "from", route->from);
  add_number(out, "to", route->to);
  add_flag(out, "uses_network", route->uses_net);
  add_flag(out, "staged_at_sender", route->is_staged[0]);
  add_flag(out, "staged_at_receiver", route->is_staged[1]);
  add_number(out, "latency_s", route->latency_s);
  add_number(out, "left_Bps", route->left_Bps);
  add_number(out, "bottleneck", route->bottleneck);
  begin(out, "hops");
  g_string_append_c(out, '[');
  for (int i = 0; i < route->n_hops; i++) {
    g_string_append(out, i > 0 ? ", {" : "{");
    add_name(out, "from", t, route->hops[i].from);
    add_name(out, "to", t, route->hops[i].to);
    add_number(out, "link", route->hops[i].link);
    g_string_append_c(out, '}');
  }
  g_string_append(out, "]}");
}

static void append_numbers(GString *out, const char *key, const int *numbers, int n) {
  begin(out, key);
  for (int i = 0; i < n; i++)
    g_string_append_printf(out, "%s%d", i > 0 ? ", " : "[", numbers[i]);
  g_string_append(out, n > 0 ? "]" : "[]");
}

static void append_rank(GString *out, const RankGrid *grid, int rank) {
  const Coordinates at = layout_coordinates(&grid->layout, rank);
  add_number(out, "rank", rank);
  add_name(out, "gpu", grid->topology, layout_gpu(&grid->layout, rank));
  for (int axis = 0; axis < N_AXES; axis++)
    add_number(out, axis_name((Axis)axis), axis == AXIS_EP ? grid->ep[rank] : at.at[axis]);
}

static void append_group(GString *out, const Topology *t, const RankGroups *groups, int group) {
  const int first = groups->first_link[group];
  append_numbers(out, "ranks", &groups->members[(gsize)group * groups->size], groups->size);
  begin(out, "over");
  g_string_append_c(out, '[');
  for (int level = 0; (groups->levels[group] >> level) != 0; level++) {
    g_autofree char *name = (groups->levels[group] >> level) & 1 ? rank_grid_level_name(t, level) : NULL;
    if (name == NULL)
      continue;
    g_string_append(out, out->str[out->len - 1] == '[' ? "" : ", ");
    json_append_string(out, name);
  }
  g_string_append_c(out, ']');
  append_numbers(out, "links", &g_array_index(groups->links, int, 0) + first, groups->first_link[group + 1] - first);
}

static void append_groups(GString *out, const Topology *t, const RankGroups *groups) {
  add_text(out, "kind", groups->name);
  add_number(out, "size", groups->size);
  add_number(out, "slowest", groups->slowest);
  add_number(out, "sharing", groups->n_sharing);
  add_number(out, "rate_Bps", groups->rate_Bps);
  begin(out, "groups");
  for (int group = 0; group < groups->n_groups; group++) {
    g_string_append(out, group > 0 ? ",\n      {" : "[\n      {");
    append_group(out, t, groups, group);
    g_string_append_c(out, '}');
  }
  g_string_append_c(out, ']');
}

static void append_grid(GString *out, const RankGrid *grid) {
  g_string_append_c(out, '{');
  begin(out, "order");
  for (int i = 0; i < N_AXES; i++)
    g_string_append_printf(out, "%s%s", i > 0 ? "-" : "\"", axis_name(grid->method->order[i]));
  g_string_append(out, "\",\n    \"ranks\": [");
  for (int rank = 0; rank < grid->layout.n_ranks; rank++) {
    g_string_append(out, rank > 0 ? ",\n      {" : "\n      {");
    append_rank(out, grid, rank);
    g_string_append_c(out, '}');
  }
  g_string_append(out, "],\n    \"groups\": [");
  for (guint i = 0; i < grid->groups->len; i++) {
    g_string_append(out, i > 0 ? ",\n    {" : "\n    {");
    append_groups(out, grid->topology, &g_array_index(grid->groups, RankGroups, i));
    g_string_append_c(out, '}');
  }
  g_string_append(out, "]}");
}

char *topology_json(const Topology *t, const GArray *findings, const Route *route, const RankGrid *grid) {
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
  g_string_append(out, ",\n  \"grid\": ");
  if (grid != NULL)
    append_grid(out, grid);
  else
    g_string_append(out, "null");
  g_string_append(out, "\n}\n");
  return g_string_free(out, FALSE);
}
