/* The errors that intervals come from: their quantiles, and that the shipped ones are those of the rows. */
#include "csv_text.h"
#include "error_table.h"
#include "interval.h"
#include "run_suite.h"

#include <math.h>

static Validation *validated(char **files, int n_files, gboolean by_release) {
  static const MeasuredAs as_named = {.by_release = FALSE}, as_published = {.by_release = TRUE};
  g_autoptr(GError) error = NULL;
  MeasuredRows *rows = measured_rows_read(files, n_files, by_release ? &as_published : &as_named, &error);
  for (guint i = 0; rows != NULL && i < rows->rows->len; i++) { /* what was not timed need not be predicted */
    MeasuredRow *row = &g_array_index(rows->rows, MeasuredRow, i);
    if (!isfinite(row->step_time_s) && row->problem == NULL)
      row->problem = g_strdup("not timed");
  }
  Validation *validation = rows != NULL ? validation_run(rows, NULL, 0, &error) : NULL;
  ck_assert_msg(validation != NULL, "%s", error != NULL ? error->message : "");
  return validation;
}

/* --- rows whose errors are chosen --- */

enum { N_PLANS = 10 };

/* Of a kind; plans of it differ in micro-batches of 1 to N_PLANS alone. */
static const struct {
  const char *of; /* source,cluster,gpus,experts,experts_per_token */
} kinds[] = {{"near,selene,8,,"}, {"far,selene,64,,"}, {"moe,dgx-h100,8,8,2"}};

static char *rows_text(const double *step_s) {
  GString *text =
      g_string_new("source,cluster,gpus,experts,experts_per_token,framework,layers,hidden,heads,micro_batch,"
                   "global_batch,step_time_s\n");
  for (guint kind = 0; kind < G_N_ELEMENTS(kinds); kind++)
    for (guint i = 0; i < N_PLANS; i++) {
      char number[G_ASCII_DTOSTR_BUF_SIZE];
      const double time_s = step_s != NULL ? step_s[kind * N_PLANS + i] : 1;
      g_string_append_printf(text, "%s,megatron-core,4,1024,16,%u,161280,%s\n", kinds[kind].of, i + 1,
                             g_ascii_dtostr(number, sizeof number, time_s));
    }
  return g_string_free(text, FALSE);
}

/* The file of rows whose i-th of a kind took exp(errors[i]) times as long as predicted. */
static char *table_text(const double errors[N_PLANS]) {
  double step_s[G_N_ELEMENTS(kinds) * N_PLANS];
  g_autofree char *unmeasured = rows_text(NULL);
  char *before = make_file(unmeasured, strlen(unmeasured));
  g_autoptr(Validation) predicted = validated(&before, 1, FALSE);
  drop_file(before);
  for (guint i = 0; i < G_N_ELEMENTS(step_s); i++) {
    ck_assert_msg(predicted->predictions[i].problem == NULL, "%s", predicted->predictions[i].problem);
    step_s[i] = predicted->predictions[i].step_time_s * exp(errors[i % N_PLANS]);
  }
  g_autofree char *measured = rows_text(step_s);
  char *file = make_file(measured, strlen(measured));
  g_autoptr(Validation) validation = validated(&file, 1, FALSE);
  g_autoptr(GError) error = NULL;
  g_autoptr(ErrorTable) table = error_table_new(validation, &file, 1, &error);
  ck_assert_msg(table != NULL, "%s", error != NULL ? error->message : "");
  drop_file(file);
  return error_table_yaml(table);
}

static void assert_has(const char *text, const char *part) {
  ck_assert_msg(strstr(text, part) != NULL, "no \"%s\" in\n%s", part, text);
}

