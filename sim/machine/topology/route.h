/* The path data takes from one GPU to another, link by link, as a collective library would choose it:
 *
 *   same scale-up domain   over NVLink: through the NVSwitch, a direct link, or one GPU in between; over PCIe
 *                          through the nearest common switch, or the sockets
 *   otherwise              GPU → a NIC that serves it → up the fabric to the lowest common switch → NIC → GPU. NICs
 *                          on the same rail are preferred. If leaves are rail-optimised and there are none, data
 *                          first goes over NVLink to the peer whose NIC is on the receiver's rail, as in NCCL since
 *                          2.12 ("PXN"). If all of these are dead, both ends go through another GPU of their node,
 *                          the next ones in it that such a path joins: to the one, its NIC, the other's NIC, and on
 *                          from there
 *
 * GPU and NIC exchange data directly (GPUDirect) or through host memory, that is, through the sockets
 * (node_topology_is_gpudirect()). Dead links are avoided if another path of these kinds exists. */
#pragma once
#include "topology.h"

typedef struct {
  int link; /* of the topology */
  int from, to;
} RouteHop;

typedef struct {
  int from, to;          /* GPUs */
  RouteHop *hops;        /* owned */
  int n_hops;            /* 0: from a GPU to itself */
  gboolean uses_net;     /* leaves the domain through NICs */
  gboolean is_staged[2]; /* passes through host memory: at the sender, at the receiver */
  int peer;              /* GPU whose NIC is used, or that relays NVLink traffic; −1: none */
  int partner;           /* GPU of the receiver's node that receives and relays; −1: none */
  double latency_s;      /* of all hops */
  double left_Bps;       /* of the narrowest hop; INFINITY: no hop has a stated bandwidth */
  int bottleneck;        /* that hop, the first among equals; −1: none */
} Route;

/* IMPOSSIBLE if there is no path, or every path has a dead link. GPUs are numbered as in the topology. */
Route *route_new(const Topology *topology, int from, int to, GError **error);
/* The same between two domains, through NIC `nic` of both nodes. */
Route *route_over_nics(const Topology *topology, int from, int to, int nic, GError **error);
void route_free(Route *route);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Route, route_free)
