#include "topology_network.h"

static const NetKind kind_of[N_VERTEX_KINDS] = {
    [VERTEX_GPU] = NET_GPU,     [VERTEX_NIC] = NET_NIC,         [VERTEX_PCIE_SWITCH] = NET_SWITCH,
    [VERTEX_SOCKET] = NET_HOST, [VERTEX_NVSWITCH] = NET_SWITCH, [VERTEX_LEAF] = NET_SWITCH,
    [VERTEX_TIER] = NET_SWITCH,
};

/* The node of all vertices that a switch is linked to; NETWORK_FABRIC when they are on several. */
static gint32 common_node(const Topology *topology, int vertex) {
  gint32 node = NETWORK_FABRIC;
  for (int e = topology->first_end[vertex]; e < topology->first_end[vertex + 1]; e++) {
    int neighbour = topology_far_end(&topology->links[topology->link_ends[e]], vertex);
    gint32 owner = topology->vertices[neighbour].owner;
    if (node != NETWORK_FABRIC && owner != node)
      return NETWORK_FABRIC;
    node = owner;
  }
  return node;
}

static gint32 node_of(const Topology *topology, int vertex) {
  const TopologyVertex *at = &topology->vertices[vertex];
  if (at->kind == VERTEX_LEAF || at->kind == VERTEX_TIER)
    return NETWORK_FABRIC;
  return at->kind == VERTEX_NVSWITCH ? common_node(topology, vertex) : at->owner;
}

Network *network_of_topology(const Topology *topology, GError **error) {
  g_autoptr(Network) network = network_new();
  for (int v = 0; v < topology->n_vertices; v++) {
    g_autofree char *name = topology_vertex_name(topology, v);
    network_add_vertex(network, name, kind_of[topology->vertices[v].kind], node_of(topology, v));
  }
  for (int i = 0; i < topology->n_links; i++) {
    const TopologyLink *link = &topology->links[i];
    NetCable cable = {NULL, link->Bps * link->efficiency, link->latency_s, link->factor, DUPLEX_FULL};
    if (network_add_link(network, link->a, link->b, &cable, error) < 0)
      return NULL;
  }
  return g_steal_pointer(&network);
}

gint32 network_link_of_hop(const Topology *topology, const RouteHop *hop) {
  return 2 * hop->link + (hop->from == topology->links[hop->link].a ? 0 : 1);
}
