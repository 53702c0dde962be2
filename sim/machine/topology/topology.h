/* A cluster as vertices and links, for routing, printing and drawing. Built from the cluster file (cluster.h,
 * node_topology.h); what it leaves out gets the structure that the other keys imply:
 *
 *     core                           one switch when tiers are not listed: full bisection
 *      │ uplink = what comes up from below / oversubscription of the tier
 *     tier1.0  tier1.1  …            one vertex per block of `span` GPUs (a pod): all its switches and their paths,
 *      │                             taken as one that spreads traffic evenly
 *     leaf0.0 leaf0.1 …              only where `fabric.leaves` is described: group.rail, or the group alone
 *      │                             when classic
 *     node0/nic0 … node0/nic7
 *      │                             node0/pcie0, node0/socket0: where `node.pcie` is described. Else GPU and the NICs
 *      │                             serving it are linked at infinite bandwidth (not stated, never the bottleneck)
 *     node0/gpu0 … node0/gpu7
 *      │                             NVLink: a switch per domain, or mesh pairs; node0/pcie0 for scale-up over PCIe
 *     node0/nvswitch                 whose tree is not described; domain0/nvswitch where a domain is several nodes
 *
 * Uplinks are sized for whole blocks even if fewer GPUs are built: the hardware is there whether a job uses it or
 * not. Latencies along a path add up to what the file states for one send of that kind, including software: half at
 * each end. Degraded and dead links (`faults:`) are in `factor`. */
#pragma once
#include "cluster.h"

typedef enum {
  VERTEX_GPU,
  VERTEX_NIC,
  VERTEX_PCIE_SWITCH,
  VERTEX_SOCKET,
  VERTEX_NVSWITCH, /* all NVSwitches of a domain as one */
  VERTEX_LEAF,
  VERTEX_TIER, /* the switches of one block of a tier as one; the last is the core */
  N_VERTEX_KINDS
} VertexKind;

typedef enum {
  CABLE_NVLINK,
  CABLE_PCIE,
  CABLE_SOCKETS, /* UPI, Infinity Fabric … */
  CABLE_NET,
  N_CABLE_KINDS
} CableKind;

/* An arena index names a vertex or link. Vertices 0 … n_gpus − 1 are the GPUs in rank order. */
typedef struct {
  VertexKind kind;
  int owner; /* node (GPU, NIC, PCIe switch, socket), domain (NVSwitch), group (leaf), tier from 0 (tier) */
  int index; /* within the owner: GPU, NIC, …; rail of a leaf (−1: classic); block of a tier */
} TopologyVertex;

/* Full duplex: `Bps` each way. */
typedef struct {
  int a, b; /* vertices; b is nearer to the core, socket or switch */
  CableKind kind;
  int n_parallel; /* NVLinks or uplink cables in this link; 0: not stated */
  double Bps; /* per direction, all parallel cables together, as specified, without `factor`. INFINITY: not stated */
  double efficiency; /* (0, 1]: share that a bandwidth-bound transfer reaches */
  double latency_s;
  double factor; /* 1: sound; (0, 1): degraded; 0: dead */
} TopologyLink;

typedef struct {
  const Cluster *cluster; /* borrowed */
  int n_gpus, n_nodes;
  TopologyVertex *vertices; /* owned */
  int n_vertices;
  TopologyLink *links; /* owned */
  int n_links;
  int *first_end; /* owned; [n_vertices + 1]: the links of vertex v are link_ends[first_end[v] … first_end[v + 1]) */
  int *link_ends; /* owned; link indices, ascending per vertex */
} Topology;

/* Build the first `n_gpus` GPUs of the cluster (rounded up to whole nodes) and every switch they need. INPUT if a
 * fault names something that does not exist; IMPOSSIBLE if the cluster has fewer GPUs, or no NICs to join that many,
 * or there are more than 2^24 links. The cluster must outlive the topology. */
Topology *topology_new(const Cluster *cluster, gint64 n_gpus, GError **error);
void topology_free(Topology *topology);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Topology, topology_free)

/* Usable bandwidth of a link: Bps × efficiency × factor. INFINITY: not stated. */
double topology_link_left_Bps(const TopologyLink *link);
/* The end of `link` that is not `vertex`. */
int topology_far_end(const TopologyLink *link, int vertex);
/* The first link between two vertices; −1: none. */
int topology_find_link(const Topology *topology, int a, int b);
/* The first link of that kind from a vertex towards the core, socket or switch, whose end `b` is the vertex above; −1:
 * there is none. */
int topology_uplink(const Topology *topology, int vertex, CableKind kind);
/* "node0/gpu3", "node0/nic1", "domain0/nvswitch", "leaf0.3", "pod2", "core". Owned by the caller. */
char *topology_vertex_name(const Topology *topology, int vertex);
/* The vertex of that name, or of that place; −1: none. */
int topology_vertex(const Topology *topology, VertexKind kind, int owner, int index);
int topology_find_vertex(const Topology *topology, const char *name);
const char *vertex_kind_name(VertexKind kind); /* "GPU", "NIC", "PCIe switch", … */
const char *cable_kind_name(CableKind kind);   /* "NVLink", "PCIe", "inter-socket", "network" */

/* Names of vertices and the limit on links, shared by the topology's own files. */

enum { TOPOLOGY_MOST_LINKS = 1 << 24 };

/* Whether a vertex of that name exists when the cluster has as many GPUs as it can. */
gboolean topology_name_is_valid(const Cluster *cluster, const char *name);
/* "expected …; did you mean …?" Owned by the caller. */
char *topology_name_advice(const Topology *topology, const char *name);
