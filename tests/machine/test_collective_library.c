/* Collective library files: the shipped one is read; broken ones are refused with file and line. */
#include "collective_library.h"
#include "run_suite.h"

#include "broken_text.h"

#include <glib/gstdio.h>

#define LIBRARY STEPSIM_SOURCE_DATA "/topologies/nccl/2.30.yaml"

TEST(the_tables_of_the_shipped_library_are_read) {
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
  ck_assert_int_eq(library->ring_channels, 32);
  ck_assert_double_eq(library->ring_plateau, 1.4);
  collective_library_clear(&read);
}

/* Seconds, bytes and bytes a second of the same file, beside its tables. */
TEST(times_sizes_and_rates_have_their_units) {
  CollectiveLibrary read = {0};
  const CollectiveLibrary *library = &read;
  gint64 eager_bytes;
  ck_assert(collective_library_read(LIBRARY, &read, &eager_bytes, NULL));
  ck_assert_int_eq(eager_bytes, 128 << 10);
  ck_assert_double_eq_tol(library->base_s[ALGORITHM_RING][PROTOCOL_LL128], 14e-6, 1e-15);
  ck_assert_double_eq(library->pat_step_share, 0.2857);
  ck_assert_double_eq_tol(library->pat_per_rank_s, 2.8e-6, 1e-15);
  const double bytes[] = {4096, 5120, 32768}, step_bytes[] = {32 << 10, 600 << 10, 512 << 10}, /* LL, LL128, Simple */
      net_s[] = {1e-6, 1e-6, 3e-6}, lone_s[] = {5e-6, 8.5e-6, 14e-6};
  for (int protocol = 0; protocol < N_PROTOCOLS; protocol++) {
    ck_assert_double_eq(library->channel_bytes[protocol], bytes[protocol]);
    ck_assert_double_eq(library->step_bytes[protocol], step_bytes[protocol]);
    ck_assert_double_eq_tol(library->net_overhead_s[protocol], net_s[protocol], 1e-15);
    ck_assert_double_eq_tol(library->lone_hop_s[protocol], lone_s[protocol], 1e-15);
  }
  ck_assert_double_eq(library->send_ll_bytes, 16 << 10);
  ck_assert_double_eq(library->nvls_chunk_bytes, 128 << 10);
  ck_assert_double_eq_tol(library->send_channel_Bps, 14e9, 1);
  ck_assert_double_eq_tol(library->two_nodes_ll_Bps, 39e9, 1);
  ck_assert_double_eq_tol(library->more_nodes_ll_Bps, 20.4e9, 1);
  const ArchitectureLimits *hopper = &library->by_architecture[ARCHITECTURE_HOPPER];
  ck_assert_int_eq(hopper->channels, 24);
  ck_assert_int_eq(hopper->nvls_channels, 16);
  ck_assert_double_eq_tol(hopper->nvls_channel_Bps, 60e9, 1);
  ck_assert_double_eq_tol(hopper->ring_start_s, 5e-6, 1e-15);
  ck_assert_double_eq_tol(library->by_architecture[ARCHITECTURE_BLACKWELL].ring_hop_s, 5.5e-6, 1e-15);
  ck_assert_double_eq(library->ring_last_step, 0.5);
  ck_assert_int_eq(library->sends_at_once, 8);
  ck_assert_double_eq(library->by_architecture[ARCHITECTURE_BLACKWELL].own_part, 1);
  ck_assert_double_eq_tol(hopper->channel_max[CHANNEL_NVLS_TREE].two_nodes_Bps, 57.7e9, 1);
  ck_assert_double_eq_tol(hopper->channel_max[CHANNEL_NVLS_TREE].more_nodes_Bps, 45.5e9, 1);
  ck_assert_double_eq(library->one_node_share[ALGORITHM_TREE][PROTOCOL_LL128], 0.716);
  collective_library_clear(&read);
}

