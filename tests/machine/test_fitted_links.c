/* Fits that take precedence over a collective library's constants: valid ones are read; broken ones are refused with
 * file and line. */
#include "cluster.h"
#include "run_suite.h"

#include "broken_text.h"

#define CLUSTER STEPSIM_SOURCE_DATA "/tests/data/cluster.yaml"

static const char fits[] = "fitted:\n"
                           "  source: made up\n"
                           "  collectives:\n"
                           "    - {op: all_reduce, gpus: 16, nodes: 2, alpha: 90 us, busbw: 150 GB/s}\n"
                           "    - {op: all_reduce, gpus: 8, protocol: ll128, alpha: 70 us, busbw: 208 GB/s}\n"
                           "    - {op: all_gather, gpus: 8, algorithm: nvls, alpha: 25 us, busbw: 300 GB/s}\n";

/* The fixture's cluster with those lines behind, as if they stood in its file. */
static Cluster *read_cluster(const char *behind, GError **error) {
  g_autofree char *cluster = NULL;
  ck_assert(g_file_get_contents(CLUSTER, &cluster, NULL, NULL));
  g_autofree char *text = g_strconcat(cluster, behind, NULL);
  return cluster_parse(CLUSTER, text, error);
}

TEST(fits_arrive_sorted_with_their_defaults) {
  g_autoptr(GError) error = NULL;
  g_autoptr(Cluster) cluster = read_cluster(fits, &error);
  ck_assert_msg(cluster != NULL, "%s", error != NULL ? error->message : "");
  ck_assert_ptr_nonnull(cluster->fitted);
  ck_assert_str_eq(cluster->fitted->source, "made up");
  ck_assert_uint_eq(cluster->fitted->collectives->len, 3);
  const FittedCollective *rows = (const FittedCollective *)cluster->fitted->collectives->data;
  ck_assert(rows[0].gpus == 8 && rows[0].nodes == 1 && rows[0].algorithm == -1 && rows[0].protocol == PROTOCOL_LL128);
  ck_assert_double_eq_tol(rows[0].alpha_s, 70e-6, 1e-12);
  ck_assert_double_eq_tol(rows[0].busbw_Bps, 208e9, 1);
  ck_assert(rows[1].gpus == 16 && rows[1].nodes == 2 && rows[1].protocol == PROTOCOL_SIMPLE);
  ck_assert(rows[2].op == 1 && rows[2].algorithm == ALGORITHM_NVLS);
}

TEST(broken_fits_are_refused_with_their_line) {
  static const BrokenText breaks[] = {
      {"  collectives:\n", "  collective:\n", "did you mean \"collectives\"?"},
      {"  source: made up\n", "", "the key \"source\" is missing"},
      {"op: all_gather", "op: allgrather", "did you mean \"all_gather\"?"},
      {"protocol: ll128", "protocol: LL129", "did you mean \"ll128\"?"},
      {"algorithm: nvls", "algorithm: nvlz", "did you mean \"nvls\"?"},
      {"gpus: 16, nodes: 2", "gpus: 17, nodes: 2", "found gpus 17 over nodes 2, expected 1 to 8 in each"},
      {"alpha: 90 us", "alpha: 90", "without a unit"},
      {"alpha: 90 us", "alpha: -90 us", "alpha"},
      {"busbw: 150 GB/s", "busbw: 0 GB/s", "busbw"},
      {"gpus: 16, nodes: 2,", "gpus: 8, protocol: ll128,", "the same was measured twice"},
  };
  for (guint i = 0; i < G_N_ELEMENTS(breaks); i++) {
    g_autofree char *text = broken_text(fits, &breaks[i], NULL);
    g_autoptr(GError) error = NULL;
    g_autoptr(Cluster) cluster = read_cluster(text, &error);
    ck_assert_ptr_null(cluster);
    assert_refused(error, CLUSTER, 0, &breaks[i]);
  }
}

int main(void) {
  return run_tests();
}
