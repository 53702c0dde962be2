/* A cluster as a graph: structure and rates follow from the file, names resolve to vertices, paths are those a library
 * would take, mistakes are found. */
#include "data_path.h"
#include "error.h"
#include "run_suite.h"

#include "topology_fixture.h"

#include <math.h>

TEST(a_file_without_optional_keys_has_the_default_structure) {
  g_autoptr(Cluster) cluster = cluster_of(HEAD "node:\n  gpus: 4\n" NVSWITCH NICS);
  g_autoptr(Topology) t = topology_of(cluster, 8);
  /* 8 GPUs, 4 NICs, 2 NVSwitches, 1 core; per node 4 NVLinks, 4 GPU-NIC, 2 NIC-core */
  ck_assert_int_eq(t->n_vertices, 15);
  ck_assert_int_eq(t->n_links, 20);
  ck_assert_double_eq(link_of(t, "node1/gpu2", "node1/nvswitch")->Bps, 400e9);
  ck_assert(isinf(link_of(t, "node1/gpu2", "node1/nic1")->Bps)); /* GPU 2 of 4 on NIC 1 of 2 */
  const TopologyLink *nic = link_of(t, "node1/nic1", "core");
  ck_assert_double_eq(nic->Bps, 50e9);
  ck_assert_double_eq(topology_link_left_Bps(nic), 45e9);
  ck_assert_double_eq_tol(nic->latency_s, 10e-6, 1e-15); /* half of a send's */
}

TEST(every_shipped_cluster_has_a_sound_graph) {
  g_auto(GStrv) names = data_path_list("topologies", ".yaml");
  ck_assert_uint_ge(g_strv_length(names), 25);
  for (int i = 0; names[i] != NULL; i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Cluster) cluster = cluster_read(names[i], &error);
    ck_assert_msg(cluster != NULL, "%s", error != NULL ? error->message : names[i]);
    g_autoptr(Topology) t =
        topology_of(cluster, cluster->nics_per_node > 0 && cluster->max_gpus == 0 ? 2 * cluster->domain_gpus
                                                                                  : cluster->domain_gpus);
    g_autoptr(GArray) findings = topology_check(t);
    ck_assert_msg(findings->len == 0, "%s: %s", names[i],
                  findings->len > 0 ? g_array_index(findings, Finding, 0).what : "");
  }
}

TEST(names_lead_back_to_their_vertices) {
  static const char *const files[] = {"dgx-h100", "dgx-1-v100", "gb200-nvl72", "llama3-h100", "a100-pcie"};
  for (gsize i = 0; i < G_N_ELEMENTS(files); i++) {
    g_autoptr(Cluster) cluster = cluster_read(files[i], NULL);
    g_autoptr(Topology) t = topology_of(cluster, 3 * cluster->domain_gpus);
    int n_wrong = 0;
    for (int v = 0; v < t->n_vertices; v++) {
      g_autofree char *name = topology_vertex_name(t, v);
      n_wrong += topology_find_vertex(t, name) != v;
    }
    ck_assert_int_eq(n_wrong, 0);
    ck_assert_int_lt(topology_find_vertex(t, "node0/gpu99"), 0);
    ck_assert_int_lt(topology_find_vertex(t, "node00/gpu0"), 0);
    ck_assert_int_lt(topology_find_vertex(t, "node99999999999999999999/gpu0"), 0);
    ck_assert_int_lt(topology_find_vertex(t, ""), 0);
  }
}

TEST(the_cube_mesh_has_six_links_per_gpu) {
  g_autoptr(Cluster) cluster = cluster_read("dgx-1-v100", NULL);
  g_autoptr(Topology) t = topology_of(cluster, 8);
  int n_links[8] = {0};
  for (int i = 0; i < t->n_links; i++)
    if (t->links[i].kind == CABLE_NVLINK) {
      n_links[t->links[i].a] += t->links[i].n_parallel;
      n_links[t->links[i].b] += t->links[i].n_parallel;
      ck_assert_double_eq(t->links[i].Bps, 25e9 * t->links[i].n_parallel);
    }
  for (int gpu = 0; gpu < 8; gpu++)
    ck_assert_int_eq(n_links[gpu], 6);
}

