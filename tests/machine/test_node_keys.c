/* Cluster file keys for the inside of a node, leaf switches, other GPUs, faults and the tax on transfers: read as
 * written, or refused with the line, what was found and what was expected. */
#include "error.h"
#include "run_suite.h"
#include "text_file.h"

#include "topology_fixture.h"

/* Owned by the caller. */
static char *whole_text(void) {
  return text_file_read(STEPSIM_SOURCE_DATA "/tests/data/topology/everything.yaml");
}

TEST(every_key_lands_in_its_field) {
  g_autofree char *whole = whole_text();
  g_autoptr(Cluster) cluster = cluster_of(whole);
  const NodeTopology *node = &cluster->node;
  ck_assert_int_eq(node->n_pairs, 2);
  ck_assert_int_eq(node->pairs[0].a, 0);
  ck_assert_int_eq(node->pairs[0].b, 1);
  ck_assert_int_eq(node->pairs[0].n_links, 3);
  ck_assert_double_eq(node->mesh_link_Bps, 25e9);
  ck_assert_int_eq(node->gpudirect, GPUDIRECT_ALWAYS);
  ck_assert_double_eq_tol(node->pcie_latency_s, 5e-7, 1e-18);
  ck_assert_int_eq(node->n_sockets, 2);
  ck_assert_double_eq(node->inter_socket_Bps, 20e9);
  ck_assert_int_eq(node->switches[1].parent, 0);
  ck_assert_double_eq(node->switches[1].uplink_Bps, 32e9);
  ck_assert_int_eq(node->gpu_ports[3].pcie_switch, -1);
  ck_assert_int_eq(node->nic_ports[1].socket, 1);
  ck_assert_double_eq(node->gpu_ports[2].Bps, 16e9);
  ck_assert_double_eq(node->gpu_ports[1].Bps, 64e9);
  ck_assert_int_eq(node->n_rails, 4);
  ck_assert_int_eq(node->rails[3].nic, 1); /* sorted by GPU */
  ck_assert_int_eq(cluster->leaves.n_nodes, 4);
  ck_assert_str_eq(cluster->tiers[0].name, "pod");
  const GpuRange *range = &g_array_index(cluster->other_gpus, GpuRange, 0);
  ck_assert_int_eq(range->first_node, 3); /* sorted */
  ck_assert_int_eq(range->last_node, 3);
  ck_assert_str_eq(range[1].gpu.name, "a100-sxm4-80gb");
  ck_assert_double_eq(g_array_index(cluster->faults, LinkFault, 0).factor, 0);
}

typedef struct {
  const char *from, *to;
  int line;
  const char *expected;
} Break;

