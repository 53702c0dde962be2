/* A cluster's topology as a network: each link at the bandwidth a transfer achieves, in both directions. */
#pragma once
#include "network.h"
#include "route.h"

/* Vertices have the topology's numbers and names. Link i of the topology becomes links 2i, from a to b, and 2i + 1,
 * back. Capacity is Bps × efficiency × factor; dead links are included as dead. GPUs, NICs, PCIe switches and sockets
 * belong to their node, and so does an NVSwitch that serves one node; the rest is fabric. INPUT: a number that no
 * link can have. */
Network *network_of_topology(const Topology *topology, GError **error);
/* The link of the network that a hop of a route crosses. */
gint32 network_link_of_hop(const Topology *topology, const RouteHop *hop);
