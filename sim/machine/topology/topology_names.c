/* Names are built from a vertex's kind, owner and index, and parsed back into them; vertices are sorted by the
 * three. */
#include <stdlib.h>
#include <string.h>

#include "suggest.h"
#include "topology.h"

enum { MAX_CANDIDATES = 512 };

static const char *const kind_names[N_VERTEX_KINDS] = {
    [VERTEX_GPU] = "GPU",           [VERTEX_NIC] = "NIC",           [VERTEX_PCIE_SWITCH] = "PCIe switch",
    [VERTEX_SOCKET] = "CPU socket", [VERTEX_NVSWITCH] = "NVSwitch", [VERTEX_LEAF] = "leaf switch",
    [VERTEX_TIER] = "switch tier"};
static const char *const cable_names[N_CABLE_KINDS] = {
    [CABLE_NVLINK] = "NVLink", [CABLE_PCIE] = "PCIe", [CABLE_SOCKETS] = "inter-socket", [CABLE_NET] = "network"};
/* after "node3/" */
static const char *const in_node[N_VERTEX_KINDS] = {
    [VERTEX_GPU] = "gpu", [VERTEX_NIC] = "nic", [VERTEX_PCIE_SWITCH] = "pcie", [VERTEX_SOCKET] = "socket"};

const char *vertex_kind_name(VertexKind kind) {
  return kind_names[kind];
}

const char *cable_kind_name(CableKind kind) {
  return cable_names[kind];
}

static char *tier_name(const Cluster *cluster, const TopologyVertex *vertex) {
  if (vertex->owner == cluster->n_tiers)
    return g_strdup("core");
  const char *name = cluster->tiers[vertex->owner].name;
  return name != NULL ? g_strdup_printf("%s%d", name, vertex->index)
                      : g_strdup_printf("tier%d.%d", vertex->owner, vertex->index);
}

static char *name_of(const Cluster *cluster, const TopologyVertex *vertex) {
  switch (vertex->kind) {
  case VERTEX_NVSWITCH:
    return g_strdup_printf("%s%d/nvswitch", cluster->domain_gpus > cluster->gpus_per_node ? "domain" : "node",
                           vertex->owner);
  case VERTEX_LEAF:
    return vertex->index < 0 ? g_strdup_printf("leaf%d", vertex->owner)
                             : g_strdup_printf("leaf%d.%d", vertex->owner, vertex->index);
  case VERTEX_TIER:
    return tier_name(cluster, vertex);
  default:
    return g_strdup_printf("node%d/%s%d", vertex->owner, in_node[vertex->kind], vertex->index);
  }
}

char *topology_vertex_name(const Topology *topology, int vertex) {
  return name_of(topology->cluster, &topology->vertices[vertex]);
}

/* Skip `word` and the number after it, which has no sign and no leading zeros. */
static gboolean take(const char **at, const char *word, int *number) {
  size_t length = strlen(word);
  const char *digits = *at + length;
  if (strncmp(*at, word, length) != 0 || !g_ascii_isdigit(*digits) || (*digits == '0' && g_ascii_isdigit(digits[1])))
    return FALSE;
  char *end;
  guint64 value = g_ascii_strtoull(digits, &end, 10);
  *number = (int)MIN(value, G_MAXINT);
  *at = end;
  return TRUE;
}

static gboolean take_end(const char *at, const char *word) {
  return strcmp(at, word) == 0;
}

static int count_in_node(const Cluster *cluster, VertexKind kind) {
  const NodeTopology *node = &cluster->node;
  const int counts[N_VERTEX_KINDS] = {
      [VERTEX_GPU] = cluster->gpus_per_node,
      [VERTEX_NIC] = cluster->nics_per_node,
      [VERTEX_PCIE_SWITCH] = cluster->scale_up == SCALE_UP_PCIE && node->n_sockets == 0 ? 1 : node->n_switches,
      [VERTEX_SOCKET] = node->n_sockets};
  return counts[kind];
}

static gboolean parse_in_node(const Cluster *cluster, const char *at, TopologyVertex *vertex) {
  gboolean is_wide = cluster->domain_gpus > cluster->gpus_per_node;
  if (take(&at, is_wide ? "domain" : "node", &vertex->owner) && take_end(at, "/nvswitch")) {
    vertex->kind = VERTEX_NVSWITCH;
    return cluster->scale_up == SCALE_UP_NVSWITCH;
  }
  return FALSE;
}

static gboolean parse_device(const Cluster *cluster, const char *at, TopologyVertex *vertex) {
  if (!take(&at, "node", &vertex->owner) || *at++ != '/')
    return FALSE;
  for (VertexKind kind = 0; kind < N_VERTEX_KINDS; kind++) {
    const char *rest = at;
    if (in_node[kind] == NULL || !take(&rest, in_node[kind], &vertex->index))
      continue;
    vertex->kind = kind;
    return *rest == '\0' && vertex->index < count_in_node(cluster, kind);
  }
  return FALSE;
}

static gboolean parse_leaf(const Cluster *cluster, const char *at, TopologyVertex *vertex) {
  if (!take(&at, "leaf", &vertex->owner) || cluster->nics_per_node == 0)
    return FALSE;
  vertex->kind = VERTEX_LEAF;
  vertex->index = -1;
  gboolean has_rails =
      cluster->leaves.n_nodes > 0 && cluster->leaves.kind == LEAVES_RAIL_OPTIMISED && cluster->nics_per_node > 1;
  if (has_rails && (!take(&at, ".", &vertex->index) || vertex->index >= cluster->nics_per_node))
    return FALSE;
  return *at == '\0';
}