TEST(each_mistake_is_refused_where_it_stands) {
  static const Break breaks[] = {
      {"gpus: [1, 0]", "gpus: [1, 4]", 15, "found GPU \"4\", expected 0 to 3"},
      {"gpus: [1, 0]", "gpus: [1]", 15, "found 1 GPU, expected the two that are wired"},
      {"gpus: [1, 0]", "gpus: [1, 1]", 15, "GPU 1 wired to itself"},
      {"gpus: [2, 3], links", "gpus: [0, 1], links", 14, "the pair of GPUs 0 and 1 is listed twice"},
      {"links: 3}\n        - {gpus: [2", "lanks: 3}\n        - {gpus: [2", 15, "did you mean \"links\"?"},
      {"link: 25 GB/s", "link: 25", 13, "unit"},
      {"kind: nvlink_mesh", "kind: nvswitch", 12, "expected nvlink_mesh"},
      {"gpudirect: always", "gpudirect: allways", 18, "did you mean \"always\"?"},
      {"{gpus: [3]}", "{gpus: [2]}", 28, "GPU 2 is plugged in twice"},
      {"{gpus: [3]}", "{}", 19, "GPU 3 is plugged in nowhere"},
      {"- {nics: [1]}\n", "- {}\n", 19, "NIC 1 is plugged in nowhere"},
      {"socket: 0, uplink", "socket: 2, uplink", 27, "found socket \"2\", expected 0 to 1"},
      {"switch: 0, uplink", "switch: 1, uplink", 28, "an earlier switch"},
      {"switch: 0, uplink", "switch: 0, socket: 0, uplink", 28, "either \"socket\" or \"switch\""},
      {"    inter_socket: 20 GB/s\n", "", 19, "the key \"inter_socket\" is missing"},
      {"      - {nics: [1]}\n", "", 19, "NIC 1 is plugged in nowhere"},
      {"{gpu: 2, bandwidth", "{gpu: 2, nic: 0, bandwidth", 30, "either \"gpu\" or \"nic\""},
      {"{nic: 1, gpus: [2, 3]}", "{nic: 0, gpus: [1]}", 31, "NIC 0 is said twice to serve GPU 1"},
      {"{nic: 1, gpus: [2, 3]}", "{nic: 2, gpus: [2]}", 32, "found NIC \"2\", expected 0 to 1"},
      {"kind: classic", "kind: rail", 35, "rail_optimised"},
      {"nodes: 4, latency", "nodes: 16, latency", 37,
       "found span 64, expected more than the 64 GPUs of the 16 nodes under a leaf"},
      {"name: pod", "name: Pod 1", 37, "small letters"},
      {"name: pod", "name: core", 37, "taken"},
      {"nodes: 8..15", "nodes: 15..8", 39, "a range such as 16..31"},
      {"nodes: 3, gpu", "nodes: 9, gpu", 38, "node 9 is in two ranges"},
      {"h200-sxm5-141gb", "h200-sxm5-14gb", 40, "did you mean \"h200-sxm5-141gb\"?"},
      {"factor: dead", "factor: 1", 42, "expected dead, or the share"},
      {"factor: dead", "factor: 0", 42, "expected dead, or the share"},
      {"factor: 0.5", "factor: nan", 43, "expected dead, or the share"},
      {"[node0/gpu0, node0/gpu1]", "[node0/gpu0]", 43, "expected both"},
      {"at: node2/nic1", "at: node2/nic1, link: [a, b]", 42, "either \"at\""},
  };
  g_autofree char *whole = whole_text();
  for (gsize i = 0; i < G_N_ELEMENTS(breaks); i++) {
    g_auto(GStrv) parts = g_strsplit(whole, breaks[i].from, 2);
    ck_assert_msg(g_strv_length(parts) == 2, "\"%s\" is not there", breaks[i].from);
    g_autofree char *text = g_strjoinv(breaks[i].to, parts);
    g_autoptr(GError) error = NULL;
    g_autoptr(Cluster) cluster = cluster_parse("t.yaml", text, &error);
    ck_assert_msg(cluster == NULL, "\"%s\" is accepted", breaks[i].to);
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
    g_autofree char *place = g_strdup_printf("t.yaml:%d: ", breaks[i].line);
    ck_assert_msg(g_str_has_prefix(error->message, place), "\"%s\": %s", breaks[i].to, error->message);
    ck_assert_msg(strstr(error->message, breaks[i].expected) != NULL, "\"%s\": %s", breaks[i].to, error->message);
  }
}

/* NULL with the error set. Owned by the caller. */
static Cluster *taxed(const char *value, GError **error) {
  g_autofree char *text = g_strdup_printf(HEAD "transfer_tax: %s\nnode:\n  gpus: 4\n" NVSWITCH NICS, value);
  return cluster_parse("t.yaml", text, error);
}

static TransferTax tax_of(const char *value) {
  g_autoptr(GError) error = NULL;
  g_autoptr(Cluster) cluster = taxed(value, &error);
  ck_assert_msg(cluster != NULL, "%s", error != NULL ? error->message : "?");
  return cluster->transfer_tax;
}

