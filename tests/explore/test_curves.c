/* The data of figures over many runs: closed forms, omitted points, independence of threads, tables. */
#include "curves.h"
#include "error.h"
#include "run_suite.h"

#include <check.h>
#include <glib/gstdio.h>
#include <math.h>
#include <sqlite3.h>
#include <string.h>

#include "plan_with.h"
#include "run_pictures.h"
#include "table_pictures.h"
#include "vary.h"

static char *folder; /* of this run; removed at the end */
static Model *model;
static Cluster *cluster;

static void assert_error(const GError *error, int code, const char *part) {
  ck_assert_msg(g_error_matches(error, STEPSIM_ERROR, code), "%s", error != NULL ? error->message : "no error");
  ck_assert_msg(strstr(error->message, part) != NULL, "%s", error->message);
}

static GArray *counts_of(gint64 first, gint64 second) {
  GArray *counts = g_array_new(FALSE, FALSE, sizeof(gint64));
  g_array_append_val(counts, first);
  g_array_append_val(counts, second);
  return counts;
}

static const BubblePoint *bubble_at(const GArray *points, guint i) {
  return &g_array_index(points, BubblePoint, i);
}

TEST(uniform_stages_lie_on_the_closed_forms) {
  /* p = 4, F = I = W = 1: 1f1b waits 3 · 3 beside 3m of work, zb-h1 3 · (1 + 1 − 1); m = 8: 9/33 and 3/27, m = 16: 9/57
   * and 3/51. interleaved on 2 chunks waits 9/2: 4.5/28.5 and 4.5/52.5. */
  char *names[] = {"1f1b", "zb-h1", "interleaved", NULL};
  g_autoptr(GArray) counts = counts_of(8, 16);
  g_autoptr(GPtrArray) left_out = g_ptr_array_new_with_free_func(g_free);
  const BubbleAxes axes = {names, counts, 4, 2};
  g_autoptr(GArray) points = curves_bubble(&axes, left_out, NULL);
  const double expected[] = {9. / 33, 9. / 57, 3. / 27, 3. / 51, 4.5 / 28.5, 4.5 / 52.5};
  ck_assert_uint_eq(points->len, G_N_ELEMENTS(expected));
  ck_assert_uint_eq(left_out->len, 0);
  for (guint i = 0; i < points->len; i++) {
    ck_assert_double_eq_tol(bubble_at(points, i)->simulated, expected[i], 1e-9);
    ck_assert_double_eq_tol(bubble_at(points, i)->closed_form, expected[i], 1e-9);
  }
  ck_assert_str_eq(bubble_at(points, 0)->schedule, "1f1b");
  ck_assert_str_eq(bubble_at(points, 5)->schedule, "interleaved, 2 chunks");
}

TEST(a_bound_is_no_closed_form_and_what_cannot_be_is_left_out) {
  char *names[] = {"dualpipe", "zb-v", NULL};
  g_autoptr(GArray) counts = counts_of(1, 4); /* dualpipe has micro-batches from each end: at least 2 */
  g_autoptr(GPtrArray) left_out = g_ptr_array_new_with_free_func(g_free);
  const BubbleAxes axes = {names, counts, 4, 0};
  g_autoptr(GArray) points = curves_bubble(&axes, left_out, NULL);
  ck_assert_uint_eq(points->len, 3);
  ck_assert_uint_eq(left_out->len, 1);
  ck_assert_ptr_nonnull(strstr(g_ptr_array_index(left_out, 0), "dualpipe at 1 micro-batches: "));
  ck_assert(isnan(bubble_at(points, 1)->closed_form)); /* zb-v's holds from 2p micro-batches on */
  ck_assert(bubble_at(points, 1)->simulated > 0);
}

TEST(a_predicted_step_idles_longer_than_the_closed_form) {
  /* 1f1b's is (p − 1)/(p − 1 + m) whatever the passes take: 3/11 and 3/19. Sends, uneven ends and the optimizer come on
   * top, so the share is another one. */
  char *names[] = {"1f1b", NULL};
  g_autoptr(GArray) counts = counts_of(8, 16);
  g_autoptr(GPtrArray) left_out = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(Plan) plan = plan_with("pp=4 gpus=8");
  const BubbleAxes axes = {names, counts, 4, 0};
  g_autoptr(GArray) points = curves_bubble_predicted(&axes, model, cluster, plan, 2, left_out, NULL);
  ck_assert_uint_eq(points->len, 2);
  ck_assert_double_eq_tol(bubble_at(points, 0)->closed_form, 3. / 11, 1e-9);
  ck_assert_double_eq_tol(bubble_at(points, 1)->closed_form, 3. / 19, 1e-9);
  ck_assert_double_gt(bubble_at(points, 1)->simulated, 3. / 19);
  ck_assert_double_lt(bubble_at(points, 1)->simulated, bubble_at(points, 0)->simulated);
}

