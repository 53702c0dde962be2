/* How a described node interior limits the stated bandwidths, computed by hand; and the effect on costs. */
#include "error.h"
#include "run_suite.h"

#include "wiring.h"

#include "collective_cost.h"
#include "flows.h"
#include "plan.h"
#include "plan_cases.h"
#include "topology_fixture.h"
#include "topology_network.h"

#define FOUR_NICS "  nics: 4\n  nic: {bandwidth: 25 GB/s, efficiency: 1, latency: 20 us}\n"
/* 4 GPUs under one switch, their NICs plugged into the socket above it: all goes up one uplink, of half what it says */
#define UPLINK(rate)                                                                                                   \
  HEAD "node:\n  gpus: 4\n" NVSWITCH FOUR_NICS                                                                         \
       "  pcie:\n    bandwidth: 64 GB/s\n    efficiency: 0.5\n    sockets: [{nics: [0, 1, 2, 3]}]\n"                   \
       "    switches: [{socket: 0, uplink: " rate ", gpus: [0, 1, 2, 3]}]\n"

static void assert_share(double share, double expected) {
  ck_assert_double_eq_tol(share, expected, 1e-9);
}

static void assert_says(const Cluster *cluster, const char *words) {
  ck_assert_ptr_nonnull(cluster->wiring);
  ck_assert_msg(strstr(cluster->wiring->text, words) != NULL, "%s", cluster->wiring->text);
}

TEST(gpus_share_the_uplink_to_their_nics) {
  /* 4 flows over 200·0.5 = 100 GB/s: 25 each, as much as a NIC; over 50: half; over 25: a quarter */
  g_autoptr(Cluster) wide = cluster_of(UPLINK("200 GB/s"));
  ck_assert_ptr_null(wide->wiring);
  g_autoptr(Cluster) half = cluster_of(UPLINK("100 GB/s"));
  assert_share(wiring_egress_share(half->wiring), 0.5);
  assert_says(half, "NICs carry 12.50 GB/s of 25.00 GB/s a GPU; the PCIe link node0/pcie0 - node0/socket0, 50.00 GB/s, "
                    "is shared by 4 flows");
  g_autoptr(Cluster) quarter = cluster_of(UPLINK("50 GB/s"));
  assert_share(wiring_egress_share(quarter->wiring), 0.25);
  /* bytes take four times as long; the NVSwitch is not the tree's business */
  assert_share((send_cost_s(quarter, 0, 4, 1e9) - 20e-6) / (send_cost_s(wide, 0, 4, 1e9) - 20e-6), 4);
  ck_assert_double_eq(send_cost_s(quarter, 0, 1, 1e9), send_cost_s(wide, 0, 1, 1e9));
}

/* 2 GPUs and 2 NICs under one switch. */
#define STAGED(how)                                                                                                    \
  HEAD "node:\n  gpus: 2\n" NVSWITCH                                                                                   \
       "  nics: 2\n  nic: {bandwidth: 25 GB/s, efficiency: 1, latency: 20 us, gpudirect: " how "}\n"                   \
       "  pcie:\n    bandwidth: 64 GB/s\n    efficiency: 0.5\n    sockets: [{}]\n"                                     \
       "    switches: [{socket: 0, uplink: 100 GB/s, gpus: [0, 1], nics: [0, 1]}]\n"

TEST(what_is_staged_in_host_memory_passes_the_uplink_twice) {
  g_autoptr(Cluster) direct = cluster_of(STAGED("auto"));
  ck_assert_ptr_null(direct->wiring);
  /* each way of the uplink: 2 GPUs' data to memory, and 2 NICs' that came in; 50 GB/s over 4 flows, 12.5 of 25 */
  g_autoptr(Cluster) staged = cluster_of(STAGED("never"));
  assert_share(wiring_egress_share(staged->wiring), 0.5);
}

