/* Closed forms of the algorithms other than ring, tree and plain sends; what the library's data adds to them; and its
 * choice on machines where NCCL's own choice is known. */
#include "run_suite.h"
#include "toy_cluster.h"

#include <string.h>

#include "data_path.h"
#include "wiring.h"

static const double KiB = 1024, MiB = 1048576;

/* The toy's GPUs as Hopper, whose switches reduce at 3/4 of the scale-up rate: 150 GB/s. */
static Cluster switched_cluster(void) {
  Cluster cluster = toy_cluster();
  CollectiveLibrary *library = &cluster.collectives;
  cluster.gpu.architecture = ARCHITECTURE_HOPPER;
  library->by_architecture[ARCHITECTURE_HOPPER] =
      (ArchitectureLimits){.nvls_share = 0.75, .channels = 24, .nvls_channels = 16};
  for (Algorithm a = ALGORITHM_NVLS; a <= ALGORITHM_NVLS_TREE; a++) {
    library->bandwidth_share[a][PROTOCOL_SIMPLE] = 1;
    library->hop_s[LINK_NVLINK][a][PROTOCOL_SIMPLE] = 25e-6;
    library->hop_s[LINK_NET][a][PROTOCOL_SIMPLE] = 20e-6;
  }
  return cluster;
}

static const char *lacks(const Cluster *cluster, int n, int stride, Algorithm algorithm) {
  GroupShape shape = shape_of(cluster, n, stride);
  return collective_algorithm_lacks(cluster, &shape, algorithm);
}

TEST(in_switch_all_reduce_carries_a_buffer_and_a_part) {
  Cluster cluster = switched_cluster();
  /* 25 us + (1 + 1/8)·400 MB / 150 GB/s = 25 + 3000 us; the ring's 2·7/8·400 MB / 200 GB/s = 3500 us */
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 400 * MB, ALGORITHM_NVLS).time_s, 3025e-6);
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 400 * MB, -1).algorithm, ALGORITHM_NVLS);
  /* all-gather, as the library reckons: 8/7·400 MB: 25 + 3048 us; the ring is faster, 8 + 7·3 + 1750 */
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_GATHER, 8, 1, 400 * MB, ALGORITHM_NVLS).time_s,
               25e-6 + 8.0 / 7 * 400 * MB / 150e9);
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_ALL_GATHER, 8, 1, 400 * MB, -1).algorithm, ALGORITHM_RING);
}

TEST(switches_reduce_inside_domains_and_a_tree_joins_them) {
  Cluster cluster = switched_cluster();
  cluster.nic_Bps = 100e9; /* usable 80 GB/s a NIC, 640 a node */
  /* 2 nodes: 25 + 2·1·20 us + (1 + 1/8)·400 MB / 150 GB/s = 65 + 3000; S over 640 GB/s is shorter, 625 us */
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 16, 1, 400 * MB, ALGORITHM_NVLS_TREE).time_s, 3065e-6);
  cluster.nic_Bps = 25e9;
  /* 8 nodes, 160 GB/s a node: 25 + 2·3·20 us + 2·400 MB / 160 GB/s = 145 + 5000 */
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 64, 1, 400 * MB, ALGORITHM_NVLS_TREE).time_s, 5145e-6);
}

TEST(only_switches_that_can_reduce_do) {
  Cluster cluster = switched_cluster();
  ck_assert_ptr_null(lacks(&cluster, 8, 1, ALGORITHM_NVLS));
  ck_assert_ptr_nonnull(strstr(lacks(&cluster, 16, 1, ALGORITHM_NVLS), "one scale-up domain"));
  ck_assert_ptr_nonnull(strstr(lacks(&cluster, 8, 1, ALGORITHM_NVLS_TREE), "several scale-up domains"));
  ck_assert_ptr_nonnull(strstr(lacks(&cluster, 4, 8, ALGORITHM_NVLS_TREE), "several members"));
  cluster.gpu.architecture = ARCHITECTURE_AMPERE;
  ck_assert_ptr_nonnull(strstr(lacks(&cluster, 8, 1, ALGORITHM_NVLS), "Hopper and later"));
  cluster.gpu.architecture = ARCHITECTURE_HOPPER;
  cluster.scale_up = SCALE_UP_NVLINK_MESH;
  ck_assert_ptr_nonnull(strstr(lacks(&cluster, 8, 1, ALGORITHM_NVLS), "NVSwitch"));
  /* what does not exist is not chosen, and asking for it gives what is */
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 400 * MB, -1).algorithm, ALGORITHM_RING);
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 400 * MB, ALGORITHM_NVLS).algorithm, ALGORITHM_RING);
  ck_assert_ptr_nonnull(strstr(lacks(&cluster, 8, 8, ALGORITHM_PAT), "tables")); /* the toy's library has none */
}