TEST(strong_and_weak_scaling_meet_at_the_most_gpus) {
  g_autoptr(GArray) gpus = counts_of(8, 64);
  g_autoptr(GPtrArray) left_out = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(Plan) plan = plan_with("zero=1 global-batch=128");
  g_autoptr(GArray) points = curves_mfu(model, cluster, plan, gpus, 0, left_out, NULL, NULL);
  ck_assert_uint_eq(points->len, 4);
  const GpusPoint *at = (const GpusPoint *)(void *)points->data;
  ck_assert_str_eq(at[0].series, "strong scaling: 128 sequences per step");
  ck_assert_str_eq(at[2].series, "weak scaling: 2 sequences per step and GPU");
  ck_assert_double_eq(at[1].value, at[3].value);
  ck_assert_double_gt(at[0].value, at[2].value); /* 128 and 16 sequences on 8 GPUs: more of them hide more */
}

/* Each plan keeps its own batch, and its points are those of the curve it has alone. What cannot be has no point. */
TEST(lines_of_strong_scaling_are_those_that_each_plan_has_alone) {
  g_autoptr(GArray) gpus = counts_of(8, 64), lines = variants_new();
  g_autoptr(GPtrArray) left_out = g_ptr_array_new_with_free_func(g_free);
  static const struct {
    const char *label;
    int tp;
    gint64 batch;
  } drawn[] = {{"tp 1", 1, 128}, {"tp 2", 2, 64}, {"tp 5", 5, 64}};
  for (gsize i = 0; i < G_N_ELEMENTS(drawn); i++) {
    Plan *plan = plan_new();
    plan->tp = drawn[i].tp;
    plan->zero = 1;
    plan->global_batch = drawn[i].batch;
    variants_add(lines, model, cluster, plan)->label = g_strdup(drawn[i].label);
  }
  g_autoptr(GArray) points = curves_strong_scaling(lines, gpus, 0, left_out, NULL, NULL);
  ck_assert_uint_eq(points->len, 4);
  ck_assert_uint_eq(left_out->len, 2);
  for (guint line = 0; line < 2; line++) {
    const Plan *plan = variants_get(lines, line)->plan;
    g_autoptr(GArray) alone = curves_mfu(model, cluster, plan, gpus, 0, left_out, NULL, NULL);
    for (guint k = 0; k < 2; k++) {
      const GpusPoint *at = &g_array_index(points, GpusPoint, 2 * line + k);
      ck_assert_str_eq(at->series, drawn[line].label);
      ck_assert_int_eq(at->n_gpus, (int)g_array_index(gpus, gint64, k));
      ck_assert_double_eq(at->value, g_array_index(alone, GpusPoint, k).value);
    }
  }
}

static GArray *five_runs(void) {
  GArray *runs = variants_new();
  static const int tps[] = {1, 2, 4, 8, 5}; /* five do not divide 32 heads */
  for (guint i = 0; i < G_N_ELEMENTS(tps); i++) {
    int tp = tps[i];
    Plan *plan = plan_new();
    plan->gpus = 16;
    plan->tp = tp;
    plan->zero = 3;
    plan->global_batch = 32;
    variants_add(runs, model, cluster, plan)->label = g_strdup_printf("tp %d", tp);
  }
  return runs;
}

TEST(threads_change_no_number) {
  g_autoptr(GArray) one = five_runs(), many = five_runs();
  ck_assert(variants_predict(one, &(VaryHow){.n_threads = 1}, NULL));
  ck_assert(variants_predict(many, &(VaryHow){.n_threads = 4}, NULL));
  for (guint i = 0; i < one->len; i++) {
    const Variant *a = variants_get(one, i), *b = variants_get(many, i);
    ck_assert_str_eq(a->problem != NULL ? a->problem->message : "", b->problem != NULL ? b->problem->message : "");
    const PlanOutcome *x = a->outcome, *y = b->outcome;
    ck_assert(x == NULL || memcmp(&x->step_time_s, &y->step_time_s, sizeof x->step_time_s) == 0);
    ck_assert(x == NULL || memcmp(x->memory_bytes, y->memory_bytes, sizeof x->memory_bytes) == 0);
  }
  ck_assert_uint_eq(variants_count_possible(one), 4);
  ck_assert_ptr_nonnull(strstr(variants_get(one, 4)->problem->message, "tp 5"));
}

