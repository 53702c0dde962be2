/* Ways are tried in the order of the header; each is built hop by hop and dropped at the first dead link. Trees (PCIe
 * and the fabric) are climbed: a link's b is the end nearer to the root. */
#include "route.h"

#include <math.h>
#include <string.h>

#include "error.h"

typedef struct {
  const Topology *topology;
  GArray *hops; /* of RouteHop */
  gboolean is_staged[2];
  gboolean uses_net;
  int peer, partner;
  int dead; /* the last dead link met; −1: none */
} Way;

static void reset(Way *way) {
  g_array_set_size(way->hops, 0);
  way->is_staged[0] = way->is_staged[1] = way->uses_net = FALSE;
  way->peer = way->partner = -1;
}

static gboolean add_hop(Way *way, int link, int from) {
  if (link < 0)
    return FALSE;
  const TopologyLink *at = &way->topology->links[link];
  if (at->factor == 0) {
    way->dead = link;
    return FALSE;
  }
  RouteHop hop = {link, from, topology_far_end(at, from)};
  g_array_append_val(way->hops, hop);
  return TRUE;
}

static gboolean join(Way *way, int from, int to) {
  return add_hop(way, topology_find_link(way->topology, from, to), from);
}

/* Vertices from `vertex` to the root, both included. */
static GArray *ancestors(const Topology *t, int vertex, CableKind kind) {
  GArray *list = g_array_new(FALSE, FALSE, sizeof(int));
  for (int link = 0; link >= 0; vertex = link >= 0 ? t->links[link].b : vertex) {
    g_array_append_val(list, vertex);
    link = topology_uplink(t, vertex, kind);
  }
  return list;
}

static int nth(const GArray *list, guint i) {
  return g_array_index(list, int, i);
}

/* Up from `from` and down to `to`, meeting at the lowest common vertex, or at the two roots when `through_roots`. */
static gboolean climb(Way *way, int from, int to, CableKind kind, gboolean through_roots) {
  g_autoptr(GArray) up = ancestors(way->topology, from, kind), down = ancestors(way->topology, to, kind);
  guint n_up = up->len, n_down = down->len;
  while (!through_roots && n_up > 1 && n_down > 1 && nth(up, n_up - 2) == nth(down, n_down - 2)) {
    n_up--;
    n_down--;
  }
  for (guint i = 0; i + 1 < n_up; i++)
    if (!join(way, nth(up, i), nth(up, i + 1)))
      return FALSE;
  if (nth(up, n_up - 1) != nth(down, n_down - 1) && !join(way, nth(up, n_up - 1), nth(down, n_down - 1)))
    return FALSE;
  for (guint i = n_down - 1; i > 0; i--)
    if (!join(way, nth(down, i), nth(down, i - 1)))
      return FALSE;
  return TRUE;
}

/* Scale-up. */

static gboolean through_nvlink(Way *way, int from, int to) {
  const Topology *t = way->topology;
  if (t->cluster->scale_up == SCALE_UP_NVLINK_MESH)
    return join(way, from, to);
  int up = topology_uplink(t, from, CABLE_NVLINK);
  return t->cluster->scale_up == SCALE_UP_NVSWITCH && add_hop(way, up, from) && join(way, t->links[up].b, to);
}

static double left_of(const Topology *t, int a, int b) {
  int link = topology_find_link(t, a, b);
  return link >= 0 ? topology_link_left_Bps(&t->links[link]) : 0;
}

/* The widest way through one GPU of a mesh. */
static gboolean through_peer(Way *way, int from, int to) {
  const Topology *t = way->topology;
  if (t->cluster->scale_up != SCALE_UP_NVLINK_MESH)
    return FALSE;
  double widest_Bps = 0;
  int domain = t->cluster->domain_gpus, base = from / domain * domain;
  for (int gpu = base; gpu < MIN(base + domain, t->n_gpus); gpu++) {
    double Bps = gpu != from && gpu != to ? MIN(left_of(t, from, gpu), left_of(t, gpu, to)) : 0;
    if (Bps > widest_Bps) {
      widest_Bps = Bps;
      way->peer = gpu;
    }
  }
  return widest_Bps > 0 && join(way, from, way->peer) && join(way, way->peer, to);
}

static gboolean through_pcie(Way *way, int from, int to) {
  const Cluster *cluster = way->topology->cluster;
  gboolean is_in_node = from / cluster->gpus_per_node == to / cluster->gpus_per_node;
  gboolean has_hub = cluster->scale_up == SCALE_UP_PCIE && cluster->node.n_sockets == 0;
  return (has_hub || (is_in_node && cluster->node.n_sockets > 0)) && climb(way, from, to, CABLE_PCIE, FALSE);
}

