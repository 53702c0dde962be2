/* Curves of collectives and sends in cluster files: a valid file is read completely, sorted; a broken one is refused
 * with its line; times are interpolated as cost/collectives/measured_links_cost.h says, with numbers derived by hand.
 */
#include "measured_links_cost.h"
#include "run_suite.h"

#include "broken_text.h"

#include <check.h>
#include <glib/gstdio.h>
#include <string.h>

#include "collective_cost.h"

#define FIXTURES STEPSIM_SOURCE_DATA "/tests/data"

static char *bare_text;    /* a cluster of 8-GPU nodes, two to a domain, without curves */
static char *curves_text;  /* everything that curves can say */
static char *cluster_text; /* one after the other */
static char *path;         /* of the file the tests write */

static void set_up(void) {
  g_autofree char *folder = g_dir_make_tmp("stepsim-links-XXXXXX", NULL);
  ck_assert_ptr_nonnull(folder);
  path = g_build_filename(folder, "cluster.yaml", NULL);
  g_autofree char *text = NULL;
  ck_assert(g_file_get_contents(FIXTURES "/cluster.yaml", &text, NULL, NULL));
  ck_assert(g_file_get_contents(FIXTURES "/cluster-measured.yaml", &curves_text, NULL, NULL));
  GString *bare = g_string_new(text);
  ck_assert_uint_eq(g_string_replace(bare, "gpu: gpu.yaml", "gpu: " FIXTURES "/gpu.yaml", 0), 1);
  bare_text = g_string_free(bare, FALSE);
  cluster_text = g_strconcat(bare_text, curves_text, NULL);
}

static void tear_down(void) {
  g_autofree char *folder = g_path_get_dirname(path);
  g_unlink(path);
  g_rmdir(folder);
  g_clear_pointer(&path, g_free);
  g_clear_pointer(&cluster_text, g_free);
  g_clear_pointer(&curves_text, g_free);
  g_clear_pointer(&bare_text, g_free);
}

static Cluster *read_text(const char *text, GError **error) {
  FILE *file = fopen(path, "wb");
  ck_assert_ptr_nonnull(file);
  ck_assert_uint_eq(fwrite(text, 1, strlen(text), file), strlen(text));
  ck_assert_int_eq(fclose(file), 0);
  return cluster_read(path, error);
}

static Cluster *sound_cluster(const char *text) {
  g_autoptr(GError) error = NULL;
  Cluster *cluster = read_text(text, &error);
  ck_assert_msg(cluster != NULL, "%s", error != NULL ? error->message : "");
  return cluster;
}

/* The fixture's cluster with `curves` (lines indented by two) in place of its own. */
static Cluster *cluster_with(const char *curves) {
  g_autofree char *text = g_strconcat(bare_text, "measured:\n  source: this test\n", curves, NULL);
  return sound_cluster(text);
}

TEST(operations_are_named_as_everywhere) {
  for (int i = 0; i <= N_COLLECTIVES; i++)
    ck_assert_pstr_eq(measured_op_names()[i], collective_names()[i]);
}

TEST(every_curve_arrives_sorted) {
  g_autoptr(Cluster) cluster = sound_cluster(cluster_text);
  const MeasuredLinks *measured = cluster->measured;
  ck_assert_ptr_nonnull(measured);
  ck_assert_str_eq(measured->source, "made up");
  ck_assert_int_eq(measured->n_collectives, 3);
  const MeasuredCollective *curve = &measured->collectives[0];
  ck_assert(curve->op == COLLECTIVE_ALL_REDUCE && curve->gpus == 8 && curve->nodes == 1);
  ck_assert_int_eq(curve->span.n_points, 3);
  for (int i = 0; i < 3; i++)
    ck_assert_double_eq(measured->points[curve->span.first_point + i].size_bytes, 1e6 * (1 << i));
  curve = &measured->collectives[1];
  ck_assert(curve->op == COLLECTIVE_ALL_REDUCE && curve->gpus == 32 && curve->nodes == 4);
  ck_assert_int_eq(measured->collectives[2].op, COLLECTIVE_ALL_GATHER);
  ck_assert_int_eq(measured->sends[SEND_IN_NODE].n_points, 1);
  ck_assert_int_eq(measured->sends[SEND_IN_DOMAIN].n_points, 0);
  ck_assert_int_eq(measured->sends[SEND_OVER_FABRIC].n_points, 2);
  g_autoptr(Cluster) bare = sound_cluster(bare_text);
  ck_assert_ptr_null(bare->measured);
}