TEST(pat_is_logarithmic_in_nodes) {
  Cluster cluster = toy_cluster();
  CollectiveLibrary *library = &cluster.collectives;
  library->bandwidth_share[ALGORITHM_PAT][PROTOCOL_SIMPLE] = 0.75;
  library->base_s[ALGORITHM_PAT][PROTOCOL_SIMPLE] = 8e-6;
  library->hop_s[LINK_NET][ALGORITHM_PAT][PROTOCOL_SIMPLE] = 14e-6;
  library->pat_step_share = 0.25;
  library->pat_per_rank_s = 2e-6;
  /* 16 nodes, a GPU on each: 8 + 4·14/4 + 16·2 us + 15/16·32 MB / (0.75·20 GB/s) = 54 + 2000 us */
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_GATHER, 16, 8, 32 * MB, ALGORITHM_PAT).time_s, 2054e-6);
  /* the ring needs 8 + 15·14 us + 1500: it wins this one, PAT the short ones */
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_ALL_GATHER, 16, 8, 32 * MB, -1).algorithm, ALGORITHM_RING);
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_REDUCE_SCATTER, 16, 8, MB, -1).algorithm, ALGORITHM_PAT);
  ck_assert_ptr_nonnull(strstr(lacks(&cluster, 16, 4, ALGORITHM_PAT), "one member a node"));
  ck_assert_ptr_null(lacks(&cluster, 16, 8, ALGORITHM_PAT));
}

TEST(a_hierarchical_all_reduce_is_three_collectives) {
  Cluster cluster = toy_cluster();
  /* 32 ranks on 4 nodes, 400 MB. In the node, twice: 7·3 us + 7/8·400 MB / 200 GB/s = 1771 us. Between: 8 rings of
   * 50 MB, each over a NIC of 20 GB/s: 2·3·14 us + 2·3/4·50 MB / 20 GB/s = 84 + 3750 us. Three bases of 8 us. */
  double time_s = cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 32, 1, 400 * MB, ALGORITHM_HIERARCHICAL).time_s;
  assert_close(time_s, 24e-6 + 2 * 1771e-6 + 3834e-6);
  /* all-gather: 8 parts of 12.5 MB over nodes to 50 MB, then to 400 inside: half of that and two bases */
  double gather_s = cost_of(&cluster, COLLECTIVE_ALL_GATHER, 32, 1, 400 * MB, ALGORITHM_HIERARCHICAL).time_s;
  assert_close(gather_s, 16e-6 + 1771e-6 + 1917e-6);
  /* the library does not do it by itself, even where it would win: 512 ranks, short messages */
  ck_assert_double_lt(cost_of(&cluster, COLLECTIVE_ALL_GATHER, 512, 1, MB, ALGORITHM_HIERARCHICAL).time_s,
                      cost_of(&cluster, COLLECTIVE_ALL_GATHER, 512, 1, MB, -1).time_s);
  ck_assert_ptr_nonnull(strstr(lacks(&cluster, 12, 1, ALGORITHM_HIERARCHICAL), "as many members"));
  ck_assert_ptr_nonnull(strstr(lacks(&cluster, 8, 1, ALGORITHM_HIERARCHICAL), "several scale-up domains"));
}

TEST(a_naive_all_reduce_sends_everything_to_and_from_one_rank_in_turn) {
  Cluster cluster = toy_cluster();
  /* one node: 2·7 messages of 80 MB / 200 GB/s = 400 us; 8 + 14·3 us */
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 80 * MB, ALGORITHM_NAIVE).time_s, 50e-6 + 14 * 400e-6);
  /* two nodes: 8 members more, each way over the root's NIC of 20 GB/s: 4 ms and 14 us */
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 16, 1, 80 * MB, ALGORITHM_NAIVE).time_s,
               50e-6 + 14 * 400e-6 + 16 * (14e-6 + 4e-3));
  ck_assert_int_ne(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 2, 1, 1, -1).algorithm, ALGORITHM_NAIVE);
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_ALL_GATHER, 8, 1, MB, ALGORITHM_NAIVE).algorithm, ALGORITHM_RING);
}

