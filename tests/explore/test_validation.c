/* Prediction errors over measured rows. Every "measured" time here is a known multiple of the predicted one, so each
 * statistic has a known value, whatever the cost model says. */
#include "csv_text.h"
#include "plan.h"
#include "predict.h"
#include "run_suite.h"
#include "validation_report.h"

#include <json-glib/json-glib.h>
#include <math.h>

#define HEAD                                                                                                           \
  "source,layers,hidden,heads,vocab,seq_len,cluster,gpus,tp,pp,micro_batch,global_batch,cp,step_time_s,memory_gb\n"
#define PLAN "2,256,4,1000,128,selene,4,2,2,1,8,1"
#define PLAN_ROW "s," PLAN ",1,\n"

static const char head[] = "id," HEAD;

static Validation *validate(const char *text, const char *by, int n_threads) {
  g_autoptr(GError) error = NULL;
  Validation *validation = validation_run(rows_of(text), by, n_threads, &error);
  ck_assert_msg(validation != NULL, "%s", error == NULL ? "no message" : error->message);
  return validation;
}

/* Of PLAN, straight from predict(). */
static void predict_plan(double *step_time_s, double *peak_bytes, double *utilisation_s) {
  g_autofree char *text = g_strconcat(head, "x,s," PLAN ",,\n", NULL);
  g_autoptr(MeasuredRows) rows = rows_of(text);
  g_autoptr(Cluster) cluster = cluster_read("selene", NULL);
  g_autoptr(GError) error = NULL;
  g_autoptr(Prediction) prediction = predict(nth_row(rows, 0)->model, cluster, nth_row(rows, 0)->plan, &error);
  ck_assert_msg(prediction != NULL, "%s", error == NULL ? "no message" : error->message);
  *step_time_s = prediction->step_time_s;
  *peak_bytes = prediction->memory->peak_bytes;
  *utilisation_s = prediction->hfu * prediction->step_time_s;
}

/* Rows of PLAN that took `scale` times as long as predicted; source and more as given. Owned by the caller. */
typedef struct {
  const char *source;
  double time_scale, memory_scale; /* of the predicted ones; 0: not measured */
} Scaled;

static char *scaled_rows(const Scaled *scaled, gsize n) {
  double step_time_s, peak_bytes, utilisation_s;
  predict_plan(&step_time_s, &peak_bytes, &utilisation_s);
  GString *text = g_string_new(head);
  for (gsize i = 0; i < n; i++) {
    g_autofree char *id = g_strdup_printf("row/%zu", i);
    csv_append_cell(text, id);
    csv_append_cell(text, scaled[i].source);
    g_string_append(text, PLAN ",");
    csv_append_number(text, scaled[i].time_scale > 0 ? step_time_s * scaled[i].time_scale : NAN);
    csv_append_number(text, scaled[i].memory_scale > 0 ? peak_bytes * scaled[i].memory_scale * 1e-9 : NAN);
    csv_end_row(text);
  }
  return g_string_free(text, FALSE);
}

#define close_to(found, expected) ck_assert_double_eq_tol(found, expected, 1e-7)

TEST(statistics_are_those_of_the_definition) {
  /* |e|: 0.1 0.2 0.3 0.6; mean 0.3; median between 0.2 and 0.3; 90 % of the way from the first to the last of four is
   * place 2.7: 0.3 + 0.7·0.3; bias (0.1 − 0.2 + 0.3 − 0.6)/4 */
  const double errors[] = {0.3, -0.6, 0.1, -0.2};
  ErrorStats stats = error_stats(errors, 4);
  close_to(stats.mape, 0.3);
  close_to(stats.median_ape, 0.25);
  close_to(stats.p90_ape, 0.51);
  close_to(stats.bias, -0.1);
  stats = error_stats(errors + 1, 1);
  ck_assert(stats.mape == 0.6 && stats.median_ape == 0.6 && stats.p90_ape == 0.6 && stats.bias == -0.6);
  stats = error_stats(errors, 0);
  ck_assert(isnan(stats.mape) && isnan(stats.median_ape) && isnan(stats.p90_ape) && isnan(stats.bias));
}

static double mean_distance(const double *a, int n, double scale) {
  double sum = 0;
  for (int i = 0; i < n; i++)
    sum += fabs(a[i] * scale - 1);
  return sum / n;
}