static const BrokenText breaks[] = {
    {"  collectives:\n", "  collective:\n", "did you mean \"collectives\"?"},
    {"op: all_gather", "op: allgrather", "did you mean \"all_gather\"?"},
    {"gpus: 32, nodes: 4", "gpus: 33, nodes: 4", "found gpus 33 over nodes 4, expected 1 to 8 in each"},
    {"gpus: 32, nodes: 4", "gpus: 3, nodes: 4", "found gpus 3 over nodes 4"},
    {"gpus: 32, nodes: 4", "gpus: 1, nodes: 1", "expected a whole number from 2"},
    {"gpus: 32, nodes: 4, ", "nodes: 4, ", "the key \"gpus\" is missing"},
    {"bytes: 2 MB", "bytes: 1 MB", "the same was measured twice, first in line"},
    {"time: 50 us", "time: 50", "without a unit"},
    {"time: 50 us", "time: 0 us", "expected 1.000 ns to"},
    {"link: node", "link: nodes", "did you mean \"node\"?"},
    {"bytes: 3 MB", "bytes: 1 MB", "the same was measured twice"},
};

TEST(broken_curves_are_refused_with_their_line) {
  for (guint i = 0; i < G_N_ELEMENTS(breaks); i++) {
    int line;
    g_autofree char *text = broken_text(cluster_text, &breaks[i], &line);
    g_autoptr(GError) error = NULL;
    cluster_free(read_text(text, &error));
    assert_refused(error, path, line, &breaks[i]);
  }
}

TEST(curves_between_domains_need_nics) {
  /* a cluster of one 8-GPU node, no NICs */
  const char *curves[] = {"  collectives:\n    - {op: all_reduce, gpus: 16, nodes: 2, bytes: 1 MB, time: 1 ms}\n",
                          "  sends:\n    - {link: fabric, bytes: 1 MB, time: 1 ms}\n", ""};
  const char *expected[] = {"found nodes 2, expected at most 1", "found link fabric", "at least one of collectives"};
  g_autofree char *text = NULL;
  ck_assert(g_file_get_contents(STEPSIM_SOURCE_DATA "/topologies/simumax-b200.yaml", &text, NULL, NULL));
  for (guint i = 0; i < G_N_ELEMENTS(curves); i++) {
    g_autofree char *edited = g_strconcat(text, "\nmeasured:\n  source: this test\n", curves[i], NULL);
    GString *placed = g_string_new(edited);
    g_string_replace(placed, "gpu: gpus/", "gpu: " STEPSIM_SOURCE_DATA "/topologies/gpus/", 0);
    g_string_replace(placed, "collectives: nccl/", "collectives: " STEPSIM_SOURCE_DATA "/topologies/nccl/", 0);
    g_autoptr(GError) error = NULL;
    g_autoptr(Cluster) cluster = read_text(placed->str, &error);
    g_string_free(placed, TRUE);
    ck_assert_ptr_null(cluster);
    ck_assert_msg(strstr(error->message, expected[i]) != NULL, "\"%s\" lacks \"%s\"", error->message, expected[i]);
  }
}

/* Whatever the bytes, the reader either returns a cluster or says why not. */
static void assert_answers(const char *text) {
  g_autoptr(GError) error = NULL;
  g_autoptr(Cluster) cluster = read_text(text, &error);
  ck_assert((cluster == NULL) == (error != NULL));
}