TEST(a_mesh_without_pairs_is_complete) {
  g_autoptr(Cluster) cluster =
      cluster_of(HEAD "node:\n  gpus: 4\n  nics: 0\n"
                      "  scale_up: {kind: nvlink_mesh, bandwidth: 300 GB/s, efficiency: 0.8, latency: 10 us}\n");
  g_autoptr(Topology) t = topology_of(cluster, 4);
  ck_assert_int_eq(t->n_links, 6); /* 4 · 3 / 2 */
  ck_assert_double_eq(link_of(t, "node0/gpu1", "node0/gpu3")->Bps, 100e9);
}

TEST(a_domain_of_several_nodes_has_one_switch) {
  g_autoptr(Cluster) cluster = cluster_read("gb200-nvl72", NULL);
  g_autoptr(Topology) t = topology_of(cluster, 144);
  ck_assert_int_ge(topology_find_link(t, vertex_of(t, "node17/gpu3"), vertex_of(t, "domain0/nvswitch")), 0);
  ck_assert_int_ge(topology_find_link(t, vertex_of(t, "node18/gpu0"), vertex_of(t, "domain1/nvswitch")), 0);
  assert_way(t, 0, 71, "node0/gpu0 domain0/nvswitch node17/gpu3");
}

/* Pods of 3,072 GPUs with a NIC of 50 GB/s each send 3,072 · 50 = 153.6 TB/s up from below; a seventh of it leaves. */
TEST(an_uplink_is_what_comes_up_over_the_oversubscription) {
  g_autoptr(Cluster) cluster = cluster_read("llama3-h100", NULL);
  g_autoptr(Topology) t = topology_of(cluster, 3080); /* one node into the second pod */
  ck_assert_double_eq_tol(link_of(t, "tier0.0", "tier1.0")->Bps, 153.6e12 / 7, 1);
  ck_assert_double_eq_tol(link_of(t, "tier0.1", "tier1.0")->Bps, 153.6e12 / 7, 1);
  assert_way(t, 0, 8, "node0/gpu0 node0/nic0 tier0.0 node1/nic0 node1/gpu0");
  assert_way(t, 0, 3072, "node0/gpu0 node0/nic0 tier0.0 tier1.0 tier0.1 node384/nic0 node384/gpu0");
}

/* Per GPU 2 · 50 / 4 = 25 GB/s leave a node. Leaves of 2 nodes, one per rail: 2 · 50 = 100 GB/s in, 1:2 out. Pods of 16
 * GPUs take 16 · 25 / 2 = 200 GB/s from their leaves and let 1:4 of it out: 50 GB/s. */
TEST(oversubscription_multiplies_on_the_way_up) {
  g_autoptr(Cluster) cluster = cluster_of(
      HEAD "node:\n  gpus: 4\n" NVSWITCH NICS
           "fabric:\n  leaves: {kind: rail_optimised, nodes: 2, latency: 1 us}\n  tiers:\n"
           "    - {span: 16, oversubscription: 2, name: pod, latency: 2 us}\n    - {span: 64, oversubscription: 4}\n");
  g_autoptr(Topology) t = topology_of(cluster, 64);
  ck_assert_double_eq(link_of(t, "leaf1.0", "pod0")->Bps, 50e9);
  ck_assert_double_eq(link_of(t, "pod3", "tier1.0")->Bps, 50e9);
  g_autoptr(Route) route = route_new(t, 0, 12, NULL); /* node 3, other group, same pod */
  g_autofree char *way = way_of(t, route);
  ck_assert_str_eq(way, "node0/gpu0 node0/nic0 leaf0.0 pod0 leaf1.0 node3/nic0 node3/gpu0");
  ck_assert_double_eq_tol(route->latency_s, 23e-6, 1e-12); /* 20 of the NICs, 1 of leaves, 2 of the pod */
}

TEST(classic_leaves_take_all_nics_of_their_nodes) {
  g_autoptr(Cluster) cluster =
      cluster_of(HEAD "node:\n  gpus: 4\n" NVSWITCH NICS "fabric:\n  leaves: {kind: classic, nodes: 2}\n");
  g_autoptr(Topology) t = topology_of(cluster, 16);
  ck_assert_double_eq(link_of(t, "leaf1", "core")->Bps, 200e9); /* 2 nodes · 2 · 50 */
  assert_way(t, 0, 6, "node0/gpu0 node0/nic0 leaf0 node1/nic1 node1/gpu2");
}