TEST(a_nic_is_shared_by_those_it_serves) {
  /* of 2 NICs for 4 GPUs each has half of one; the three on NIC 0 have a third */
  g_autoptr(Cluster) uneven =
      cluster_of(HEAD "node:\n  gpus: 4\n" NVSWITCH NICS "  rails: [{nic: 0, gpus: [0, 1, 2]}, {nic: 1, gpus: [3]}]\n");
  assert_share(wiring_egress_share(uneven->wiring), (1.0 / 3) / (1.0 / 2));
  g_autoptr(Cluster) even =
      cluster_of(HEAD "node:\n  gpus: 4\n" NVSWITCH NICS "  rails: [{nic: 0, gpus: [0, 1]}, {nic: 1, gpus: [2, 3]}]\n");
  ck_assert_ptr_null(even->wiring);
  /* one GPU on two NICs of 45 GB/s uses both, but its slot has 64·0.5 = 32 for them: 32 of 90 */
  g_autoptr(Cluster) slot =
      cluster_of(HEAD "node:\n  gpus: 1\n" NVSWITCH NICS "  pcie:\n    bandwidth: 64 GB/s\n    efficiency: 0.5\n"
                      "    sockets: [{gpus: [0], nics: [0, 1]}]\n");
  assert_share(wiring_egress_share(slot->wiring), 32.0 / 90);
}

/* 8 GPUs in 4 linked pairs, on a PCIe tree of two sockets. */
static const char pairs_text[] =
    HEAD "node:\n  gpus: 8\n  scale_up:\n    kind: nvlink_mesh\n    bandwidth: 100 GB/s\n    efficiency: 0.8\n"
         "    latency: 10 us\n    mesh:\n      link: 50 GB/s\n      pairs:\n"
         "        - {gpus: [0, 1], links: 2}\n        - {gpus: [2, 3], links: 2}\n"
         "        - {gpus: [4, 5], links: 2}\n        - {gpus: [6, 7], links: 2}\n" NICS
         "  pcie:\n    bandwidth: 64 GB/s\n    efficiency: 0.5\n    sockets: [{}, {}]\n    inter_socket: 20 GB/s\n"
         "    switches:\n      - {socket: 0, uplink: 60 GB/s, gpus: [0, 1, 2, 3], nics: [0]}\n"
         "      - {socket: 1, uplink: 60 GB/s, gpus: [4, 5, 6, 7], nics: [1]}\n";

TEST(beyond_linked_pairs_gpus_meet_on_pcie) {
  g_autoptr(Cluster) cluster = cluster_of(pairs_text);
  const NodeWiring *wiring = cluster->wiring;
  /* of 80 GB/s: pairs all; four go 1 → 2 and 3 → 0 through slots of 32; eight pass the sockets once each way, 10 */
  assert_share(wiring_group_share(wiring, 2, 1, FALSE), 1);
  assert_share(wiring_group_share(wiring, 4, 1, FALSE), 32.0 / 80);
  assert_share(wiring_group_share(wiring, 8, 1, FALSE), 10.0 / 80);
  /* {0, 4}, {1, 5}, {2, 6}, {3, 7} at once: 4 flows over 10 GB/s */
  assert_share(wiring_group_share(wiring, 2, 4, FALSE), 2.5 / 80);
  /* {0, 2}, {1, 3} …: slots alone; {0, 3} is what two gaps of 3 leave room for: uneven groups have the slowest */
  assert_share(wiring_group_share(wiring, 2, 2, FALSE), 32.0 / 80);
  assert_share(wiring_group_share(wiring, 2, -1, FALSE), 2.5 / 80);
  /* all to all of four: each to 2 GPUs over its slot, 16 each; the third over NVLink: 3 · 16 */
  assert_share(wiring_group_share(wiring, 4, 1, TRUE), 48.0 / 80);
  /* sends: a pair; one over from it, alone on both slots; two on, when 2 → 4 and 3 → 5 share the sockets */
  assert_share(wiring_send_share(wiring, 0, 1), 1);
  assert_share(wiring_send_share(wiring, 1, 2), 32.0 / 80);
  assert_share(wiring_send_share(wiring, 0, 2), 32.0 / 80);
  assert_share(wiring_send_share(wiring, 5, 3), 5.0 / 80);
  assert_says(cluster, "80.00 GB/s among 2, 32.00 GB/s among 4, 10.00 GB/s among 8; the inter-socket link");
}

