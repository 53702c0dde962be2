#include <math.h>

#include "topology_report.h"
#include "units.h"
#include "wiring.h"

/* Lines of a tree: what stands left of them grows with every level. */
typedef struct {
  GString *out;
  GString *margin;
} Tree;

static void tree_line(Tree *tree, gboolean is_last, const char *text) {
  g_string_append_printf(tree->out, "%s%s %s\n", tree->margin->str, is_last ? "└─" : "├─", text);
}

static gsize tree_open(Tree *tree, gboolean was_last) {
  gsize mark = tree->margin->len;
  g_string_append(tree->margin, was_last ? "   " : "│  ");
  return mark;
}

static void tree_close(Tree *tree, gsize mark) {
  g_string_truncate(tree->margin, mark);
}

static char *rate(double Bps) {
  return isinf(Bps) ? g_strdup("not stated") : units_format(Bps, UNIT_BYTES_PER_SECOND);
}

/* The fabric, from the top. */

static int count_like(const Topology *t, const TopologyVertex *vertex) {
  int n = 0;
  for (int v = t->n_gpus; v < t->n_vertices; v++)
    n += t->vertices[v].kind == vertex->kind && (vertex->kind != VERTEX_TIER || t->vertices[v].owner == vertex->owner);
  return n;
}

/* Of a whole block; 0: all there are. */
static gint64 gpus_below(const Topology *t, const TopologyVertex *vertex) {
  const Cluster *cluster = t->cluster;
  if (vertex->kind == VERTEX_LEAF)
    return (gint64)cluster->gpus_per_node * MAX(cluster->leaves.n_nodes, 1);
  return vertex->owner < cluster->n_tiers ? cluster->tiers[vertex->owner].span_gpus : 0;
}

static void append_uplink(GString *text, const Topology *t, const TopologyLink *link, gint64 n_senders,
                          const char *sender) {
  int level = t->vertices[link->b].owner;
  double ratio = level < t->cluster->n_tiers ? t->cluster->tiers[level].oversubscription : 1;
  g_autofree char *uplink = rate(link->Bps), *share = rate(link->Bps / (double)n_senders);
  g_string_append_printf(text, "; uplink %s, 1:%g of what comes up: %s per %s when all send", uplink, ratio, share,
                         sender);
}

/* "pod0 (one of 8): joins 3072 GPUs; uplink 21.94 TB/s, 1:7 of what comes up: 7.143 GB/s per GPU when all send" */
static char *describe_switch(const Topology *t, int vertex) {
  const Cluster *cluster = t->cluster;
  const TopologyVertex *at = &t->vertices[vertex];
  g_autofree char *name = topology_vertex_name(t, vertex);
  GString *text = g_string_new(name);
  gint64 n_gpus = gpus_below(t, at), n_nodes = n_gpus / cluster->gpus_per_node;
  gboolean is_rail = at->kind == VERTEX_LEAF && at->index >= 0;
  if (count_like(t, at) > 1)
    g_string_append_printf(text, " (one of %d)", count_like(t, at));
  if (is_rail)
    g_string_append_printf(text, ": NIC %d of each of %" G_GINT64_FORMAT " nodes", at->index, n_nodes);
  else if (n_gpus > 0)
    g_string_append_printf(text, ": joins %" G_GINT64_FORMAT " GPUs", n_gpus);
  const int link = topology_uplink(t, vertex, CABLE_NET);
  if (link >= 0)
    append_uplink(text, t, &t->links[link], is_rail ? n_nodes : n_gpus, is_rail ? "NIC" : "GPU");
  else
    g_string_append(text, n_gpus > 0 ? ", every port at full speed" : ": joins all, every port at full speed");
  return g_string_free(text, FALSE);
}