TEST(pairwise_rounds_do_not_overlap) {
  Cluster cluster = toy_cluster();
  /* one node: as direct sends, 7 rounds of 10 MB: 8 + 7·3 us + 350 us */
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_TO_ALL, 8, 1, 80 * MB, ALGORITHM_PAIRWISE).time_s, 379e-6);
  /* two nodes: 7 rounds inside of 5 MB / 200 GB/s = 25 us, 8 between at 20 GB/s = 250 us */
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_TO_ALL, 16, 1, 80 * MB, ALGORITHM_PAIRWISE).time_s,
               8e-6 + 7 * 3e-6 + 8 * 14e-6 + 7 * 25e-6 + 8 * 250e-6);
  /* two pods of 64 with uplinks of a quarter: 7 inside, 56 in the pod, 64 between pods at 5 GB/s; 0.625 MB each */
  cluster.tiers[0] = (FabricTier){64, 1};
  cluster.tiers[1] = (FabricTier){512, 4};
  cluster.n_tiers = 2;
  double wire_s = 0.625 * MB * (7 / 200e9 + 56 / 20e9 + 64 / 5e9);
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_TO_ALL, 128, 1, 80 * MB, ALGORITHM_PAIRWISE).time_s,
               8e-6 + 7 * 3e-6 + 120 * 14e-6 + wire_s);
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_ALL_TO_ALL, 128, 1, 80 * MB, -1).algorithm, ALGORITHM_DIRECT);
}

TEST(ll_carries_no_more_than_its_limit) {
  Cluster cluster = switched_cluster();
  CollectiveLibrary *library = &cluster.collectives;
  library->bandwidth_share[ALGORITHM_RING][PROTOCOL_LL] = 0.5; /* 100 GB/s inside, 80 over nodes */
  library->bandwidth_share[ALGORITHM_RING][PROTOCOL_SIMPLE] = 1e-3;
  library->bandwidth_share[ALGORITHM_NVLS][PROTOCOL_SIMPLE] = 0;
  library->by_architecture[ARCHITECTURE_HOPPER].ll_Bps = 70e9;
  library->two_nodes_ll_Bps = 40e9;
  library->more_nodes_ll_Bps = 20e9;
  /* no latency: 7/8, 15/16 and 31/32 of 80 MB at 70, 40 and 20 GB/s */
  const double expected_s[] = {1e-3, 1.875e-3, 3.875e-3};
  for (int i = 0; i < 3; i++)
    assert_close(cost_of(&cluster, COLLECTIVE_ALL_GATHER, 8 << i, 1, 80 * MB, ALGORITHM_RING).time_s, expected_s[i]);
  cluster.gpu.architecture = ARCHITECTURE_OTHER; /* no limit stated */
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_GATHER, 8, 1, 80 * MB, ALGORITHM_RING).time_s, 0.7e-3);
}

TEST(long_rings_over_nodes_pay_their_latency_times_the_plateau) {
  Cluster cluster = toy_cluster();
  cluster.collectives.ring_plateau = 1.5;
  /* 16 ranks: 1.5·(8 + 28·3 + 2·14 us) + 30/16·160 MB / 160 GB/s = 180 + 1875 */
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 16, 1, 160 * MB, ALGORITHM_RING).time_s, 2055e-6);
  /* below 64 bytes for each rank's part not, nor inside a node, nor for an all-gather */
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 16, 1, 1023, ALGORITHM_RING).time_s,
               120e-6 + 30.0 / 16 * 1023 / 160e9);
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 400 * MB, ALGORITHM_RING).time_s, 3550e-6);
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_GATHER, 16, 1, 160 * MB, ALGORITHM_RING).time_s,
               8e-6 + 14 * 3e-6 + 14e-6 + 937.5e-6);
}

TEST(a_tree_reaches_less_of_its_bandwidth_by_size) {
  Cluster cluster = toy_cluster();
  CollectiveLibrary *library = &cluster.collectives;
  library->tree_corrections[0] = (BandwidthCorrection){1 * MiB, {1, 1, 0.5}};
  library->tree_corrections[1] = (BandwidthCorrection){4 * MiB, {1, 1, 0.8}};
  library->n_tree_corrections = 2;
  /* 8 nodes: 155 us (see the tree's closed form) + 2·S / (160 GB/s · factor); halfway in log size 0.65 */
  const double bytes[] = {KiB, MiB, 2 * MiB, 4 * MiB, 64 * MiB}, factor[] = {0.5, 0.5, 0.65, 0.8, 0.8};
  for (int i = 0; i < 5; i++)
    assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 64, 1, bytes[i], ALGORITHM_TREE).time_s,
                 155e-6 + 2 * bytes[i] / (160e9 * factor[i]));
}

