/* Vertices come first, by kind in the order of VertexKind, then owner and index, so that a vertex is found by
 * bisection; then links, from the inside of each node outwards; then the links of each vertex, as one flat list.
 *
 * Uplinks of the fabric follow from one number, the bandwidth out of a block per GPU in it: the GPU's share of its
 * node's NICs, divided by the oversubscription of every tier on the way up. A whole block of `span` GPUs then has an
 * uplink of span × that. */
#include "topology.h"

#include <math.h>
#include <stdlib.h>

#include "error.h"
#include "suggest.h"

typedef struct {
  Topology *topology;
  const Cluster *cluster;
  GArray *vertices; /* of TopologyVertex */
  GArray *links;    /* of TopologyLink */
  int n_domains, n_groups;
  int nodes_per_domain, nodes_per_group, leaves_per_group; /* per_group 0: no leaves */
  int n_levels;                                            /* tiers, plus a core if they do not join everything */
  int first[N_VERTEX_KINDS];
  int first_block[CLUSTER_MAX_TIERS + 1];
} Builder;

/* Vertices. */

static void add_vertices(Builder *b, VertexKind kind, int n_owners, int per_owner, int first_index) {
  for (int owner = 0; owner < n_owners; owner++)
    for (int i = 0; i < per_owner; i++) {
      TopologyVertex vertex = {kind, owner, first_index + i};
      g_array_append_val(b->vertices, vertex);
    }
}

static gboolean has_hub(const Cluster *cluster) {
  return cluster->scale_up == SCALE_UP_PCIE && cluster->node.n_sockets == 0;
}

/* Domains on PCIe without a described tree meet in one switch, which is placed in the domain's first node. */
static void add_pcie_switches(Builder *b) {
  if (!has_hub(b->cluster)) {
    add_vertices(b, VERTEX_PCIE_SWITCH, b->topology->n_nodes, b->cluster->node.n_switches, 0);
    return;
  }
  for (int domain = 0; domain < b->n_domains; domain++) {
    TopologyVertex vertex = {VERTEX_PCIE_SWITCH, domain * b->nodes_per_domain, 0};
    g_array_append_val(b->vertices, vertex);
  }
}

static gint64 span_of(const Builder *b, int level) {
  return level < b->cluster->n_tiers ? b->cluster->tiers[level].span_gpus : G_MAXINT64;
}

static void add_tiers(Builder *b) {
  for (int level = 0; level < b->n_levels; level++) {
    b->first_block[level] = (int)b->vertices->len;
    int n_blocks = (int)((b->topology->n_gpus - 1) / span_of(b, level)) + 1;
    for (int block = 0; block < n_blocks; block++) {
      TopologyVertex vertex = {VERTEX_TIER, level, block};
      g_array_append_val(b->vertices, vertex);
    }
  }
}

static void add_all_vertices(Builder *b) {
  const Cluster *cluster = b->cluster;
  int n_nodes = b->topology->n_nodes;
  for (VertexKind kind = 0; kind < N_VERTEX_KINDS; kind++) {
    b->first[kind] = (int)b->vertices->len;
    switch (kind) {
    case VERTEX_GPU:
      add_vertices(b, kind, n_nodes, cluster->gpus_per_node, 0);
      break;
    case VERTEX_NIC:
      add_vertices(b, kind, n_nodes, cluster->nics_per_node, 0);
      break;
    case VERTEX_PCIE_SWITCH:
      add_pcie_switches(b);
      break;
    case VERTEX_SOCKET:
      add_vertices(b, kind, n_nodes, cluster->node.n_sockets, 0);
      break;
    case VERTEX_NVSWITCH:
      add_vertices(b, kind, b->n_domains, cluster->scale_up == SCALE_UP_NVSWITCH, 0);
      break;
    case VERTEX_LEAF:
      add_vertices(b, kind, b->n_groups, b->leaves_per_group, b->leaves_per_group > 1 ? 0 : -1);
      break;
    case VERTEX_TIER:
      add_tiers(b);
      break;
    case N_VERTEX_KINDS:
      break;
    }
  }
}

/* Links. */