/* A first tier that carries half of the NICs needs a place to be narrow at. */
TEST(an_oversubscribed_first_tier_narrows_each_node) {
  g_autoptr(Cluster) cluster =
      cluster_of(HEAD "node:\n  gpus: 4\n" NVSWITCH NICS "fabric:\n  tiers: [{span: 64, oversubscription: 2}]\n");
  g_autoptr(Topology) t = topology_of(cluster, 8);
  ck_assert_double_eq(link_of(t, "leaf1", "tier0.0")->Bps, 50e9); /* 2 · 50 / 2 */
}

/* Routes. */

TEST(a_path_without_nvlink_climbs_the_pcie_tree) {
  g_autoptr(Cluster) cluster = cluster_of(
      HEAD
      "node:\n  gpus: 4\n  scale_up: {kind: pcie, bandwidth: 32 GB/s, efficiency: 0.5, latency: 10 us}\n" NICS PCIE);
  g_autoptr(Topology) t = topology_of(cluster, 8);
  assert_way(t, 0, 1, "node0/gpu0 node0/pcie0 node0/gpu1");
  g_autoptr(Route) route = route_new(t, 0, 2, NULL);
  g_autofree char *way = way_of(t, route);
  ck_assert_str_eq(way, "node0/gpu0 node0/pcie0 node0/socket0 node0/socket1 node0/pcie1 node0/gpu2");
  ck_assert_double_eq(route->left_Bps, 10e9); /* 20 GB/s between sockets, of which half */
  ck_assert_int_eq(route->bottleneck, 2);
  ck_assert_double_eq_tol(route->latency_s, 10e-6, 1e-15);
  ck_assert(!route->uses_net);
}

TEST(gpudirect_stays_below_the_switch_and_staging_goes_through_the_socket) {
  static const struct {
    const char *key;
    gboolean is_staged;
    const char *way;
  } cases[] = {{"", FALSE, "node0/gpu0 node0/pcie0 node0/nic0 core node1/nic0 node1/pcie0 node1/gpu0"},
               {", gpudirect: never", TRUE,
                "node0/gpu0 node0/pcie0 node0/socket0 node0/pcie0 node0/nic0 core node1/nic0 node1/pcie0 node1/socket0 "
                "node1/pcie0 node1/gpu0"}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text =
        g_strdup_printf(HEAD "node:\n  gpus: 4\n" NVSWITCH
                             "  nics: 2\n  nic: {bandwidth: 50 GB/s, efficiency: 0.9, latency: 20 us%s}\n" PCIE,
                        cases[i].key);
    g_autoptr(Cluster) cluster = cluster_of(text);
    g_autoptr(Topology) t = topology_of(cluster, 8);
    g_autoptr(Route) route = route_new(t, 0, 4, NULL);
    g_autofree char *way = way_of(t, route);
    ck_assert_str_eq(way, cases[i].way);
    ck_assert_int_eq(route->is_staged[0], cases[i].is_staged);
    ck_assert_int_eq(route->is_staged[1], cases[i].is_staged);
  }
}

TEST(a_nic_on_another_socket_is_staged) {
  g_autoptr(Cluster) cluster = cluster_of(HEAD "node:\n  gpus: 4\n" NVSWITCH NICS PCIE
                                               "  rails: [{nic: 1, gpus: [0, 1, 2, 3]}, {nic: 0, gpus: [3]}]\n");
  g_autoptr(Topology) t = topology_of(cluster, 8);
  g_autoptr(Route) route = route_new(t, 0, 6, NULL);
  ck_assert(route->is_staged[0] && !route->is_staged[1]);
}

/* NVB: gpu0 – gpu1 – gpu5 and gpu0 – gpu4 – gpu5 both join 0 and 5; the first has links of 25 and 50, the second of 50
 * and 25 GB/s: as wide, and the lower GPU is taken. */
TEST(mesh_peers_that_are_not_wired_meet_in_one_between) {
  g_autoptr(Cluster) cluster = cluster_read("dgx-1-v100", NULL);
  g_autoptr(Topology) t = topology_of(cluster, 8);
  assert_way(t, 0, 3, "node0/gpu0 node0/gpu3");
  assert_way(t, 0, 5, "node0/gpu0 node0/gpu1 node0/gpu5");
}