/* All 10 % longer than predicted: four of five are between 0 and that, and two plans' ratio is right. */
TEST(errors_on_one_side_begin_at_the_prediction) {
  double errors[N_PLANS];
  for (int i = 0; i < N_PLANS; i++)
    errors[i] = log(1.1);
  g_autofree char *text = table_text(errors);
  /* |1 / 1.1 − 1| = 0.0909 */
  assert_has(text,
             "{cluster: selene, framework: megatron-core, models: dense_in_a_domain, rows: 10, error: 0.091, low: "
             "1.000, high: 1.100}");
  assert_has(text, "{cluster: dgx-h100, framework: megatron-core, models: experts, rows: 10, error: 0.091, low: 1.000, "
                   "high: 1.100}");
  assert_has(text, "  dense_over_domains: 0.000 # 45 pairs of 1 sources");
  assert_has(text, "gpus: # of the rows\n  - a100-sxm4-80gb\n  - h100-sxm5-80gb\n");
}

/* Errors of −0.5, −0.4 … 0.4. The pair's own ten weigh 1 and the ten of all its class, the same, 8 in sum: 1.8 each. A
 * tenth of 18 is 1.8: the ends are the first of either side, −0.5 and 0.4, but 0.9 · 18 = 16.2 is reached by the ninth
 * from either end: −0.4 and 0.3. */
TEST(a_tenth_of_all_lies_beyond_either_end) {
  double errors[N_PLANS];
  double off = 0;
  for (int i = 0; i < N_PLANS; i++) {
    errors[i] = 0.1 * (i - 5);
    off += fabs(exp(-errors[i]) - 1) / N_PLANS;
  }
  g_autofree char *text = table_text(errors),
                  *expected =
                      g_strdup_printf("rows: 10, error: %.3f, low: %.3f, high: %.3f}", off, exp(-0.4), exp(0.3));
  assert_has(text, expected);
  /* Differences of two: 9 of 0.1, 8 of 0.2 … 1 of 0.9. One source of weight 1 has 1/45 each, half a source is beyond:
   * 0.8 · 1.5 is more than there is, so that it is the largest. */
  g_autofree char *ratio = g_strdup_printf("  dense_in_a_domain: %.3f # 45 pairs of 1 sources", expm1(0.9));
  assert_has(text, ratio);
}

TEST(what_has_nothing_to_be_made_from_is_said) {
  static const char text[] = "source,cluster,gpus,framework,layers,hidden,heads,step_time_s\n"
                             "one,selene,8,megatron-core,4,1024,16,1\n";
  char *file = make_file(text, strlen(text));
  g_autoptr(Validation) validation = validated(&file, 1, FALSE);
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(error_table_new(validation, &file, 1, &error));
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE));
  assert_has(error->message, "dense_in_a_domain");
  drop_file(file);
}

/* If $STEPSIM_SHARED/measured/measured.csv exists. Remake the file with the command at its top. */
TEST(the_shipped_errors_are_those_of_the_rows) {
  const char *shared = g_getenv("STEPSIM_SHARED");
  char *files[] = {g_build_filename(shared != NULL ? shared : "", "measured", "measured.csv", NULL),
                   g_build_filename(STEPSIM_SOURCE_DATA, "measurements", "published.csv", NULL),
                   g_build_filename(STEPSIM_SOURCE_DATA, "measurements", "nanotron.csv", NULL)};
  if (shared != NULL && g_file_test(files[0], G_FILE_TEST_EXISTS)) {
    g_autoptr(Validation) validation = validated(files, G_N_ELEMENTS(files), TRUE);
    g_autoptr(ErrorTable) table = error_table_new(validation, files, G_N_ELEMENTS(files), NULL);
    g_autofree char *text = error_table_yaml(table), *path = interval_file(NULL), *shipped = NULL;
    ck_assert(g_file_get_contents(path, &shipped, NULL, NULL));
    ck_assert_str_eq(text, shipped);
  }
  for (gsize i = 0; i < G_N_ELEMENTS(files); i++)
    g_free(files[i]);
}

int main(void) {
  return run_tests();
}