TEST(no_scale_is_better_than_the_best) {
  g_autoptr(GRand) random = g_rand_new_with_seed(3);
  for (int round = 0; round < 300; round++) {
    double a[12];
    int n = g_rand_int_range(random, 1, G_N_ELEMENTS(a) + 1);
    for (int i = 0; i < n; i++)
      a[i] = exp(g_rand_double_range(random, -2, 2));
    double best = mean_distance(a, n, error_stats_best_scale(a, n));
    for (int step = 0; step <= 2000; step++)
      if (mean_distance(a, n, exp(step * 0.002 - 2)) < best * (1 - 1e-12))
        ck_abort_msg("round %d: scale %g is better", round, exp(step * 0.002 - 2));
  }
}

/* The row took 1, 0.8, 2 times the predicted: errors 0, 1/0.8 − 1 = +0.25, 1/2 − 1 = −0.5. */
TEST(errors_are_signed_and_of_the_measured_time) {
  static const Scaled scaled[] = {{"s", 1, 0}, {"s", 0.8, 0}, {"s", 2, 0}};
  g_autofree char *text = scaled_rows(scaled, 3);
  g_autoptr(Validation) validation = validate(text, NULL, 1);
  ck_assert_uint_eq(validation->n_runs, 1);
  const ErrorStats *time = &validation->all.time;
  close_to(validation->predictions[0].error, 0);
  close_to(validation->predictions[1].error, 0.25);
  close_to(validation->predictions[2].error, -0.5);
  close_to(time->mape, 0.25);
  close_to(time->median_ape, 0.25);
  close_to(time->p90_ape, 0.45); /* place 1.8 of 0, 0.25, 0.5 */
  close_to(time->bias, -0.25 / 3);
}

/* Utilisation falls as the measured time rises: u, u/2 in one source, so weights u and u/2 at 1/u and 2/u: the first
 * point passes half of 1.5u. Errors 0 and −1/2. In a source of its own a row fits exactly. */
TEST(the_baseline_is_fitted_to_each_source) {
  static const Scaled scaled[] = {{"two", 1, 0}, {"one", 5, 0}, {"two", 2, 0}};
  double step_time_s, peak_bytes, utilisation_s;
  predict_plan(&step_time_s, &peak_bytes, &utilisation_s);
  g_autofree char *text = scaled_rows(scaled, 3);
  g_autoptr(Validation) validation = validate(text, NULL, 1);
  for (int i = 0; i < 3; i++) /* HFU × predicted time = FLOPs / (GPUs × peak) */
    close_to(validation->predictions[i].utilisation, utilisation_s / (step_time_s * scaled[i].time_scale));
  const ValidationGroup *groups = (const ValidationGroup *)validation->groups->data;
  ck_assert_uint_eq(validation->groups->len, 2);
  ck_assert_str_eq(groups[0].name, "two");
  ck_assert_str_eq(groups[1].name, "one");
  close_to(groups[0].baseline_mape, 0.25);
  close_to(groups[1].baseline_mape, 0);
  close_to(validation->all.baseline_mape, 0.5 / 3);
  /* the fit stays that of the source when rows are grouped otherwise */
  g_autoptr(Validation) by_id = validate(text, "id", 1);
  ck_assert_uint_eq(by_id->groups->len, 3);
  close_to(g_array_index(by_id->groups, ValidationGroup, 2).baseline_mape, 0.5);
}

TEST(memory_is_compared_where_it_was_measured) {
  static const Scaled scaled[] = {{"s", 1, 0.8}, {"s", 1, 2}, {"s", 1, 0}};
  g_autofree char *text = scaled_rows(scaled, 3);
  g_autoptr(Validation) validation = validate(text, NULL, 1);
  ck_assert_uint_eq(validation->all.n_memory, 2);
  close_to(validation->all.memory_mape, 0.375); /* +0.25, −0.5 */
  close_to(validation->all.memory_bias, -0.125);
}

/* 8 layers of 16384: 26 G parameters, 16 bytes each, on one GPU of 80 GB. */
#define HUGE "8,16384,64,1000,128,selene,1,1,1,1,1,1"