/* In `line`; 0: that of the place that is broken. */
static void assert_library_refused(const BrokenText *broken, int line) {
  g_autofree char *folder = g_dir_make_tmp("stepsim-library-XXXXXX", NULL);
  g_autofree char *file = g_build_filename(folder, "library.yaml", NULL);
  g_autofree char *sound = NULL;
  ck_assert(g_file_get_contents(LIBRARY, &sound, NULL, NULL));
  int broken_line;
  g_autofree char *text = broken_text(sound, broken, &broken_line);
  ck_assert(g_file_set_contents(file, text, -1, NULL));
  CollectiveLibrary library = {0};
  gint64 eager_bytes;
  g_autoptr(GError) error = NULL;
  collective_library_read(file, &library, &eager_bytes, &error);
  assert_refused(error, file, line > 0 ? line : broken_line, broken);
  collective_library_clear(&library);
  g_unlink(file);
  g_rmdir(folder);
}

TEST(a_broken_library_is_refused_with_its_line) {
  static const BrokenText breaks[] = {
      {"  nvls: {simple: 0 us}\n  nvls_tree", "  nvlz: {simple: 0 us}\n  nvls_tree", "did you mean \"nvls\"?"},
      {"  nvls: {simple: 1}\n", "", "found no row of nvls", -3}, /* where its table begins */
      {"    nvls: {simple: 18 us}\n", "", "found no row of nvls", -3},
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
      {"ring_search: {rate_share: 0.96, split_from: 25 GB/s, split_channels: 4, split_any_from: 50 GB/s}",
       "ring_search: never", "found \"never\", expected a mapping or none"},
      {"ll_over_nodes: {two: 39.0 GB/s,", "ll_over_nodes: {two: 39.0,", "without a unit"},
      {"channel_bytes: {ll: 4096 B,", "channel_bytes: {ll: 0 B,", "ll: found \"0 B\""},
      {"bytes: 2 MiB", "bytes: 512 KiB", "expected ascending sizes"},
      {"pat: {step_share", "pad: {step_share", "did you mean \"pat\"?"},
  };
  for (guint i = 0; i < G_N_ELEMENTS(breaks); i++)
    assert_library_refused(&breaks[i], 0);
}

TEST(a_key_that_the_tables_ask_for_is_missed_where_the_file_begins) {
  static const BrokenText without = {"pat: {step_share: 0.2857, per_rank: 2.8 us}\n", "",
                                     "the key \"pat\" is missing, as the tables have rows of pat"};
  assert_library_refused(&without, 2); /* behind a line of comment */
  static const BrokenText no_search = {
      "ring_search: {rate_share: 0.96, split_from: 25 GB/s, split_channels: 4, split_any_from: 50 GB/s}\n", "",
      "the key \"ring_search\" is missing: expected how channels are laid over NICs"};
  assert_library_refused(&no_search, 2);
}

TEST(a_search_of_none_lays_one_channel_over_each_nic) {
  g_autofree char *folder = g_dir_make_tmp("stepsim-library-XXXXXX", NULL);
  g_autofree char *file = g_build_filename(folder, "library.yaml", NULL);
  g_autofree char *sound = NULL;
  ck_assert(g_file_get_contents(LIBRARY, &sound, NULL, NULL));
  static const BrokenText none = {
      "ring_search: {rate_share: 0.96, split_from: 25 GB/s, split_channels: 4, split_any_from: 50 GB/s}",
      "ring_search: none", NULL};
  int line;
  g_autofree char *text = broken_text(sound, &none, &line);
  ck_assert(g_file_set_contents(file, text, -1, NULL));
  CollectiveLibrary library = {0};
  gint64 eager_bytes;
  ck_assert(collective_library_read(file, &library, &eager_bytes, NULL));
  ck_assert_double_eq(library.ring_search.rate_share, 0);
  ck_assert_double_eq(library.ring_search.split_Bps, 0);
  collective_library_clear(&library);
  g_unlink(file);
  g_rmdir(folder);
}

int main(void) {
  return run_tests();
}
