/* The path data takes from one GPU to another, link by link, as a collective library would lay it:
 *
 *   same scale-up domain   over NVLink: through the NVSwitch, or the direct links, or one GPU in between; over PCIe
 *                          through the nearest common switch, or the sockets
 *   otherwise              GPU → a NIC that serves it → up the fabric to where both meet → NIC → GPU. NICs on the same
 *                          rail are taken where there are such; where leaves are rail-optimised and there are none,
 *                          over NVLink through the peer whose NIC is on the receiver's rail, as NCCL does since 2.12
 *                          ("PXN"). Where all those are dead, both go over the next GPU of their node between which
 *                          there is such a way: to it, its NIC, the NIC of its partner, and on from that
 *
 * GPU and NIC exchange data directly (GPUDirect) or through host memory, that is through the sockets
 * (node_topology_is_gpudirect()). Dead links are avoided where there is another way of these kinds. */
#pragma once
#include "topology.h"

typedef struct {
  int link; /* of the topology */
  int from, to;
} RouteHop;

typedef struct {
  int from, to;          /* GPUs */
  RouteHop *hops;        /* owned */
  int n_hops;            /* 0: from itself to itself */
  gboolean uses_net;     /* leaves the domain over NICs */
  gboolean is_staged[2]; /* passes through host memory: at the sender, at the receiver */
  int peer;              /* GPU whose NIC is used, or that passes NVLink traffic on; −1: none */
  int partner;           /* GPU of the receiver's node that takes it in and passes it on; −1: none */
  double latency_s;      /* of all hops */
  double left_Bps;       /* of the narrowest hop; INFINITY: no hop has a stated bandwidth */
  int bottleneck;        /* that hop, the first of equals; −1: none */
} Route;

/* IMPOSSIBLE when every way has a dead link, or there is none. GPUs are those of the topology. */
Route *route_new(const Topology *topology, int from, int to, GError **error);
/* The same between two domains, through NIC `nic` of both nodes. */
Route *route_over_nics(const Topology *topology, int from, int to, int nic, GError **error);
void route_free(Route *route);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Route, route_free)