static void print_fabric(Tree *tree, const Topology *t) {
  const Cluster *cluster = t->cluster;
  if (cluster->nics_per_node == 0) {
    g_string_append(tree->out, "fabric: none, the node has no NICs\n");
    return;
  }
  int chain[CLUSTER_MAX_TIERS + 3], n = 0;
  for (int at = topology_vertex(t, VERTEX_NIC, 0, 0), link; (link = topology_uplink(t, at, CABLE_NET)) >= 0;
       at = t->links[link].b)
    chain[n++] = t->links[link].b;
  g_string_append(tree->out, "fabric, from the top; one of each level\n");
  for (int i = n - 1; i >= 0; i--) {
    g_autofree char *text = describe_switch(t, chain[i]);
    tree_line(tree, TRUE, text);
    tree_open(tree, TRUE);
  }
  g_autofree char *nic = rate(cluster->nic_Bps), *left = rate(cluster->nic_Bps * cluster->nic_efficiency);
  g_autofree char *text = g_strdup_printf("nic0 … of each node: %s, of which a large transfer reaches %s", nic, left);
  tree_line(tree, TRUE, text);
  tree_close(tree, 0);
}

/* The node. */

static void append_list(GString *text, const char *word, const int *numbers, int n) {
  for (int i = 0; i < n; i++)
    g_string_append_printf(text, "%s%s%d", i > 0 ? ", " : "", word, numbers[i]);
}

static char *served_by(const NodeTopology *node, int nic) {
  GString *text = g_string_new(NULL);
  g_autofree int *gpus = g_new(int, node->n_rails);
  int n = 0;
  for (int i = 0; i < node->n_rails; i++)
    if (node->rails[i].nic == nic)
      gpus[n++] = node->rails[i].gpu;
  g_string_append(text, n > 0 ? "serves " : "serves no GPU");
  append_list(text, "gpu", gpus, n);
  return g_string_free(text, FALSE);
}

static char *describe_gpu(const Cluster *cluster, int gpu) {
  const NodeTopology *node = &cluster->node;
  if (node->n_sockets == 0)
    return g_strdup_printf("gpu%d", gpu);
  g_autofree char *slot = rate(node->gpu_ports[gpu].Bps);
  return g_strdup_printf("gpu%d   %s", gpu, slot);
}

static char *describe_nic(const Cluster *cluster, int nic) {
  const NodeTopology *node = &cluster->node;
  g_autofree char *served = served_by(node, nic);
  g_autofree char *net = rate(cluster->nic_Bps);
  if (node->n_sockets == 0)
    return g_strdup_printf("nic%d   network %s, %s", nic, net, served);
  int n_served = 0, n_direct = 0;
  for (int i = 0; i < node->n_rails; i++)
    if (node->rails[i].nic == nic) {
      n_served++;
      n_direct += node_topology_is_gpudirect(node, node->rails[i].gpu, nic);
    }
  g_autofree char *slot = rate(node->nic_ports[nic].Bps);
  const char *how = n_direct == n_served ? " (GPUDirect)"
                    : n_direct == 0      ? " (through host memory)"
                                         : " (GPUDirect for those on its switches)";
  return g_strdup_printf("nic%d   %s; network %s, %s%s", nic, slot, net, served, n_served > 0 ? how : "");
}

typedef struct {
  int socket, pcie_switch; /* pcie_switch −1: the socket itself */
} Holder;

static gboolean holds(Holder holder, const PciePort *port) {
  return port->socket == holder.socket && port->pcie_switch == holder.pcie_switch;
}

static gboolean is_below(Holder holder, const PcieSwitch *below) {
  return below->socket == holder.socket && below->parent == holder.pcie_switch;
}

static int count_children(const NodeTopology *node, Holder holder) {
  int n = 0;
  for (int i = 0; i < node->n_switches; i++)
    n += is_below(holder, &node->switches[i]);
  for (int i = 0; i < node->n_gpus; i++)
    n += holds(holder, &node->gpu_ports[i]);
  for (int i = 0; i < node->n_nics; i++)
    n += holds(holder, &node->nic_ports[i]);
  return n;
}

static char *describe_pcie_switch(const Cluster *cluster, int index) {
  const NodeTopology *node = &cluster->node;
  const Holder holder = {node->switches[index].socket, index};
  g_autofree char *uplink = rate(node->switches[index].uplink_Bps);
  return g_strdup_printf("pcie%d   uplink %s, shared by %d below", index, uplink, count_children(node, holder));
}

