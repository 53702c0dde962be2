/* Topology reports: the lines of the tree, the path table, JSON that parses and names every link, and a picture that is
 * XML and shows every device of the first node once. */
#include "data_path.h"
#include "run_suite.h"

#include "plan_with.h"
#include "rank_grid.h"
#include "text_file.h"
#include "topology_fixture.h"
#include "topology_report.h"

#include <json-glib/json-glib.h>

static void assert_line(const char *text, const char *line) {
  ck_assert_msg(text_count(text, line) == 1, "\"%s\" is there %d times:\n%s", line, text_count(text, line), text);
}

static char *text_of(const Topology *t) {
  GString *out = g_string_new(NULL);
  g_autoptr(GArray) findings = topology_check(t);
  topology_text(out, t, findings);
  return g_string_free(out, FALSE);
}

TEST(the_tree_says_who_shares_what) {
  g_autoptr(Cluster) cluster = cluster_of(HEAD "node:\n  gpus: 4\n" NVSWITCH NICS PCIE);
  g_autoptr(Topology) t = topology_of(cluster, 8);
  g_autofree char *text = text_of(t);
  assert_line(text, "│  └─ pcie0   uplink 60.00 GB/s, shared by 3 below\n");
  assert_line(text, "│     └─ nic0   64.00 GB/s; network 50.00 GB/s, serves gpu0, gpu1 (GPUDirect)\n");
  assert_line(text, "├─ NVSwitch: 400.0 GB/s per GPU, of which a large transfer reaches 320.0 GB/s\n");
  /* 2 nodes: 2 · 2 NICs of 50 GB/s, half of them on either side */
  assert_line(text, "8 GPUs in 2 nodes; per direction: scale-up 1.600 TB/s a node, network 100.0 GB/s a node and 25.00 "
                    "GB/s a GPU, 100.0 GB/s between two halves\n");
  assert_line(text, "a GPU reaches its scale-up peers 16 times as fast as the network\n"); /* 400 / 25 */
  assert_line(text, "no mistakes found\n");
}

/* Pods of 3,072 GPUs, 1:7: 3,072 · 50 / 7 = 21.94 TB/s, 50 / 7 = 7.143 GB/s per GPU; 8 pods have 4 · 21.94 between
 * halves. */
TEST(the_fabric_says_what_is_left_per_gpu) {
  g_autoptr(Cluster) cluster = cluster_read("llama3-h100", NULL);
  g_autoptr(Topology) t = topology_of(cluster, 24576);
  g_autofree char *text = text_of(t);
  assert_line(text, "tier0.0 (one of 8): joins 3072 GPUs; uplink 21.94 TB/s, 1:7 of what comes up: 7.143 GB/s per GPU "
                    "when all send\n");
  assert_line(text, "87.77 TB/s between two halves");
}

TEST(exceptions_and_mistakes_are_listed) {
  g_autoptr(Cluster) cluster =
      cluster_of(HEAD "node:\n  gpus: 4\n" NVSWITCH NICS "other_gpus: [{nodes: 1, gpu: a100-sxm4-80gb}]\n"
                      "faults:\n  - {at: node1/nic0, factor: dead}\n"
                      "  - {link: [node0/gpu0, node0/nvswitch], factor: 0.5}\n");
  g_autoptr(Topology) t = topology_of(cluster, 8);
  g_autofree char *text = text_of(t);
  assert_line(text, "nodes 1 to 1: a100-sxm4-80gb instead of h100-sxm5-80gb");
  assert_line(text, "dead: node1/nic0 - core (network)\n");
  assert_line(text, "degraded: node0/gpu0 - node0/nvswitch (NVLink) to 200.0 GB/s of 400.0 GB/s\n");
  assert_line(text, "warning: node1/gpu0 has no live NIC: all that serve it are dead\n");
}

TEST(a_path_is_told_hop_by_hop) {
  g_autoptr(Cluster) cluster = cluster_of(HEAD "node:\n  gpus: 4\n" NVSWITCH NICS PCIE);
  g_autoptr(Topology) t = topology_of(cluster, 8);
  g_autoptr(Route) route = route_new(t, 0, 4, NULL);
  g_autoptr(GString) out = g_string_new(NULL);
  topology_text_route(out, t, route);
  assert_line(out->str,
              "GPU 0 (node0/gpu0) to GPU 4 (node1/gpu0): over the network, GPUDirect at the sender, GPUDirect at "
              "the receiver\n");
  /* slots carry 64 · 0.5 = 32 GB/s, less than the NIC's 45 */
  assert_line(out->str, "64.00 GB/s    32.00 GB/s          0 s  ← bottleneck\n");
  assert_line(out->str, "one transfer alone: 32.00 GB/s, after 20.00 us (software included)\n");
  g_autoptr(Route) none = route_new(t, 3, 3, NULL);
  topology_text_route(out, t, none);
  assert_line(out->str, "the same GPU, no link is used\n");
}