static double all_reduce_s(const Cluster *cluster, int first, int n, int gap) {
  int ranks[16];
  for (int i = 0; i < n; i++)
    ranks[i] = first + i * gap;
  const GroupShape shape = layout_shape_of(cluster, ranks, n);
  return collective_cost(cluster, COLLECTIVE_ALL_REDUCE, &shape, 1e9, ALGORITHM_RING).time_s;
}

TEST(a_ring_of_four_in_linked_pairs_is_far_slower_than_one_of_two) {
  g_autoptr(Cluster) cluster = cluster_of(pairs_text);
  /* S·2(n−1)/n over 80 and 32 GB/s: 12.5 and 46.9 ms of 1 GB, latencies aside */
  const double two_s = all_reduce_s(cluster, 0, 2, 1), four_s = all_reduce_s(cluster, 0, 4, 1);
  ck_assert_double_eq_tol(two_s, 0.0125, 0.0005);
  ck_assert_double_eq_tol(four_s, 0.046875, 0.0005);
  ck_assert_double_eq_tol(all_reduce_s(cluster, 3, 2, 4), 0.4, 0.001); /* 2.5 GB/s */
}

TEST(rings_of_a_cube_mesh_have_its_narrowest_cut) {
  /* Links of 20 GB/s. All 8: any GPU's 6, no cut is narrower (the cube's halves are joined by 2 + 2 + 1 + 1), so all
   * that is stated. {0 … 3}: GPU 0 has 1 + 1 + 2 = 4 in it, as have all. Pairs: {0, 1} has 1. Every fourth, {2, 6}: 1.
   */
  g_autoptr(Cluster) cluster = read_cluster("dgx-1-v100");
  assert_share(wiring_group_share(cluster->wiring, 8, 1, FALSE), 1);
  assert_share(wiring_group_share(cluster->wiring, 4, 1, FALSE), 4.0 / 6);
  assert_share(wiring_group_share(cluster->wiring, 2, 1, FALSE), 1.0 / 6);
  assert_share(wiring_group_share(cluster->wiring, 2, 4, FALSE), 1.0 / 6);
  assert_share(wiring_send_share(cluster->wiring, 0, 3), 2.0 / 6);
  assert_share(wiring_send_share(cluster->wiring, 0, 5), 1.0 / 6); /* over GPU 1 or 4: 1 link and 2 */
  ck_assert_double_eq(wiring_egress_share(cluster->wiring), 1);
}

/* All-reduce of 0.83 of 25 GB/s among 2 and 4 GPUs, of 0.50 among 8 (SimuMax a100_pcie, v1.2, 2025): the tree's sockets
 * make the difference. */
TEST(eight_gpus_on_pcie_have_what_the_sockets_leave) {
  g_autoptr(Cluster) cluster = read_cluster("a100-pcie");
  ck_assert_double_eq_tol(1.5 / all_reduce_s(cluster, 0, 4, 1), 0.83 * 25, 0.02 * 25);
  ck_assert_double_eq_tol(1.75 / all_reduce_s(cluster, 0, 8, 1), 0.50 * 25, 0.02 * 25);
}

/* The slowest of a ring's or an exchange's flows by the solver that shares all links max-min fairly. */
static double slowest_by_solver(const Cluster *cluster, int members, int gap, gboolean is_all) {
  g_autoptr(Topology) topology = topology_of(cluster, 8);
  g_autoptr(Network) network = network_of_topology(topology, NULL);
  g_autoptr(Flows) flows = flows_new(network);
  guint64 n_flows = 0;
  for (int from = 0; from < 8; from++) {
    const int group = from / (members * gap) * members * gap + from % gap, i = (from - group) / gap;
    for (int step = 1; step < (is_all ? members : 2); step++) {
      g_autoptr(Route) route = route_new(topology, from, group + (i + step) % members * gap, NULL);
      gint32 links[16];
      for (int hop = 0; hop < route->n_hops; hop++)
        links[hop] = network_link_of_hop(topology, &route->hops[hop]);
      const FlowRequest request = {.route = {.links = links, .n_links = route->n_hops},
                                   .weight = 1,
                                   .bytes = 1e30,
                                   .cap_Bps = INFINITY,
                                   .tag = n_flows++};
      flows_start(flows, 0, &request);
    }
  }
  flows_advance(flows, 0);
  double least_Bps = INFINITY;
  g_autofree double *rates_Bps = g_new0(double, n_flows);
  flows_rates(flows, rates_Bps, n_flows);
  for (guint64 tag = 0; tag < n_flows; tag++)
    least_Bps = MIN(least_Bps, rates_Bps[tag]);
  return least_Bps;
}