TEST(verdicts_on_memory_are_counted) {
  g_autofree char *text = g_strconcat(head, "a,s," HUGE ",,\n", /* ran out of memory: rightly said */
                                      "b,s," HUGE ",1,\n",      /* ran, it says */
                                      "c,s," PLAN ",,\n",       /* ran out of memory, it says */
                                      "d,s," PLAN ",1,\n", "e,s," PLAN ",2,\n", NULL);
  g_autoptr(Validation) validation = validate(text, NULL, 1);
  const ValidationGroup *all = &validation->all;
  ck_assert(all->n_ran == 3 && all->n_ran_right == 2);
  ck_assert(all->n_out_of_memory == 2 && all->n_out_of_memory_right == 1);
  ck_assert(all->n_rows == 5 && all->n_predicted == 5 && all->n_timed == 3);
}

static const char refused_text[] = "id," HEAD "a,s," PLAN ",1,\n"
                                   "b,s,2,256,4,1000,128,selene,4,2,2,1,8,2,1,\n"
                                   "c,t,2,256,4,1000,128,selen,4,2,2,1,8,1,1,\n"
                                   "d,t,2,256,4,1000,128,selene,3,2,2,1,8,1,1,\n"
                                   "e,t,2,256,4,1000,128,selene,16,2,2,1,6,1,1,\n";

TEST(rows_that_fail_are_counted_with_their_reason) {
  static const char *const reasons[] = {NULL, "tp 2 × cp 2 × pp 2", "did you mean \"selene\"", "multiple of tp 2",
                                        "global-batch 6"};
  g_autoptr(Validation) validation = validate(refused_text, NULL, 2);
  ck_assert_uint_eq(validation->n_rows, G_N_ELEMENTS(reasons));
  for (guint i = 0; i < G_N_ELEMENTS(reasons); i++) {
    const RowPrediction *prediction = &validation->predictions[i];
    ck_assert((prediction->problem == NULL) == (reasons[i] == NULL));
    ck_assert(isnan(prediction->error) == (reasons[i] != NULL));
    ck_assert_msg(reasons[i] == NULL || strstr(prediction->problem, reasons[i]) != NULL, "%s", prediction->problem);
  }
  ck_assert(validation->all.n_predicted == 1 && validation->all.n_failed == 4);
  const ValidationGroup *second = &g_array_index(validation->groups, ValidationGroup, 1);
  ck_assert(second->n_rows == 3 && second->n_failed == 3 && second->n_timed == 0 && isnan(second->time.mape));
}

/* Rows of every size and every refusal. Owned by the caller. */
static char *many_rows(void) {
  GString *text = g_string_new(head);
  for (int i = 0; i < 60; i++)
    g_string_append_printf(text, "r%d,s%d,%d,256,4,1000,128,selene,%d,%d,%d,1,%d,%d,%g,\n", i, i % 3, 2 + i % 7,
                           4 << i % 3, 1 << i % 3, 1 << i % 2, 16 << i % 4, i % 11 == 0 ? 3 : 1, 0.01 * (1 + i));
  return g_string_free(text, FALSE);
}

TEST(threads_do_not_change_a_number) {
  g_autofree char *text = many_rows();
  g_autoptr(Validation) one = validate(text, NULL, 1);
  ck_assert_uint_gt(one->all.n_predicted, 20);
  ck_assert_uint_gt(one->all.n_failed, 3);
  g_autofree char *expected = validation_csv(one);
  for (int n_threads = 2; n_threads <= 8; n_threads *= 2) {
    g_autoptr(Validation) many = validate(text, NULL, n_threads);
    g_autofree char *found = validation_csv(many);
    ck_assert_int_eq(many->n_threads, n_threads);
    ck_assert_str_eq(found, expected);
  }
}

TEST(grouping_needs_a_column_that_is_there) {
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(validation_run(rows_of(refused_text), "clster", 1, &error));
  ck_assert(strstr(error->message, "\"clster\"") && strstr(error->message, "did you mean \"cluster\""));
  /* source itself may be missing */
  g_autoptr(Validation) validation = validate("layers,hidden,heads,cluster,step_time_s\n2,64,4,selene,1\n", NULL, 1);
  ck_assert_uint_eq(validation->groups->len, 1);
  ck_assert_str_eq(g_array_index(validation->groups, ValidationGroup, 0).name, "");
}

/* Rows that differ in nothing but techniques have predictions of their own, whichever comes first: eager ones take
 * longer than compiled ones, as a name alone is read. */
