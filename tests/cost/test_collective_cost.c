/* A toy cluster: nodes of 8 GPUs, 200 GB/s usable per GPU inside, 8 NICs of 20 GB/s usable. The Simple protocol reaches
 * full bandwidth, LL a quarter with little latency; LL128 does not exist. */
#include "run_suite.h"
#include "toy_cluster.h"

enum { RANDOM_SHAPES = 500 };

static const double GB = 1e9;

static void add_ll(Cluster *cluster) {
  CollectiveLibrary *library = &cluster->collectives;
  library->bandwidth_share[ALGORITHM_RING][PROTOCOL_LL] = 0.25;
  library->base_s[ALGORITHM_RING][PROTOCOL_LL] = 6e-6;
  library->hop_s[LINK_NVLINK][ALGORITHM_RING][PROTOCOL_LL] = 0.5e-6;
  library->hop_s[LINK_NET][ALGORITHM_RING][PROTOCOL_LL] = 3e-6;
}

static double bus_of(const Cluster *cluster, int n, int stride) {
  GroupShape shape = shape_of(cluster, n, stride);
  return collective_bus_Bps(cluster, &shape, NULL);
}

TEST(every_algorithm_and_protocol_has_a_name) {
  for (int a = 0; a <= ALGORITHM_DIRECT; a++)
    ck_assert_ptr_nonnull(algorithm_names()[a]);
  ck_assert_ptr_null(algorithm_names()[ALGORITHM_DIRECT + 1]);
  ck_assert_str_eq(algorithm_names()[ALGORITHM_TREE], "tree");
  ck_assert_str_eq(protocol_names()[PROTOCOL_SIMPLE], "Simple");
  ck_assert_ptr_null(protocol_names()[N_PROTOCOLS]);
}

TEST(a_ring_all_reduce_in_a_node_meets_the_closed_form) {
  Cluster cluster = toy_cluster();
  /* base + 2·7 hops + 2·7/8 · 400 MB / 200 GB/s = 8 + 42 + 3500 us */
  CollectiveCost cost = cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 400 * MB, ALGORITHM_RING);
  assert_close(cost.time_s, 3550e-6);
  assert_close(cost.algbw_Bps, 400 * MB / 3550e-6);
  assert_close(cost.busbw_Bps, 400 * MB / 3550e-6 * 14 / 8);
  ck_assert_int_eq(cost.algorithm, ALGORITHM_RING);
  ck_assert_int_eq(cost.protocol, PROTOCOL_SIMPLE);
  ck_assert_int_eq(cost.link, LINK_NVLINK);
  assert_close(cost.bus_Bps, 200 * GB);
}

TEST(a_ring_all_reduce_sends_less_than_twice_its_buffer) {
  /* 2·7/8·4 GB = 7 GB per GPU, whatever the links; at the bus's 200 GB/s that is 35 ms and 50 us of latency */
  Cluster cluster = toy_cluster();
  ck_assert_double_eq(collective_sent_bytes(COLLECTIVE_ALL_REDUCE, 8, 4e9), 7e9);
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 4e9, ALGORITHM_RING).time_s, 35050e-6);
}

TEST(a_ring_over_nodes_crosses_between_them_twice_each) {
  Cluster cluster = toy_cluster();
  /* 32 ranks on 4 nodes: 2·31 steps, 2·3 of them over the network; bus 8 NICs · 20 GB/s = 160 GB/s < 200. */
  CollectiveCost cost = cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 32, 1, 400 * MB, ALGORITHM_RING);
  assert_close(cost.time_s, 8e-6 + 56 * 3e-6 + 6 * 14e-6 + 62.0 / 32 * 400 * MB / (160 * GB));
  ck_assert_int_eq(cost.link, LINK_NET);
}

