/* Time of rings behind one switch beyond the library's own estimate: closed forms, and measured times. */
#include "run_suite.h"
#include "toy_cluster.h"

static const double MiB = 1048576;

TEST(a_ring_behind_a_switch_pays_for_its_last_step) {
  Cluster cluster = toy_cluster();
  CollectiveLibrary *library = &cluster.collectives;
  library->ring_last_step = 0.5;
  library->by_architecture[cluster.gpu.architecture].ring_start_s = 20e-6;
  library->by_architecture[cluster.gpu.architecture].ring_hop_s = 2e-6;
  /* all-gather, 8 GPUs: 8 + 7·3 us, 7/8·160 MB / 200 GB/s = 700, half of 20 MB / 200 GB/s = 50, 20 + 7·2; all-reduce 8
   * + 14·3 + 1400 + 50 + 20 + 14·2; over 2: 8 + 3 + 400 + 200 + 20 + 2 */
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_GATHER, 8, 1, 160 * MB, ALGORITHM_RING).time_s, 813e-6);
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 160 * MB, ALGORITHM_RING).time_s, 1548e-6);
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_GATHER, 2, 1, 160 * MB, ALGORITHM_RING).time_s, 633e-6);
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_GATHER, 8, 1, 160 * MB, ALGORITHM_RING).latency_s, 29e-6);
  const double broadcast_s = cost_of(&cluster, COLLECTIVE_BROADCAST, 8, 1, 160 * MB, -1).time_s,
               nodes_s = cost_of(&cluster, COLLECTIVE_ALL_GATHER, 16, 1, 160 * MB, ALGORITHM_RING).time_s,
               exchange_s = cost_of(&cluster, COLLECTIVE_ALL_TO_ALL, 8, 1, 160 * MB, -1).time_s;
  library->ring_last_step = 0;
  library->by_architecture[cluster.gpu.architecture].ring_start_s = 0;
  library->by_architecture[cluster.gpu.architecture].ring_hop_s = 0;
  assert_close(cost_of(&cluster, COLLECTIVE_BROADCAST, 8, 1, 160 * MB, -1).time_s, broadcast_s);
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_GATHER, 16, 1, 160 * MB, ALGORITHM_RING).time_s, nodes_s);
  /* 7 sends, each a hop */
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_TO_ALL, 8, 1, 160 * MB, -1).time_s + 50e-6 + 7 * 2e-6, exchange_s);
}

/* 7 sends of 20 MB at 200 GB/s: 8 us, a hop of 3 us for each, 700 us; 4 at once are 2 hops, 8 at once 1. The own part
 * is another 20 MB where it takes a whole step. LL's messages go one after another. */
TEST(some_sends_inside_a_domain_are_under_way_together) {
  Cluster cluster = toy_cluster();
  CollectiveLibrary *library = &cluster.collectives;
  static const int at_once[] = {0, 1, 4, 8}, hops[] = {7, 7, 2, 1};
  for (gsize i = 0; i < G_N_ELEMENTS(hops); i++) {
    library->sends_at_once = at_once[i];
    assert_close(cost_of(&cluster, COLLECTIVE_ALL_TO_ALL, 8, 1, 160 * MB, -1).time_s, 708e-6 + hops[i] * 3e-6);
  }
  library->by_architecture[cluster.gpu.architecture].own_part = 1;
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_TO_ALL, 8, 1, 160 * MB, -1).time_s, 811e-6);
}

TEST(a_few_gpus_have_few_channels_for_the_switch) {
  Cluster cluster = toy_cluster();
  CollectiveLibrary *library = &cluster.collectives;
  cluster.gpu.architecture = ARCHITECTURE_HOPPER;
  library->by_architecture[ARCHITECTURE_HOPPER] = (ArchitectureLimits){.nvls_share = 0.75, .nvls_channel_Bps = 40e9};
  library->bandwidth_share[ALGORITHM_NVLS][PROTOCOL_SIMPLE] = 1;
  library->hop_s[LINK_NVLINK][ALGORITHM_NVLS][PROTOCOL_SIMPLE] = 25e-6;
  /* 120 MB: 4 GPUs 1000 us over 4·40·0.75 = 120 GB/s, as 5/4 of it over 150; 2: over 60 GB/s; 8: 9/8 over 150 */
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 4, 1, 120 * MB, ALGORITHM_NVLS).time_s, 1025e-6);
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 2, 1, 120 * MB, ALGORITHM_NVLS).time_s, 2025e-6);
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 120 * MB, ALGORITHM_NVLS).time_s, 925e-6);
}

/* What NVIDIA's AIConfigurator measured (commit 095f58a5, 2026). Constants of rings were not fitted to times of 4 GPUs
 * nor to reduce-scatters. */
TEST(rings_inside_a_node_are_as_measured) {
  static const struct {
    const char *cluster;
    Collective collective;
    int n;
    double mib, time_us;
  } rows[] = {
      {"selene", COLLECTIVE_REDUCE_SCATTER, 2, 128, 433.7}, {"selene", COLLECTIVE_REDUCE_SCATTER, 4, 128, 538.7},
      {"selene", COLLECTIVE_REDUCE_SCATTER, 8, 128, 624.0}, {"selene", COLLECTIVE_ALL_GATHER, 4, 128, 578.5},
      {"selene", COLLECTIVE_ALL_GATHER, 8, 32, 217.6},      {"selene", COLLECTIVE_ALL_REDUCE, 4, 32, 288.0},
      {"selene", COLLECTIVE_ALL_REDUCE, 8, 1, 38.9},        {"dgx-h100", COLLECTIVE_REDUCE_SCATTER, 2, 128, 311.5},
      {"dgx-h100", COLLECTIVE_ALL_GATHER, 4, 32, 109.4},    {"dgx-h100", COLLECTIVE_ALL_REDUCE, 4, 128, 613.2},
      {"dgx-b200", COLLECTIVE_ALL_GATHER, 4, 64, 108.0},    {"dgx-b200", COLLECTIVE_REDUCE_SCATTER, 4, 512, 728.8},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
    g_autoptr(Cluster) cluster = cluster_read(rows[i].cluster, NULL);
    ck_assert_ptr_nonnull(cluster);
    const CollectiveCost cost = cost_of(cluster, rows[i].collective, rows[i].n, 1, rows[i].mib * MiB, -1);
    ck_assert_int_eq(cost.algorithm, ALGORITHM_RING);
    if (fabs(cost.time_s * 1e6 / rows[i].time_us - 1) > 0.15)
      ck_abort_msg("row %d: %.1f us, measured %.1f", (int)i, cost.time_s * 1e6, rows[i].time_us);
  }
}

/* As those times show. */
TEST(h100_gather_by_rings_and_reduce_in_the_switch_over_eight) {
  g_autoptr(Cluster) cluster = cluster_read("dgx-h100", NULL);
  ck_assert_ptr_nonnull(cluster);
  for (double mib = 4; mib <= 512; mib *= 2) {
    ck_assert_int_eq(cost_of(cluster, COLLECTIVE_ALL_GATHER, 8, 1, mib * MiB, -1).algorithm, ALGORITHM_RING);
    ck_assert_int_eq(cost_of(cluster, COLLECTIVE_ALL_REDUCE, 4, 1, mib * MiB, -1).algorithm, ALGORITHM_RING);
    ck_assert_int_eq(cost_of(cluster, COLLECTIVE_ALL_REDUCE, 8, 1, mib * MiB, -1).algorithm, ALGORITHM_NVLS);
  }
}

int main(void) {
  return run_tests();
}