TEST(another_rail_is_reached_through_a_peer_on_it) {
  g_autoptr(Cluster) cluster = cluster_read("dgx-h100", NULL);
  g_autoptr(Topology) t = topology_of(cluster, 16);
  g_autoptr(Route) route = route_new(t, 1, 10, NULL);
  ck_assert_int_eq(route->peer, 2);
  g_autofree char *way = way_of(t, route);
  ck_assert_str_eq(way, "node0/gpu1 node0/nvswitch node0/gpu2 node0/pcie2 node0/nic2 leaf0.2 node1/nic2 node1/pcie2 "
                        "node1/gpu2");
}

/* Faults. */

static Topology *faulty(const char *faults, Cluster **cluster, GError **error) {
  g_autofree char *text = g_strdup_printf(HEAD "node:\n  gpus: 4\n" NVSWITCH NICS PCIE "faults:\n%s", faults);
  *cluster = cluster_of(text);
  return topology_new(*cluster, 8, error);
}

/* 16 GPUs are nodes 0 to 3 of 4, and one block of a tier that spans them, without a core above. */
#define NOT_THERE(name, more)                                                                                          \
  { "  - {at: " name ", factor: dead}\n" more, "t.yaml:19: faults: found \"" name "\"" }
#define SIXTEEN "max_gpus: 16\n"
#define JOINED SIXTEEN "fabric:\n  tiers: [{span: 16, oversubscription: 1}]\n"

TEST(faults_take_bandwidth_from_the_links_they_name) {
  g_autoptr(Cluster) cluster = NULL;
  g_autoptr(Topology) t = faulty("  - {at: node1/nic0, factor: dead}\n"
                                 "  - {link: [node0/nvswitch, node0/gpu1], factor: 0.25}\n"
                                 "  - {at: node7/gpu0, factor: 0.5}\n", /* not among the first 8 GPUs */
                                 &cluster, NULL);
  ck_assert_double_eq(topology_link_left_Bps(link_of(t, "node1/nic0", "core")), 0);
  ck_assert_double_eq(topology_link_left_Bps(link_of(t, "node1/nic0", "node1/pcie0")), 0);
  ck_assert_double_eq(topology_link_left_Bps(link_of(t, "node0/gpu1", "node0/nvswitch")), 80e9); /* 400 · 0.8 / 4 */
  ck_assert_double_eq(link_of(t, "node0/gpu2", "node0/nvswitch")->factor, 1);
}

TEST(of_faults_at_both_ends_of_a_link_the_worse_counts) {
  g_autoptr(Cluster) cluster = NULL;
  g_autoptr(Topology) t = faulty("  - {at: node0/gpu1, factor: 0.25}\n"
                                 "  - {at: node0/nvswitch, factor: 0.5}\n"
                                 "  - {link: [node0/gpu2, node0/nvswitch], factor: dead}\n",
                                 &cluster, NULL);
  ck_assert_double_eq(link_of(t, "node0/gpu0", "node0/nvswitch")->factor, 0.5);
  ck_assert_double_eq(link_of(t, "node0/gpu1", "node0/nvswitch")->factor, 0.25);
  ck_assert_double_eq(link_of(t, "node0/gpu2", "node0/nvswitch")->factor, 0);
}

TEST(dead_links_are_avoided_or_named) {
  g_autoptr(Cluster) cluster = NULL;
  g_autoptr(Topology) t = faulty("  - {link: [node0/gpu1, node0/nvswitch], factor: dead}\n"
                                 "  - {link: [node0/pcie1, node0/socket1], factor: dead}\n",
                                 &cluster, NULL);
  assert_way(t, 0, 1, "node0/gpu0 node0/pcie0 node0/gpu1"); /* over PCIe instead */
  g_autoptr(GError) error = NULL;
  g_autoptr(Route) none = route_new(t, 1, 2, &error);
  /* from GPU 1 to GPU 2 NVLink is dead at one end, the tree at the other; the network goes out and in again */
  ck_assert_ptr_nonnull(none);
  ck_assert(none->uses_net);
}

TEST(without_a_live_nic_both_go_over_their_neighbours) {
  g_autoptr(Cluster) cluster = NULL;
  g_autoptr(Topology) t = faulty("  - {at: node1/nic0, factor: dead}\n", &cluster, NULL);
  /* GPUs 0 and 1 of node 1 are on NIC 0; the first GPU after those is 2, at its NIC */
  assert_way(t, 0, 4,
             "node0/gpu0 node0/nvswitch node0/gpu2 node0/pcie1 node0/nic1 core node1/nic1 node1/pcie1 node1/gpu2 "
             "node1/nvswitch node1/gpu0");
  g_autoptr(Route) back = route_new(t, 5, 0, NULL);
  ck_assert_int_eq(back->peer, 6);
  ck_assert_int_eq(back->partner, 1);
  ck_assert(back->uses_net && !back->is_staged[0] && !back->is_staged[1]); /* 6 is at NIC 1's switch, 1 at NIC 0's */
  g_autoptr(Route) sound = route_new(t, 2, 6, NULL);
  ck_assert_int_eq(sound->partner, -1);
}