static void add_link(Builder *b, int from, int to, CableKind kind, int n_parallel, double Bps, double efficiency,
                     double latency_s) {
  TopologyLink link = {from, to, kind, n_parallel, Bps, efficiency, latency_s, 1};
  g_array_append_val(b->links, link);
}

static int gpu_of(const Builder *b, int node, int gpu) {
  return node * b->cluster->gpus_per_node + gpu;
}

static int nic_of(const Builder *b, int node, int nic) {
  return b->first[VERTEX_NIC] + node * b->cluster->nics_per_node + nic;
}

static void add_mesh(Builder *b, int domain) {
  const Cluster *cluster = b->cluster;
  const NodeTopology *node = &cluster->node;
  int n = cluster->domain_gpus, base = domain * n, end = MIN(base + n, b->topology->n_gpus);
  for (int i = 0; i < node->n_pairs; i++)
    if (base + node->pairs[i].b < end)
      add_link(b, base + node->pairs[i].a, base + node->pairs[i].b, CABLE_NVLINK, node->pairs[i].n_links,
               node->mesh_link_Bps * node->pairs[i].n_links, cluster->scale_up_efficiency, cluster->scale_up_latency_s);
  for (int from = base; from < end && node->n_pairs == 0; from++)
    for (int to = from + 1; to < end; to++)
      add_link(b, from, to, CABLE_NVLINK, 0, cluster->scale_up_Bps / (n - 1), cluster->scale_up_efficiency,
               cluster->scale_up_latency_s);
}

/* GPUs to the central switch: NVSwitches, or the PCIe switch that stands for an unknown tree. */
static void add_star(Builder *b, int domain, int hub, CableKind kind) {
  const Cluster *cluster = b->cluster;
  int base = domain * cluster->domain_gpus, end = MIN(base + cluster->domain_gpus, b->topology->n_gpus);
  for (int gpu = base; gpu < end; gpu++)
    add_link(b, gpu, hub, kind, 0, cluster->scale_up_Bps, cluster->scale_up_efficiency,
             cluster->scale_up_latency_s / 2);
  for (int node = base / cluster->gpus_per_node; kind == CABLE_PCIE && node < end / cluster->gpus_per_node; node++)
    for (int nic = 0; nic < cluster->nics_per_node; nic++)
      add_link(b, nic_of(b, node, nic), hub, kind, 0, INFINITY, 1, 0);
}

static void add_scale_up(Builder *b) {
  for (int domain = 0; domain < b->n_domains; domain++)
    if (b->cluster->scale_up == SCALE_UP_NVLINK_MESH)
      add_mesh(b, domain);
    else if (b->cluster->scale_up == SCALE_UP_NVSWITCH)
      add_star(b, domain, b->first[VERTEX_NVSWITCH] + domain, CABLE_NVLINK);
    else if (has_hub(b->cluster))
      add_star(b, domain, b->first[VERTEX_PCIE_SWITCH] + domain, CABLE_PCIE);
}

static int plug_of(const Builder *b, int node, const PciePort *port) {
  const NodeTopology *inside = &b->cluster->node;
  return port->pcie_switch >= 0 ? b->first[VERTEX_PCIE_SWITCH] + node * inside->n_switches + port->pcie_switch
                                : b->first[VERTEX_SOCKET] + node * inside->n_sockets + port->socket;
}