TEST(a_run_that_makes_no_sense_is_an_error_with_its_label) {
  g_autoptr(GArray) runs = five_runs();
  variants_get(runs, 2)->plan->tp = 0;
  g_autoptr(GError) error = NULL;
  ck_assert(!variants_predict(runs, &(VaryHow){.n_threads = 2}, &error));
  assert_error(error, STEPSIM_ERROR_INPUT, "tp 4: ");
}

TEST(bars_add_up_to_the_step_and_say_what_cannot_be) {
  g_autoptr(GArray) runs = five_runs();
  ck_assert(variants_predict(runs, &(VaryHow){.n_threads = 2}, NULL));
  for (guint i = 0; i < 4; i++) {
    const PlanOutcome *run = variants_get(runs, i)->outcome;
    double sum_s = 0, sum_bytes = 0;
    for (int part = 0; part < N_BREAKDOWN; part++)
      sum_s += run->breakdown_s[part];
    for (int category = 0; category < N_MEMORY; category++)
      sum_bytes += run->memory_bytes[category];
    ck_assert_double_eq_tol(sum_s, run->step_time_s, 2e-9);
    ck_assert_double_eq_tol(sum_bytes, run->peak_bytes, 1);
  }
  g_autoptr(Picture) picture = runs_breakdown_picture(runs, "t", 100, NULL);
  ck_assert_ptr_nonnull(strstr(picture->data->str, "\"tp 5 (cannot be)\" 0 0"));
  g_array_remove_range(runs, 0, 4);
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(runs_memory_picture(runs, "t", 100, &error));
  assert_error(error, STEPSIM_ERROR_IMPOSSIBLE, "all of 1 configurations are impossible; tp 5: ");
}

/* A file with this text; removed by the caller with its folder. */
static char *written(const char *text) {
  char *file = g_build_filename(folder, "table.csv", NULL);
  ck_assert(g_file_set_contents(file, text, -1, NULL));
  return file;
}

static const char sweep[] = "status,model,gpus,tp,zero,tokens_per_s,memory_peak_bytes\n"
                            "ran,m,64,1,1,300,40e9\n"
                            "ran,m,64,2,1,200,20e9\n"
                            "ran,m,64,2,3,150,30e9\n"
                            "out_of_memory,m,64,1,0,500,95e9\n"
                            "impossible,m,64,3,1,,\n";

TEST(a_sweeps_table_has_its_front) {
  g_autofree char *file = written(sweep);
  const ParetoColumns columns = {NULL};
  g_autoptr(GError) error = NULL;
  g_autoptr(Picture) picture = table_pareto_picture(file, &columns, &error);
  ck_assert_msg(picture != NULL, "%s", error != NULL ? error->message : "");
  /* labels name what differs; bytes become GB */
  ck_assert_str_eq(picture->data->str, "\"front\"\n20 200 \"tp 2, zero 1\"\n40 300 \"tp 1, zero 1\"\n\n\n"
                                       "\"beaten\"\n30 150 \"tp 2, zero 3\"\n\n\n"
                                       "\"does not fit\"\n95 500 \"tp 1, zero 0\"\n");
  ck_assert_ptr_nonnull(strstr(picture->variables->str,
                               "xlabel='memory of the fullest GPU, without what is reserved (GB = 1e9 bytes)'; "));
  ck_assert_ptr_nonnull(
      strstr(picture->variables->str, "title='Pareto front of 4 configurations in table.csv: m, 64 GPUs'; "));
}

/* What runs the step and how cp communicates tell rows apart; seq_len, which only the impossible row lacks, does not.
 */
TEST(what_is_not_drawn_differs_in_nothing) {
  g_autofree char *file = written("status,tp,cp,seq_len,framework,cp_comm,tokens_per_s,memory_peak_bytes\n"
                                  "ran,1,2,4096,nemo,ring,300,40e9\n"
                                  "ran,1,2,4096,torchtitan,ulysses,200,20e9\n"
                                  "impossible,3,4,,nemo,ring,,\n");
  const ParetoColumns columns = {NULL};
  g_autoptr(Picture) picture = table_pareto_picture(file, &columns, NULL);
  ck_assert_ptr_nonnull(picture);
  ck_assert_msg(strstr(picture->data->str, "20 200 \"cp-comm ulysses, framework torchtitan\"\n"
                                           "40 300 \"cp-comm ring, framework nemo\"\n") != NULL,
                "%s", picture->data->str);
}

