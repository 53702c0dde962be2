/* What a cluster says of its collective library: the library's own file and the fits that go before it. Sound ones
 * arrive; broken ones are refused with file and line. */
#include "cluster.h"

#include <check.h>
#include <glib/gstdio.h>
#include <string.h>

#define DATA STEPSIM_SOURCE_DATA "/tests/data/"
#define LIBRARY STEPSIM_SOURCE_DATA "/topologies/nccl/2.30.yaml"

static const char fits[] = "fitted:\n"
                           "  source: made up\n"
                           "  collectives:\n"
                           "    - {op: all_reduce, gpus: 16, nodes: 2, alpha: 90 us, busbw: 150 GB/s}\n"
                           "    - {op: all_reduce, gpus: 8, protocol: ll128, alpha: 70 us, busbw: 208 GB/s}\n"
                           "    - {op: all_gather, gpus: 8, algorithm: nvls, alpha: 25 us, busbw: 300 GB/s}\n";

typedef struct {
  char *folder, *cluster, *library; /* owned */
} Files;

static Files make_files(void) {
  Files files = {.folder = g_dir_make_tmp("stepsim-fits-XXXXXX", NULL)};
  ck_assert_ptr_nonnull(files.folder);
  files.cluster = g_build_filename(files.folder, "cluster.yaml", NULL);
  files.library = g_build_filename(files.folder, "library.yaml", NULL);
  return files;
}

static void remove_files(Files *files) {
  g_unlink(files->cluster);
  g_unlink(files->library);
  g_rmdir(files->folder);
  g_free(files->folder);
  g_free(files->cluster);
  g_free(files->library);
}

/* `text` with `from`, which is there once, replaced. */
static GString *edited(const char *text, const char *from, const char *to) {
  const char *at = strstr(text, from);
  ck_assert_msg(at != NULL && strstr(at + 1, from) == NULL, "\"%s\" is not there once", from);
  GString *out = g_string_new(text);
  g_string_truncate(out, (gsize)(at - text));
  g_string_append_printf(out, "%s%s", to, at + strlen(from));
  return out;
}

/* The fixture's cluster beside a library of that text, with those lines behind. */
static Cluster *read_cluster(const Files *files, const char *library, const char *behind, GError **error) {
  g_autofree char *fixture = NULL;
  ck_assert(g_file_get_contents(DATA "cluster.yaml", &fixture, NULL, NULL));
  GString *text = g_string_new(fixture);
  ck_assert_uint_eq(g_string_replace(text, "gpu: gpu.yaml", "gpu: " DATA "gpu.yaml", 0), 1);
  ck_assert_uint_eq(g_string_replace(text, "collectives: \"2.30\"", "collectives: library.yaml", 0), 1);
  g_string_append(text, behind);
  ck_assert(g_file_set_contents(files->cluster, text->str, -1, NULL));
  ck_assert(g_file_set_contents(files->library, library, -1, NULL));
  g_string_free(text, TRUE);
  return cluster_read(files->cluster, error);
}

static char *library_text(void) {
  char *text = NULL;
  ck_assert(g_file_get_contents(LIBRARY, &text, NULL, NULL));
  return text;
}

START_TEST(fits_arrive_sorted_with_their_defaults) {
  Files files = make_files();
  g_autofree char *library = library_text();
  g_autoptr(GError) error = NULL;
  g_autoptr(Cluster) cluster = read_cluster(&files, library, fits, &error);
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
  remove_files(&files);
}
END_TEST

START_TEST(the_shipped_library_says_all_there_is) {
  Files files = make_files();
  g_autofree char *text = library_text();
  g_autoptr(Cluster) cluster = read_cluster(&files, text, "", NULL);
  ck_assert_ptr_nonnull(cluster);
  ck_assert_ptr_null(cluster->fitted);
  const CollectiveLibrary *library = &cluster->collectives;
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
  remove_files(&files);
}
END_TEST

typedef struct {
  const char *from, *to, *expected;
} Break;

START_TEST(broken_fits_are_refused_with_their_line) {
  static const Break breaks[] = {
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
  Files files = make_files();
  g_autofree char *library = library_text();
  for (guint i = 0; i < G_N_ELEMENTS(breaks); i++) {
    GString *text = edited(fits, breaks[i].from, breaks[i].to);
    g_autoptr(GError) error = NULL;
    g_autoptr(Cluster) cluster = read_cluster(&files, library, text->str, &error);
    g_string_free(text, TRUE);
    ck_assert_msg(cluster == NULL, "\"%s\" was accepted", breaks[i].to);
    ck_assert_msg(g_str_has_prefix(error->message, files.cluster) && strstr(error->message, breaks[i].expected),
                  "found \"%s\", expected \"%s\"", error->message, breaks[i].expected);
  }
  remove_files(&files);
}
END_TEST

START_TEST(a_broken_library_is_refused_with_its_line) {
  static const Break breaks[] = {
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
      {"ll_over_nodes: {two: 39.0 GB/s,", "ll_over_nodes: {two: 39.0,", "without a unit"},
      {"channel_bytes: {ll: 4096 B,", "channel_bytes: {ll: 0 B,", "ll: found \"0 B\""},
      {"bytes: 2 MiB", "bytes: 512 KiB", "expected ascending sizes"},
      {"pat: {step_share", "pad: {step_share", "did you mean \"pat\"?"},
  };
  Files files = make_files();
  g_autofree char *sound = library_text();
  for (guint i = 0; i < G_N_ELEMENTS(breaks); i++) {
    GString *text = edited(sound, breaks[i].from, breaks[i].to);
    g_autoptr(GError) error = NULL;
    g_autoptr(Cluster) cluster = read_cluster(&files, text->str, "", &error);
    g_string_free(text, TRUE);
    ck_assert_msg(cluster == NULL, "\"%s\" was accepted", breaks[i].to);
    ck_assert_msg(g_str_has_prefix(error->message, files.library) && strstr(error->message, breaks[i].expected),
                  "found \"%s\", expected \"%s\"", error->message, breaks[i].expected);
  }
  remove_files(&files);
}
END_TEST

START_TEST(pat_needs_its_own_constants) {
  Files files = make_files();
  g_autofree char *sound = library_text();
  GString *text = edited(sound, "pat: {step_share: 0.2857, per_rank: 2.8 us}\n", "");
  g_autoptr(GError) error = NULL;
  g_autoptr(Cluster) cluster = read_cluster(&files, text->str, "", &error);
  g_string_free(text, TRUE);
  ck_assert_ptr_null(cluster);
  ck_assert_ptr_nonnull(strstr(error->message, "the key \"pat\" is missing"));
  remove_files(&files);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("fitted links");
  TCase *tests = tcase_create("all");
  tcase_add_test(tests, fits_arrive_sorted_with_their_defaults);
  tcase_add_test(tests, the_shipped_library_says_all_there_is);
  tcase_add_test(tests, broken_fits_are_refused_with_their_line);
  tcase_add_test(tests, a_broken_library_is_refused_with_its_line);
  tcase_add_test(tests, pat_needs_its_own_constants);
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_set_tap(runner, "-");
  srunner_run_all(runner, CK_SILENT);
  int n_failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return n_failed != 0;
}