static void add_pcie_tree(Builder *b, int node) {
  const Cluster *cluster = b->cluster;
  const NodeTopology *inside = &cluster->node;
  double scale_up_s = cluster->scale_up == SCALE_UP_PCIE ? cluster->scale_up_latency_s / 2 : 0;
  double latency_s = inside->pcie_latency_s >= 0 ? inside->pcie_latency_s : scale_up_s;
  double efficiency = inside->pcie_efficiency;
  for (int gpu = 0; gpu < inside->n_gpus; gpu++)
    add_link(b, gpu_of(b, node, gpu), plug_of(b, node, &inside->gpu_ports[gpu]), CABLE_PCIE, 0,
             inside->gpu_ports[gpu].Bps, efficiency, latency_s);
  for (int nic = 0; nic < inside->n_nics; nic++)
    add_link(b, nic_of(b, node, nic), plug_of(b, node, &inside->nic_ports[nic]), CABLE_PCIE, 0,
             inside->nic_ports[nic].Bps, efficiency, 0);
  for (int i = 0; i < inside->n_switches; i++) {
    const PciePort above = {inside->switches[i].socket, inside->switches[i].parent, 0};
    add_link(b, b->first[VERTEX_PCIE_SWITCH] + node * inside->n_switches + i, plug_of(b, node, &above), CABLE_PCIE, 0,
             inside->switches[i].uplink_Bps, efficiency, 0);
  }
  int socket = b->first[VERTEX_SOCKET] + node * inside->n_sockets;
  for (int i = 0; i < inside->n_sockets; i++)
    for (int j = i + 1; j < inside->n_sockets; j++)
      add_link(b, socket + i, socket + j, CABLE_SOCKETS, 0, inside->inter_socket_Bps, efficiency, 0);
}

static void add_insides(Builder *b) {
  const NodeTopology *inside = &b->cluster->node;
  gboolean is_unknown = inside->n_sockets == 0 && !has_hub(b->cluster);
  for (int node = 0; node < b->topology->n_nodes; node++) {
    if (inside->n_sockets > 0)
      add_pcie_tree(b, node);
    for (int i = 0; i < inside->n_rails && is_unknown; i++)
      add_link(b, gpu_of(b, node, inside->rails[i].gpu), nic_of(b, node, inside->rails[i].nic), CABLE_PCIE, 0, INFINITY,
               1, 0);
  }
}

static int block_of(const Builder *b, int level, gint64 gpu) {
  return b->first_block[level] + (int)(gpu / span_of(b, level));
}

static double tier_latency_s(const Builder *b, int level) {
  return level < b->cluster->n_tiers ? b->cluster->tiers[level].latency_s : 0;
}

static double oversubscription(const Builder *b, int level) {
  return level < b->cluster->n_tiers ? b->cluster->tiers[level].oversubscription : 1;
}

static int leaf_of(const Builder *b, int node, int nic) {
  int group = node / b->nodes_per_group;
  return b->first[VERTEX_LEAF] + group * b->leaves_per_group + (b->leaves_per_group > 1 ? nic : 0);
}

static void add_nics(Builder *b) {
  const Cluster *cluster = b->cluster;
  double above_s = b->leaves_per_group > 0 ? cluster->leaves.latency_s : tier_latency_s(b, 0);
  for (int node = 0; node < b->topology->n_nodes; node++)
    for (int nic = 0; nic < cluster->nics_per_node; nic++)
      add_link(b, nic_of(b, node, nic),
               b->leaves_per_group > 0 ? leaf_of(b, node, nic) : block_of(b, 0, gpu_of(b, node, 0)), CABLE_NET, 1,
               cluster->nic_Bps, cluster->nic_efficiency, (cluster->nic_latency_s + above_s) / 2);
}

/* Half of the latency of climbing to a switch and down again is on the way up, half on the way down. */
static void add_uplink(Builder *b, int from, int to, double Bps, double latency_s) {
  add_link(b, from, to, CABLE_NET, 0, Bps, b->cluster->nic_efficiency, latency_s / 2);
}

static void add_fabric(Builder *b) {
  const Cluster *cluster = b->cluster;
  double per_gpu_Bps = cluster->nics_per_node * cluster->nic_Bps / cluster->gpus_per_node;
  add_nics(b);
  if (b->leaves_per_group > 0) {
    double node_Bps = per_gpu_Bps * cluster->gpus_per_node / oversubscription(b, 0);
    for (int i = 0; i < b->n_groups * b->leaves_per_group; i++) {
      gint64 gpu = (gint64)(i / b->leaves_per_group) * b->nodes_per_group * cluster->gpus_per_node;
      add_uplink(b, b->first[VERTEX_LEAF] + i, block_of(b, 0, gpu), node_Bps * b->nodes_per_group / b->leaves_per_group,
                 tier_latency_s(b, 0));
    }
    per_gpu_Bps /= oversubscription(b, 0);
  }
  for (int level = 0; level + 1 < b->n_levels; level++) {
    per_gpu_Bps /= oversubscription(b, level + 1);
    gint64 span = span_of(b, level);
    for (int block = b->first_block[level]; block < b->first_block[level + 1]; block++)
      add_uplink(b, block, block_of(b, level + 1, (block - b->first_block[level]) * span), per_gpu_Bps * (double)span,
                 tier_latency_s(b, level + 1));
  }
}