TEST(a_tax_on_transfers_is_said_in_three_ways) {
  const TransferTax any = tax_of("0.2"), by_kind = tax_of("{nvlink: 0.15, net: 0.02}"), channels = tax_of("channels");
  for (int link = 0; link < N_LINKS; link++) {
    ck_assert_double_eq(any.of_link[link], 0.2);
    ck_assert_double_eq(channels.of_link[link], 0);
  }
  ck_assert_double_eq(by_kind.of_link[LINK_NVLINK], 0.15);
  ck_assert_double_eq(by_kind.of_link[LINK_PCIE], 0); /* left out: free */
  ck_assert_double_eq(by_kind.of_link[LINK_NET], 0.02);
  ck_assert(channels.by_channels && !any.by_channels && !by_kind.by_channels);
}

TEST(other_taxes_are_refused) {
  static const struct {
    const char *value, *expected;
  } taxes[] = {{"much", "found \"much\", expected a number from 0 to 10, numbers by kind of link"},
               {"11", "found \"11\", expected a number from 0 to 10"},
               {"nan", "found \"nan\""},
               {"0.2 s", "found \"0.2 s\""},
               {"[0.2]", "found a list"},
               {"{nvlnk: 0.2}", "did you mean \"nvlink\"?"},
               {"{net: -1}", "found \"-1\""}};
  for (gsize i = 0; i < G_N_ELEMENTS(taxes); i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Cluster) cluster = taxed(taxes[i].value, &error);
    ck_assert_msg(cluster == NULL, "%s is accepted", taxes[i].value);
    ck_assert_msg(g_str_has_prefix(error->message, "t.yaml:5: "), "%s", error->message);
    ck_assert_msg(strstr(error->message, taxes[i].expected) != NULL, "%s", error->message);
  }
}

TEST(gpus_spread_over_nics_in_order) {
  static const struct {
    int n_gpus, n_nics, n_rails;
    Rail rails[8];
  } cases[] = {{4, 2, 4, {{0, 0}, {1, 0}, {2, 1}, {3, 1}}},
               {2, 4, 4, {{0, 0}, {0, 1}, {1, 2}, {1, 3}}},
               {3, 2, 3, {{0, 0}, {1, 0}, {2, 1}}},
               {2, 0, 0, {{0, 0}}}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    NodeTopology node = {.n_gpus = cases[i].n_gpus, .n_nics = cases[i].n_nics};
    ck_assert(node_topology_read(&node, &(NodeTopologyKeys){0}, cases[i].n_gpus, NULL));
    ck_assert_int_eq(node.n_rails, cases[i].n_rails);
    for (int rail = 0; rail < node.n_rails; rail++) {
      ck_assert_int_eq(node.rails[rail].gpu, cases[i].rails[rail].gpu);
      ck_assert_int_eq(node.rails[rail].nic, cases[i].rails[rail].nic);
    }
    node_topology_clear(&node);
  }
}

TEST(faults_are_refused_by_costs_and_other_gpus_are_counted) {
  g_autofree char *whole = whole_text();
  g_autoptr(Cluster) cluster = cluster_of(whole);
  g_autoptr(GError) error = NULL;
  ck_assert(!cluster_check_sound(cluster, &error));
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE));
  g_clear_pointer(&cluster->faults, g_array_unref);
  ck_assert(cluster_check_sound(cluster, NULL));
  ck_assert_int_eq(cluster_other_gpus(cluster, 12), 0); /* nodes 0 to 2 */
  ck_assert_int_eq(cluster_other_gpus(cluster, 13), 1); /* node 3 */
  ck_assert_int_eq(cluster_other_gpus(cluster, 36), 2); /* node 8 */
}