/* 2 of 10 GB are left free; buckets of the default size say no more than dp does, others do. */
TEST(memory_in_all_is_drawn_before_what_it_may_be) {
  static const char *const buckets[] = {"64", "77"};
  for (int given = 0; given < 2; given++) {
    g_autofree char *text = g_strdup_printf("status,dp,cp,zero,bucket,tokens_per_s,memory_peak_bytes,"
                                            "memory_total_bytes,memory_capacity_bytes\n"
                                            "ran,1,1,0,40,100,5e9,7e9,8e9\n"
                                            "ran,2,1,0,64,50,4e9,6e9,8e9\n"
                                            "ran,2,1,1,%s,40,3e9,5e9,8e9\n",
                                            buckets[given]);
    g_autofree char *file = written(text);
    const ParetoColumns columns = {NULL};
    g_autoptr(Picture) picture = table_pareto_picture(file, &columns, NULL);
    ck_assert_ptr_nonnull(picture);
    ck_assert_ptr_nonnull(strstr(picture->variables->str, "xlabel='memory of the fullest GPU (GB = 1e9 bytes)'; "));
    ck_assert_ptr_nonnull(strstr(picture->variables->str, "capacity='8'; "));
    ck_assert_msg(strstr(picture->data->str, given ? "7 100 \"dp 1, zero 0, bucket 40\"" : "7 100 \"dp 1, zero 0\"") !=
                      NULL,
                  "%s", picture->data->str);
  }
}