TEST(rows_of_other_releases_are_predicted_apart) {
  static const char columns[] = "framework,gated,notes," HEAD;
  static const char compiled[] = "torchtitan,1,," PLAN_ROW, eager[] = "torchtitan,1,technique=FSDP," PLAN_ROW;
  double times_s[2];
  for (int first = 0; first <= 1; first++) {
    g_autofree char *text = g_strconcat(columns, first == 0 ? compiled : eager, first == 0 ? eager : compiled, NULL);
    g_autoptr(Validation) validation = validate(text, NULL, 1);
    ck_assert_uint_eq(validation->n_runs, 2);
    const double one_s = validation->predictions[first].step_time_s,
                 other_s = validation->predictions[1 - first].step_time_s;
    ck_assert_double_lt(one_s, other_s);
    ck_assert(first == 0 || (one_s == times_s[0] && other_s == times_s[1]));
    times_s[0] = one_s;
    times_s[1] = other_s;
  }
}

TEST(the_object_for_scripts_holds_what_was_found) {
  static const Scaled scaled[] = {{"a \"b\"", 1, 0.5}, {"c", 0.5, 0}};
  g_autofree char *two = scaled_rows(scaled, 2),
                  *text = g_strconcat(two, "x,c,2,256,4,1000,128,selene,4,2,2,1,8,4,,\n", NULL);
  g_autoptr(Validation) validation = validate(text, NULL, 1);
  g_autofree char *json = validation_json(validation);
  g_autoptr(JsonParser) parser = json_parser_new();
  ck_assert(json_parser_load_from_data(parser, json, -1, NULL));
  JsonObject *root = json_node_get_object(json_parser_get_root(parser));
  ck_assert_int_eq(json_object_get_int_member(root, "rows"), 3);
  ck_assert_int_eq(json_object_get_int_member(root, "predicted"), 2);
  ck_assert_int_eq(json_object_get_int_member(root, "timed"), 2);
  close_to(json_object_get_double_member(root, "mape"), 0.5); /* 0 and +1 */
  close_to(json_object_get_double_member(root, "median_ape"), 0.5);
  close_to(json_object_get_double_member(root, "p90_ape"), 0.9);
  close_to(json_object_get_double_member(root, "bias"), 0.5);
  close_to(json_object_get_double_member(root, "memory_mape"), 1); /* predicted is twice as much */
  JsonArray *failed = json_object_get_array_member(root, "failed");
  ck_assert_uint_eq(json_array_get_length(failed), 1);
  JsonObject *failure = json_array_get_object_element(failed, 0);
  ck_assert_str_eq(json_object_get_string_member(failure, "id"), "x");
  ck_assert_str_eq(json_object_get_string_member(failure, "source"), "c");
  ck_assert(strstr(json_object_get_string_member(failure, "reason"), "tp 2 × cp 4 × pp 2 = 16"));
  JsonObject *groups = json_object_get_object_member(root, "groups");
  JsonObject *first = json_object_get_object_member(groups, "a \"b\""),
             *second = json_object_get_object_member(groups, "c");
  ck_assert_int_eq(json_object_get_int_member(first, "rows"), 1);
  ck_assert_uint_eq(json_array_get_length(json_object_get_array_member(first, "failed")), 0);
  ck_assert_uint_eq(json_array_get_length(json_object_get_array_member(second, "failed")), 1);
  ck_assert(json_object_get_null_member(second, "memory_mape"));
  JsonObject *verdicts = json_object_get_object_member(first, "out_of_memory");
  ck_assert_int_eq(json_object_get_int_member(verdicts, "ran_right"), 1);
}