/* Ends: a counting sort of the links by vertex. */
static void index_ends(Topology *t) {
  t->first_end = g_new0(int, t->n_vertices + 1);
  t->link_ends = g_new(int, 2 * (gsize)t->n_links);
  for (int i = 0; i < t->n_links; i++) {
    t->first_end[t->links[i].a]++;
    t->first_end[t->links[i].b]++;
  }
  int sum = 0;
  for (int v = 0; v <= t->n_vertices; v++) {
    sum += t->first_end[v];
    t->first_end[v] = sum;
  }
  for (int i = t->n_links - 1; i >= 0; i--) {
    t->link_ends[--t->first_end[t->links[i].a]] = i;
    t->link_ends[--t->first_end[t->links[i].b]] = i;
  }
}

/* Faults. */

static gboolean fail_fault(const Topology *t, const LinkFault *fault, const char *name, GError **error) {
  if (topology_name_is_valid(t->cluster, name))
    return TRUE; /* in a node beyond those built */
  g_autofree char *expected = topology_name_advice(t, name);
  return fail_input(error, "%s:%d: faults: found \"%.80s\", %s", t->cluster->file, fault->line, name, expected);
}

/* A link takes the worst of its factors. */
static void wear(TopologyLink *link, double factor) {
  link->factor = MIN(link->factor, factor);
}

static gboolean apply_fault(Topology *t, const LinkFault *fault, GError **error) {
  int a = topology_find_vertex(t, fault->a), b = fault->b != NULL ? topology_find_vertex(t, fault->b) : a;
  if (a < 0 || b < 0)
    return (a >= 0 || fail_fault(t, fault, fault->a, error)) &&
           (b >= 0 || fault->b == NULL || fail_fault(t, fault, fault->b, error));
  if (fault->b == NULL) {
    for (int i = t->first_end[a]; i < t->first_end[a + 1]; i++)
      wear(&t->links[t->link_ends[i]], fault->factor);
    return TRUE;
  }
  int link = topology_find_link(t, a, b);
  if (link < 0)
    return fail_input(error, "%s:%d: faults: found no link between %s and %s", t->cluster->file, fault->line, fault->a,
                      fault->b);
  wear(&t->links[link], fault->factor);
  return TRUE;
}

static gboolean apply_faults(Topology *t, GError **error) {
  const GArray *faults = t->cluster->faults;
  for (guint i = 0; faults != NULL && i < faults->len; i++)
    if (!apply_fault(t, &g_array_index(faults, LinkFault, i), error))
      return FALSE;
  return TRUE;
}

/* Sizes. */

static gboolean check_size(const Cluster *cluster, gint64 n_gpus, GError **error) {
  if (n_gpus < 1 || (cluster->max_gpus > 0 && n_gpus > cluster->max_gpus))
    return fail_impossible(error, "%" G_GINT64_FORMAT " GPUs are beyond %s, which has %" G_GINT64_FORMAT, n_gpus,
                           cluster->name, cluster->max_gpus);
  if (cluster->nics_per_node == 0 && n_gpus > cluster->domain_gpus)
    return fail_impossible(error,
                           "%" G_GINT64_FORMAT " GPUs are beyond %s: its %d are linked, but it has no NICs to others",
                           n_gpus, cluster->name, cluster->domain_gpus);
  const NodeTopology *node = &cluster->node;
  double per_node =
      2.0 * (node->n_gpus + node->n_nics) + node->n_rails + node->n_switches + node->n_sockets * node->n_sockets;
  double pairs = cluster->scale_up != SCALE_UP_NVLINK_MESH ? 0
                 : node->n_pairs > 0                       ? node->n_pairs
                                                           : cluster->domain_gpus * (cluster->domain_gpus - 1.0) / 2;
  double n_links =
      (double)n_gpus / cluster->gpus_per_node * per_node + ((double)n_gpus / cluster->domain_gpus + 1) * pairs;
  return n_links <= TOPOLOGY_MOST_LINKS ||
         fail_impossible(error, "%" G_GINT64_FORMAT " GPUs of %s have about %.0f links, expected at most %d", n_gpus,
                         cluster->name, n_links, TOPOLOGY_MOST_LINKS);
}

