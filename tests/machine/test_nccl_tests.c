/* Logs of nccl-tests: valid ones are read; broken ones are refused with their line, never misread. */
#include "nccl_tests.h"
#include "run_suite.h"
#include "text_file.h"

#include <check.h>
#include <glib/gstdio.h>
#include <string.h>

#include "measured_links.h"

#define LOGS STEPSIM_SOURCE_DATA "/tests/data/nccl-tests/"

static char *path; /* of the file the tests write */

static void set_up(void) {
  g_autofree char *folder = g_dir_make_tmp("stepsim-nccl-XXXXXX", NULL);
  ck_assert_ptr_nonnull(folder);
  path = g_build_filename(folder, "a.log", NULL);
}

static void tear_down(void) {
  g_autofree char *folder = g_path_get_dirname(path);
  g_unlink(path);
  g_rmdir(folder);
  g_clear_pointer(&path, g_free);
}

static NcclTestsLog *read_text(const char *text, gsize length, GError **error) {
  FILE *file = fopen(path, "wb");
  ck_assert_ptr_nonnull(file);
  ck_assert_uint_eq(fwrite(text, 1, length, file), length);
  ck_assert_int_eq(fclose(file), 0);
  return nccl_tests_read(path, error);
}

static NcclTestsLog *sound_log(const char *text) {
  g_autoptr(GError) error = NULL;
  NcclTestsLog *log = read_text(text, strlen(text), &error);
  ck_assert_msg(log != NULL, "%s", error != NULL ? error->message : "");
  return log;
}

static const NcclTestsTable *table_at(const NcclTestsLog *log, guint i) {
  ck_assert_uint_lt(i, log->tables->len);
  return g_ptr_array_index(log->tables, i);
}

static const char *op_of(const NcclTestsTable *table) {
  return table->op < 0 ? NULL : measured_op_names()[table->op];
}

TEST(a_run_arrives_with_its_ranks_and_both_columns) {
  g_autoptr(NcclTestsLog) log = nccl_tests_read(LOGS "all_reduce-8.log", NULL);
  ck_assert_ptr_nonnull(log);
  ck_assert_str_eq(log->version, "2.17.6");
  ck_assert_uint_eq(log->tables->len, 1);
  const NcclTestsTable *table = table_at(log, 0);
  ck_assert_str_eq(op_of(table), "all_reduce");
  ck_assert(table->n_gpus == 8 && table->n_nodes == 1 && table->line == 2);
  ck_assert_uint_eq(table->points->len, 36); /* 64 KiB to 8 GiB are 18 sizes, in place and out of place */
  const NcclTestsPoint *point = &g_array_index(table->points, NcclTestsPoint, 1);
  ck_assert_int_eq(point->line, 18); /* the first row, its second set: 65536 … 70.61 0.93 1.62 */
  ck_assert_double_eq(point->bytes, 65536);
  ck_assert_double_eq_tol(point->time_s, 70.61e-6, 1e-12);
  ck_assert_double_eq_tol(point->algbw_Bps, 0.93e9, 1);
  ck_assert_double_eq_tol(point->busbw_Bps, 1.62e9, 1);
}

TEST(several_programs_may_follow_each_other) {
  g_autoptr(NcclTestsLog) log = nccl_tests_read(LOGS "several.log", NULL);
  ck_assert_ptr_nonnull(log);
  ck_assert_uint_eq(log->tables->len, 2);
  ck_assert_str_eq(op_of(table_at(log, 0)), "all_gather");
  ck_assert_str_eq(op_of(table_at(log, 1)), "all_to_all"); /* its in-place results are not checked: N/A */
  for (guint i = 0; i < 2; i++)
    ck_assert(table_at(log, i)->n_gpus == 16 && table_at(log, i)->n_nodes == 2 && table_at(log, i)->points->len == 22);
}

TEST(json_says_the_same) {
  g_autoptr(NcclTestsLog) log = nccl_tests_read(LOGS "reduce_scatter-16.json", NULL);
  ck_assert_ptr_nonnull(log);
  const NcclTestsTable *table = table_at(log, 0);
  ck_assert_str_eq(op_of(table), "reduce_scatter");
  ck_assert(table->n_gpus == 16 && table->n_nodes == 2); /* a device for each of 2 processes, ngpus 8 */
  ck_assert_uint_eq(table->points->len, 12);             /* 1 MiB to 1 GiB by 4, twice */
}