/* A database with these statements run in it. Owned by the caller. */
static char *database_of(const char *sql) {
  char *file = g_build_filename(folder, "table.db", NULL);
  g_unlink(file);
  sqlite3 *database;
  ck_assert_int_eq(sqlite3_open(file, &database), SQLITE_OK);
  ck_assert_int_eq(sqlite3_exec(database, sql, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(database);
  return file;
}

TEST(a_sweeps_database_is_drawn_as_its_table) {
  g_autofree char *file = database_of(
      "CREATE TABLE configurations (config INTEGER PRIMARY KEY, status TEXT, gpus INTEGER, tp INTEGER, "
      "zero INTEGER, tokens_per_s REAL, memory_peak_bytes REAL);"
      "INSERT INTO configurations VALUES (4, 'impossible', 64, 3, 1, NULL, NULL), (0, 'ran', 64, 1, 1, 300, "
      "40e9), (1, 'ran', 64, 2, 1, 200, 20e9), (2, 'ran', 64, 2, 3, 150, 30e9), (3, 'out_of_memory', 64, 1, "
      "0, 500, 95e9)");
  g_autofree char *table = written(sweep);
  const ParetoColumns columns = {.title = "t"};
  g_autoptr(GError) error = NULL;
  g_autoptr(Picture) of_database = table_pareto_picture(file, &columns, &error);
  ck_assert_msg(of_database != NULL, "%s", error != NULL ? error->message : "");
  g_autoptr(Picture) of_table = table_pareto_picture(table, &columns, NULL);
  ck_assert_str_eq(of_database->data->str, of_table->data->str);
}

TEST(a_bad_database_says_what_is_wrong_with_it) {
  const ParetoColumns columns = {NULL};
  g_autoptr(GError) error = NULL;
  g_autofree char *foreign = database_of("CREATE TABLE runs (x REAL)");
  ck_assert_ptr_null(table_pareto_picture(foreign, &columns, &error));
  assert_error(error, STEPSIM_ERROR_INPUT, "table.db: cannot be read as a database of a sweep: no such table");
  g_clear_error(&error);
  g_autofree char *empty = database_of("CREATE TABLE configurations (x REAL)");
  ck_assert_ptr_null(table_pareto_picture(empty, &columns, &error));
  assert_error(error, STEPSIM_ERROR_INPUT, "found no row in its table configurations");
  g_clear_error(&error);
  /* the magic, then noise */
  g_autofree char *noise = g_strnfill(4096, 'x');
  memcpy(noise, "SQLite format 3", sizeof "SQLite format 3");
  ck_assert(g_file_set_contents(empty, noise, 4096, NULL));
  ck_assert_ptr_null(table_pareto_picture(empty, &columns, &error));
  assert_error(error, STEPSIM_ERROR_INPUT, "table.db: cannot be read as a database of a sweep: file is not a database");
}

TEST(a_bad_table_is_named_with_line_and_column) {
  static const struct {
    const char *text, *y, *part;
  } cases[] = {
      {"tp,memory_gb,mfu\n1,2,fast\n", NULL, "table.csv:2: mfu: found \"fast\", expected a number"},
      {"tp,memory_gb,mfu\n1,2,nan\n", NULL, "table.csv:2: mfu: found \"nan\""},
      {"tp,memory_gb,mfu,fits\n1,2,3,perhaps\n", NULL, "table.csv:2: fits: found \"perhaps\""},
      {"tp,memory_gb,mfu\n1,2,3\n", "mfuu", "no column \"mfuu\", expected one of tp, memory_gb, mfu; did you mean"},
      {"tp,mfu\n1,2\n", NULL, "none of the columns memory_total_bytes,"},
      {"tp,memory_gb,mfu\n1,2,\n2,,3\n", NULL, "no row of"},
      {"tp,memory_gb,mfu\n", NULL, "table.csv"},
      {"tp,memory_gb,mfu\n1,2,3\n1,2\n", NULL, "table.csv:3: found 2 cells, expected 3 as the header names columns"},
  };
  for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *file = written(cases[i].text);
    const ParetoColumns columns = {.y = cases[i].y};
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(table_pareto_picture(file, &columns, &error));
    assert_error(error, STEPSIM_ERROR_INPUT, cases[i].part);
  }
}

TEST(validated_rows_become_series_with_their_error) {
  /* |1.1/1 − 1| = 10 %, |1.6/2 − 1| = 20 %, |3/3 − 1| = 0: on average 10 % */
  g_autofree char *file = written("source,step_time_s,predicted_step_time_s\n"
                                  "b,1,1.1\na,2,1.6\nb,3,3\nb,,7\na,4,\n");
  g_autoptr(Picture) picture = table_validation_picture(file, NULL, NULL, NULL);
  ck_assert_str_eq(picture->data->str, "\"b\"\n1 1.1\n3 3\n\n\n\"a\"\n2 1.6\n");
  ck_assert_ptr_nonnull(
      strstr(picture->variables->str, "title='Step time of 3 runs: predicted against measured, MAPE 10.0 %'; "));
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(table_validation_picture(file, "sauce", NULL, &error));
  assert_error(error, STEPSIM_ERROR_INPUT, "did you mean \"source\"?");
}

TEST(busbw_has_the_choice_first_and_no_size_of_nothing) {
  GroupShape shape = {0};
  int ranks[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  shape = layout_shape_of(cluster, ranks, 8);
  g_autoptr(GArray) sizes = g_array_new(FALSE, FALSE, sizeof(double));
  const double bytes[] = {1 << 30, 0, 1 << 20};
  g_array_append_vals(sizes, bytes, 3);
  g_autoptr(GArray) points = curves_busbw(cluster, COLLECTIVE_ALL_REDUCE, &shape, -1, sizes);
  const BusbwPoint *at = (const BusbwPoint *)(void *)points->data;
  ck_assert_uint_eq(points->len % 2, 0);
  ck_assert_str_eq(at[0].series, "the library's choice");
  ck_assert_double_eq(at[0].bytes, 1 << 20);
  ck_assert_double_eq(at[1].bytes, 1 << 30);
  double best = 0;
  for (guint i = 3; i < points->len; i += 2)
    best = MAX(best, at[i].busbw_Bps);
  ck_assert_double_gt(best, 0);
  ck_assert_double_gt(curves_busbw_limit(cluster, COLLECTIVE_ALL_REDUCE, &shape), 0);
  ck_assert_double_eq(curves_busbw_limit(cluster, COLLECTIVE_ALL_TO_ALL, &shape), 0);
}

int main(void) {
  folder = g_dir_make_tmp("stepsim-test-XXXXXX", NULL);
  model = model_read("llama-3-8b", NULL);
  cluster = cluster_read("dgx-h100", NULL);
  const int failed = run_tests();
  g_autofree char *table = g_build_filename(folder, "table.csv", NULL);
  g_autofree char *database = g_build_filename(folder, "table.db", NULL);
  g_unlink(table);
  g_unlink(database);
  g_rmdir(folder);
  g_free(folder);
  model_free(model);
  cluster_free(cluster);
  return failed;
}