TEST(shares_are_those_of_the_slowest_flow_when_all_are_max_min_fair) {
  g_autoptr(Cluster) cluster = read_cluster("a100-pcie");
  const double stated_Bps = cluster->scale_up_Bps * cluster->scale_up_efficiency;
  int n_less = 0;
  for (int members = 2; members <= 8; members *= 2)
    for (int gap = 1; members * gap <= 8; gap *= 2)
      for (int is_all = 0; is_all < 2; is_all++) {
        const double Bps = slowest_by_solver(cluster, members, gap, is_all) * (is_all ? members - 1 : 1);
        const double share = wiring_group_share(cluster->wiring, members, gap, is_all);
        if (fabs(share - MIN(Bps / stated_Bps, 1)) > 1e-9)
          ck_abort_msg("%d GPUs %d apart, all %d: %g, the solver says %g GB/s", members, gap, is_all, share, Bps / 1e9);
        n_less += share < 1;
      }
  ck_assert_int_ge(n_less, 4);
}

/* --- no link that is slower makes anything faster --- */

static int count_raised(const double *before, const double *after, int n, int *n_lowered) {
  int n_raised = 0;
  for (int i = 0; i < n; i++) {
    n_raised += after[i] > before[i];
    *n_lowered += after[i] < before[i];
  }
  return n_raised;
}

/* Of bytes: rings, exchanges and sends inside a node, and between two. */
static GArray *all_times(const Cluster *cluster) {
  GArray *times = g_array_new(FALSE, FALSE, sizeof(double));
  const Collective ops[] = {COLLECTIVE_ALL_REDUCE, COLLECTIVE_ALL_TO_ALL, COLLECTIVE_GATHER};
  for (gsize op = 0; op < G_N_ELEMENTS(ops); op++)
    for (int n = 2; n <= 8; n++)
      for (int gap = 1; gap <= 12; gap++) {
        int ranks[8];
        for (int i = 0; i < n; i++)
          ranks[i] = i * gap;
        const GroupShape shape = layout_shape_of(cluster, ranks, n);
        const double rate = 1 / collective_cost(cluster, ops[op], &shape, 1e9, -1).time_s;
        g_array_append_val(times, rate);
      }
  for (int from = 0; from < 8; from++)
    for (int to = 0; to < 16; to++) {
      const double rate = from != to ? 1 / send_cost_s(cluster, from, to, 1e9) : 0;
      g_array_append_val(times, rate);
    }
  return times;
}

static void assert_slower(const Cluster *before, const Cluster *changed, int *n_lowered) {
  Cluster after = *changed;
  after.wiring = wiring_new(&after);
  g_autoptr(GArray) were = all_times(before), are = all_times(&after);
  const int n_raised =
      count_raised((const double *)(void *)were->data, (const double *)(void *)are->data, (int)were->len, n_lowered);
  if (n_raised > 0)
    ck_abort_msg("%s: %d are faster", before->name, n_raised);
  wiring_free(after.wiring);
}