/* Logs of other versions and surroundings. */
TEST(columns_are_found_by_name) {
  g_autoptr(NcclTestsLog) log = sound_log(
      "[1,0]<stdout>:# nThread 1 nGpus 2 minBytes 8 maxBytes 8\n"
      "[1,0]<stdout>:#   Rank  0 Pid 1 on host-a device 0 [0x07] A100\n"
      "[1,0]<stdout>:#   Rank  1 Pid 2 on host-b device 0 [0x07] A100\n"
      "host-a:1:1 [0] NCCL INFO Using network IB\n"
      "2026-11-02 NCCL INFO a line that begins with a number\n"
      "[1,0]<stdout>:# size count type redop time algbw busbw error time algbw busbw error timestamp\n"
      "[1,0]<stdout>:# (B) (elements) (us) (GB/s) (GB/s) (us) (GB/s) (GB/s) YYYY-MM-DD hh:mm:ss\n"
      "[1,0]<stdout>:  0 0 float sum 5.00 0.00 0.00 0e+00 5.10 0.00 0.00 0e+00 2026-11-02 10:00:00\n"
      "[1,0]<stdout>:  1000000 250000 float sum 100.0 10.00 10.00 2e-07 N/A N/A N/A N/A 2026-11-02 10:00:00\r\n"
      "# size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv%\n"
      "# (B) (elements) (us) (GB/s) (GB/s) (us) (us) (us) (%)\n"
      " 2000000 500000 float none -1 1e+02 20.00 20.00 N/A 90 110 109 3.1\n");
  ck_assert_uint_eq(log->tables->len, 2);
  const NcclTestsTable *first = table_at(log, 0), *second = table_at(log, 1);
  ck_assert(first->op == -1 && first->n_gpus == 2 && first->n_nodes == 2);
  ck_assert_uint_eq(first->points->len, 1); /* the size 0 says nothing of bandwidth, N/A is no time */
  ck_assert_double_eq_tol(g_array_index(first->points, NcclTestsPoint, 0).time_s, 100e-6, 1e-12);
  ck_assert(second->n_gpus == 0 && second->points->len == 1);
}

TEST(a_table_alone_will_do) {
  g_autoptr(NcclTestsLog) log = sound_log("# nThread 2 nGpus 4 minBytes 8 maxBytes 8\n"
                                          "# size count type time algbw busbw\n"
                                          "1000000 250000 float 100.0 10.00 10.00\n");
  const NcclTestsTable *table = table_at(log, 0);
  ck_assert(table->op == -1 && table->n_gpus == 8 && table->n_nodes == 1 && table->points->len == 1);
}

/* What stands beside a time is it but for two digits behind the point and 2 %: of 10 GB/s 0.211, of 0.01 GB/s 0.0112.
 */
TEST(a_bandwidth_is_that_of_its_time_but_for_its_digits) {
  static const struct {
    const char *bytes, *algbw;
    gboolean is_sound;
  } rows[] = {{"1000000", "10.21", TRUE}, {"1000000", "10.22", FALSE}, {"1000000", "9.79", TRUE},
              {"1000000", "9.78", FALSE}, {"1000", "0.02", TRUE},      {"1000", "0.03", FALSE}};
  for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
    g_autofree char *text = g_strdup_printf("# nThread 1 nGpus 4 minBytes 8 maxBytes 8\n"
                                            "# size count type time algbw busbw\n"
                                            "%s 250 float 100.0 %s 10.00\n",
                                            rows[i].bytes, rows[i].algbw);
    g_autoptr(GError) error = NULL;
    g_autoptr(NcclTestsLog) log = read_text(text, strlen(text), &error);
    ck_assert_msg((log != NULL) == rows[i].is_sound, "%s bytes, %s GB/s", rows[i].bytes, rows[i].algbw);
    ck_assert(log != NULL || strstr(error->message, "found an algbw of") != NULL);
  }
}

typedef struct {
  const char *from, *to; /* in the sample; `to` NULL: the log ends before `from` */
  int line;              /* of the error */
  const char *expected;
} Break;

static void check_breaks(const char *sample, const Break *breaks, guint n) {
  g_autofree char *text = text_file_read(sample);
  for (guint i = 0; i < n; i++) {
    ck_assert_msg(strstr(text, breaks[i].from) != NULL, "\"%s\" is not there", breaks[i].from);
    GString *edited = g_string_new(text);
    if (breaks[i].to != NULL)
      g_string_replace(edited, breaks[i].from, breaks[i].to, 1);
    else
      g_string_truncate(edited, (gsize)(strstr(edited->str, breaks[i].from) - edited->str));
    g_autoptr(GError) error = NULL;
    g_autoptr(NcclTestsLog) log = read_text(edited->str, edited->len, &error);
    g_string_free(edited, TRUE);
    ck_assert_msg(log == NULL, "\"%s\" for \"%s\" was taken", breaks[i].to, breaks[i].from);
    g_autofree char *place = g_strdup_printf("%s:%d:", path, breaks[i].line);
    ck_assert_msg(g_str_has_prefix(error->message, place) && strstr(error->message, breaks[i].expected) != NULL,
                  "found \"%s\", expected \"%s\" at line %d", error->message, breaks[i].expected, breaks[i].line);
  }
}