TEST(a_path_over_neighbours_names_them) {
  g_autoptr(Cluster) cluster =
      cluster_of(HEAD "node:\n  gpus: 4\n" NVSWITCH NICS "faults: [{at: node0/nic0, factor: dead}]\n");
  g_autoptr(Topology) t = topology_of(cluster, 8);
  g_autoptr(Route) route = route_new(t, 0, 4, NULL);
  g_autoptr(GString) out = g_string_new(NULL);
  topology_text_route(out, t, route);
  assert_line(out->str, ", by way of node0/gpu2 and node1/gpu2\n");
}

TEST(json_holds_the_whole_graph) {
  g_autoptr(Cluster) cluster = cluster_read("dgx-h100", NULL);
  g_autoptr(Topology) t = topology_of(cluster, 16);
  g_autoptr(GArray) findings = topology_check(t);
  g_autoptr(Route) route = route_new(t, 1, 10, NULL);
  g_autofree char *text = topology_json(t, findings, route, NULL);
  g_autoptr(JsonParser) parser = json_parser_new();
  ck_assert(json_parser_load_from_data(parser, text, -1, NULL));
  JsonObject *root = json_node_get_object(json_parser_get_root(parser));
  ck_assert_int_eq(json_object_get_int_member(root, "gpus"), 16);
  JsonArray *links = json_object_get_array_member(root, "links");
  ck_assert_int_eq((int)json_array_get_length(links), t->n_links);
  ck_assert_int_eq((int)json_array_get_length(json_object_get_array_member(root, "vertices")), t->n_vertices);
  JsonObject *found = json_object_get_object_member(root, "route");
  JsonArray *hops = json_object_get_array_member(found, "hops");
  ck_assert_int_eq((int)json_array_get_length(hops), route->n_hops);
  JsonObject *first = json_array_get_object_element(hops, 0);
  JsonObject *link = json_array_get_object_element(links, (guint)json_object_get_int_member(first, "link"));
  ck_assert_str_eq(json_object_get_string_member(first, "from"), "node0/gpu1");
  ck_assert_str_eq(json_object_get_string_member(link, "kind"), "NVLink");
  ck_assert_double_eq(json_object_get_double_member(link, "bandwidth_Bps"), 450e9);
  /* mentions nothing that is not JSON, where bandwidths are not stated either */
  g_autoptr(Cluster) bare = cluster_read("llama3-h100", NULL);
  g_autoptr(Topology) small = topology_of(bare, 8);
  g_autofree char *unstated = topology_json(small, findings, NULL, NULL);
  ck_assert(json_parser_load_from_data(parser, unstated, -1, NULL));
  ck_assert_int_ge(text_count(unstated, "\"bandwidth_Bps\": null"), 8);
}

static double nth_rate(JsonObject *wiring, const char *key, guint i) {
  return json_array_get_double_element(json_object_get_array_member(wiring, key), i);
}

TEST(what_the_wiring_carries_stands_in_text_json_and_picture) {
  g_autoptr(Cluster) cluster = cluster_read("a100-pcie", NULL);
  g_autoptr(Topology) t = topology_of(cluster, 8);
  g_autoptr(GArray) findings = topology_check(t);
  /* rings inside a switch have their slots, 0.83 of 25 GB/s; of 8 one hop crosses the sockets, 0.79 of 16 GB/s; of all
   * with all each of 4 GPUs sends to 4 others across that: 12.64 / 16 · 7 in all; 4 GPUs a NIC of 0.93 · 25 GB/s */
  g_autofree char *text = topology_json(t, findings, NULL, NULL);
  g_autoptr(JsonParser) parser = json_parser_new();
  ck_assert(json_parser_load_from_data(parser, text, -1, NULL));
  JsonObject *root = json_node_get_object(json_parser_get_root(parser));
  JsonObject *wiring = json_object_get_object_member(root, "wiring");
  ck_assert_int_eq((int)json_array_get_length(json_object_get_array_member(wiring, "ring_Bps")), 7);
  ck_assert_double_eq_tol(nth_rate(wiring, "ring_Bps", 0), 20.75e9, 1);
  ck_assert_double_eq_tol(nth_rate(wiring, "ring_Bps", 6), 12.64e9, 1);
  ck_assert_double_eq_tol(nth_rate(wiring, "all_to_all_Bps", 6), 12.64e9 / 16 * 7, 1);
  ck_assert_double_eq_tol(json_object_get_double_member(wiring, "net_Bps"), 0.93 * 25e9 / 4, 1);
  g_autoptr(GString) out = g_string_new(NULL);
  topology_text(out, t, findings);
  assert_line(out->str, "what costs take of the node's wiring: of 20.75 GB/s a GPU rings inside a node get");
  g_autofree char *svg = topology_svg(t);
  assert_line(svg, "the inter-socket link node0/socket0 - node0/socket1, 12.64 GB/s, limits them<");
  g_autoptr(Cluster) even = cluster_read("dgx-h100", NULL);
  g_autoptr(Topology) plain = topology_of(even, 8);
  g_autofree char *null = topology_json(plain, findings, NULL, NULL);
  assert_line(null, "\"wiring\": null");
}

