/* Vertices and links are flat arrays in the order they were added; arcs are kept per vertex as they come, so that a
 * network may be looked at while it is built. */
#include "network.h"

#include "error.h"

#include <math.h>

typedef struct {
  GArray *out, *into; /* NetArc; owned */
} Ends;

struct Network {
  GArray *vertices; /* NetVertex */
  GArray *links;    /* NetLink */
  GArray *ends;     /* Ends, per vertex */
  GPtrArray *nodes; /* GArray of gint32: vertices of node − 1, so the fabric is first */
  GHashTable *by_name;
};

static void free_members(gpointer members) {
  g_array_free(members, TRUE);
}

Network *network_new(void) {
  Network *network = g_new0(Network, 1);
  network->vertices = g_array_new(FALSE, FALSE, sizeof(NetVertex));
  network->links = g_array_new(FALSE, FALSE, sizeof(NetLink));
  network->ends = g_array_new(FALSE, FALSE, sizeof(Ends));
  network->nodes = g_ptr_array_new_with_free_func(free_members);
  network->by_name = g_hash_table_new(g_str_hash, g_str_equal); /* names belong to the vertices */
  g_ptr_array_add(network->nodes, g_array_new(FALSE, FALSE, sizeof(gint32)));
  return network;
}

void network_free(Network *network) {
  if (network == NULL)
    return;
  g_hash_table_unref(network->by_name);
  for (guint i = 0; i < network->vertices->len; i++) {
    g_free(g_array_index(network->vertices, NetVertex, i).name);
    g_array_free(g_array_index(network->ends, Ends, i).out, TRUE);
    g_array_free(g_array_index(network->ends, Ends, i).into, TRUE);
  }
  for (guint i = 0; i < network->links->len; i++)
    g_free(g_array_index(network->links, NetLink, i).name);
  g_array_free(network->vertices, TRUE);
  g_array_free(network->links, TRUE);
  g_array_free(network->ends, TRUE);
  g_ptr_array_unref(network->nodes);
  g_free(network);
}

gint32 network_add_vertex(Network *network, const char *name, NetKind kind, gint32 node) {
  g_assert(node >= NETWORK_FABRIC && kind < N_NET_KINDS);
  while (network->nodes->len <= (guint)(node + 1))
    g_ptr_array_add(network->nodes, g_array_new(FALSE, FALSE, sizeof(gint32)));
  GArray *members = g_ptr_array_index(network->nodes, node + 1);
  gint32 id = network->vertices->len, number = 0;
  for (guint i = members->len; i > 0; i--) { /* the last of its kind knows the number */
    const NetVertex *other = network_vertex(network, g_array_index(members, gint32, i - 1));
    if (other->kind == kind) {
      number = other->number + 1;
      break;
    }
  }
  NetVertex vertex = {g_strdup(name), kind, node, number, members->len};
  Ends ends = {g_array_new(FALSE, FALSE, sizeof(NetArc)), g_array_new(FALSE, FALSE, sizeof(NetArc))};
  g_array_append_val(members, id);
  g_array_append_val(network->vertices, vertex);
  g_array_append_val(network->ends, ends);
  if (!g_hash_table_contains(network->by_name, vertex.name))
    g_hash_table_insert(network->by_name, vertex.name, GINT_TO_POINTER(id));
  return id;
}

static gboolean check_cable(const Network *network, gint32 a, gint32 b, const NetCable *cable, GError **error) {
  gint32 n = network_n_vertices(network);
  const char *name = cable->name != NULL ? cable->name : "unnamed";
  if (a < 0 || a >= n || b < 0 || b >= n)
    return fail_input(error, "link %s: joins vertices %d and %d, expected 0 … %d", name, a, b, n - 1);
  if (a == b)
    return fail_input(error, "link %s: joins %s to itself", name, network_vertex(network, a)->name);
  if (!(cable->bandwidth_Bps > 0))
    return fail_input(error, "link %s: bandwidth is %g B/s, expected > 0", name, cable->bandwidth_Bps);
  if (!(cable->latency_s >= 0 && cable->latency_s <= 1))
    return fail_input(error, "link %s: latency is %g s, expected 0 … 1", name, cable->latency_s);
  if (!(cable->factor >= 0 && cable->factor <= 1))
    return fail_input(error, "link %s: factor is %g, expected 0 (dead) … 1 (sound)", name, cable->factor);
  return TRUE;
}

static void add_arc(Network *network, gint32 from, gint32 to, gint32 link) {
  NetArc out = {link, to}, into = {link, from};
  g_array_append_val(g_array_index(network->ends, Ends, from).out, out);
  g_array_append_val(g_array_index(network->ends, Ends, to).into, into);
}

static gint32 add_one(Network *network, gint32 a, gint32 b, const NetCable *cable, gboolean is_both_ways) {
  gint32 id = network->links->len;
  NetLink link = {NULL, a, b, cable->factor > 0 ? cable->bandwidth_Bps * cable->factor : 0.0,
                  ticks_of_s(cable->latency_s)};
  link.name = cable->name != NULL ? g_strdup(cable->name)
                                  : g_strdup_printf("%s%s%s", network_vertex(network, a)->name,
                                                    is_both_ways ? "-" : ">", network_vertex(network, b)->name);
  g_array_append_val(network->links, link);
  if (link.capacity_Bps > 0) {
    add_arc(network, a, b, id);
    if (is_both_ways)
      add_arc(network, b, a, id);
  }
  return id;
}

gint32 network_add_link(Network *network, gint32 a, gint32 b, const NetCable *cable, GError **error) {
  if (!check_cable(network, a, b, cable, error))
    return -1;
  gint32 link = add_one(network, a, b, cable, cable->duplex == DUPLEX_SHARED);
  if (cable->duplex == DUPLEX_FULL)
    add_one(network, b, a, cable, FALSE);
  return link;
}

gint32 network_n_vertices(const Network *network) {
  return network->vertices->len;
}

gint32 network_n_links(const Network *network) {
  return network->links->len;
}

const NetVertex *network_vertex(const Network *network, gint32 vertex) {
  g_assert(vertex >= 0 && (guint)vertex < network->vertices->len);
  return &g_array_index(network->vertices, NetVertex, vertex);
}

const NetLink *network_link(const Network *network, gint32 link) {
  g_assert(link >= 0 && (guint)link < network->links->len);
  return &g_array_index(network->links, NetLink, link);
}

gint32 network_find_vertex(const Network *network, const char *name) {
  gpointer id;
  return g_hash_table_lookup_extended(network->by_name, name, NULL, &id) ? GPOINTER_TO_INT(id) : -1;
}

const NetArc *network_arcs(const Network *network, gint32 vertex, gboolean is_into, gint32 *n_arcs) {
  const Ends *ends = &g_array_index(network->ends, Ends, vertex);
  const GArray *arcs = is_into ? ends->into : ends->out;
  *n_arcs = arcs->len;
  return (const NetArc *)arcs->data;
}

const gint32 *network_members(const Network *network, gint32 node, gint32 *n_members) {
  const GArray *members = g_ptr_array_index(network->nodes, node + 1);
  *n_members = members->len;
  return (const gint32 *)members->data;
}