TEST(faults_at_other_parts_of_the_cluster_are_taken) {
  /* the last node of 4, and the second block of 8 GPUs with the core above both: not among the first 8 */
  static const char *const faults[] = {
      "  - {at: node3/nic1, factor: dead}\n" SIXTEEN,
      "  - {at: tier0.1, factor: 0.5}\n" SIXTEEN "fabric:\n  tiers: [{span: 8, oversubscription: 1}]\n",
      "  - {at: core, factor: 0.5}\n" SIXTEEN "fabric:\n  tiers: [{span: 8, oversubscription: 1}]\n",
      "  - {at: leaf3, factor: 0.5}\n" SIXTEEN "fabric:\n  tiers: [{span: 16, oversubscription: 2}]\n"};
  for (gsize i = 0; i < G_N_ELEMENTS(faults); i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Cluster) cluster = NULL;
    g_autoptr(Topology) t = faulty(faults[i], &cluster, &error);
    ck_assert_msg(t != NULL, "%s: %s", faults[i], error != NULL ? error->message : "");
  }
}

TEST(no_path_left_is_impossible_and_says_why) {
  g_autoptr(Cluster) cluster = NULL;
  g_autoptr(Topology) t =
      faulty("  - {at: node1/nic0, factor: dead}\n  - {at: node1/nic1, factor: dead}\n", &cluster, NULL);
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(route_new(t, 0, 4, &error));
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE));
  ck_assert_msg(strstr(error->message, "is dead") != NULL, "%s", error->message);
}

TEST(faults_at_what_is_not_there_are_refused) {
  static const struct {
    const char *fault, *expected;
  } cases[] = {{"  - {at: node0/nic3, factor: dead}\n", "t.yaml:19: faults: found \"node0/nic3\""},
               {"  - {at: nod0/nic1, factor: dead}\n", "did you mean \"node0/nic1\"?"},
               {"  - {link: [node0/gpu0, node1/gpu0], factor: 0.5}\n", "no link between node0/gpu0 and node1/gpu0"},
               {"  - {at: node4/nic0, factor: dead}\n" SIXTEEN, "expected a device or switch that t has with 16 GPUs"},
               NOT_THERE("node4/nvswitch", SIXTEEN),
               NOT_THERE("node999999999999/nic0", ""),
               NOT_THERE("leaf0", ""),
               NOT_THERE("tier0.1", JOINED),
               NOT_THERE("core", JOINED)};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Cluster) cluster = NULL;
    ck_assert_ptr_null(faulty(cases[i].fault, &cluster, &error));
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
    ck_assert_msg(strstr(error->message, cases[i].expected) != NULL, "%s lacks %s", error->message, cases[i].expected);
  }
}

/* Sizes. */

TEST(more_gpus_than_there_are_is_impossible) {
  g_autoptr(Cluster) big = cluster_read("llama3-h100", NULL), alone = cluster_read("simumax-b200", NULL);
  g_autoptr(GError) beyond = NULL, unjoined = NULL;
  ck_assert_ptr_null(topology_new(big, 24577, &beyond));
  ck_assert(g_error_matches(beyond, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE));
  ck_assert_ptr_null(topology_new(alone, 9, &unjoined));
  ck_assert(g_error_matches(unjoined, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE));
}