static gboolean is_xml(const char *text) {
  static const GMarkupParser nothing = {NULL, NULL, NULL, NULL, NULL};
  GMarkupParseContext *context = g_markup_parse_context_new(&nothing, 0, NULL, NULL);
  gboolean ok =
      g_markup_parse_context_parse(context, text, -1, NULL) && g_markup_parse_context_end_parse(context, NULL);
  g_markup_parse_context_free(context);
  return ok;
}

TEST(the_picture_shows_each_device_of_a_node_once) {
  g_auto(GStrv) names = data_path_list("topologies", ".yaml");
  for (int i = 0; names[i] != NULL; i++) {
    g_autoptr(Cluster) cluster = cluster_read(names[i], NULL);
    g_autoptr(Topology) t = topology_of(cluster, cluster->domain_gpus);
    g_autofree char *svg = topology_svg(t);
    ck_assert_msg(is_xml(svg), "%s", names[i]);
    ck_assert_msg(strstr(svg, "nan") == NULL && strstr(svg, "inf") == NULL, "%s", names[i]);
    for (int gpu = 0; gpu < cluster->gpus_per_node; gpu++) {
      g_autofree char *label = g_strdup_printf(">gpu%d<", gpu);
      ck_assert_msg(text_count(svg, label) == 1, "%s: %s", names[i], label);
    }
    for (int nic = 0; nic < cluster->nics_per_node; nic++) {
      g_autofree char *label = g_strdup_printf(">nic%d<", nic);
      ck_assert_msg(text_count(svg, label) == 1, "%s: %s", names[i], label);
    }
  }
}

TEST(the_picture_marks_faults_in_words) {
  g_autoptr(Cluster) cluster = cluster_of(HEAD "node:\n  gpus: 4\n" NVSWITCH NICS
                                               "faults: [{link: [node0/nic0, core], factor: dead}, {link: [node0/gpu2, "
                                               "node0/nvswitch], factor: 0.25}]\n");
  g_autoptr(Topology) t = topology_of(cluster, 8);
  g_autofree char *svg = topology_svg(t);
  ck_assert_int_eq(text_count(svg, "× dead<"), 1);
  ck_assert_int_eq(text_count(svg, "× 25 %<"), 1);
}

static RankGrid *grid_of(Cluster *cluster, const char *given) {
  g_autoptr(Plan) plan = plan_with(given);
  GError *error = NULL;
  RankGrid *grid = rank_grid_new(NULL, cluster, plan, 0, &error);
  ck_assert_msg(grid != NULL, "%s", error != NULL ? error->message : "?");
  return grid;
}

static char *grid_text(const RankGrid *grid) {
  GString *out = g_string_new(NULL);
  rank_grid_text(out, grid);
  return g_string_free(out, FALSE);
}

/* rank = tp + 2·dp + 4·pp. tp and dp stay inside a node: 400 GB/s · 0.8; the two GPUs of a NIC both send to the next
 * stage: 50 GB/s · 0.9 / 2. */
TEST(a_plan_says_which_rank_is_where_and_what_its_groups_use) {
  g_autoptr(Cluster) cluster = cluster_of(HEAD "node:\n  gpus: 4\n" NVSWITCH NICS);
  g_autoptr(RankGrid) grid = grid_of(cluster, "tp=2 dp=2 pp=2");
  g_autofree char *text = grid_text(grid);
  assert_line(text, "8 ranks on 2 nodes of t: tp 2, dp 2, pp 2\nrank = tp + 2·dp + 4·pp; p of pp, d of dp, t of tp\n");
  assert_line(text, "node1             4 p1 d0 t0   5 p1 d0 t1   6 p1 d1 t0   7 p1 d1 t1\n");
  assert_line(text, "tp: 4 groups of 2 ranks in 1 node, over NVLink; all at once: 320.0 GB/s\n");
  assert_line(text, "    {0,1} {2,3} {4,5} {6,7}\n");
  assert_line(text, "    {0,2} {1,3} {4,6} {5,7}\n");
  assert_line(text,
              "pp: 4 groups of 2 ranks in 2 nodes, over NIC; all at once: 22.50 GB/s, 2 share node0/nic0 - core\n");
  g_autoptr(Picture) picture = rank_grid_picture(grid, "title", NULL);
  g_autofree char *drawn = picture_text(picture, 80, NULL);
  assert_line(drawn, "node0 |  0: p0 d0 t0   1: p0 d0 t1   2: p0 d1 t0   3: p0 d1 t1 \n");
  g_autofree char *data = picture_data(picture);
  assert_line(data, "3 1 0 0 \"gpu3\" \"node0\" \"3: p0 d1 t1\"\n");
}