TEST(one_node_may_have_a_share_of_its_own) {
  Cluster cluster = toy_cluster();
  cluster.collectives.one_node_share[ALGORITHM_TREE][PROTOCOL_SIMPLE] = 0.5;
  /* 65 us and 2·400 MB at half of 200 GB/s; two nodes: 9 + 2·28 + 2·15 us, all of the 160 GB/s */
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 400 * MB, ALGORITHM_TREE).time_s, 8065e-6);
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 16, 1, 400 * MB, ALGORITHM_TREE).time_s, 5095e-6);
}

TEST(channels_take_an_sm_each_and_fewer_for_little_data) {
  Cluster cluster = switched_cluster();
  cluster.collectives.channel_bytes[PROTOCOL_SIMPLE] = 32 * KiB;
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 64 * MiB, ALGORITHM_RING).sms, 24);
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 64 * MiB, ALGORITHM_NVLS).sms, 16);
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 100 * KiB, ALGORITHM_RING).sms, 3); /* 100/32 */
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 4, ALGORITHM_RING).sms, 1);
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_ALL_TO_ALL, 8, 1, 64 * MiB, -1).sms, 0); /* not known of sends */
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 1, 1, 64 * MiB, -1).sms, 0);
  cluster.gpu.architecture = ARCHITECTURE_OTHER;
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 64 * MiB, ALGORITHM_RING).sms, 0);
}

TEST(a_channel_carries_no_more_than_its_limit) {
  Cluster cluster = switched_cluster();
  OverNodes *most = cluster.collectives.by_architecture[ARCHITECTURE_HOPPER].channel_max;
  most[CHANNEL_TREE] = (OverNodes){10e9, 5e9};
  /* 8 NICs, 8 channels: 80 of 160 GB/s on two nodes, 40 on four. 9 + 2·7·4 us + 2·log2(N)·15 us + 2·400 MB / that */
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 16, 1, 400 * MB, ALGORITHM_TREE).time_s, 95e-6 + 10000e-6);
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 32, 1, 400 * MB, ALGORITHM_TREE).time_s, 125e-6 + 20000e-6);
  /* inside a node there is no limit: 9 + 56 us + 800 MB / 200 GB/s */
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 400 * MB, ALGORITHM_TREE).time_s, 65e-6 + 4000e-6);
  /* NVLSTree: 8 channels of 20 GB/s, 2·15/16·400 MB over them, longer than what the switch and the NICs take */
  most[CHANNEL_NVLS_TREE] = (OverNodes){20e9, 20e9};
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 16, 1, 400 * MB, ALGORITHM_NVLS_TREE).time_s,
               65e-6 + 4687.5e-6);
  /* LL128 of a ring: 0.9 of the bus is 144 GB/s, 8 channels of 15 carry 120: 15/16·80 MB in 625 us */
  cluster.collectives.bandwidth_share[ALGORITHM_RING][PROTOCOL_LL128] = 0.9;
  cluster.collectives.bandwidth_share[ALGORITHM_RING][PROTOCOL_SIMPLE] = 1e-3;
  most[CHANNEL_RING_LL128] = (OverNodes){15e9, 15e9};
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_GATHER, 16, 1, 80 * MB, ALGORITHM_RING).time_s, 625e-6);
}

static int ring_channels(const Cluster *cluster, int n, int stride) {
  const GroupShape shape = shape_of(cluster, n, stride);
  return collective_ring_channels(cluster, &shape);
}

TEST(rings_over_nodes_have_a_channel_per_nic_or_two) {
  Cluster cluster = switched_cluster();
  ck_assert_int_eq(ring_channels(&cluster, 8, 1), 0);
  ck_assert_int_eq(ring_channels(&cluster, 2, 8), 1); /* ring_search: none */
  cluster.collectives.ring_search = (RingSearch){0.96, 25e9, 4, 50e9};
  ck_assert_int_eq(ring_channels(&cluster, 16, 1), 8); /* NICs of 25 GB/s: channels of 24, not halved */
  ck_assert_int_eq(ring_channels(&cluster, 2, 8), 1);
  cluster.nic_Bps = 50e9; /* channels of 48: up to four of them are halved */
  ck_assert_int_eq(ring_channels(&cluster, 16, 1), 8);
  ck_assert_int_eq(ring_channels(&cluster, 8, 2), 8);
  ck_assert_int_eq(ring_channels(&cluster, 2, 8), 2);
  /* each is there twice, on an SM of its own: 4 of a lone member's NIC, 16 of eight */
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 2, 8, 64 * MiB, ALGORITHM_RING).sms, 4);
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 16, 1, 64 * MiB, ALGORITHM_RING).sms, 16);
  cluster.gpu.architecture = ARCHITECTURE_ADA; /* compute capability 8.9: past 8.0, as Hopper */
  ck_assert_int_eq(ring_channels(&cluster, 16, 1), 8);
  cluster.gpu.architecture = ARCHITECTURE_AMPERE; /* any number of them, up to what the search may find */
  ck_assert_int_eq(ring_channels(&cluster, 16, 1), 16);
  cluster.collectives.ring_channels = 12;
  ck_assert_int_eq(ring_channels(&cluster, 16, 1), 12);
  cluster.node_egress_gpus = 4;
  ck_assert_int_eq(ring_channels(&cluster, 16, 1), 4);
}