TEST(gather_and_reduce_scatter_are_half_an_all_reduce) {
  Cluster cluster = toy_cluster();
  double all_reduce_s = cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 32, 1, 400 * MB, ALGORITHM_RING).time_s;
  const Collective halves[] = {COLLECTIVE_ALL_GATHER, COLLECTIVE_REDUCE_SCATTER};
  for (guint i = 0; i < G_N_ELEMENTS(halves); i++) {
    double half_s = cost_of(&cluster, halves[i], 32, 1, 400 * MB, -1).time_s;
    assert_close(half_s - ring_base_s, (all_reduce_s - ring_base_s) / 2);
  }
}

TEST(a_broadcast_sends_all_of_it_once_over_each_link) {
  Cluster cluster = toy_cluster();
  /* 8 + 7·3 us + 400 MB / 200 GB/s */
  assert_close(cost_of(&cluster, COLLECTIVE_BROADCAST, 8, 1, 400 * MB, -1).time_s, 2029e-6);
  assert_close(cost_of(&cluster, COLLECTIVE_REDUCE, 8, 1, 400 * MB, -1).time_s, 2029e-6);
}

TEST(a_tree_is_logarithmic_in_nodes) {
  Cluster cluster = toy_cluster();
  /* 64 ranks on 8 nodes: 9 + 2·(7·4 + 3·15) us + 2·400 MB / 160 GB/s */
  CollectiveCost cost = cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 64, 1, 400 * MB, ALGORITHM_TREE);
  assert_close(cost.time_s, 155e-6 + 5000e-6);
  ck_assert_int_eq(cost.algorithm, ALGORITHM_TREE);
  /* in one node the tree is a chain: 9 + 2·7·4 us + 2·400 MB / 200 GB/s */
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 400 * MB, ALGORITHM_TREE).time_s, 65e-6 + 4000e-6);
}

TEST(small_messages_take_the_low_latency_protocol_and_large_ones_the_full_one) {
  Cluster cluster = toy_cluster();
  add_ll(&cluster);
  /* 8 ranks, ring: LL 6 + 14·0.5 = 13 us + 1.75·S/50 GB/s; Simple 50 us + 1.75·S/200 GB/s. They meet at
   * 37 us = 1.75·S·(1/50 − 1/200)/GB, S = 1.4095 MB. */
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 1.40 * MB, ALGORITHM_RING).protocol, PROTOCOL_LL);
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 1.42 * MB, ALGORITHM_RING).protocol, PROTOCOL_SIMPLE);
}

TEST(many_nodes_take_the_tree_for_small_messages_and_the_ring_for_large_ones) {
  Cluster cluster = toy_cluster();
  /* 512 ranks on 64 nodes: ring 8 + 2·448·3 + 2·63·14 us = 4460 us, tree 9 + 2·(28 + 90) = 245 us. The ring saves
   * 2·S/(512·160 GB/s): 4215 us at S = 172.6 GB. */
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 512, 1, 172 * GB, -1).algorithm, ALGORITHM_TREE);
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 512, 1, 173 * GB, -1).algorithm, ALGORITHM_RING);
}

TEST(a_missing_algorithm_falls_back_to_the_one_there_is) {
  Cluster cluster = toy_cluster();
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_ALL_GATHER, 8, 1, MB, ALGORITHM_TREE).algorithm, ALGORITHM_RING);
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_ALL_TO_ALL, 8, 1, MB, ALGORITHM_RING).algorithm, ALGORITHM_DIRECT);
  ck_assert_uint_eq(collective_algorithms(COLLECTIVE_BROADCAST), 1 << ALGORITHM_RING);
  ck_assert_uint_eq(collective_algorithms(COLLECTIVE_ALL_TO_ALL), 1 << ALGORITHM_PAIRWISE | 1 << ALGORITHM_DIRECT);
}

TEST(one_rank_takes_no_time) {
  Cluster cluster = toy_cluster();
  for (Collective c = 0; c < N_COLLECTIVES; c++) {
    CollectiveCost cost = cost_of(&cluster, c, 1, 1, GB, -1);
    ck_assert_double_eq(cost.time_s, 0);
    ck_assert_double_eq(cost.algbw_Bps, 0);
    ck_assert_double_eq(cost.busbw_Bps, 0);
  }
}