/* One number of the description at a time, halved. Returns how many times and sends that made longer. */
static int halve_each(Cluster *cluster) {
  NodeTopology *node = &cluster->node;
  GPtrArray *numbers = g_ptr_array_new();
  for (int i = 0; i < node->n_switches; i++)
    g_ptr_array_add(numbers, &node->switches[i].uplink_Bps);
  for (int i = 0; i < node->n_gpus && node->n_sockets > 0; i++)
    g_ptr_array_add(numbers, &node->gpu_ports[i].Bps);
  for (int i = 0; i < node->n_nics && node->n_sockets > 0; i++)
    g_ptr_array_add(numbers, &node->nic_ports[i].Bps);
  g_ptr_array_add(numbers, &node->inter_socket_Bps);
  g_ptr_array_add(numbers, &node->mesh_link_Bps);
  int n_lowered = 0;
  for (guint i = 0; i < numbers->len; i++) {
    double *number = g_ptr_array_index(numbers, i);
    const double was = *number;
    *number = was / 2;
    assert_slower(cluster, cluster, &n_lowered);
    *number = was;
  }
  g_ptr_array_free(numbers, TRUE);
  for (int i = 0; i < node->n_pairs; i++) {
    if (node->pairs[i].n_links < 2)
      continue;
    node->pairs[i].n_links /= 2;
    assert_slower(cluster, cluster, &n_lowered);
    node->pairs[i].n_links *= 2;
  }
  return n_lowered;
}

TEST(halving_a_link_makes_nothing_faster) {
  g_autoptr(Cluster) pairs = cluster_of(pairs_text);
  g_autoptr(Cluster) mesh = read_cluster("dgx-1-v100");
  g_autoptr(Cluster) tree = read_cluster("a100-pcie");
  Cluster *const clusters[] = {pairs, mesh, tree};
  for (gsize i = 0; i < G_N_ELEMENTS(clusters); i++)
    for (int direct = 0; direct < N_GPUDIRECT; direct++) {
      Cluster *cluster = clusters[i];
      cluster->node.gpudirect = (GpuDirect)direct;
      wiring_free(cluster->wiring);
      cluster->wiring = wiring_new(cluster);
      ck_assert_int_gt(halve_each(cluster), 50);
    }
}

TEST(gpus_that_nothing_joins_are_impossible) {
  g_autoptr(Cluster) cluster =
      cluster_of(HEAD "node:\n  gpus: 4\n  scale_up:\n    kind: nvlink_mesh\n    bandwidth: 50 GB/s\n"
                      "    efficiency: 0.8\n    latency: 10 us\n    mesh:\n      link: 50 GB/s\n      pairs:\n"
                      "        - {gpus: [0, 1], links: 1}\n        - {gpus: [2, 3], links: 1}\n  nics: 0\n");
  g_autoptr(GError) error = NULL;
  ck_assert(!cluster_check_sound(cluster, &error));
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE));
  ck_assert_ptr_nonnull(strstr(error->message, "no path from node0/gpu0 to node0/gpu2"));
}

/* 128 GPUs on a socket, as a file may say: not looked at, and said so; domains of any width cost nothing. */
TEST(wide_domains_are_left_as_stated_and_say_so) {
  g_autoptr(GString) text = g_string_new(HEAD "node:\n  gpus: 128\n  scale_up: {kind: pcie, bandwidth: 25 GB/s, "
                                              "efficiency: 0.8, latency: 10 us}\n  nics: 0\n"
                                              "  pcie:\n    bandwidth: 31.5 GB/s\n    sockets: [{gpus: [0");
  for (int gpu = 1; gpu < 128; gpu++)
    g_string_append_printf(text, ", %d", gpu);
  g_string_append(text, "]}]\n");
  g_autoptr(Cluster) cluster = cluster_of(text->str);
  assert_says(cluster, "128 GPUs without a switch are more than the 64");
  assert_share(wiring_group_share(cluster->wiring, 128, 1, FALSE), 1);
  assert_share(wiring_send_share(cluster->wiring, 0, 127), 1);
  g_autoptr(Cluster) wide = cluster_of(HEAD "node:\n  gpus: 4\n  scale_up: {kind: nvswitch, bandwidth: 400 GB/s, "
                                            "efficiency: 0.8, latency: 10 us, domain: 65536}\n" NICS
                                            "  rails: [{nic: 0, gpus: [0, 1, 2]}, {nic: 1, gpus: [3]}]\n");
  assert_share(wiring_egress_share(wide->wiring), 2.0 / 3);
}