TEST(steps_of_a_ring_over_nodes_are_posted_to_the_network) {
  Cluster cluster = toy_cluster();
  cluster.collectives.net_overhead_s[PROTOCOL_SIMPLE] = 5e-6;
  cluster.collectives.lone_hop_s[PROTOCOL_SIMPLE] = 20e-6;
  /* all-gather of nothing. 8 ranks of a node: 8 + 7·3 us. 16 on two: 14 steps inside cost 5 instead of 3, one 14.
   * 4 nodes, one rank each: 3 steps of 20 */
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_GATHER, 8, 1, 0, -1).time_s, 29e-6);
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_GATHER, 16, 1, 0, -1).time_s, 8e-6 + 14 * 5e-6 + 14e-6);
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_GATHER, 4, 8, 0, -1).time_s, 68e-6);
}

TEST(a_step_between_nodes_takes_no_less_than_the_nics) {
  Cluster cluster = toy_cluster();
  cluster.nic_step_s = 60e-6;
  /* all-gather, 16 GPUs on 2 nodes: 8 + 14·3 + 1·60 us, 15/16·160 MB / 160 GB/s = 937.5 us; inside a node as before */
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_GATHER, 16, 1, 160 * MB, ALGORITHM_RING).time_s, 1047.5e-6);
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_GATHER, 8, 1, 160 * MB, ALGORITHM_RING).time_s, 729e-6);
  cluster.nic_step_s = 1e-6; /* less than the library's 14 */
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_GATHER, 16, 1, 160 * MB, ALGORITHM_RING).time_s, 1001.5e-6);
}

/* What the formulas of NCCL 2.30.7's tuning.cc give for all-reduces on the graphs that its search finds, worked out
 * apart from this program: 8 A100 12 channels of 20 GB/s; 8 H100 12 of 30 and, for NVLS, 8 of 40 and 60; over nodes 8
 * of 48 and, for NVLSTree, 8 of 40 and 48; one GPU a node 2 of 24. Largest size in KiB, of powers of two up to 1 GiB,
 * for which each is chosen. The one other difference, Ring Simple for NVLSTree at 1 GiB on 4 nodes, is of 0.2 %. */
TEST(the_choice_is_that_of_nccls_tuner_from_1_kib_to_1_gib) {
  static const struct {
    const char *cluster;
    int nodes, members;
    struct {
      int last_kib;
      Algorithm algorithm;
      Protocol protocol;
    } choices[4];
  } cases[] = {
      {"mosaic-a100-80g",
       1,
       8,
       {{2048, ALGORITHM_RING, PROTOCOL_LL},
        {16384, ALGORITHM_RING, PROTOCOL_LL128},
        {1 << 20, ALGORITHM_RING, PROTOCOL_SIMPLE}}},
      {"dgx-h100", 1, 8, {{1024, ALGORITHM_RING, PROTOCOL_LL}, {1 << 20, ALGORITHM_NVLS, PROTOCOL_SIMPLE}}},
      {"dgx-h100",
       2,
       8,
       {{128, ALGORITHM_TREE, PROTOCOL_LL},
        {2048, ALGORITHM_TREE, PROTOCOL_LL128},
        {1 << 20, ALGORITHM_NVLS_TREE, PROTOCOL_SIMPLE}}},
      {"dgx-h100",
       8,
       8,
       {{128, ALGORITHM_TREE, PROTOCOL_LL},
        {8192, ALGORITHM_TREE, PROTOCOL_LL128},
        {1 << 20, ALGORITHM_NVLS_TREE, PROTOCOL_SIMPLE}}},
      {"dgx-h100",
       64,
       8,
       {{128, ALGORITHM_TREE, PROTOCOL_LL},
        {32768, ALGORITHM_TREE, PROTOCOL_LL128},
        {1 << 20, ALGORITHM_NVLS_TREE, PROTOCOL_SIMPLE}}},
      {"dgx-h100",
       64,
       1,
       {{128, ALGORITHM_TREE, PROTOCOL_LL},
        {131072, ALGORITHM_TREE, PROTOCOL_LL128},
        {262144, ALGORITHM_RING, PROTOCOL_LL128},
        {1 << 20, ALGORITHM_RING, PROTOCOL_SIMPLE}}},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Cluster) cluster = cluster_read(cases[i].cluster, NULL);
    ck_assert_ptr_nonnull(cluster);
    const int n = cases[i].nodes * cases[i].members, stride = 8 / cases[i].members;
    for (int kib = 1, k = 0; kib <= 1 << 20; kib *= 2) {
      k += kib > cases[i].choices[k].last_kib;
      const CollectiveWay way = cost_of(cluster, COLLECTIVE_ALL_REDUCE, n, stride, kib * KiB, -1).choice.estimated;
      if (way.algorithm != cases[i].choices[k].algorithm || way.protocol != cases[i].choices[k].protocol)
        ck_abort_msg("%s, %d nodes of %d, %d KiB: %s %s", cases[i].cluster, cases[i].nodes, cases[i].members, kib,
                     algorithm_names()[way.algorithm], protocol_names()[way.protocol]);
    }
  }
}

