/* Bandwidth and SMs that one rank's transfers leave to others: copies of a node's GPUs through its memory and drives,
 * sends through the levels of the fabric, channels that occupy SMs. */
#include "copy_cost.h"
#include "run_suite.h"
#include "toy_cluster.h"
#include "transfer_tax.h"
#include "way_load.h"

/* 8 GPUs over a memory of 320 GB/s, drives that read 50 GB/s and write 20. */
static Cluster with_host(void) {
  Cluster cluster = toy_cluster();
  cluster.host.memory_Bps = 320e9;
  cluster.host.nvme_read_Bps = 50e9;
  cluster.host.nvme_write_Bps = 20e9;
  cluster.host.update_efficiency = 0.5;
  return cluster;
}

/* Each of n has a part of n of the drives; where these are faster than the memory, of the memory. */
TEST(gpus_of_a_node_share_its_drives_and_its_memory) {
  Cluster cluster = with_host();
  for (int n = 1; n <= 8; n *= 2) {
    assert_close(copy_cost_s(&cluster, n, ROUTE_NVME_READ, 1e9), n / 50.0);
    assert_close(copy_cost_s(&cluster, n, ROUTE_NVME_WRITE, 1e9), n / 20.0);
    assert_close(copy_cost_s(&cluster, n, ROUTE_NVME_READ | ROUTE_NVME_WRITE, 1e9), n / 20.0);
    assert_close(copy_cost_update_s(&cluster, n, 1e9), n / 160.0);
  }
  cluster.host.memory_Bps = 10e9;
  assert_close(copy_cost_s(&cluster, 4, ROUTE_NVME_READ, 1e9), 4 / 10.0);
}

/* Of a GPU's part of the memory, 320/n, a copy from the drives takes 50/n, and one that memory bounds takes all. */
TEST(a_copy_takes_its_share_of_the_memory) {
  Cluster cluster = with_host();
  for (int n = 1; n <= 8; n *= 8) {
    WayLoad load = {0};
    copy_way_load(&cluster, n, ROUTE_NVME_READ, &load);
    ck_assert_int_eq(load.share[TIMING_HOST_WAY], 156); /* 50/320 of 1000, rounded */
    ck_assert_int_eq(load.share[0] + load.share[1], 0);
  }
  cluster.host.memory_Bps = 10e9;
  WayLoad load = {0};
  copy_way_load(&cluster, 8, ROUTE_NVME_READ, &load);
  ck_assert_int_eq(load.share[TIMING_HOST_WAY], TIMING_WHOLE_WAY);
}

/* Nodes of 8: without a map as many as there are ranks, at most a node's; with one the fullest node, whichever it is.
 */
TEST(the_fullest_node_says_how_many_share) {
  const Cluster cluster = toy_cluster();
  Layout layout = {.n_ranks = 5};
  ck_assert_int_eq(copy_cost_sharing(&layout, &cluster), 5);
  layout.n_ranks = 24;
  ck_assert_int_eq(copy_cost_sharing(&layout, &cluster), 8);
  int first_fullest[] = {0, 1, 2, 8, 9}, last_fullest[] = {0, 8, 9, 10, 1};
  layout = (Layout){.n_ranks = 5, .gpu_of_rank = first_fullest};
  ck_assert_int_eq(copy_cost_sharing(&layout, &cluster), 3);
  layout.gpu_of_rank = last_fullest;
  ck_assert_int_eq(copy_cost_sharing(&layout, &cluster), 3);
}

/* Pods of 16 below 1/4 of what their NICs carry: a send that leaves its pod has the whole uplink, and of its NIC a
 * quarter; one that stays has all of its NIC; one that stays in its node none. */
TEST(the_narrowest_level_sets_what_a_send_takes_of_the_others) {
  Cluster cluster = toy_cluster();
  cluster.tiers[0] = (FabricTier){16, 1};
  cluster.tiers[1] = (FabricTier){64, 4};
  cluster.n_tiers = 2;
  const struct {
    int to, scale_up, nic, uplink;
    double latency_s;
  } sends[] = {{1, 1000, 0, 0, 2e-6}, {8, 0, 1000, 0, 5e-6}, {16, 0, 250, 1000, 5e-6}};
  for (gsize i = 0; i < G_N_ELEMENTS(sends); i++) {
    WayLoad load = {0};
    assert_close(send_way_load(&cluster, 0, sends[i].to, &load), sends[i].latency_s);
    ck_assert_int_eq(load.share[0], sends[i].scale_up);
    ck_assert_int_eq(load.share[1], sends[i].nic);
    ck_assert_int_eq(load.share[2], sends[i].uplink);
  }
}

/* One NIC of 25 GB/s needs two channels of 14 GB/s, two NICs of a GPU four; two GPUs on one NIC two. Never fewer than
 * one for each NIC. */
TEST(a_send_has_channels_for_all_nics_of_its_gpu) {
  Cluster cluster = toy_cluster();
  cluster.gpu.n_sms = 100;
  cluster.transfer_tax.by_channels = TRUE;
  const struct {
    double gpus_per_nic, channel_Bps;
    int channels;
  } cases[] = {{1, 14e9, 2}, {0.5, 14e9, 4}, {2, 14e9, 2}, {0.5, 100e9, 2}, {1, 0, 0}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    cluster.node_egress_gpus = cases[i].gpus_per_nic;
    cluster.collectives.send_channel_Bps = cases[i].channel_Bps;
    ck_assert_double_eq_tol(send_tax(&cluster, 0, 8), cases[i].channels / 100.0, 1e-12);
  }
}

int main(void) {
  return run_tests();
}