TEST(broken_logs_are_refused_with_their_line) {
  static const Break breaks[] = {
      {"#       size ", NULL, 2, "a run without measured times"},
      {"       65536  ", NULL, 2, "a run without measured times"},
      {"0.93    1.62", NULL, 18, "found 10 columns, expected the header's 13"},
      {"#        (B) ", "#        (KB)", 17, "found the unit (KB), expected (B), (us) and (GB/s)"},
      {"(us)", "(ms)", 17, "found the unit (ms), expected (B), (us)"},
      {"(GB/s)", "(Gb/s)", 17, "found the unit (Gb/s)"},
      {"  70.61 ", "7061.0 ", 18, "are times in us"},
      {"  70.61 ", "  -70.6 ", 18, "expected times above 0"},
      {"  70.61 ", "   nan  ", 18, "found \"nan\", expected a number"},
      {"  70.61 ", " 70.6us ", 18, "found \"70.6us\", expected a number"},
      {"1.63       0", "1.63       3", 18, "found 3 wrong elements"},
      {"all_reduce_perf", "allreduce_perf", 2, "did you mean \"all_reduce_perf\"?"},
      {"all_reduce_perf", "hypercube_perf", 2, "found the program \"hypercube_perf\""},
      {"   time ", "cputime ", 16, "found cputime"},
      {"  algbw", "  albgw", 16, "without algbw or busbw"},
      {"#       size", "        size", 18, "numbers before a header"},
  };
  check_breaks(LOGS "all_reduce-8.log", breaks, G_N_ELEMENTS(breaks));
}

TEST(broken_json_is_refused_with_its_line) {
  static const Break breaks[] = {
      {"\"results\"", "\"result\"", 1, "expected the list \"results\""},
      {"\"args\"", "\"arks\"", 1, "expected the list \"args\""},
      {"reduce_scatter_perf", "reduce_perf_x", 4, "found the program \"reduce_perf_x\""},
      {"\"group\": 0", "\"group\": -1", 36, "group: found -1"},
      {"\"hostname\": \"node1\"", "\"hostname\": 1", 38, "hostname"},
      {"\"devices\": [", "\"devices\": [7,", 33, "devices: found something else, expected objects"},
      {"\"ngpus\": 8", "\"ngpus\": 0", 23, "ngpus"},
      {"\"nwrong\": 0.0", "\"nwrong\": 2.0", 61, "found 2 wrong elements"},
      {"\"time\": ", "\"cpu_time\": ", 61, "measured how long the CPU took"},
      {"\"time\": ", "\"time\": 9", 61, "are times in us"},
      {"\"in_place\"", NULL, 67, "found the end of the file"},
  };
  check_breaks(LOGS "reduce_scatter-16.json", breaks, G_N_ELEMENTS(breaks));
}

/* Bytes of the samples changed at random: a log or an error with the file's name, never a crash. */
TEST(damaged_logs_never_crash) {
  static const char *const samples[] = {LOGS "all_reduce-8.log", LOGS "several.log", LOGS "reduce_scatter-16.json"};
  g_autoptr(GRand) random = g_rand_new_with_seed(7);
  int n_taken = 0, n_refused = 0;
  for (int i = 0; i < 600; i++) {
    g_autofree char *text = text_file_read(samples[i % 3]);
    gsize length = strlen(text);
    for (int k = g_rand_int_range(random, 1, 6); k > 0; k--)
      text[g_rand_int_range(random, 0, (int)length)] = (char)g_rand_int_range(random, 0, 256);
    if (g_rand_boolean(random))
      length = (gsize)g_rand_int_range(random, 0, (int)length);
    g_autoptr(GError) error = NULL;
    g_autoptr(NcclTestsLog) log = read_text(text, length, &error);
    if ((log == NULL) != (error != NULL) || (error != NULL && !g_str_has_prefix(error->message, path)))
      ck_abort_msg("damage %d: %s", i, error != NULL ? error->message : "no message");
    *(log != NULL ? &n_taken : &n_refused) += 1;
  }
  ck_assert(n_taken > 20 && n_refused > 20);
}

int main(void) {
  tcase_add_checked_fixture(listed_tests(), set_up, tear_down);
  return run_tests();
}