/* What NCCL 2.28.9 chose for float all-reduces on H100 nodes with 8 NICs of 400 Gb/s, by its own log
 * (NCCL_DEBUG_SUBSYS=TUNING): one node 1 MiB Ring LL, from 9 MiB on NVLS; without NVLS, 9 to 27 MiB Ring LL128, from
 * 128 MiB on Ring Simple; two nodes 1 MiB Tree LL128, from 9 MiB on NVLSTree. */
TEST(the_choice_is_that_of_nccl_on_h100) {
  static const struct {
    int n;
    double mib;
    int asked;
    Algorithm algorithm;
    Protocol protocol;
  } choices[] = {
      {8, 1, -1, ALGORITHM_RING, PROTOCOL_LL},
      {8, 9, -1, ALGORITHM_NVLS, PROTOCOL_SIMPLE},
      {8, 512, -1, ALGORITHM_NVLS, PROTOCOL_SIMPLE},
      {8, 9, ALGORITHM_RING, ALGORITHM_RING, PROTOCOL_LL128},
      {8, 128, ALGORITHM_RING, ALGORITHM_RING, PROTOCOL_SIMPLE},
      {16, 1, -1, ALGORITHM_TREE, PROTOCOL_LL128},
      {16, 9, -1, ALGORITHM_NVLS_TREE, PROTOCOL_SIMPLE},
      {16, 512, -1, ALGORITHM_NVLS_TREE, PROTOCOL_SIMPLE},
  };
  g_autoptr(Cluster) cluster = cluster_read("dgx-h100", NULL);
  ck_assert_ptr_nonnull(cluster);
  for (gsize i = 0; i < G_N_ELEMENTS(choices); i++) {
    CollectiveCost cost =
        cost_of(cluster, COLLECTIVE_ALL_REDUCE, choices[i].n, 1, choices[i].mib * MiB, choices[i].asked);
    ck_assert_int_eq(cost.algorithm, choices[i].algorithm);
    ck_assert_int_eq(cost.protocol, choices[i].protocol);
  }
}

TEST(versions_of_the_library_choose_differently) {
  g_autoptr(Cluster) cluster = cluster_read("dgx-h100", NULL);
  ck_assert_ptr_nonnull(cluster);
  /* 1 MiB over 8 H100, 360 GB/s: 2.30 has Ring LL at 6.6 + 14·0.6 us + 1.75 MiB / 141 GB/s = 28.0 us, NVLS at 25 +
   * 9/8 MiB / (0.85·360 GB/s) = 28.9. 2.18 lets LL carry 87.7 GB/s at most, less than a quarter of the bus: 35.9 us;
   * its NVLS begins with 23 us: 23 + 9/8 MiB / (0.9375·360 GB/s) = 26.5. */
  CollectiveCost now = cost_of(cluster, COLLECTIVE_ALL_REDUCE, 8, 1, MiB, -1);
  ck_assert(now.algorithm == ALGORITHM_RING && now.protocol == PROTOCOL_LL);
  ck_assert_double_eq_tol(now.time_s, 28.0e-6, 0.05e-6);
  collective_library_clear(&cluster->collectives);
  ck_assert(collective_library_read(STEPSIM_SOURCE_DATA "/topologies/nccl/2.18.yaml", &cluster->collectives,
                                    &cluster->eager_bytes, NULL));
  ck_assert_str_eq(cluster->collectives.version, "2.18");
  CollectiveCost then = cost_of(cluster, COLLECTIVE_ALL_REDUCE, 8, 1, MiB, -1);
  ck_assert_int_eq(then.algorithm, ALGORITHM_NVLS);
  ck_assert_double_eq_tol(then.time_s, 26.5e-6, 0.05e-6);
  GroupShape nodes = shape_of(cluster, 16, 8);
  ck_assert_ptr_nonnull(collective_algorithm_lacks(cluster, &nodes, ALGORITHM_PAT)); /* came with 2.23 */
}