/* Experts go to neighbours: ranks of dp two by two. {0,4} and {2,6} hold the same ones. */
TEST(ranks_that_share_experts_are_a_group_of_their_own) {
  g_autoptr(Cluster) cluster = cluster_of(HEAD "node:\n  gpus: 4\n" NVSWITCH NICS);
  g_autoptr(RankGrid) grid = grid_of(cluster, "tp=2 dp=4 ep=2");
  g_autofree char *text = grid_text(grid);
  assert_line(text, "node1             4 d2 t0 e0   5 d2 t1 e0   6 d3 t0 e1   7 d3 t1 e1\n");
  assert_line(text, "    {0,2} {1,3} {4,6} {5,7}\n");
  assert_line(text, "    {0,4} {1,5} {2,6} {3,7}\n");
}

/* Pods of 3,072 GPUs, stages of 1,024: a send from each third stage leaves its pod, 1,024 of them at once over
 * 3,072 · 50 GB/s / 7 · 0.9: 19.29 GB/s. */
TEST(many_ranks_are_summarised) {
  g_autoptr(Cluster) cluster = cluster_read("llama3-h100", NULL);
  g_autoptr(RankGrid) grid = grid_of(cluster, "tp=8 dp=128 pp=16");
  g_autofree char *text = grid_text(grid);
  assert_line(text, "2048 nodes, summarised: a line is 128 of them (--json has every rank)\n");
  assert_line(text, "node1920..2047    pp 15         dp 0..127     tp 0..7\n");
  assert_line(text, "    {0..7} {8..15} … {16376..16383}\n");
  assert_line(text, "NIC, tier0 uplink; all at once: 19.29 GB/s, 1024 share tier0.0 - tier1.0\n");
  g_autoptr(Picture) picture = rank_grid_picture(grid, NULL, NULL);
  g_autofree char *data = picture_data(picture);
  assert_line(data, "Ranks on llama3-h100: tp 8, dp 128, pp 16; a cell is a node, with its first rank");
  assert_line(data,
              "\n127 0 15 0 \"+127\" \"node1920\" \"16376\"\n"); /* the last of 128 nodes in the lowest of 16 rows */
}

TEST(json_lists_every_rank_and_the_links_of_every_group) {
  g_autoptr(Cluster) cluster = cluster_of(HEAD "node:\n  gpus: 4\n" NVSWITCH NICS);
  g_autoptr(RankGrid) grid = grid_of(cluster, "tp=4 pp=2");
  g_autoptr(GArray) findings = topology_check(grid->topology);
  g_autofree char *text = topology_json(grid->topology, findings, NULL, grid);
  g_autoptr(JsonParser) parser = json_parser_new();
  ck_assert(json_parser_load_from_data(parser, text, -1, NULL));
  JsonObject *root = json_node_get_object(json_parser_get_root(parser));
  JsonObject *found = json_object_get_object_member(root, "grid");
  JsonObject *last = json_array_get_object_element(json_object_get_array_member(found, "ranks"), 7);
  ck_assert_str_eq(json_object_get_string_member(last, "gpu"), "node1/gpu3");
  ck_assert_int_eq(json_object_get_int_member(last, "tp"), 3);
  ck_assert_int_eq(json_object_get_int_member(last, "pp"), 1);
  JsonArray *kinds = json_object_get_array_member(found, "groups");
  ck_assert_int_eq((int)json_array_get_length(kinds), 2);
  JsonObject *tp = json_array_get_object_element(kinds, 0);
  JsonObject *group = json_array_get_object_element(json_object_get_array_member(tp, "groups"), 1);
  ck_assert_int_eq(json_array_get_int_element(json_object_get_array_member(group, "ranks"), 0), 4);
  JsonArray *links = json_object_get_array_member(group, "links"); /* of each of the four to its switch */
  ck_assert_int_eq((int)json_array_get_length(links), 4);
  JsonObject *link = json_array_get_object_element(json_object_get_array_member(root, "links"),
                                                   (guint)json_array_get_int_element(links, 0));
  ck_assert_str_eq(json_object_get_string_member(link, "b"), "node1/nvswitch");
}

int main(void) {
  return run_tests();
}