TEST(every_row_is_written_whole_with_its_prediction) {
  double step_time_s, peak_bytes, utilisation_s;
  predict_plan(&step_time_s, &peak_bytes, &utilisation_s);
  g_autofree char *text = g_strconcat("notes,error,id," HEAD "\"a, b\",old,x,s," PLAN ",1000,\n,,y,s,",
                                      "2,256,4,1000,128,selene,4,2,2,1,8,2,1,\n", NULL);
  g_autoptr(Validation) validation = validate(text, NULL, 1);
  g_autofree char *csv = validation_csv(validation);
  char *path = make_file(csv, strlen(csv));
  g_autoptr(CsvTable) table = csv_table_read(path, NULL);
  drop_file(path);
  ck_assert_ptr_nonnull(table);
  ck_assert_uint_eq(csv_table_n_rows(table), 2);
  const MeasuredRow first = {.table = table}, second = {.table = table, .index = 1};
  ck_assert_str_eq(measured_row_cell(&first, "notes"), "a, b");
  ck_assert_str_eq(measured_row_cell(&first, "hidden"), "256");
  /* to the last bit */
  ck_assert_double_eq(g_ascii_strtod(measured_row_cell(&first, "predicted_step_time_s"), NULL), step_time_s);
  ck_assert_double_eq(g_ascii_strtod(measured_row_cell(&first, "error"), NULL), validation->predictions[0].error);
  close_to(validation->predictions[0].error, step_time_s / 1000 - 1);
  ck_assert_double_eq(g_ascii_strtod(measured_row_cell(&first, "ape"), NULL), -validation->predictions[0].error);
  close_to(g_ascii_strtod(measured_row_cell(&first, "predicted_memory_gb"), NULL), peak_bytes * 1e-9);
  close_to(g_ascii_strtod(measured_row_cell(&first, "predicted_reserved_gb"), NULL), 1.05 * peak_bytes * 1e-9);
  ck_assert_double_gt(g_ascii_strtod(measured_row_cell(&first, "predicted_device_gb"), NULL), 1.05 * peak_bytes * 1e-9);
  ck_assert_str_eq(measured_row_cell(&second, "id"), "y");
  ck_assert_str_eq(measured_row_cell(&second, "ape"), "");
  ck_assert(strstr(measured_row_cell(&second, "failure"), "tp 2 × cp 2 × pp 2"));
}

/* Ten rows that took ever longer than predicted: the error grows from −1/2 to −10/11, and the worst is the last. */
TEST(the_report_shows_the_worst_and_counts_reasons) {
  Scaled scaled[11];
  for (int i = 0; i < 11; i++)
    scaled[i] = (Scaled){"s", i + 1, 0};
  g_autofree char *rows = scaled_rows(scaled, 11);
  g_autofree char *text = g_strconcat(rows, "f,t,2,256,4,1000,128,selene,4,2,2,1,8,2,1,\n",
                                      "g,t,2,256,4,1000,128,selene,4,2,2,1,8,4,1,\n", NULL);
  g_autoptr(Validation) validation = validate(text, NULL, 1);
  g_autoptr(GString) report = g_string_new(NULL);
  validation_text(report, validation);
  ck_assert(g_str_has_prefix(report->str, "13 rows of 3 runs: 11 predicted, 2 failed; "));
  const char *worst = strstr(report->str, "Worst rows"), *last = strstr(worst, "row/10"),
             *second = strstr(worst, "row/9");
  ck_assert(last != NULL && second != NULL && last < second);
  ck_assert(strstr(worst, "-90.9") && !strstr(worst, "row/0 ")); /* 1/11 − 1; ten of eleven are shown */
  ck_assert(strstr(report->str, "   2  gpus 4 is not a multiple of tp 2 × cp 2 × pp 2"));
  ck_assert_ptr_null(strstr(report->str, "cp 4"));
}

/* gpus and batch as the plan was completed: tp 2 × pp 2, and four micro-batches per stage. */
TEST(the_report_is_one_line_a_row_whatever_the_cells_hold) {
  g_autoptr(Validation) validation =
      validate("id,source,model_name,layers,hidden,heads,vocab,seq_len,cluster,tp,pp,step_time_s\n"
               "\"a\n\x1b[2J\",\"s\ns\",m\u00e9,2,256,4,1000,128,selene,2,2,1\n",
               NULL, 1);
  g_autoptr(GString) report = g_string_new(NULL);
  validation_text(report, validation);
  ck_assert_ptr_null(strchr(report->str, '\x1b'));
  ck_assert_ptr_nonnull(strstr(report->str, "\ns s               1 "));
  ck_assert_ptr_nonnull(strstr(report->str, "  a  [2J (stepsim-test-"));
  ck_assert_ptr_nonnull(strstr(report->str, "m\u00e9 on 4 x selene, tp 2 pp 2 micro-batch 1 of 8\n"));
}

