#include "network_platforms.h"

static gint32 add_host(Network *network, gint32 host) {
  g_autofree char *name = g_strdup_printf("h%d", host);
  gint32 vertex = network_add_vertex(network, name, NET_GPU, host);
  g_assert(vertex == host);
  return vertex;
}

static void join(Network *network, gint32 a, gint32 b, double Bps, double latency_s, Duplex duplex) {
  g_autoptr(GError) error = NULL;
  network_add_link(network, a, b, &(NetCable){NULL, Bps, latency_s, 1, duplex}, &error);
  g_assert_no_error(error);
}

Network *crossbar_new(gint32 n_hosts, double Bps, double latency_s, gboolean is_shared) {
  Network *network = network_new();
  for (gint32 h = 0; h < n_hosts; h++)
    add_host(network, h);
  gint32 hub = network_add_vertex(network, "switch", NET_SWITCH, NETWORK_FABRIC);
  for (gint32 h = 0; h < n_hosts; h++)
    join(network, h, hub, Bps, latency_s, is_shared ? DUPLEX_SHARED : DUPLEX_FULL);
  return network;
}

Network *fat_tree_new(gint32 n_leaves, gint32 n_per_leaf, gint32 n_spines, double Bps, double uplink_Bps,
                      double latency_s) {
  Network *network = network_new();
  gint32 n_hosts = n_leaves * n_per_leaf;
  for (gint32 h = 0; h < n_hosts; h++)
    add_host(network, h);
  for (gint32 s = 0; s < n_leaves + n_spines; s++) {
    g_autofree char *name = s < n_leaves ? g_strdup_printf("leaf%d", s) : g_strdup_printf("spine%d", s - n_leaves);
    network_add_vertex(network, name, NET_SWITCH, NETWORK_FABRIC);
  }
  for (gint32 h = 0; h < n_hosts; h++)
    join(network, h, n_hosts + h / n_per_leaf, Bps, latency_s, DUPLEX_FULL);
  for (gint32 leaf = 0; leaf < n_leaves; leaf++)
    for (gint32 spine = 0; spine < n_spines; spine++)
      join(network, n_hosts + leaf, n_hosts + n_leaves + spine, uplink_Bps, 0, DUPLEX_FULL);
  return network;
}