/* Checks: each mistake alone in an otherwise sound file. */
static const struct {
  const char *text, *expected;
  gboolean is_error;
} mistakes[] = {
    {HEAD "node:\n  gpus: 4\n" NVSWITCH NICS PCIE, NULL, FALSE},
    {HEAD "node:\n  gpus: 4\n" NVSWITCH NICS PCIE "  rails: [{nic: 0, gpus: [0, 1]}, {nic: 1, gpus: [2]}]\n",
     "GPU 3 is served by no NIC", TRUE},
    {HEAD "node:\n  gpus: 4\n" NVSWITCH NICS "  rails: [{nic: 0, gpus: [0, 1, 2, 3]}]\n", "NIC 1 serves no GPU", FALSE},
    {HEAD "node:\n  gpus: 4\n" NVSWITCH NICS PCIE "  rails: [{nic: 0, gpus: [0, 1, 2]}, {nic: 1, gpus: [3]}]\n",
     "NIC 0 serves GPU 2 of another socket", FALSE},
    {HEAD "node:\n  gpus: 2\n  nics: 1\n  nic: {bandwidth: 50 GB/s, efficiency: 0.9, latency: 20 us}\n" NVSWITCH
          "  pcie: {bandwidth: 64 GB/s, sockets: [{gpus: [0], nics: [0]}, {gpus: [1]}], inter_socket: 20 GB/s}\n",
     NULL, FALSE}, /* the socket of GPU 1 has no NIC */
    {HEAD "node:\n  gpus: 4\n" NVSWITCH NICS PCIE "faults: [{at: node1/nic1, factor: dead}]\n",
     "node1/gpu2 has no live NIC", FALSE},
    {HEAD "node:\n  gpus: 2\n  nics: 0\n  scale_up:\n    kind: nvlink_mesh\n    bandwidth: 100 GB/s\n"
          "    efficiency: 0.8\n    latency: 10 us\n    domain: 4\n    mesh: {link: 25 GB/s, pairs: [{gpus: [0, 1], "
          "links: 4}, {gpus: [2, 3], links: 4}]}\n",
     "2 of 4 GPUs cannot be reached from node0/gpu0, the first of them node1/gpu0", TRUE},
    {HEAD "node:\n  gpus: 2\n  nics: 0\n  scale_up:\n    kind: nvlink_mesh\n    bandwidth: 150 GB/s\n"
          "    efficiency: 0.8\n    latency: 10 us\n    mesh: {link: 25 GB/s, pairs: [{gpus: [0, 1], links: 4}]}\n",
     "the 4 NVLinks of GPU 0 carry 100.0 GB/s, the node states 150.0 GB/s", FALSE},
    {HEAD "node:\n  gpus: 1\n  nics: 1\n  nic: {bandwidth: 50 GB/s, efficiency: 0.9, latency: 20 us}\n" NVSWITCH
          "  pcie: {bandwidth: 64 GB/s, sockets: [{}], switches: [{socket: 0, uplink: 200 GB/s, gpus: [0], nics: "
          "[0]}]}\n",
     "the uplink of PCIe switch 0, 200.0 GB/s, is faster than all that feeds it, 128.0 GB/s", FALSE},
    {HEAD "node:\n  gpus: 1\n  nics: 1\n  nic: {bandwidth: 50 GB/s, efficiency: 0.9, latency: 20 us}\n" NVSWITCH
          "  pcie: {bandwidth: 64 GB/s, sockets: [{}], switches: [{socket: 0, uplink: 64 Gb/s, gpus: [0], nics: "
          "[0]}]}\n", /* 8 GB/s: exactly a sixteenth is not below it */
     NULL, FALSE},
    {HEAD "node:\n  gpus: 1\n  nics: 1\n  nic: {bandwidth: 50 GB/s, efficiency: 0.9, latency: 20 us}\n" NVSWITCH
          "  pcie: {bandwidth: 64 GB/s, sockets: [{}], switches: [{socket: 0, uplink: 60 Gb/s, gpus: [0], nics: "
          "[0]}]}\n",
     "below a sixteenth of what feeds it", FALSE},
    {HEAD "node:\n  gpus: 1\n  nics: 1\n  nic: {bandwidth: 50 GB/s, efficiency: 0.9, latency: 20 us}\n" NVSWITCH
          "  pcie: {bandwidth: 32 GB/s, sockets: [{gpus: [0], nics: [0]}]}\n",
     "NIC 0 carries 50.00 GB/s, more than the 32.00 GB/s of its PCIe slot", FALSE},
    {HEAD "node:\n  gpus: 4\n" NVSWITCH NICS "fabric: {tiers: [{span: 30, oversubscription: 1}]}\n",
     "tier 0: span 30 is not a multiple of the 4 GPUs of a node", TRUE},
    {HEAD "node:\n  gpus: 4\n" NVSWITCH NICS
          "fabric: {leaves: {kind: classic, nodes: 2}, tiers: [{span: 16, oversubscription: 1}, {span: 40, "
          "oversubscription: 1}]}\n",
     "tier 1: span 40 is not a multiple of the 16 GPUs", TRUE},
    /* domains of 72 GPUs under leaves of 32 nodes of 8: 256 / 72 = 3.6 of them; of 36 nodes: 4; a pod of 600: 8.3 */
    {"name: t\nbase: dgx-h100\nnode: {scale_up: {domain: 72}}\n",
     "a group of leaves has 256 GPUs, no whole number of scale-up domains of 72", FALSE},
    {"name: t\nbase: dgx-h100\nnode: {scale_up: {domain: 72}}\nfabric: {leaves: {nodes: 36}}\n", NULL, FALSE},
    {"name: t\nbase: gb200-nvl72\nfabric: {leaves: {kind: rail_optimised, nodes: 16}}\n",
     "a group of leaves has 64 GPUs, of which a scale-up domain of 72 is no whole number", FALSE},
    {"name: t\nbase: gb200-nvl72\nfabric: {tiers: [{span: 600, oversubscription: 2}]}\n",
     "tier 0: span 600 GPUs, no whole number of scale-up domains of 72", FALSE},
    {HEAD "node:\n  gpus: 4\n  nics: 4\n  nic: {bandwidth: 50 GB/s, efficiency: 0.9, latency: 20 us}\n"
          "  scale_up: {kind: nvswitch, bandwidth: 40 GB/s, efficiency: 0.8, latency: 10 us}\n",
     "NVLink carries 40.00 GB/s per GPU, less than its share of the NICs, 50.00 GB/s", FALSE},
    {HEAD "node:\n  gpus: 4\n  nics: 1\n  nic: {bandwidth: 400 GB/s, efficiency: 0.9, latency: 20 us}\n" NVSWITCH,
     "a NIC of 400.0 GB/s: such links have 1.000 GB/s to 200.0 GB/s", FALSE},
    /* no tree: PCIe 5.0 x16 is 63 GB/s, 800 Gb/s are 100 GB/s */
    {"name: t\nbase: dgx-h200\nnode: {nic: {bandwidth: 800 Gb/s}}\n",
     "a NIC carries 100.0 GB/s, more than the 63.00 GB/s of a PCIe slot of such nodes", FALSE},
    {HEAD "node:\n  gpus: 4\n  nics: 0\n"
          "  scale_up: {kind: nvswitch, bandwidth: 9 TB/s, efficiency: 0.8, latency: 10 us}\n",
     "scale-up over NVLink of 9.000 TB/s: such links have 20.00 GB/s to 3.600 TB/s", FALSE},
    /* 18 links of 25 GB/s: 450 GB/s one way, 900 GB/s both */
    {"name: t\nbase: dgx-h100\nnode: {scale_up: {bandwidth: 900 GB/s}}\n",
     "scale-up of 900.0 GB/s per GPU: the 18 NVLinks of such a GPU (hopper) carry 450.0 GB/s per direction", FALSE},
    {"name: t\nbase: selene\nnode: {scale_up: {bandwidth: 600 GB/s}}\n",
     "scale-up of 600.0 GB/s per GPU: the 12 NVLinks of such a GPU (ampere) carry 300.0 GB/s per direction", FALSE},
    {"name: t\nbase: dgx-h100\nnode: {scale_up: {bandwidth: 200 GB/s}}\n", NULL, FALSE}, /* of some, as an H800's */
};

TEST(each_mistake_is_found) {
  for (gsize i = 0; i < G_N_ELEMENTS(mistakes); i++) {
    g_autoptr(Cluster) cluster = cluster_of(mistakes[i].text);
    g_autoptr(Topology) t =
        topology_of(cluster, cluster->nics_per_node > 0 ? 2 * cluster->domain_gpus : cluster->domain_gpus);
    g_autoptr(GArray) findings = topology_check(t);
    const Finding *first = findings->len > 0 ? &g_array_index(findings, Finding, 0) : NULL;
    if (mistakes[i].expected == NULL) {
      ck_assert_msg(first == NULL, "case %zu: %s", i, first != NULL ? first->what : "");
      continue;
    }
    ck_assert_msg(first != NULL, "case %zu: nothing found", i);
    ck_assert_msg(strstr(first->what, mistakes[i].expected) != NULL, "case %zu: \"%s\"", i, first->what);
    ck_assert_int_eq(first->is_error, mistakes[i].is_error);
    ck_assert(*first->advice != '\0');
  }
}

int main(void) {
  return run_tests();
}