/* --- predictions --- */

/* tp or dp over four GPUs. */
static gint64 step_ns(const Cluster *cluster, int tp, int dp) {
  Case drawn = {.model = llama, .cluster = cluster, .plan = plan_new()};
  drawn.plan->tp = tp;
  drawn.plan->dp = dp;
  drawn.plan->seq_len = 512;
  g_autoptr(Prediction) prediction = predict_case(&drawn);
  const gint64 ns = prediction->metrics->step_ns;
  case_clear(&drawn);
  return ns;
}

TEST(a_step_waits_for_the_shared_link) {
  g_autoptr(Cluster) wide = cluster_of(UPLINK("200 GB/s"));
  g_autoptr(Cluster) narrow = cluster_of(UPLINK("25 GB/s"));
  ck_assert_int_gt(step_ns(narrow, 4, 2), step_ns(wide, 4, 2));
  ck_assert_int_eq(step_ns(narrow, 4, 1), step_ns(wide, 4, 1)); /* nothing leaves the node */
  g_autoptr(Cluster) pairs = cluster_of(pairs_text);
  const gint64 wired_ns = step_ns(pairs, 4, 1), pair_ns = step_ns(pairs, 2, 1);
  NodeWiring *wiring = g_steal_pointer(&pairs->wiring);
  ck_assert_int_gt(wired_ns, step_ns(pairs, 4, 1));
  ck_assert_int_eq(pair_ns, step_ns(pairs, 2, 1));
  pairs->wiring = wiring;
}

/* A cluster with one of its inner links halved; its wiring is the caller's to free. */
static Cluster with_half(const Cluster *cluster, guint seed) {
  Cluster half = *cluster;
  NodeTopology *node = &half.node;
  if (seed % 3 == 0 && node->n_switches > 0) {
    node->switches = g_memdup2(node->switches, sizeof *node->switches * (gsize)node->n_switches);
    node->switches[seed % (guint)node->n_switches].uplink_Bps /= 2;
  } else if (seed % 3 == 1) {
    node->gpu_ports = g_memdup2(node->gpu_ports, sizeof *node->gpu_ports * (gsize)node->n_gpus);
    node->gpu_ports[seed % (guint)node->n_gpus].Bps /= 8;
  } else {
    node->inter_socket_Bps /= 2;
    node->mesh_link_Bps /= 2;
  }
  half.wiring = wiring_new(&half);
  return half;
}

static void clear_half(Cluster *half, const Cluster *cluster) {
  wiring_free(half->wiring);
  if (half->node.switches != cluster->node.switches)
    g_free(half->node.switches);
  if (half->node.gpu_ports != cluster->node.gpu_ports)
    g_free(half->node.gpu_ports);
}

TEST(halving_a_link_never_shortens_a_step) {
  g_autoptr(Cluster) pairs = cluster_of(pairs_text);
  g_autoptr(Cluster) mesh = read_cluster("dgx-1-v100");
  g_autoptr(Cluster) tree = read_cluster("a100-pcie");
  Cluster *const clusters[N_CASE_CLUSTERS] = {pairs, mesh, tree, pairs, mesh, tree};
  int n_longer = 0;
  for (guint seed = 0; seed < 90; seed++) {
    g_auto(Case) drawn = random_case(seed, clusters, 64);
    drawn.plan->contention = FALSE; /* shares follow who meets whom */
    g_autoptr(Prediction) before = predict_case(&drawn);
    Cluster half = with_half(drawn.cluster, seed);
    g_autoptr(Prediction) after = predict_on(&drawn, &half, drawn.plan);
    const gint64 was_ns = before->metrics->step_ns, is_ns = after->metrics->step_ns;
    g_autofree char *text = case_text(&drawn);
    if (is_ns < was_ns)
      ck_abort_msg("%s\n%d ns, with half of a link %d", text, (int)was_ns, (int)is_ns);
    n_longer += is_ns > was_ns;
    clear_half(&half, drawn.cluster);
  }
  ck_assert_int_gt(n_longer, 15);
}

int main(void) {
  return run_tests();
}