TEST(curves_cut_or_changed_anywhere_are_read_or_refused) {
  gint32 first = (gint32)strlen(bare_text), end = (gint32)strlen(cluster_text);
  for (gint32 length = first; length < end; length++) {
    g_autofree char *text = g_strndup(cluster_text, (gsize)length);
    assert_answers(text);
  }
  g_autoptr(GRand) random = g_rand_new_with_seed(4);
  static const char bytes[] = "{}[]:,-\n 0129abky";
  for (int round = 0; round < 500; round++) {
    g_autofree char *text = g_strdup(cluster_text);
    for (int i = 0; i < 2; i++)
      text[g_rand_int_range(random, first, end)] = bytes[g_rand_int_range(random, 0, (gint32)sizeof bytes - 1)];
    assert_answers(text);
  }
}

/* A toy model: 10 us a member, 10 us a domain, a nanosecond a byte. */
static double toy_model_s(const Cluster *cluster, Collective collective, const GroupShape *shape, double bytes) {
  return 10e-6 * shape->n + 10e-6 * shape->n_domains + bytes * 1e-9;
}

/* `n` members, `per_node` in a node, in nodes that follow each other. */
static GroupShape shape_of(int n, int per_node) {
  int members[64];
  static const Cluster cluster = {.gpus_per_node = 8, .domain_gpus = 16};
  for (int i = 0; i < n; i++)
    members[i] = i / per_node * 8 + i % per_node;
  return layout_shape_of(&cluster, members, n);
}

static void assert_collective(const Cluster *cluster, Collective collective, GroupShape shape, double bytes,
                              double expected_s, CostSource expected_source) {
  CostSource source;
  double found_s = measured_collective_s(cluster, collective, &shape, bytes, toy_model_s, &source);
  ck_assert_double_eq_tol(found_s / expected_s, 1, 1e-12);
  ck_assert_int_eq(source, expected_source);
}

TEST(a_collective_follows_its_curve) {
  g_autoptr(Cluster) cluster = sound_cluster(cluster_text);
  const GroupShape eight = shape_of(8, 8);
  /* 40 us at 1 MB, 50 at 2, 100 at 4 */
  assert_collective(cluster, COLLECTIVE_ALL_REDUCE, eight, 1e6, 40e-6, COST_MEASURED);
  assert_collective(cluster, COLLECTIVE_ALL_REDUCE, eight, 1.5e6, 45e-6, COST_MEASURED);
  assert_collective(cluster, COLLECTIVE_ALL_REDUCE, eight, 3e6, 75e-6, COST_MEASURED);
  assert_collective(cluster, COLLECTIVE_ALL_REDUCE, eight, 4e6, 100e-6, COST_MEASURED);
  /* below 1 MB its time; beyond 4 MB 25 us a MB more */
  assert_collective(cluster, COLLECTIVE_ALL_REDUCE, eight, 0, 40e-6, COST_MEASURED);
  assert_collective(cluster, COLLECTIVE_ALL_REDUCE, eight, 10e6, 250e-6, COST_MEASURED);
  /* one point: 30 us, then 30 us a MB */
  assert_collective(cluster, COLLECTIVE_ALL_GATHER, eight, 1e3, 30e-6, COST_MEASURED);
  assert_collective(cluster, COLLECTIVE_ALL_GATHER, eight, 5e6, 150e-6, COST_MEASURED);
  /* anywhere in a domain of two nodes; another operation has no curve: 8·10 + 10 + 1000 us */
  assert_collective(cluster, COLLECTIVE_ALL_REDUCE, shape_of(8, 4), 2e6, 50e-6, COST_MEASURED);
  assert_collective(cluster, COLLECTIVE_REDUCE_SCATTER, eight, 1e6, 1090e-6, COST_MODELLED);
}