TEST(no_bytes_take_the_latency_and_have_no_bandwidth) {
  Cluster cluster = toy_cluster();
  CollectiveCost cost = cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 0, ALGORITHM_RING);
  assert_close(cost.time_s, 50e-6);
  ck_assert_double_eq(cost.algbw_Bps, 0);
  ck_assert_double_eq(cost.busbw_Bps, 0);
}

TEST(a_group_has_its_members_share_of_the_nics) {
  Cluster cluster = toy_cluster();
  assert_close(bus_of(&cluster, 4, 8), 20 * GB);   /* 1 member a node: 1 NIC of 8 */
  assert_close(bus_of(&cluster, 8, 4), 40 * GB);   /* 2 members a node */
  assert_close(bus_of(&cluster, 16, 1), 160 * GB); /* 8 members: all NICs */
  cluster.nics_per_node = 2;
  cluster.node_egress_gpus = 4;
  assert_close(bus_of(&cluster, 4, 8), 5 * GB); /* a quarter of one NIC */
}

TEST(nics_faster_than_the_scale_up_links_leave_those_the_bottleneck) {
  Cluster cluster = toy_cluster();
  cluster.nic_Bps = 100e9; /* 8·80 = 640 GB/s out of the node, 200 inside it */
  GroupShape shape = shape_of(&cluster, 16, 1);
  LinkKind slowest;
  assert_close(collective_bus_Bps(&cluster, &shape, &slowest), 200 * GB);
  ck_assert_int_eq(slowest, LINK_NVLINK);
}

TEST(the_emptiest_node_limits_an_uneven_group) {
  Cluster cluster = toy_cluster();
  /* ranks 0..11: 8 on the first node, 4 on the second, whose 4 NICs carry 80 GB/s */
  assert_close(bus_of(&cluster, 12, 1), 80 * GB);
}

TEST(a_domain_wider_than_a_node_counts_as_one) {
  Cluster cluster = toy_cluster();
  cluster.gpus_per_node = 4;
  cluster.domain_gpus = 72;
  cluster.nics_per_node = 4;
  GroupShape inside = shape_of(&cluster, 72, 1);
  LinkKind slowest;
  assert_close(collective_bus_Bps(&cluster, &inside, &slowest), 200 * GB);
  ck_assert_int_eq(slowest, LINK_NVLINK);
  /* ranks 0, 5, … 135: 15 and 13 members, 13 NICs of 20 GB/s are more than the 200 GB/s inside; one member has one NIC
   */
  assert_close(bus_of(&cluster, 28, 5), 200 * GB);
  assert_close(bus_of(&cluster, 4, 72), 20 * GB);
}

TEST(pcie_uses_its_own_hops) {
  Cluster cluster = toy_cluster();
  cluster.scale_up = SCALE_UP_PCIE;
  CollectiveCost cost = cost_of(&cluster, COLLECTIVE_ALL_GATHER, 8, 1, 400 * MB, -1);
  assert_close(cost.time_s, 8e-6 + 7 * 6e-6 + 7.0 / 8 * 2e-3);
  ck_assert_int_eq(cost.link, LINK_PCIE);
}

/* Pods of 64 GPUs (8 nodes), full bisection inside, 1:4 above. */
static Cluster podded_cluster(void) {
  Cluster cluster = toy_cluster();
  cluster.tiers[0] = (FabricTier){64, 1};
  cluster.tiers[1] = (FabricTier){512, 4};
  cluster.n_tiers = 2;
  return cluster;
}

TEST(oversubscription_binds_only_groups_with_few_members_in_a_pod) {
  Cluster cluster = podded_cluster();
  /* Every rank has 20/4 = 5 GB/s of its pod's uplinks. Groups with one member a node (8 in a pod) own 8·5 = 40 GB/s of
   * uplinks and need 20 for the one hop of their ring that leaves the pod. With one member in every fourth node (2 in
   * a pod) they own 10 of the 20 they could use; with one a pod, 5. */
  assert_close(bus_of(&cluster, 16, 8) / GB, 20);
  assert_close(bus_of(&cluster, 8, 32) / GB, 10);
  assert_close(bus_of(&cluster, 4, 64) / GB, 5);
  /* whole nodes, 64 in a pod: 64·5 GB/s of uplinks for a ring of 160 GB/s */
  assert_close(bus_of(&cluster, 128, 1) / GB, 160);
}