/* Network. */

/* One end: GPU → NIC, or the reverse. */
static gboolean attach(Way *way, int gpu, int nic, gboolean is_receiver) {
  const Topology *t = way->topology;
  const NodeTopology *node = &t->cluster->node;
  int from = is_receiver ? nic : gpu, to = is_receiver ? gpu : nic;
  gboolean is_direct = node_topology_is_gpudirect(node, t->vertices[gpu].index, t->vertices[nic].index);
  way->is_staged[is_receiver] = !is_direct;
  if (node->n_sockets == 0)
    return t->cluster->scale_up == SCALE_UP_PCIE ? climb(way, from, to, CABLE_PCIE, FALSE) : join(way, from, to);
  return climb(way, from, to, CABLE_PCIE, !is_direct);
}

static int nic_vertex(const Topology *t, int gpu, int nic) {
  TopologyVertex first = t->vertices[t->n_gpus]; /* NICs come right after the GPUs */
  g_assert(first.kind == VERTEX_NIC);
  return t->n_gpus + t->vertices[gpu].owner * t->cluster->nics_per_node + nic;
}

static gboolean over_nics(Way *way, int from, int to, int nic_from, int nic_to) {
  const Topology *t = way->topology;
  int source = nic_vertex(t, from, nic_from), target = nic_vertex(t, to, nic_to);
  way->uses_net = TRUE;
  return attach(way, from, source, FALSE) && climb(way, source, target, CABLE_NET, FALSE) &&
         attach(way, to, target, TRUE);
}

/* The rails of GPU `gpu` (of a node): a run of node.rails. */
static const Rail *rails_of(const NodeTopology *node, int gpu, int *n) {
  int first = 0;
  while (first < node->n_rails && node->rails[first].gpu < gpu)
    first++;
  *n = 0;
  while (first + *n < node->n_rails && node->rails[first + *n].gpu == gpu)
    ++*n;
  return &node->rails[first];
}

/* All pairs of NICs: those on one rail, or only the others. */
static gboolean over_any_nics(Way *way, int from, int to, gboolean same_rail) {
  const Topology *t = way->topology;
  int n_from, n_to;
  const Rail *out = rails_of(&t->cluster->node, t->vertices[from].index, &n_from);
  const Rail *in = rails_of(&t->cluster->node, t->vertices[to].index, &n_to);
  for (int i = 0; i < n_from; i++)
    for (int j = 0; j < n_to; j++) {
      if ((out[i].nic == in[j].nic) != same_rail)
        continue;
      reset(way);
      if (over_nics(way, from, to, out[i].nic, in[j].nic))
        return TRUE;
    }
  return FALSE;
}

/* NVLink to the GPU of the sender's node that is on the receiver's rail. */
static gboolean over_peer_nic(Way *way, int from, int to) {
  const Topology *t = way->topology;
  const NodeTopology *node = &t->cluster->node;
  if (t->cluster->leaves.n_nodes == 0 || t->cluster->leaves.kind != LEAVES_RAIL_OPTIMISED ||
      t->cluster->scale_up == SCALE_UP_PCIE)
    return FALSE;
  int n_to;
  const Rail *in = rails_of(node, t->vertices[to].index, &n_to);
  for (int j = 0; j < n_to; j++)
    for (int i = 0; i < node->n_rails; i++) {
      int peer = from - t->vertices[from].index + node->rails[i].gpu;
      if (node->rails[i].nic != in[j].nic || peer == from)
        continue;
      reset(way);
      way->peer = peer;
      if (through_nvlink(way, from, peer) && over_nics(way, peer, to, in[j].nic, in[j].nic))
        return TRUE;
    }
  return FALSE;
}

/* Through the two GPUs' own devices, or a peer's NIC on the receiver's rail. */
static gboolean find_own_way(Way *way, int from, int to) {
  const Cluster *cluster = way->topology->cluster;
  static gboolean (*const inside[])(Way *, int, int) = {through_nvlink, through_peer, through_pcie};
  if (from == to)
    return TRUE;
  for (gsize i = 0; i < G_N_ELEMENTS(inside) && from / cluster->domain_gpus == to / cluster->domain_gpus; i++) {
    reset(way);
    if (inside[i](way, from, to))
      return TRUE;
  }
  reset(way);
  return cluster->nics_per_node > 0 &&
         (over_any_nics(way, from, to, TRUE) || over_peer_nic(way, from, to) || over_any_nics(way, from, to, FALSE));
}

/* The GPU `shift` places after `gpu` in its node, cyclically. */
static int neighbour(const Cluster *cluster, int gpu, int shift) {
  return gpu / cluster->gpus_per_node * cluster->gpus_per_node + (gpu + shift) % cluster->gpus_per_node;
}

