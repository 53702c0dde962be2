/* A toy cluster: nodes of 8 GPUs, 200 GB/s usable per GPU inside, 8 NICs of 20 GB/s usable. There is one protocol
 * (Simple). */
#pragma once
#include "collective_cost.h"

#include <check.h>
#include <math.h>

static const double ring_base_s = 8e-6, ring_hop_s = 3e-6, ring_net_s = 14e-6;
static const double tree_base_s = 9e-6, tree_hop_s = 4e-6, tree_net_s = 15e-6;
static const double MB = 1e6;

static inline Cluster toy_cluster(void) {
  Cluster cluster = {
      .gpus_per_node = 8,
      .domain_gpus = 8,
      .scale_up = SCALE_UP_NVSWITCH,
      .scale_up_Bps = 250e9,
      .scale_up_efficiency = 0.8,
      .scale_up_latency_s = 2e-6,
      .nics_per_node = 8,
      .nic_Bps = 25e9,
      .nic_efficiency = 0.8,
      .nic_latency_s = 5e-6,
      .node_egress_gpus = 1,
  };
  CollectiveLibrary *library = &cluster.collectives;
  library->bandwidth_share[ALGORITHM_RING][PROTOCOL_SIMPLE] =
      library->bandwidth_share[ALGORITHM_TREE][PROTOCOL_SIMPLE] = 1;
  library->base_s[ALGORITHM_RING][PROTOCOL_SIMPLE] = ring_base_s;
  library->base_s[ALGORITHM_TREE][PROTOCOL_SIMPLE] = tree_base_s;
  library->hop_s[LINK_NVLINK][ALGORITHM_RING][PROTOCOL_SIMPLE] = ring_hop_s;
  library->hop_s[LINK_NVLINK][ALGORITHM_TREE][PROTOCOL_SIMPLE] = tree_hop_s;
  library->hop_s[LINK_NET][ALGORITHM_RING][PROTOCOL_SIMPLE] = ring_net_s;
  library->hop_s[LINK_NET][ALGORITHM_TREE][PROTOCOL_SIMPLE] = tree_net_s;
  library->hop_s[LINK_PCIE][ALGORITHM_RING][PROTOCOL_SIMPLE] = 2 * ring_hop_s;
  return cluster;
}

/* `n` ranks, `stride` apart, from rank 0. */
static inline GroupShape shape_of(const Cluster *cluster, int n, int stride) {
  g_autofree int *members = g_new(int, n);
  for (int i = 0; i < n; i++)
    members[i] = i * stride;
  return layout_shape_of(cluster, members, n);
}

static inline CollectiveCost cost_of(const Cluster *cluster, Collective collective, int n, int stride, double bytes,
                                     int algorithm) {
  GroupShape shape = shape_of(cluster, n, stride);
  return collective_cost(cluster, collective, &shape, bytes, algorithm);
}

static inline void assert_close(double found, double expected) {
  ck_assert_double_eq_tol(found / expected, 1, 1e-12);
}