TEST(the_pod_with_the_fewest_members_binds_an_uneven_group) {
  Cluster cluster = podded_cluster();
  /* seven nodes of one pod and one of the next, a member in each: the last has 5 GB/s of its pod's uplinks for all that
   * the ring brings there, though the members' mean would have four times as much */
  const int gpus[] = {0, 8, 16, 24, 32, 40, 48, 64};
  GroupShape shape = layout_shape_of(&cluster, gpus, 8);
  assert_close(collective_bus_Bps(&cluster, &shape, NULL) / GB, 5);
  /* two neighbours on either side of a pod's end are as far apart as any */
  const int neighbours[] = {63, 64};
  shape = layout_shape_of(&cluster, neighbours, 2);
  assert_close(collective_bus_Bps(&cluster, &shape, NULL) / GB, 5);
}

TEST(a_group_inside_a_pod_does_not_pay_what_lies_above) {
  Cluster cluster = podded_cluster();
  assert_close(bus_of(&cluster, 2, 32) / GB, 20);
}

TEST(the_first_tier_thins_what_leaves_the_node_and_tiers_add_up) {
  Cluster cluster = podded_cluster();
  cluster.tiers[0].oversubscription = 2;
  assert_close(bus_of(&cluster, 2, 8) / GB, 10);      /* 20 / 2 */
  assert_close(bus_of(&cluster, 4, 64) / GB, 2.5);    /* 20 / 2 / 4 */
  assert_close(bus_of(&cluster, 16, 8) / GB, 10);     /* 8 members in a pod: 8 · 2.5 = 20, the node's 10 are fewer */
  assert_close(bus_of(&cluster, 64, 1) / GB, 8 * 10); /* 8 members a node */
}

/* Groups of four nodes on one leaf, uplinks of a quarter of what comes up. */
static Cluster leafed_cluster(void) {
  Cluster cluster = toy_cluster();
  cluster.leaves = (FabricLeaves){.kind = LEAVES_CLASSIC, .n_nodes = 4};
  cluster.tiers[0] = (FabricTier){512, 4};
  cluster.n_tiers = 1;
  return cluster;
}

TEST(a_group_under_one_leaf_does_not_use_its_uplinks) {
  Cluster cluster = leafed_cluster();
  assert_close(bus_of(&cluster, 4, 8) / GB, 20);   /* one member a node */
  assert_close(bus_of(&cluster, 32, 1) / GB, 160); /* all four nodes: 8 NICs each */
  Cluster listed = podded_cluster();               /* the same as two tiers */
  listed.tiers[0].span_gpus = 32;
  /* Each rank has 5 GB/s of its leaf's uplinks: 2 members under a leaf own 10, 4 own the 20 that the ring needs, 32
   * the 160 of theirs. */
  const struct {
    int n, stride;
    double GBps;
  } groups[] = {{8, 16, 10}, {8, 8, 20}, {64, 1, 160}, {2, 32, 5}};
  for (gsize i = 0; i < G_N_ELEMENTS(groups); i++) {
    assert_close(bus_of(&cluster, groups[i].n, groups[i].stride) / GB, groups[i].GBps);
    assert_close(bus_of(&listed, groups[i].n, groups[i].stride) / GB, groups[i].GBps);
  }
  /* 60 MB from node to node at 20 GB/s, from leaf to leaf at 5 */
  const double within_s = send_cost_s(&cluster, 0, 8, 60 * MB), across_s = send_cost_s(&cluster, 0, 32, 60 * MB);
  assert_close(within_s, cluster.nic_latency_s + 3e-3);
  assert_close(across_s, cluster.nic_latency_s + 12e-3);
}