/* Three ways in sequence; the outer two stay inside their nodes. `taken`: scratch space for hops. */
static gboolean over_neighbours(Way *way, GArray *taken, int from, int to, int shift) {
  const Cluster *cluster = way->topology->cluster;
  const int stops[] = {from, neighbour(cluster, from, shift), neighbour(cluster, to, shift), to};
  gboolean is_staged[2] = {FALSE, FALSE};
  g_array_set_size(taken, 0);
  for (int i = 0; i < 3; i++) {
    if (!find_own_way(way, stops[i], stops[i + 1]))
      return FALSE;
    g_array_append_vals(taken, way->hops->data, way->hops->len);
    for (int end = 0; end < 2; end++)
      is_staged[end] |= way->is_staged[end];
  }
  reset(way);
  g_array_append_vals(way->hops, taken->data, taken->len);
  memcpy(way->is_staged, is_staged, sizeof is_staged);
  way->uses_net = TRUE;
  way->peer = stops[1];
  way->partner = stops[2];
  return TRUE;
}

static gboolean find_way(Way *way, int from, int to) {
  const Cluster *cluster = way->topology->cluster;
  if (find_own_way(way, from, to))
    return TRUE;
  if (from / cluster->domain_gpus == to / cluster->domain_gpus)
    return FALSE;
  const int dead = way->dead; /* on the preferred way */
  g_autoptr(GArray) taken = g_array_new(FALSE, FALSE, sizeof(RouteHop));
  for (int shift = 1; shift < cluster->gpus_per_node; shift++)
    if (over_neighbours(way, taken, from, to, shift))
      return TRUE;
  way->dead = dead;
  return FALSE;
}

static void sum_up(const Topology *t, Route *route) {
  route->left_Bps = INFINITY;
  route->bottleneck = -1;
  for (int i = 0; i < route->n_hops; i++) {
    const TopologyLink *link = &t->links[route->hops[i].link];
    route->latency_s += link->latency_s;
    if (topology_link_left_Bps(link) < route->left_Bps) {
      route->left_Bps = topology_link_left_Bps(link);
      route->bottleneck = i;
    }
  }
}

static void fail_way(const Way *way, int from, int to, GError **error) {
  const Topology *t = way->topology;
  g_autofree char *a = topology_vertex_name(t, from), *b = topology_vertex_name(t, to);
  if (way->dead < 0) {
    fail_impossible(error, "no path from %s to %s: they share no scale-up links, and not both have a NIC", a, b);
    return;
  }
  const TopologyLink *dead = &t->links[way->dead];
  g_autofree char *x = topology_vertex_name(t, dead->a), *y = topology_vertex_name(t, dead->b);
  fail_impossible(error, "no path from %s to %s: the link %s - %s is dead, and there is no other way", a, b, x, y);
}

static Way way_of(const Topology *topology, int from, int to) {
  g_assert(from >= 0 && from < topology->n_gpus && to >= 0 && to < topology->n_gpus);
  return (Way){
      .topology = topology, .hops = g_array_new(FALSE, FALSE, sizeof(RouteHop)), .peer = -1, .partner = -1, .dead = -1};
}

/* Moves the way's hops into the route. */
static Route *route_of(Way *way, int from, int to) {
  Route *route = g_new(Route, 1);
  *route = (Route){.from = from,
                   .to = to,
                   .n_hops = (int)way->hops->len,
                   .uses_net = way->uses_net,
                   .is_staged = {way->is_staged[0], way->is_staged[1]},
                   .peer = way->peer,
                   .partner = way->partner};
  route->hops = (RouteHop *)(void *)g_array_free(way->hops, FALSE);
  sum_up(way->topology, route);
  return route;
}

static Route *finish(Way *way, gboolean is_found, int from, int to, GError **error) {
  if (is_found)
    return route_of(way, from, to);
  fail_way(way, from, to, error);
  g_array_unref(way->hops);
  return NULL;
}

Route *route_new(const Topology *topology, int from, int to, GError **error) {
  Way way = way_of(topology, from, to);
  const gboolean is_found = find_way(&way, from, to);
  return finish(&way, is_found, from, to, error);
}

Route *route_over_nics(const Topology *topology, int from, int to, int nic, GError **error) {
  Way way = way_of(topology, from, to);
  const gboolean is_found = over_nics(&way, from, to, nic, nic);
  return finish(&way, is_found, from, to, error);
}

void route_free(Route *route) {
  if (route == NULL)
    return;
  g_free(route->hops);
  g_free(route);
}