static gboolean parse_tier(const Cluster *cluster, const char *name, TopologyVertex *vertex) {
  vertex->kind = VERTEX_TIER;
  if (strcmp(name, "core") == 0) {
    vertex->owner = cluster->n_tiers;
    return TRUE;
  }
  for (int tier = 0; tier < cluster->n_tiers; tier++) {
    g_autofree char *word =
        cluster->tiers[tier].name != NULL ? g_strdup(cluster->tiers[tier].name) : g_strdup_printf("tier%d.", tier);
    const char *at = name;
    vertex->owner = tier;
    if (take(&at, word, &vertex->index) && *at == '\0')
      return TRUE;
  }
  return FALSE;
}

static gboolean parse_name(const Cluster *cluster, const char *name, TopologyVertex *vertex) {
  gboolean (*const parsers[])(const Cluster *, const char *, TopologyVertex *) = {parse_in_node, parse_device,
                                                                                  parse_leaf, parse_tier};
  for (gsize i = 0; i < G_N_ELEMENTS(parsers); i++) {
    *vertex = (TopologyVertex){0};
    if (parsers[i](cluster, name, vertex))
      return TRUE;
  }
  return FALSE;
}

static int compare_vertices(const void *a, const void *b) {
  const TopologyVertex *x = a, *y = b;
  return x->kind != y->kind     ? (int)x->kind - (int)y->kind
         : x->owner != y->owner ? (x->owner > y->owner) - (x->owner < y->owner)
                                : (x->index > y->index) - (x->index < y->index);
}

int topology_vertex(const Topology *t, VertexKind kind, int owner, int index) {
  const TopologyVertex key = {kind, owner, index};
  const TopologyVertex *found = bsearch(&key, t->vertices, t->n_vertices, sizeof key, compare_vertices);
  return found != NULL ? (int)(found - t->vertices) : -1;
}

int topology_find_vertex(const Topology *t, const char *name) {
  TopologyVertex key;
  return parse_name(t->cluster, name, &key) ? topology_vertex(t, key.kind, key.owner, key.index) : -1;
}

/* Every GPU has a link, so if the file states no number of GPUs, the limit on links is also one on GPUs. */
static gint64 most_gpus(const Cluster *cluster) {
  gint64 n = cluster->max_gpus > 0 ? cluster->max_gpus : TOPOLOGY_MOST_LINKS;
  if (cluster->nics_per_node == 0)
    n = MIN(n, cluster->domain_gpus);
  return ((n - 1) / cluster->gpus_per_node + 1) * cluster->gpus_per_node; /* whole nodes */
}

/* Leaves that are not described exist, one per node, below a first tier with less bandwidth than the NICs. */
static gint64 gpus_of_leaf(const Cluster *cluster) {
  if (cluster->leaves.n_nodes > 0)
    return (gint64)cluster->leaves.n_nodes * cluster->gpus_per_node;
  return cluster->n_tiers > 0 && cluster->tiers[0].oversubscription > 1 ? cluster->gpus_per_node : G_MAXINT64;
}

gboolean topology_name_is_valid(const Cluster *cluster, const char *name) {
  TopologyVertex vertex;
  if (!parse_name(cluster, name, &vertex))
    return FALSE;
  const gint64 n_gpus = most_gpus(cluster), leaf_gpus = gpus_of_leaf(cluster);
  switch (vertex.kind) {
  case VERTEX_NVSWITCH:
    return (gint64)vertex.owner * cluster->domain_gpus < n_gpus;
  case VERTEX_LEAF:
    return leaf_gpus < G_MAXINT64 && vertex.owner <= (n_gpus - 1) / leaf_gpus;
  case VERTEX_TIER:
    if (cluster->nics_per_node == 0)
      return FALSE;
    return vertex.owner < cluster->n_tiers
               ? vertex.index <= (n_gpus - 1) / cluster->tiers[vertex.owner].span_gpus
               : cluster->n_tiers == 0 || cluster->tiers[cluster->n_tiers - 1].span_gpus < n_gpus;
  default:
    return (gint64)vertex.owner * cluster->gpus_per_node < n_gpus;
  }
}

/* The vertices of the node that the name begins with, and those of the fabric. */
static GPtrArray *candidates(const Topology *t, const char *name) {
  GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
  int node = 0;
  const char *at = name;
  if (!take(&at, "node", &node) || node >= t->n_nodes)
    node = 0;
  for (int v = 0; v < t->n_vertices && names->len < MAX_CANDIDATES; v++)
    if (t->vertices[v].kind >= VERTEX_NVSWITCH || t->vertices[v].owner == node)
      g_ptr_array_add(names, topology_vertex_name(t, v));
  g_ptr_array_add(names, NULL);
  return names;
}

char *topology_name_advice(const Topology *t, const char *name) {
  TopologyVertex beyond;
  if (parse_name(t->cluster, name, &beyond))
    return g_strdup_printf("expected a device or switch that %s has with %" G_GINT64_FORMAT " GPUs", t->cluster->name,
                           most_gpus(t->cluster));
  g_autoptr(GPtrArray) names = candidates(t, name);
  const char *near = suggest_nearest(name, (const char *const *)names->pdata);
  return near != NULL ? g_strdup_printf("expected a device or switch such as node0/gpu0; did you mean \"%s\"?", near)
                      : g_strdup_printf("expected a device or switch such as %s, %s, node3/gpu1",
                                        (const char *)names->pdata[0], (const char *)names->pdata[names->len - 2]);
}