TEST(all_to_all_is_bound_by_what_leaves_each_enclosure) {
  Cluster cluster = podded_cluster();
  /* One node: each rank sends 7/8 of 80 MB at 200 GB/s; 7 messages. */
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_TO_ALL, 8, 1, 80 * MB, -1).time_s, 8e-6 + 7 * 3e-6 + 350e-6);
  /* Two nodes: 15/16·80 MB at 200 GB/s are 375 us, 8/16·80 MB at 20 GB/s per rank 2000 us; 7 messages in, 8 posted in
   * 2 us each, of which the first is not waited for. */
  cluster.collectives.net_overhead_s[PROTOCOL_SIMPLE] = 2e-6;
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_TO_ALL, 16, 1, 80 * MB, -1).time_s,
               8e-6 + 7 * 3e-6 + 14e-6 + 7 * 2e-6 + 2000e-6);
  /* Two pods of 64: (128 − 64)/128 of 80 MB at 20/4 GB/s are 8000 us; out of the node 120/128 at 20 GB/s only 3750. */
  double time_s = cost_of(&cluster, COLLECTIVE_ALL_TO_ALL, 128, 1, 80 * MB, -1).time_s;
  assert_close(time_s, 8e-6 + 7 * 3e-6 + 14e-6 + 119 * 2e-6 + 8000e-6);
}

/* Up to 16 KiB a message: LL, with half the rate and hops of 0.5 us in a node and 3 between. 8 ranks: 6 + 7·0.5 us and
 * 7/8 of 128 KiB at 100 GB/s; 16 on two nodes post 8 messages in 1 us each. */
TEST(small_plain_sends_go_by_ll) {
  Cluster cluster = toy_cluster();
  add_ll(&cluster);
  CollectiveLibrary *library = &cluster.collectives;
  library->bandwidth_share[ALGORITHM_RING][PROTOCOL_LL] = 0.5;
  library->net_overhead_s[PROTOCOL_LL] = 1e-6;
  library->send_ll_bytes = 16384;
  library->sends_at_once = 8; /* of Simple alone */
  const CollectiveCost inside = cost_of(&cluster, COLLECTIVE_ALL_TO_ALL, 8, 1, 8 * 16384, -1);
  ck_assert_int_eq(inside.protocol, PROTOCOL_LL);
  assert_close(inside.time_s, 6e-6 + 7 * 0.5e-6 + 7 * 16384 / (100 * GB));
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_TO_ALL, 16, 1, 0, -1).time_s, 6e-6 + 7 * 0.5e-6 + 3e-6 + 7 * 1e-6);
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_ALL_TO_ALL, 8, 1, 8 * 16385, -1).protocol, PROTOCOL_SIMPLE);
  library->send_ll_bytes = 0; /* none, an empty one neither */
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_ALL_TO_ALL, 8, 1, 0, -1).protocol, PROTOCOL_SIMPLE);
}

TEST(rooted_operations_have_one_nic) {
  Cluster cluster = toy_cluster();
  /* Two nodes: 8/16 of 80 MB come to the root from the other node, through its one NIC of 20 GB/s. */
  double expected_s = 8e-6 + 7 * 3e-6 + 14e-6 + 2000e-6;
  assert_close(cost_of(&cluster, COLLECTIVE_GATHER, 16, 1, 80 * MB, -1).time_s, expected_s);
  assert_close(cost_of(&cluster, COLLECTIVE_SCATTER, 16, 1, 80 * MB, -1).time_s, expected_s);
  /* With 2 NICs a node, a group over all 8 GPUs gets a whole one for its root; one of 8 groups an eighth of both. */
  cluster.nics_per_node = 2;
  cluster.node_egress_gpus = 4;
  assert_close(cost_of(&cluster, COLLECTIVE_GATHER, 16, 1, 80 * MB, -1).time_s, expected_s);
  assert_close(cost_of(&cluster, COLLECTIVE_GATHER, 2, 8, 80 * MB, -1).time_s, 8e-6 + 14e-6 + 40 * MB / (5 * GB));
}

