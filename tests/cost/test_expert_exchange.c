/* Expert exchanges by DeepEP's kernels: closed forms on the toy cluster, and its authors' measurements. */
#include "expert_exchange.h"
#include "run_suite.h"
#include "toy_cluster.h"

static const ModelExperts deepseek = {.n = 256, .per_token = 8, .n_groups = 8, .groups_per_token = 4};

static CollectiveCost exchange_of(const Cluster *cluster, const ModelExperts *experts, int n, double bytes) {
  const GroupShape shape = shape_of(cluster, n, 1);
  return expert_exchange_cost(cluster, experts, &shape, bytes);
}

/* One expert for each token: nothing is sent twice, in one node 7/8 of 160 MB at 200 GB/s, over 4 nodes 3/4 at 20. */
TEST(one_expert_a_token_is_a_plain_exchange) {
  const Cluster cluster = toy_cluster();
  const ModelExperts experts = {.n = 64, .per_token = 1};
  assert_close(exchange_of(&cluster, &experts, 8, 160 * MB).time_s, ring_base_s + ring_hop_s + 700e-6);
  const CollectiveCost over = exchange_of(&cluster, &experts, 32, 160 * MB);
  assert_close(over.time_s, ring_base_s + ring_hop_s + ring_net_s + 6e-3);
  assert_close(over.latency_s, ring_base_s + ring_hop_s + ring_net_s);
  ck_assert_int_eq(over.link, LINK_NET);
  ck_assert_double_eq(exchange_of(&cluster, &experts, 1, 160 * MB).time_s, 0);
}

/* A step between nodes takes at least what the cluster says, where that is more than the library's 14 us. */
TEST(a_cluster_may_say_the_least_that_a_step_between_nodes_takes) {
  Cluster cluster = toy_cluster();
  const ModelExperts experts = {.n = 64, .per_token = 1};
  cluster.nic_step_s = 50e-6;
  assert_close(exchange_of(&cluster, &experts, 32, 160 * MB).latency_s, ring_base_s + ring_hop_s + 50e-6);
  assert_close(exchange_of(&cluster, &experts, 8, 160 * MB).latency_s, ring_base_s + ring_hop_s);
  cluster.nic_step_s = 10e-6;
  assert_close(exchange_of(&cluster, &experts, 32, 160 * MB).latency_s, ring_base_s + ring_hop_s + ring_net_s);
}

/* 16 experts, one on each of 16 ranks, in two nodes. A token for all of them is sent 16 times, but once alone to the
 * other node; one for two of them is sent twice, and has some on 2·(1 − C(8,2)/C(16,2)) of the nodes. */
TEST(copies_for_one_node_cross_once) {
  const Cluster cluster = toy_cluster();
  const ModelExperts all = {.n = 16, .per_token = 16};
  const double latency_s = ring_base_s + ring_hop_s + ring_net_s;
  /* 16 ranks and 2 nodes: S · 2/16 · 1/2 at 20 GB/s is less than S · 7/8 at 200 */
  const CollectiveCost inside = exchange_of(&cluster, &all, 16, 160 * MB);
  assert_close(inside.time_s, latency_s + 160 * MB * 7 / 8 / 200e9);
  ck_assert_int_eq(inside.link, LINK_NVLINK);
  const ModelExperts two = {.n = 16, .per_token = 2}; /* 2 ranks; 2·(1 − C(8,2)/C(16,2)) = 2·(1 − 28/120) nodes */
  assert_close(exchange_of(&cluster, &two, 16, 160 * MB).time_s,
               latency_s + 160 * MB * (2 * 92.0 / 120) / 2 / 2 / 20e9);
}

/* DeepEP README.md (2025-04): 4,096 tokens of 7,168 in bf16 come back at 57 and 50 GB/s a GPU over 32 and 64 H800, by
 * the bytes that go to nodes, its own among them. */
TEST(it_takes_what_deepep_measured) {
  g_autoptr(GError) error = NULL;
  g_autoptr(Cluster) cluster = cluster_read("h800", &error);
  ck_assert_msg(cluster != NULL, "%s", error == NULL ? "" : error->message);
  const struct {
    int n;
    double Bps;
  } measured[] = {{32, 57e9}, {64, 50e9}};
  for (gsize i = 0; i < G_N_ELEMENTS(measured); i++) {
    const double row_bytes = 4096 * 7168 * 2, ranks = model_expert_places(&deepseek, measured[i].n);
    const double nodes = model_expert_places(&deepseek, measured[i].n / 8);
    const double time_s = exchange_of(cluster, &deepseek, measured[i].n, row_bytes * ranks).time_s;
    ck_assert_double_eq_tol(row_bytes * nodes / time_s / measured[i].Bps, 1, 0.1);
  }
}

int main(void) {
  return run_tests();
}