/* Leaves are described, or implied, one per node, by a first tier with less bandwidth than the NICs. */
static void set_leaves(Builder *b) {
  const Cluster *cluster = b->cluster;
  gboolean is_implied = cluster->leaves.n_nodes == 0 && cluster->n_tiers > 0 && oversubscription(b, 0) > 1;
  b->nodes_per_group = is_implied ? 1 : cluster->leaves.n_nodes;
  if (cluster->nics_per_node == 0 || b->nodes_per_group == 0)
    return;
  b->leaves_per_group = is_implied || cluster->leaves.kind == LEAVES_CLASSIC ? 1 : cluster->nics_per_node;
  b->n_groups = (b->topology->n_nodes - 1) / b->nodes_per_group + 1;
}

static void set_sizes(Builder *b, gint64 n_gpus) {
  const Cluster *cluster = b->cluster;
  Topology *t = b->topology;
  t->n_nodes = (int)((n_gpus - 1) / cluster->gpus_per_node) + 1;
  t->n_gpus = t->n_nodes * cluster->gpus_per_node;
  b->n_domains = (t->n_gpus - 1) / cluster->domain_gpus + 1;
  b->nodes_per_domain = cluster->domain_gpus / cluster->gpus_per_node;
  set_leaves(b);
  if (cluster->nics_per_node == 0)
    return;
  gboolean is_joined = cluster->n_tiers > 0 && span_of(b, cluster->n_tiers - 1) >= t->n_gpus;
  b->n_levels = cluster->n_tiers + !is_joined;
}

Topology *topology_new(const Cluster *cluster, gint64 n_gpus, GError **error) {
  if (!check_size(cluster, n_gpus, error))
    return NULL;
  g_autoptr(Topology) t = g_new0(Topology, 1);
  t->cluster = cluster;
  Builder b = {.topology = t,
               .cluster = cluster,
               .vertices = g_array_new(FALSE, FALSE, sizeof(TopologyVertex)),
               .links = g_array_new(FALSE, FALSE, sizeof(TopologyLink))};
  set_sizes(&b, n_gpus);
  add_all_vertices(&b);
  add_scale_up(&b);
  add_insides(&b);
  if (cluster->nics_per_node > 0)
    add_fabric(&b);
  t->n_vertices = (int)b.vertices->len;
  t->n_links = (int)b.links->len;
  t->vertices = (TopologyVertex *)(void *)g_array_free(b.vertices, FALSE);
  t->links = (TopologyLink *)(void *)g_array_free(b.links, FALSE);
  index_ends(t);
  return apply_faults(t, error) ? g_steal_pointer(&t) : NULL;
}

void topology_free(Topology *topology) {
  if (topology == NULL)
    return;
  g_free(topology->vertices);
  g_free(topology->links);
  g_free(topology->first_end);
  g_free(topology->link_ends);
  g_free(topology);
}

double topology_link_left_Bps(const TopologyLink *link) {
  return link->factor > 0 ? link->Bps * link->efficiency * link->factor : 0; /* not 0 · ∞ */
}

int topology_far_end(const TopologyLink *link, int vertex) {
  return link->a == vertex ? link->b : link->a;
}

int topology_find_link(const Topology *t, int a, int b) {
  for (int i = t->first_end[a]; i < t->first_end[a + 1]; i++)
    if (topology_far_end(&t->links[t->link_ends[i]], a) == b)
      return t->link_ends[i];
  return -1;
}

int topology_uplink(const Topology *t, int vertex, CableKind kind) {
  for (int i = t->first_end[vertex]; i < t->first_end[vertex + 1]; i++) {
    const TopologyLink *link = &t->links[t->link_ends[i]];
    if (link->a == vertex && link->kind == kind)
      return t->link_ends[i];
  }
  return -1;
}