TEST(what_a_root_takes_in_is_what_is_not_on_its_node) {
  Cluster cluster = toy_cluster();
  /* ranks 0..9: 8 on the first node, 2 on the second; 100 MB are 10 of each. A root on the first takes in 2 messages
   * over its NIC of 20 GB/s, one on the second 8 */
  int gpus[10];
  for (int i = 0; i < 10; i++)
    gpus[i] = i;
  GroupShape shape = layout_shape_of(&cluster, gpus, 10);
  const double first_s = 8e-6 + 7 * 3e-6 + 14e-6 + 20 * MB / (20 * GB);
  const double second_s = 8e-6 + 1 * 3e-6 + 14e-6 + 80 * MB / (20 * GB);
  assert_close(collective_cost(&cluster, COLLECTIVE_GATHER, &shape, 100 * MB, -1).time_s, first_s);
  assert_close(collective_cost(&cluster, COLLECTIVE_SCATTER, &shape, 100 * MB, -1).time_s, first_s);
  const double broadcast_s = collective_cost(&cluster, COLLECTIVE_BROADCAST, &shape, 100 * MB, -1).time_s;
  layout_set_root(&shape, &cluster, gpus, 10, 9);
  assert_close(collective_cost(&cluster, COLLECTIVE_GATHER, &shape, 100 * MB, -1).time_s, second_s);
  assert_close(collective_cost(&cluster, COLLECTIVE_SCATTER, &shape, 100 * MB, -1).time_s, second_s);
  /* a broadcast is a ring through all */
  ck_assert_double_eq(collective_cost(&cluster, COLLECTIVE_BROADCAST, &shape, 100 * MB, -1).time_s, broadcast_s);
}

TEST(send_recv_moves_the_buffer_to_a_neighbour) {
  Cluster cluster = toy_cluster();
  assert_close(cost_of(&cluster, COLLECTIVE_SEND_RECV, 8, 1, 80 * MB, -1).time_s, 8e-6 + 3e-6 + 400e-6);
  assert_close(cost_of(&cluster, COLLECTIVE_SEND_RECV, 16, 1, 80 * MB, -1).time_s, 8e-6 + 14e-6 + 4000e-6);
}

TEST(a_parameter_server_takes_in_and_answers_n_buffers) {
  Cluster cluster = toy_cluster();
  /* 128 workers: 2·128 messages of 1 MB through the server's NIC. */
  assert_close(cost_of(&cluster, COLLECTIVE_PARAMETER_SERVER, 128, 1, MB, -1).time_s,
               8e-6 + 14e-6 + 256 * MB / (20 * GB));
  /* doubling the workers doubles its bytes, which an all-reduce does not */
  double ps128_s = cost_of(&cluster, COLLECTIVE_PARAMETER_SERVER, 128, 1, GB, -1).time_s;
  double ps256_s = cost_of(&cluster, COLLECTIVE_PARAMETER_SERVER, 256, 1, GB, -1).time_s;
  ck_assert_double_eq_tol(ps256_s / ps128_s, 2, 1e-3);
  ck_assert_double_eq(collective_sent_bytes(COLLECTIVE_PARAMETER_SERVER, 128, MB), 128 * MB);
}

TEST(a_send_goes_by_placement) {
  Cluster cluster = podded_cluster();
  assert_close(send_cost_s(&cluster, 0, 7, 80 * MB), 2e-6 + 400e-6);
  assert_close(send_cost_s(&cluster, 7, 8, 80 * MB), 5e-6 + 4000e-6);
  assert_close(send_cost_s(&cluster, 8, 7, 80 * MB), 5e-6 + 4000e-6);
  assert_close(send_cost_s(&cluster, 63, 64, 80 * MB), 5e-6 + 16000e-6);
  cluster.nics_per_node = 2; /* 4 GPUs send over one NIC at once */
  cluster.node_egress_gpus = 4;
  assert_close(send_cost_s(&cluster, 7, 8, 80 * MB), 5e-6 + 16000e-6);
  cluster.nics_per_node = 16; /* one send does not use two NICs */
  cluster.node_egress_gpus = 0.5;
  assert_close(send_cost_s(&cluster, 7, 8, 80 * MB), 5e-6 + 4000e-6);
}