TEST(other_groups_scale_the_nearest_curve_by_the_model) {
  g_autoptr(Cluster) cluster = sound_cluster(cluster_text);
  /* 4 members: the model's 40 + 10 + 1000 us, times 40 us measured of 80 + 10 + 1000 at 8 members */
  assert_collective(cluster, COLLECTIVE_ALL_REDUCE, shape_of(4, 4), 1e6, 1050e-6 * 40 / 1090, COST_INTERPOLATED);
  /* 16 in one domain belong to that curve too, though 32 is as near: 160 + 10 + 1000 us */
  assert_collective(cluster, COLLECTIVE_ALL_REDUCE, shape_of(16, 8), 1e6, 1170e-6 * 40 / 1090, COST_INTERPOLATED);
  /* 64 on 8 nodes, 4 domains: 640 + 40 + 1000 us, times 400 us of 32 on 2 domains: 320 + 20 + 1000 */
  assert_collective(cluster, COLLECTIVE_ALL_REDUCE, shape_of(64, 8), 1e6, 1680e-6 * 400 / 1340, COST_INTERPOLATED);
  /* 4 on 4 nodes, 2 domains: 40 + 20 + 1000 */
  assert_collective(cluster, COLLECTIVE_ALL_REDUCE, shape_of(4, 1), 1e6, 1060e-6 * 400 / 1340, COST_INTERPOLATED);
  assert_collective(cluster, COLLECTIVE_ALL_REDUCE, shape_of(32, 8), 1e6, 400e-6, COST_MEASURED);
  /* all_gather has no curve that leaves a domain */
  assert_collective(cluster, COLLECTIVE_ALL_GATHER, shape_of(32, 8), 1e6, 1340e-6, COST_MODELLED);
}

TEST(a_measured_collective_never_gets_faster_with_bytes) {
  g_autoptr(Cluster) cluster = sound_cluster(cluster_text);
  const GroupShape eight = shape_of(8, 8);
  double before_s = 0;
  for (double bytes = 1; bytes < 1e10; bytes *= 1.01) {
    double time_s = collective_cost(cluster, COLLECTIVE_ALL_REDUCE, &eight, bytes, -1).time_s;
    ck_assert_double_ge(time_s, before_s);
    before_s = time_s;
  }
}

TEST(no_bytes_in_no_time_have_no_ratio) {
  /* a library without latency: the model's time of no bytes is 0, whatever the group */
  g_autoptr(Cluster) cluster = sound_cluster(cluster_text);
  memset(cluster->collectives.base_s, 0, sizeof cluster->collectives.base_s);
  memset(cluster->collectives.hop_s, 0, sizeof cluster->collectives.hop_s);
  const GroupShape four = shape_of(4, 4);
  ck_assert_double_eq_tol(collective_cost(cluster, COLLECTIVE_ALL_REDUCE, &four, 0, -1).time_s, 40e-6, 1e-15);
}

TEST(a_curve_whose_end_falls_stays_level) {
  g_autoptr(Cluster) cluster = cluster_with("  collectives:\n"
                                            "    - {op: reduce, gpus: 8, bytes: 1 MB, time: 40 us}\n"
                                            "    - {op: reduce, gpus: 8, bytes: 2 MB, time: 39 us}\n");
  assert_collective(cluster, COLLECTIVE_REDUCE, shape_of(8, 8), 1e9, 39e-6, COST_MEASURED);
}