static void print_holder(Tree *tree, const Cluster *cluster, Holder holder) {
  const NodeTopology *node = &cluster->node;
  int left = count_children(node, holder);
  for (int i = 0; i < node->n_switches; i++) {
    if (!is_below(holder, &node->switches[i]))
      continue;
    g_autofree char *text = describe_pcie_switch(cluster, i);
    tree_line(tree, --left == 0, text);
    gsize mark = tree_open(tree, left == 0);
    print_holder(tree, cluster, (Holder){holder.socket, i});
    tree_close(tree, mark);
  }
  for (int i = 0; i < node->n_gpus; i++)
    if (holds(holder, &node->gpu_ports[i])) {
      g_autofree char *text = describe_gpu(cluster, i);
      tree_line(tree, --left == 0, text);
    }
  for (int i = 0; i < node->n_nics; i++)
    if (holds(holder, &node->nic_ports[i])) {
      g_autofree char *text = describe_nic(cluster, i);
      tree_line(tree, --left == 0, text);
    }
}

static void print_pcie(Tree *tree, const Cluster *cluster) {
  const NodeTopology *node = &cluster->node;
  for (int socket = 0; socket < node->n_sockets; socket++) {
    g_autofree char *between = node->n_sockets > 1 ? rate(node->inter_socket_Bps) : NULL;
    g_autofree char *text = between != NULL ? g_strdup_printf("socket%d   to the other%s %s", socket,
                                                              node->n_sockets > 2 ? "s" : "", between)
                                            : g_strdup_printf("socket%d", socket);
    gboolean is_last = socket == node->n_sockets - 1;
    tree_line(tree, is_last, text);
    gsize mark = tree_open(tree, is_last);
    print_holder(tree, cluster, (Holder){socket, -1});
    tree_close(tree, mark);
  }
}

/* Without a PCIe tree: the NICs and whom they serve. */
static void print_rails(Tree *tree, const Cluster *cluster) {
  tree_line(tree, cluster->nics_per_node == 0, "PCIe tree not described: never the bottleneck");
  for (int nic = 0; nic < cluster->nics_per_node; nic++) {
    g_autofree char *text = describe_nic(cluster, nic);
    tree_line(tree, nic == cluster->nics_per_node - 1, text);
  }
}

static void print_pairs(Tree *tree, const Cluster *cluster) {
  const NodeTopology *node = &cluster->node;
  for (int gpu = 0; gpu < cluster->domain_gpus; gpu++) {
    g_autoptr(GString) text = g_string_new(NULL);
    for (int i = 0; i < node->n_pairs; i++) {
      const MeshPair *pair = &node->pairs[i];
      if (pair->a != gpu && pair->b != gpu)
        continue;
      g_autofree char *Bps = rate(pair->n_links * node->mesh_link_Bps);
      g_string_append_printf(text, "%sgpu%d %s", text->len > 0 ? ", " : "", pair->a == gpu ? pair->b : pair->a, Bps);
    }
    g_autofree char *line = g_strdup_printf("gpu%d to %s", gpu, text->len > 0 ? text->str : "none");
    tree_line(tree, gpu == cluster->domain_gpus - 1, line);
  }
}

static char *describe_scale_up(const Cluster *cluster) {
  static const char *const means[] = {[SCALE_UP_NVSWITCH] = "NVSwitch",
                                      [SCALE_UP_NVLINK_MESH] = "NVLinks from GPU to GPU",
                                      [SCALE_UP_PCIE] = "PCIe, no NVLink"};
  g_autofree char *Bps = rate(cluster->scale_up_Bps),
                  *left = rate(cluster->scale_up_Bps * cluster->scale_up_efficiency);
  g_autofree char *wide = cluster->domain_gpus > cluster->gpus_per_node
                              ? g_strdup_printf(", %d GPUs in %d nodes", cluster->domain_gpus,
                                                cluster->domain_gpus / cluster->gpus_per_node)
                              : g_strdup("");
  return g_strdup_printf("%s%s: %s per GPU, of which a large transfer reaches %s", means[cluster->scale_up], wide, Bps,
                         left);
}