/* A random cluster of up to 3 tiers, LL included. */
static Cluster random_cluster(GRand *random) {
  Cluster cluster = toy_cluster();
  add_ll(&cluster);
  cluster.scale_up_Bps = g_rand_double_range(random, 10e9, 900e9);
  cluster.nic_Bps = g_rand_double_range(random, 5e9, 100e9);
  cluster.nics_per_node = 1 << g_rand_int_range(random, 0, 5);
  cluster.node_egress_gpus = 8.0 / cluster.nics_per_node;
  cluster.n_tiers = g_rand_int_range(random, 0, 4);
  for (int i = 0; i < cluster.n_tiers; i++)
    cluster.tiers[i] = (FabricTier){32 << (2 * i), g_rand_double_range(random, 1, 8)};
  return cluster;
}

/* The cluster with one of its links (0 scale-up, 1 NIC, 2 the uplinks of a tier) at half its bandwidth. */
static Cluster halved(const Cluster *cluster, int what, int tier) {
  Cluster slower = *cluster;
  slower.scale_up_Bps /= what == 0 ? 2 : 1;
  slower.nic_Bps /= what == 1 ? 2 : 1;
  if (what == 2 && slower.n_tiers > 0)
    slower.tiers[tier % slower.n_tiers].oversubscription *= 2;
  return slower;
}

TEST(halving_a_link_never_helps_and_hurts_where_it_is_the_bottleneck) {
  g_autoptr(GRand) random = g_rand_new_with_seed(11);
  for (int i = 0; i < RANDOM_SHAPES; i++) {
    Cluster cluster = random_cluster(random);
    int n = g_rand_int_range(random, 2, 300), stride = g_rand_int_range(random, 1, 20);
    Collective collective = g_rand_int_range(random, 0, N_COLLECTIVES);
    double bytes = pow(10, g_rand_double_range(random, 0, 10));
    CollectiveCost cost = cost_of(&cluster, collective, n, stride, bytes, -1);
    for (int what = 0; what < 3; what++) {
      Cluster slower = halved(&cluster, what, i);
      ck_assert_double_ge(cost_of(&slower, collective, n, stride, bytes, -1).time_s, cost.time_s);
    }
    if (collective > COLLECTIVE_REDUCE_SCATTER)
      continue; /* of the others some are bound by less than the bus */
    Cluster slower = halved(&cluster, cost.link == LINK_NET, 0);
    ck_assert_double_gt(cost_of(&slower, collective, n, stride, bytes, -1).time_s, cost.time_s);
  }
}

TEST(more_bytes_never_take_less_time) {
  g_autoptr(GRand) random = g_rand_new_with_seed(12);
  for (int i = 0; i < RANDOM_SHAPES; i++) {
    Cluster cluster = random_cluster(random);
    int n = g_rand_int_range(random, 2, 300), stride = g_rand_int_range(random, 1, 20);
    for (Collective c = 0; c < N_COLLECTIVES; c++) {
      double bytes = pow(10, g_rand_double_range(random, 0, 10));
      double more = bytes * g_rand_double_range(random, 1, 3);
      ck_assert_double_ge(cost_of(&cluster, c, n, stride, more, -1).time_s,
                          cost_of(&cluster, c, n, stride, bytes, -1).time_s);
    }
  }
}

TEST(nothing_beats_its_bus_bandwidth) {
  g_autoptr(GRand) random = g_rand_new_with_seed(13);
  for (int i = 0; i < RANDOM_SHAPES; i++) {
    Cluster cluster = random_cluster(random);
    int n = g_rand_int_range(random, 2, 300), stride = g_rand_int_range(random, 1, 20);
    double bytes = pow(10, g_rand_double_range(random, 0, 12));
    CollectiveCost cost = cost_of(&cluster, COLLECTIVE_ALL_REDUCE, n, stride, bytes, -1);
    ck_assert_double_le(cost.busbw_Bps, cost.bus_Bps);
  }
}

int main(void) {
  return run_tests();
}
