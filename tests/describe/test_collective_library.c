/* A collective library's file: the shipped one says all there is; broken ones are refused with file and line. */
#include "collective_library.h"

#include "broken_text.h"

#include <glib/gstdio.h>

#define LIBRARY STEPSIM_SOURCE_DATA "/topologies/nccl/2.30.yaml"

START_TEST(the_shipped_library_says_all_there_is) {
  CollectiveLibrary read = {0};
  const CollectiveLibrary *library = &read;
  gint64 eager_bytes;
  g_autoptr(GError) error = NULL;
  ck_assert_msg(collective_library_read(LIBRARY, &read, &eager_bytes, &error), "%s", error ? error->message : "");
  ck_assert_str_eq(library->version, "2.30");
  ck_assert_double_eq_tol(library->hop_s[LINK_NET][ALGORITHM_NVLS_TREE][PROTOCOL_SIMPLE], 20.9e-6, 1e-15);
  ck_assert_double_eq(library->bandwidth_share[ALGORITHM_NVLS][PROTOCOL_LL], 0); /* there is none */
  ck_assert_double_eq(library->bandwidth_share[ALGORITHM_PAT][PROTOCOL_SIMPLE], 0.75);
  ck_assert_double_eq(library->by_architecture[ARCHITECTURE_HOPPER].nvls_share, 0.85);
  ck_assert_double_eq(library->by_architecture[ARCHITECTURE_AMPERE].nvls_share, 0);
  ck_assert_double_eq_tol(library->by_architecture[ARCHITECTURE_AMPERE].ll_Bps, 87.7e9, 1);
  ck_assert_mem_eq(library->nvls_halvings, ((int[]){64, 8, 2, 0}), sizeof library->nvls_halvings);
  ck_assert_mem_eq(library->nvls_tree_halvings, ((int[]){4, 1, 0, 0}), sizeof library->nvls_tree_halvings);
  ck_assert_int_eq(library->n_tree_corrections, 24); /* 64 B to 512 MiB */
  ck_assert_double_eq(library->tree_corrections[12].share[PROTOCOL_LL], 0.4);
  ck_assert_double_eq(library->tree_corrections[23].bytes, 536870912);
  ck_assert_double_eq(library->ring_search.rate_share, 0.96);
  ck_assert_double_eq_tol(library->ring_search.split_Bps, 25e9, 1);
  ck_assert_int_eq(library->ring_search.split_channels, 4);
  ck_assert_double_eq_tol(library->ring_search.split_any_Bps, 50e9, 1);
  collective_library_clear(&read);
}
END_TEST

START_TEST(a_broken_library_is_refused_with_its_line) {
  static const BrokenText breaks[] = {
      {"  nvls: {simple: 0 us}\n  nvls_tree", "  nvlz: {simple: 0 us}\n  nvls_tree", "did you mean \"nvls\"?"},
      {"  nvls: {simple: 1}\n", "", "found no row of nvls"},
      {"    nvls: {simple: 18 us}\n", "", "found no row of nvls"},
      {"  pat: {simple: 0.75}", "  pat: {ll: 0.75}", "the key \"simple\" is missing"},
      {"  ring: {ll: 0.5, ll128: 0.92,", "  ring: {ll: 0.5,", "the key \"ll128\" is missing"},
      {"  hopper:\n", "  hoppper:\n", "did you mean \"hopper\"?"},
      {"      tree: {two: 41.4 GB/s,", "      three: {two: 41.4 GB/s,", "did you mean \"tree\"?"},
      {"      nvls_tree: {two: 57.7 GB/s, more: 45.5 GB/s}", "      nvls_tree: {two: 57.7 GB/s}",
       "\"more\" is missing"},
      {"net_overhead: {ll: 1.0 us,", "net_overhead: {ll: 1.0,", "without a unit"},
      {"lone_member_hop: {ll: 5.0 us,", "lone_member_hop: {", "the key \"ll\" is missing"},
      {"nvls_share: 0.85", "nvls_share: 1.85", "nvls_share"},
      {"ring_plateau: 1.4", "ring_plateau: 0.4", "ring_plateau"},
      {"ring_search: {rate_share: 0.96, split_from: 25 GB/s,", "ring_search: {rate_share: 0.96,",
       "\"split_from\" is missing"},
      {"split_channels: 4", "split_channels: four", "split_channels"},
      {"ll_over_nodes: {two: 39.0 GB/s,", "ll_over_nodes: {two: 39.0,", "without a unit"},
      {"channel_bytes: {ll: 4096 B,", "channel_bytes: {ll: 0 B,", "ll: found \"0 B\""},
      {"bytes: 2 MiB", "bytes: 512 KiB", "expected ascending sizes"},
      {"pat: {step_share", "pad: {step_share", "did you mean \"pat\"?"},
      {"pat: {step_share: 0.2857, per_rank: 2.8 us}\n", "", "the key \"pat\" is missing"},
  };
  g_autofree char *folder = g_dir_make_tmp("stepsim-library-XXXXXX", NULL);
  g_autofree char *file = g_build_filename(folder, "library.yaml", NULL);
  g_autofree char *sound = NULL;
  ck_assert(g_file_get_contents(LIBRARY, &sound, NULL, NULL));
  for (guint i = 0; i < G_N_ELEMENTS(breaks); i++) {
    g_autofree char *text = broken_text(sound, &breaks[i], NULL);
    ck_assert(g_file_set_contents(file, text, -1, NULL));
    CollectiveLibrary library = {0};
    gint64 eager_bytes;
    g_autoptr(GError) error = NULL;
    collective_library_read(file, &library, &eager_bytes, &error);
    assert_refused(error, file, 0, &breaks[i]);
    collective_library_clear(&library);
  }
  g_unlink(file);
  g_rmdir(folder);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("collective library");
  TCase *tests = tcase_create("all");
  tcase_add_test(tests, the_shipped_library_says_all_there_is);
  tcase_add_test(tests, a_broken_library_is_refused_with_its_line);
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_set_tap(runner, "-");
  srunner_run_all(runner, CK_SILENT);
  int n_failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return n_failed != 0;
}
