/* The inside of a node: which PCIe switch and socket each device is on, which GPUs are wired to each other over
 * NVLink, which NIC serves which GPU. All nodes of a cluster are alike in this; topology.h joins them.
 *
 *     socket0 ═══ inter_socket ═══ socket1          node:
 *        │ uplink                    │                scale_up: {…, mesh: {link: 25 GB/s, pairs: [{gpus: [0, 1],
 *      pcie0          …            pcie3                                                          links: 2}, …]}}
 *     ┌──┼────┬─────┐                                 pcie:
 *    gpu0 gpu1 nic0 nic1                                bandwidth: 31.5 GB/s
 *                                                       sockets: [{}, {gpus: [4]}]
 *                                                       inter_socket: 62.4 GB/s
 *                                                       switches: [{socket: 0, uplink: 31.5 GB/s, gpus: [0, 1], …}]
 *                                                     rails: [{nic: 0, gpus: [0]}, …]
 *
 * Every key is optional: by default the PCIe tree is unknown (never the bottleneck), a mesh is complete, and GPUs are
 * spread over the NICs in order. Bandwidths are per direction. */
#pragma once
#include "yaml_node.h"

/* Direct NVLinks between two GPUs of a scale-up domain. */
typedef struct {
  int a, b; /* a < b, GPUs of the domain */
  int n_links;
} MeshPair;

typedef struct {
  int socket;
  int parent;        /* the switch above, which comes earlier in the list; −1: directly on the socket */
  double uplink_Bps; /* to its parent, shared by everything below */
} PcieSwitch;

/* Where a device is plugged in. */
typedef struct {
  int socket;
  int pcie_switch; /* −1: directly into the socket */
  double Bps;      /* of the slot */
} PciePort;

/* GPU `gpu` sends through NIC `nic` (of the node). */
typedef struct {
  int gpu, nic;
} Rail;

/* When data moves between GPU and NIC without passing through host memory. */
typedef enum {
  GPUDIRECT_AUTO,   /* if no socket lies between them, NCCL's default; also if the tree is unknown */
  GPUDIRECT_ALWAYS, /* even through sockets */
  GPUDIRECT_NEVER,
  N_GPUDIRECT
} GpuDirect;

typedef struct {
  int n_gpus, n_nics; /* per node (set by the reader's caller) */

  double mesh_link_Bps; /* per link; 0: pairs are not described */
  MeshPair *pairs;      /* owned */
  int n_pairs;          /* 0: every pair of the domain is wired alike */

  int n_sockets;           /* 0: the PCIe tree is not described, and none of the following is set */
  double inter_socket_Bps; /* between any two sockets; 0 with one socket */
  double pcie_efficiency;  /* share of all these bandwidths that transfers reach */
  double pcie_latency_s;   /* of a slot; < 0: not stated */
  PcieSwitch *switches;    /* owned */
  int n_switches;
  PciePort *gpu_ports, *nic_ports; /* owned; [n_gpus], [n_nics] */

  Rail *rails; /* owned; by GPU, then NIC */
  int n_rails;
  gboolean has_rails; /* FALSE: not described, spread in order */
  GpuDirect gpudirect;
} NodeTopology;

/* The node's keys that are present (zeroed YamlNode: absent). */
typedef struct {
  YamlNode mesh, pcie, rails;
} NodeTopologyKeys;

/* Fill a zeroed `node` whose n_gpus and n_nics are set. Without `rails`, GPUs are spread over the NICs in order: NIC
 * gpu·n_nics/n_gpus serves a GPU; with more NICs than GPUs each NIC serves one GPU. Pairs may name GPUs below
 * `domain_gpus` ≥ n_gpus. INPUT with file:line for: GPUs and NICs that do not exist, are plugged in twice or not at
 * all; switches above themselves; duplicate pairs or rails. */
gboolean node_topology_read(NodeTopology *node, const NodeTopologyKeys *keys, int domain_gpus, GError **error);
void node_topology_clear(NodeTopology *node);

extern const char *const gpudirect_names[N_GPUDIRECT + 1]; /* NULL-terminated */
/* Whether data that GPU `gpu` sends through NIC `nic` gets there without passing through host memory. */
gboolean node_topology_is_gpudirect(const NodeTopology *node, int gpu, int nic);

/* A node's own memory, CPUs and NVMe drives, as far as a cluster file states them, and a GPU's link to them.
 *
 *     node:
 *       host_memory: 2 TB
 *       host:
 *         link: 63 GB/s                 of one GPU; optional if the pcie tree says it
 *         links_together: 63 GB/s       of all GPUs of a node, if they share less than the sum; optional
 *         link_efficiency: 0.85         share of these, and of the tree's uplinks, that copies reach
 *         memory_bandwidth: 614 GB/s    of the node, all sockets
 *         update_efficiency: 0.43       share of it that Adam on the CPUs reaches
 *       nvme: {capacity: 30 TB, read: 50 GB/s, write: 32 GB/s}
 *
 * Bandwidths are per direction except the memory's. All but the link's are per node. */

typedef struct {
  double link_Bps, links_together_Bps; /* 0: not stated */
  double link_efficiency;              /* 0: nothing of `host` is stated */
  double memory_Bps, update_efficiency;
  double nvme_bytes, nvme_read_Bps, nvme_write_Bps; /* 0: no drives stated */
} Host;

/* Bytes per second and direction between a GPU's memory and its node's while the first `n_gpus` GPUs of the node copy
 * at once, for the slowest of them: `link` if stated, else the smallest of its slot and its part of every uplink
 * above it in the PCIe tree; at most its part of links_together. 0: not stated. */
double host_link_Bps(const Host *host, const NodeTopology *node, int n_gpus);