/* 4 nodes of 8, 8 NICs of 20 GB/s: 8 channels of 20 GB/s. Of 400 MB each has 50 MB, of which the first MB goes by 30
 * ranks in 50 us each; of 80 KB each has 10 KB, handed on whole. What it is for all-gathers has no such start. */
TEST(a_broadcast_over_nodes_fills_its_ring_first) {
  Cluster cluster = toy_cluster();
  const double latency_s = 8e-6 + 28 * 3e-6 + 3 * 14e-6,
               gather_s = cost_of(&cluster, COLLECTIVE_ALL_GATHER, 32, 1, MB, -1).time_s;
  cluster.collectives.step_bytes[PROTOCOL_SIMPLE] = MB;
  const Collective ops[] = {COLLECTIVE_BROADCAST, COLLECTIVE_REDUCE};
  for (gsize i = 0; i < G_N_ELEMENTS(ops); i++) {
    assert_close(cost_of(&cluster, ops[i], 32, 1, 400 * MB, -1).time_s, latency_s + 2500e-6 + 30 * 50e-6);
    assert_close(cost_of(&cluster, ops[i], 32, 1, 80e3, -1).time_s, latency_s + 0.5e-6 + 30 * 0.5e-6);
    assert_close(cost_of(&cluster, ops[i], 8, 1, 400 * MB, -1).time_s, 2029e-6);
  }
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_GATHER, 32, 1, MB, -1).time_s, gather_s);
}

/* But where the library goes over to what takes less to fill, which it does not reckon with. */
TEST(more_bytes_never_take_less_time_on_shipped_machines) {
  static const char *const clusters[] = {"dgx-h100", "selene", "vtrain-a100", "gb200-nvl72", "v100-dgx2"};
  for (gsize i = 0; i < G_N_ELEMENTS(clusters); i++) {
    g_autoptr(Cluster) cluster = cluster_read(clusters[i], NULL);
    ck_assert_ptr_nonnull(cluster);
    for (int n = 2; n <= 512; n *= 2)
      for (Collective c = 0; c < N_COLLECTIVES; c++) {
        GroupShape shape = shape_of(cluster, n, n < 64 ? 8 : 1);
        CollectiveCost before = {0};
        for (double bytes = 1; bytes < 1e11; bytes *= 1.3) {
          const CollectiveCost cost = collective_cost(cluster, c, &shape, bytes, -1);
          const gboolean is_same_way = cost.algorithm == before.algorithm && cost.protocol == before.protocol;
          if (is_same_way && cost.time_s < before.time_s)
            ck_abort_msg("%s of %g bytes over %d of %s", collective_name(c), bytes, n, clusters[i]);
          before = cost;
        }
      }
  }
}

/* The cluster with its scale-up links, NICs and uplinks as many times as fast, and what the nodes' wiring leaves of
 * that. wiring_free() its wiring. */
static Cluster faster(const Cluster *cluster, double scale_up, double nics, double uplinks) {
  Cluster faster = *cluster;
  faster.scale_up_Bps *= scale_up;
  faster.nic_Bps *= nics;
  for (int i = 0; i < faster.n_tiers; i++)
    faster.tiers[i].oversubscription = MAX(1, faster.tiers[i].oversubscription / uplinks);
  faster.wiring = wiring_new(&faster);
  return faster;
}

static CollectiveCost drawn_cost(const Cluster *cluster, Collective collective, const GroupShape *shape, double bytes) {
  const CollectiveCost cost = collective_cost(cluster, collective, shape, bytes, -1);
  ck_assert_double_le(cost.choice.fastest.time_s, cost.time_s);
  ck_assert_double_le(cost.time_s, cost.choice.estimated.time_s);
  return cost;
}

/* Its tuner may go over to what takes longer as links get faster: 2 A100 gather 1 MiB by LL in 13 us, and with links
 * twice as fast it chooses Simple, which takes 34. With links twice as fast no collective is predicted to take longer;
 * with any faster ones it does only where the output says that the tuner errs. */
