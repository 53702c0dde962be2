/* Vertices and links are flat arrays in the order they were added. */
#include "network.h"

#include "error.h"

#include <math.h>

struct Network {
  GArray *vertices; /* NetVertex */
  GArray *links;    /* NetLink */
};

Network *network_new(void) {
  Network *network = g_new(Network, 1);
  network->vertices = g_array_new(FALSE, FALSE, sizeof(NetVertex));
  network->links = g_array_new(FALSE, FALSE, sizeof(NetLink));
  return network;
}

void network_free(Network *network) {
  if (network == NULL)
    return;
  for (guint i = 0; i < network->vertices->len; i++)
    g_free(g_array_index(network->vertices, NetVertex, i).name);
  for (guint i = 0; i < network->links->len; i++)
    g_free(g_array_index(network->links, NetLink, i).name);
  g_array_free(network->vertices, TRUE);
  g_array_free(network->links, TRUE);
  g_free(network);
}

gint32 network_add_vertex(Network *network, const char *name, NetKind kind, gint32 node) {
  g_assert(node >= NETWORK_FABRIC && kind < N_NET_KINDS);
  NetVertex vertex = {g_strdup(name), kind, node};
  g_array_append_val(network->vertices, vertex);
  return network->vertices->len - 1;
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

static gint32 add_one(Network *network, gint32 a, gint32 b, const NetCable *cable, gboolean is_both_ways) {
  gint32 id = network->links->len;
  NetLink link = {NULL,
                  a,
                  b,
                  is_both_ways,
                  cable->factor > 0 ? cable->bandwidth_Bps * cable->factor : 0.0,
                  ticks_of_s(cable->latency_s)};
  link.name = cable->name != NULL ? g_strdup(cable->name)
                                  : g_strdup_printf("%s%s%s", network_vertex(network, a)->name,
                                                    is_both_ways ? "-" : ">", network_vertex(network, b)->name);
  g_array_append_val(network->links, link);
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