TEST(a_place_has_one_fault) {
  static const struct {
    const char *first, *second, *place;
  } pairs[] = {{"at: node1/nic0, factor: 0.5", "at: node1/nic0, factor: dead", "node1/nic0"},
               {"link: [node0/gpu1, node0/nvswitch], factor: 0.5", "link: [node0/nvswitch, node0/gpu1], factor: 0.5",
                "node0/gpu1 - node0/nvswitch"},
               {"at: node1/nic0, factor: 0.5", "at: node1/nic1, factor: 0.5", NULL},
               {"at: node0/gpu1, factor: 0.5", "link: [node0/gpu1, node0/nvswitch], factor: 0.5", NULL}};
  for (gsize i = 0; i < G_N_ELEMENTS(pairs); i++) {
    g_autofree char *text = g_strdup_printf(HEAD "node:\n  gpus: 4\n" NVSWITCH NICS "faults:\n  - {%s}\n  - {%s}\n",
                                            pairs[i].first, pairs[i].second);
    g_autoptr(GError) error = NULL;
    g_autoptr(Cluster) cluster = cluster_parse("t.yaml", text, &error);
    ck_assert_msg((cluster != NULL) == (pairs[i].place == NULL), "case %zu", i);
    if (cluster != NULL)
      continue;
    g_autofree char *expected = g_strdup_printf(
        "t.yaml:12: faults: %s has one already, in line 11; expected one entry a place", pairs[i].place);
    ck_assert_str_eq(error->message, expected);
  }
}

#define HOST_NODE HEAD "node:\n  gpus: 4\n" NVSWITCH NICS PCIE

TEST(a_host_and_its_drives_are_taken_as_written) {
  /* slots of 64, an uplink of 60 for each two GPUs, half of it reached; all together 100 GB/s */
  g_autoptr(Cluster) cluster = cluster_of(HOST_NODE "  host: {link_efficiency: 0.5, links_together: 100 GB/s, "
                                                    "memory_bandwidth: 400 GB/s, update_efficiency: 0.25}\n"
                                                    "  nvme: {capacity: 30 TB, read: 50 GB/s, write: 20 GB/s}\n");
  const Host *host = &cluster->host;
  ck_assert_double_eq(host->memory_Bps, 400e9);
  ck_assert_double_eq(host->update_efficiency, 0.25);
  ck_assert_double_eq(host->nvme_bytes, 30e12);
  ck_assert_double_eq(host->nvme_read_Bps, 50e9);
  ck_assert_double_eq(host->nvme_write_Bps, 20e9);
  ck_assert_double_eq(host_link_Bps(host, &cluster->node, 1), 30e9);   /* the uplink */
  ck_assert_double_eq(host_link_Bps(host, &cluster->node, 2), 15e9);   /* half of it */
  ck_assert_double_eq(host_link_Bps(host, &cluster->node, 4), 12.5e9); /* a quarter of what all have */
}

TEST(half_a_host_is_refused) {
  static const struct {
    const char *keys, *expected;
  } cases[] = {
      {"  host: {link: 64 GB/s, memory_bandwidth: 400 GB/s, update_efficiency: 0.4}\n", "link_efficiency"},
      {"  host: {link_efficiency: 0.5, memory_bandwidth: 400, update_efficiency: 0.4}\n", "unit"},
      {"  host: {link_efficiency: 1.5, memory_bandwidth: 400 GB/s, update_efficiency: 0.4}\n", "1.5"},
      {"  nvme: {capacity: 30 TB, read: 50 GB/s}\n", "write"},
      {"  nvme: {capacity: 30 TB, reed: 50 GB/s, write: 20 GB/s}\n", "did you mean \"read\"?"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = g_strconcat(HOST_NODE, cases[i].keys, NULL);
    g_autoptr(GError) error = NULL;
    g_autoptr(Cluster) cluster = cluster_parse("t.yaml", text, &error);
    ck_assert_msg(cluster == NULL, "case %zu", i);
    ck_assert_msg(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT) &&
                      g_str_has_prefix(error->message, "t.yaml:18: ") &&
                      strstr(error->message, cases[i].expected) != NULL,
                  "%s", error->message);
  }
}

int main(void) {
  return run_tests();
}