TEST(the_result_names_what_the_model_would_run) {
  g_autoptr(Cluster) cluster = sound_cluster(cluster_text), bare = sound_cluster(bare_text);
  const GroupShape eight = shape_of(8, 8);
  CollectiveCost modelled = collective_cost(bare, COLLECTIVE_ALL_REDUCE, &eight, 2e6, -1);
  CollectiveCost measured = collective_cost(cluster, COLLECTIVE_ALL_REDUCE, &eight, 2e6, -1);
  ck_assert_int_eq(measured.source, COST_MEASURED);
  ck_assert_double_eq_tol(measured.time_s, 50e-6, 1e-15);
  ck_assert_double_eq_tol(measured.algbw_Bps, 2e6 / 50e-6, 1);
  ck_assert_double_eq_tol(measured.busbw_Bps, 2e6 / 50e-6 * 2 * 7 / 8, 1); /* 2(n − 1)/n */
  ck_assert_int_eq(measured.algorithm, modelled.algorithm);
  ck_assert_int_eq(measured.protocol, modelled.protocol);
  ck_assert_double_eq(measured.bus_Bps, modelled.bus_Bps);
  /* an algorithm asked for by name is the model's */
  CollectiveCost ring = collective_cost(cluster, COLLECTIVE_ALL_REDUCE, &eight, 2e6, ALGORITHM_RING);
  ck_assert_int_eq(ring.source, COST_MODELLED);
  ck_assert_double_eq(ring.time_s, collective_cost(bare, COLLECTIVE_ALL_REDUCE, &eight, 2e6, ALGORITHM_RING).time_s);
  /* and one member has nobody to talk to */
  const GroupShape one = {.n = 1, .n_domains = 1, .max_per_domain = 1, .min_per_domain = 1, .n_nodes = 1, .span = 1};
  ck_assert_double_eq(collective_cost(cluster, COLLECTIVE_ALL_REDUCE, &one, 2e6, -1).time_s, 0);
}

TEST(a_send_follows_the_curve_of_its_link) {
  g_autoptr(Cluster) cluster = sound_cluster(cluster_text), bare = sound_cluster(bare_text);
  ck_assert_double_eq_tol(send_cost_s(cluster, 0, 1, 1e6), 20e-6, 1e-15);
  ck_assert_double_eq_tol(send_cost_s(cluster, 0, 1, 1e3), 20e-6, 1e-15);
  ck_assert_double_eq_tol(send_cost_s(cluster, 0, 8, 2e6), 40e-6, 1e-15); /* the domain has no curve: the node's */
  ck_assert_double_eq_tol(send_cost_s(cluster, 0, 16, 2e6), 100e-6, 1e-15);
  ck_assert_double_eq_tol(send_cost_s(cluster, 0, 16, 4e6), 180e-6, 1e-15); /* 40 us a MB */
  ck_assert_double_eq(send_cost_s(cluster, 5, 5, 1e6), 0);
  /* from pod to pod of 3072 GPUs, 1/7 of the bandwidth: the model's ratio, 20 us + 7·bytes/B over 20 us + bytes/B with
   * B = 50 GB/s · 0.9 / 2 GPUs to a NIC = 22.5 GB/s */
  double beyond_s = 20e-6 + 7 * 2e6 / 22.5e9, inside_s = 20e-6 + 2e6 / 22.5e9;
  ck_assert_double_eq_tol(send_cost_s(bare, 0, 4000, 2e6), beyond_s, 1e-12);
  ck_assert_double_eq_tol(send_cost_s(cluster, 0, 4000, 2e6), 100e-6 * beyond_s / inside_s, 1e-12);
}

TEST(a_link_without_a_curve_is_modelled) {
  g_autoptr(Cluster) cluster = cluster_with("  sends:\n    - {link: domain, bytes: 1 MB, time: 33 us}\n");
  g_autoptr(Cluster) bare = sound_cluster(bare_text);
  ck_assert_double_eq_tol(send_cost_s(cluster, 0, 8, 1e6), 33e-6, 1e-15);
  ck_assert_double_eq_tol(send_cost_s(cluster, 0, 1, 1e6), 33e-6, 1e-15);
  ck_assert_double_eq(send_cost_s(cluster, 0, 16, 1e6), send_cost_s(bare, 0, 16, 1e6));
}

int main(void) {
  TCase *cases = listed_tests();
  tcase_add_checked_fixture(cases, set_up, tear_down);
  return run_case("measured_links", cases);
}