static void print_node(Tree *tree, const Topology *t) {
  const Cluster *cluster = t->cluster;
  g_string_append_printf(tree->out, "node: %d × %s, %d NIC%s\n", cluster->gpus_per_node, cluster->gpu.name,
                         cluster->nics_per_node, cluster->nics_per_node == 1 ? "" : "s");
  g_autofree char *scale_up = describe_scale_up(cluster);
  tree_line(tree, FALSE, scale_up);
  if (cluster->node.n_pairs > 0) {
    gsize mark = tree_open(tree, FALSE);
    print_pairs(tree, cluster);
    tree_close(tree, mark);
  }
  if (cluster->node.n_sockets > 0)
    print_pcie(tree, cluster);
  else
    print_rails(tree, cluster);
}

/* What differs, totals, findings. */

static void print_wiring(GString *out, const Cluster *cluster) {
  if (cluster->wiring == NULL)
    return;
  const char *what = cluster->wiring->no_path != NULL ? cluster->wiring->no_path : cluster->wiring->text;
  g_string_append_printf(out, "what costs take of the node's wiring: %s\n", what);
}

static void print_exceptions(GString *out, const Topology *t) {
  const Cluster *cluster = t->cluster;
  for (guint i = 0; cluster->other_gpus != NULL && i < cluster->other_gpus->len; i++) {
    const GpuRange *range = &g_array_index(cluster->other_gpus, GpuRange, i);
    g_string_append_printf(out,
                           "nodes %d to %d: %s instead of %s; where they work together the slower one sets the pace\n",
                           range->first_node, range->last_node, range->gpu.name, cluster->gpu.name);
  }
  for (int i = 0; i < t->n_links; i++) {
    const TopologyLink *link = &t->links[i];
    if (link->factor == 1)
      continue;
    g_autofree char *a = topology_vertex_name(t, link->a), *b = topology_vertex_name(t, link->b);
    g_autofree char *left = rate(link->Bps * link->factor), *whole = rate(link->Bps);
    if (link->factor == 0)
      g_string_append_printf(out, "dead: %s - %s (%s)\n", a, b, cable_kind_name(link->kind));
    else
      g_string_append_printf(out, "degraded: %s - %s (%s) to %s of %s\n", a, b, cable_kind_name(link->kind), left,
                             whole);
  }
}

static void print_totals(GString *out, const Topology *t) {
  TopologyTotals totals = topology_totals(t);
  g_autofree char *scale_up = rate(totals.node_scale_up_Bps), *net = rate(totals.node_net_Bps),
                  *share = rate(totals.gpu_net_Bps), *bisection = rate(totals.bisection_Bps);
  g_string_append_printf(out, "%d GPUs in %d node%s; per direction: scale-up %s a node", t->n_gpus, t->n_nodes,
                         t->n_nodes == 1 ? "" : "s", scale_up);
  if (totals.node_net_Bps > 0)
    g_string_append_printf(out, ", network %s a node and %s a GPU", net, share);
  if (totals.bisection_Bps > 0)
    g_string_append_printf(out, ", %s between two halves", bisection);
  g_string_append_c(out, '\n');
  if (totals.gpu_net_Bps > 0 && t->cluster->gpus_per_node > 1)
    g_string_append_printf(out, "a GPU reaches its scale-up peers %.3g times as fast as the network\n",
                           t->cluster->scale_up_Bps / totals.gpu_net_Bps);
}

static void print_findings(GString *out, const GArray *findings) {
  for (guint i = 0; i < findings->len; i++) {
    const Finding *finding = &g_array_index(findings, Finding, i);
    g_string_append_printf(out, "%s: %s\n   %s\n", finding->is_error ? "error" : "warning", finding->what,
                           finding->advice);
  }
  if (findings->len == 0)
    g_string_append(out, "no mistakes found\n");
}

void topology_text(GString *out, const Topology *topology, const GArray *findings) {
  Tree tree = {out, g_string_new(NULL)};
  g_string_append_printf(out, "%s; bandwidths per direction, as specified; GB = 1e9 bytes\n\n",
                         topology->cluster->name);
  print_fabric(&tree, topology);
  g_string_append_c(out, '\n');
  print_node(&tree, topology);
  g_string_append_c(out, '\n');
  print_wiring(out, topology->cluster);
  print_exceptions(out, topology);
  print_totals(out, topology);
  print_findings(out, findings);
  g_string_free(tree.margin, TRUE);
}