TEST(faster_links_never_lengthen_a_collective_on_shipped_machines) {
  g_autoptr(GRand) random = g_rand_new_with_seed(21);
  g_auto(GStrv) names = data_path_list("topologies", ".yaml");
  int n_avoided = 0;
  for (char **name = names; *name != NULL; name++) {
    g_autoptr(Cluster) cluster = cluster_read(*name, NULL);
    ck_assert_ptr_nonnull(cluster);
    g_clear_pointer(&cluster->fitted, fitted_links_free);
    for (int kind = 0; kind < 3; kind++) {
      const double times[] = {g_rand_double_range(random, 0.3, 3), g_rand_double_range(random, 0.3, 3)};
      const double more = g_rand_double_range(random, 1, 2), twice = 2;
      Cluster drawn = faster(cluster, times[0], times[1], 1);
      Cluster doubled = faster(&drawn, kind == 0 ? twice : 1, kind == 1 ? twice : 1, kind == 2 ? twice : 1);
      Cluster a_bit = faster(&drawn, kind == 0 ? more : 1, kind == 1 ? more : 1, kind == 2 ? more : 1);
      for (int i = 0; i < 200; i++) {
        const int n = g_rand_int_range(random, 2, i % 2 == 0 ? 17 : 600);
        const Collective c = g_rand_int_range(random, 0, N_COLLECTIVES);
        const GroupShape shape = shape_of(&drawn, n, i % 3 == 0 ? g_rand_int_range(random, 1, 20) : 1);
        const double bytes = pow(2, g_rand_double_range(random, 8, 32));
        if (shape.n_domains > 1 && cluster->nics_per_node == 0)
          continue;
        const CollectiveCost before = drawn_cost(&drawn, c, &shape, bytes),
                             after = drawn_cost(&doubled, c, &shape, bytes),
                             between = drawn_cost(&a_bit, c, &shape, bytes);
        if (after.time_s > before.time_s * (1 + 1e-12))
          ck_abort_msg("%s of %.0f bytes over %d of %s, times %g and %g: %g us, with links %d twice as fast %g",
                       collective_name(c), bytes, n, *name, times[0], times[1], 1e6 * before.time_s, kind,
                       1e6 * after.time_s);
        ck_assert(between.time_s <= before.time_s * (1 + 1e-12) ||
                  between.choice.estimated.time_s > between.choice.fastest.time_s);
        n_avoided += after.choice.estimated.time_s > before.time_s;
      }
      wiring_free(drawn.wiring);
      wiring_free(doubled.wiring);
      wiring_free(a_bit.wiring);
    }
  }
  ck_assert_int_gt(n_avoided, 20);
}

/* 16 channels to the reducers of 8 GPUs: 128 lanes. */
TEST(reductions_in_the_switch_take_two_rounds_to_begin) {
  Cluster cluster = switched_cluster();
  CollectiveLibrary *library = &cluster.collectives;
  library->nvls_chunk_bytes = 100e3; /* 12.8 MB under way */
  memcpy(library->nvls_halvings, (int[]){64, 8, 2}, 3 * sizeof(int));
  memcpy(library->nvls_tree_halvings, (int[]){4, 1}, 2 * sizeof(int));
  /* 1024 MB, no less than 64 rounds: two of them are 1/40 of (1 + 1/8)·1024 MB / 150 GB/s */
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 1024 * MB, ALGORITHM_NVLS).time_s, 25e-6 + 7872e-6);
  /* 400 MB, less than 64 of 12.8 MB, no less than 8 of 6.4: 2·6.4/400 of 3000 us */
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 400 * MB, ALGORITHM_NVLS).time_s, 25e-6 + 3096e-6);
  /* 2 MB, less than two of 3.2: 2·1.6/2 of 15 us */
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 2 * MB, ALGORITHM_NVLS).time_s, 25e-6 + 39e-6);
  /* a buffer of less than a round is one */
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, MB, ALGORITHM_NVLS).time_s, 25e-6 + 22.5e-6);
  /* 2 nodes: 2·12.8/400 of 3000 us; 8 nodes, chunks of half as much: 2·6.4/400 of 5000 us */
  cluster.nic_Bps = 100e9;
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 16, 1, 400 * MB, ALGORITHM_NVLS_TREE).time_s, 65e-6 + 3192e-6);
  cluster.nic_Bps = 25e9;
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 64, 1, 400 * MB, ALGORITHM_NVLS_TREE).time_s, 145e-6 + 5160e-6);
}

int main(void) {
  return run_tests();
}
