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
#pragma once
#include "node_topology.h"

typedef struct {
  double link_Bps, links_together_Bps; /* 0: not stated */
  double link_efficiency;              /* 0: nothing of `host` is stated */
  double memory_Bps, update_efficiency;
  double nvme_bytes, nvme_read_Bps, nvme_write_Bps; /* 0: no drives stated */
} Host;

/* Fill a zeroed `host` from whichever of the two keys are present (zeroed YamlNode: absent). INPUT with file:line. */
gboolean host_read(Host *host, YamlNode keys, YamlNode nvme, GError **error);

/* Bytes per second and direction between a GPU's memory and its node's while the first `n_gpus` GPUs of the node copy
 * at once, for the slowest of them: `link` if stated, else the smallest of its slot and its part of every uplink
 * above it in the PCIe tree; at most its part of links_together. 0: not stated. */
double host_link_Bps(const Host *host, const NodeTopology *node, int n_gpus);