/* Errors 0 and −1/2; the second row is the worse, and each table has as many cells in every line. */
TEST(the_table_for_documents_is_whole) {
  static const Scaled scaled[] = {{"a|b", 1, 0}, {"a|b", 2, 0}};
  g_autofree char *text = scaled_rows(scaled, 2);
  g_autoptr(Validation) validation = validate(text, NULL, 1);
  g_autofree char *table = validation_markdown(validation);
  ck_assert_ptr_nonnull(
      strstr(table, "\n| a\\|b | 2 | 0 | 2 | 25.0 | 25.0 | 45.0 | -25.0 | 25.0 | - | 2 / 2 | - |\n| all |"));
  ck_assert(g_str_has_prefix(table, "Of 2 rows 2 are predicted. Of the 2 with a step time the mean error is 25.0 %, "));
  const char *worst = strstr(table, "| worst rows |");
  ck_assert(worst != NULL && strstr(worst, "row/1") < strstr(worst, "row/0"));
  ck_assert_ptr_nonnull(strstr(worst, " | -50.0 |\n"));
  g_auto(GStrv) lines = g_strsplit(table, "\n", -1);
  int expected = 13; /* bars around 12 columns */
  for (int i = 0; lines[i] != NULL && lines[i + 1] != NULL; i++) {
    int n_bars = 0;
    for (const char *at = lines[i]; *at != '\0'; at++)
      n_bars += *at == '|' && (at == lines[i] || at[-1] != '\\');
    if (g_str_has_prefix(lines[i], "| worst"))
      expected = 6;
    ck_assert_msg(n_bars == 0 || n_bars == expected, "%s", lines[i]);
  }
}

TEST(the_picture_has_a_series_per_group) {
  static const Scaled scaled[] = {{"first & last", 1, 0}, {"other", 1.5, 0}, {"other", 0.5, 0}};
  g_autofree char *gnuplot = g_find_program_in_path("gnuplot");
  if (gnuplot == NULL)
    return;
  g_autofree char *text = scaled_rows(scaled, 3), *folder = g_dir_make_tmp("stepsim-test-XXXXXX", NULL);
  g_autofree char *file = g_build_filename(folder, "x.svg", NULL), *picture = NULL;
  g_autoptr(Validation) validation = validate(text, NULL, 1);
  g_autoptr(GError) error = NULL;
  ck_assert_msg(validation_plot(validation, file, &error), "%s", error == NULL ? "" : error->message);
  ck_assert(g_file_get_contents(file, &picture, NULL, NULL));
  ck_assert(strstr(picture, "first &amp; last") && strstr(picture, "other") && strstr(picture, "3 published runs"));
  g_unlink(file);
  g_autoptr(Validation) failed = validate("id," HEAD "d,t,2,256,4,1000,128,selene,3,2,2,1,8,1,1,\n", NULL, 1);
  ck_assert(!validation_plot(failed, file, &error));
  ck_assert(!g_file_test(file, G_FILE_TEST_EXISTS));
  g_rmdir(folder);
}

/* All published rows parse, and none is refused but for what is known not to be modelled. They are not simulated here:
 * what is refused is refused before that. */
static void check_published(const char *folder, const char *name, guint least_rows) {
  g_autofree char *file = g_build_filename(folder, "measured", name, NULL);
  g_autoptr(GError) error = NULL;
  g_autoptr(MeasuredRows) rows = measured_rows_read(&file, 1, &(MeasuredAs){TRUE}, &error);
  ck_assert_msg(rows != NULL, "%s", error == NULL ? "" : error->message);
  ck_assert_uint_ge(rows->rows->len, least_rows);
  g_autoptr(GHashTable) clusters = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, (GDestroyNotify)cluster_free);
  for (guint i = 0; i < rows->rows->len; i++) {
    const MeasuredRow *row = nth_row(rows, i);
    if (row->problem != NULL)
      ck_abort_msg("%s: %s", row->id, row->problem);
    if (!g_hash_table_contains(clusters, row->cluster))
      g_hash_table_insert(clusters, (gpointer)row->cluster, cluster_read(row->cluster, NULL));
    const Cluster *cluster = g_hash_table_lookup(clusters, row->cluster);
    g_autoptr(GError) problem = NULL;
    g_autoptr(Workload) workload = cluster == NULL ? NULL : workload_complete(row->model, cluster, row->plan, &problem);
    if (workload == NULL)
      ck_abort_msg("%s on %s: %s", row->id, row->cluster, problem == NULL ? "no such cluster" : problem->message);
  }
}

TEST(published_rows_are_modelled) {
  const char *shared = g_getenv("STEPSIM_SHARED");
  g_autofree char *folder = shared == NULL ? NULL : g_build_filename(shared, "measured", NULL);
  if (folder == NULL || !g_file_test(folder, G_FILE_TEST_IS_DIR))
    return;
  check_published(shared, "measured.csv", 1000);
  check_published(shared, "out_of_memory.csv", 100);
}

int main(void) {
  return run_tests();
}