static void print_way(GString *out, const Topology *t, const Route *route) {
  static const char *const ends[] = {"sender", "receiver"};
  if (!route->uses_net) {
    g_string_append(out, "inside the scale-up domain");
  } else {
    g_string_append(out, "over the network");
    for (int end = 0; end < 2; end++)
      g_string_append_printf(out, ", %s at the %s", route->is_staged[end] ? "staged through host memory" : "GPUDirect",
                             ends[end]);
  }
  if (route->peer >= 0) {
    g_autofree char *peer = topology_vertex_name(t, route->peer);
    g_string_append_printf(out, ", by way of %s", peer);
  }
  if (route->partner >= 0) {
    g_autofree char *partner = topology_vertex_name(t, route->partner);
    g_string_append_printf(out, " and %s", partner);
  }
  g_string_append_c(out, '\n');
}

void topology_text_route(GString *out, const Topology *t, const Route *route) {
  g_autofree char *from = topology_vertex_name(t, route->from), *to = topology_vertex_name(t, route->to);
  g_string_append_printf(out, "GPU %d (%s) to GPU %d (%s): ", route->from, from, route->to, to);
  if (route->n_hops == 0) {
    g_string_append(out, "the same GPU, no link is used\n");
    return;
  }
  print_way(out, t, route);
  g_string_append_printf(out, "  %-18s %-18s %-13s %13s %13s %12s\n", "from", "to", "link", "specified", "reached",
                         "latency");
  for (int i = 0; i < route->n_hops; i++) {
    const TopologyLink *link = &t->links[route->hops[i].link];
    g_autofree char *a = topology_vertex_name(t, route->hops[i].from), *b = topology_vertex_name(t, route->hops[i].to);
    g_autofree char *Bps = rate(link->Bps), *left = rate(topology_link_left_Bps(link)),
                    *latency = units_format(link->latency_s, UNIT_SECONDS);
    g_string_append_printf(out, "  %-18s %-18s %-13s %13s %13s %12s%s\n", a, b, cable_kind_name(link->kind), Bps, left,
                           latency, i == route->bottleneck ? "  ← bottleneck" : "");
  }
  g_autofree char *left = rate(route->left_Bps), *latency = units_format(route->latency_s, UNIT_SECONDS);
  g_string_append_printf(out, "  one transfer alone: %s, after %s (software included)\n", left, latency);
}

/* --- totals ------------------------------------------------------------------------------------------------------ */

/* A cut through the middle of the cluster goes through half of the links of every level; the level with the least in
 * all is what two halves have between them. */

/* Links of the level above a NIC, a leaf or a tier's block, all of the level together. */
static int level_of(const Topology *t, const TopologyLink *link) {
  const TopologyVertex *below = &t->vertices[link->a];
  return below->kind == VERTEX_NIC ? 0 : below->kind == VERTEX_LEAF ? 1 : 2 + below->owner;
}

static double bisection_Bps(const Topology *t) {
  double level_Bps[CLUSTER_MAX_TIERS + 3] = {0};
  for (int i = 0; i < t->n_links; i++) {
    const TopologyLink *link = &t->links[i];
    if (link->kind == CABLE_NET)
      level_Bps[level_of(t, link)] += link->Bps * link->factor;
  }
  double least_Bps = INFINITY;
  for (gsize i = 0; i < G_N_ELEMENTS(level_Bps); i++)
    if (level_Bps[i] > 0)
      least_Bps = MIN(least_Bps, level_Bps[i]);
  return isinf(least_Bps) ? 0 : least_Bps / 2;
}

TopologyTotals topology_totals(const Topology *t) {
  const Cluster *cluster = t->cluster;
  double node_net_Bps = cluster->nics_per_node * cluster->nic_Bps;
  return (TopologyTotals){.node_scale_up_Bps = cluster->gpus_per_node * cluster->scale_up_Bps,
                          .node_net_Bps = node_net_Bps,
                          .gpu_net_Bps = node_net_Bps / cluster->gpus_per_node,
                          .bisection_Bps = t->n_nodes > 1 ? bisection_Bps(t) : 0};
}
