/* Which of two schedules is faster: published measurements of the same model on the same GPUs with the same batch,
 * differing only in the schedule. If $STEPSIM_SHARED/measured/measured.csv exists, every such pair of the zero-bubble
 * paper's rows (source zero-bubble; arXiv 2401.10241, Tables 4 and 6) is predicted and printed, and must come out in
 * the measured order, unless the measurements are too close: the paper prints samples per GPU and second to two
 * decimals, so a throughput of 4 is known to 1/800 and a ratio of two of them to 1/400. */
#include "error.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "measured_rows.h"
#include "plan.h"
#include "predict.h"

static const double LEAST_RATIO = 1.0025;

typedef struct {
  const MeasuredRow *row;
  double predicted_s;
} Run;

static gboolean is_same_setting(const MeasuredRow *a, const MeasuredRow *b) {
  return a->model->n_layers == b->model->n_layers && a->model->hidden == b->model->hidden &&
         a->plan->seq_len == b->plan->seq_len && a->plan->gpus == b->plan->gpus && a->plan->tp == b->plan->tp &&
         a->plan->pp == b->plan->pp && a->plan->micro_batch == b->plan->micro_batch &&
         a->plan->global_batch == b->plan->global_batch && strcmp(a->cluster, b->cluster) == 0;
}

static GArray *predict_source(const MeasuredRows *rows, const char *source) {
  GArray *runs = g_array_new(FALSE, FALSE, sizeof(Run));
  for (guint i = 0; i < rows->rows->len; i++) {
    const MeasuredRow *row = &g_array_index(rows->rows, MeasuredRow, i);
    if (strcmp(measured_row_cell(row, "source"), source) != 0)
      continue;
    g_autoptr(GError) error = NULL;
    g_autoptr(Cluster) cluster = cluster_read(row->cluster, &error);
    g_autoptr(Prediction) prediction = cluster != NULL ? predict(row->model, cluster, row->plan, &error) : NULL;
    ck_assert_msg(prediction != NULL, "%s: %s", row->id, error != NULL ? error->message : "");
    const Run run = {row, prediction->step_time_s};
    g_array_append_val(runs, run);
  }
  return runs;
}

/* Prints the pair; returns whether it has to come out right and does not. */
static gboolean is_wrong(const Run *a, const Run *b) {
  const double measured = a->row->step_time_s / b->row->step_time_s, predicted = a->predicted_s / b->predicted_s;
  const gboolean agrees = (measured > 1) == (predicted > 1);
  const gboolean is_close = fabs(log(measured)) < log(LEAST_RATIO);
  printf("# %s %s, %d GPUs, batch %d: %s / %s measured %.4f / %.4f s = %.3f, predicted %.4f / %.4f s = %.3f: %s%s\n",
         a->row->id, b->row->id, a->row->plan->gpus, (int)a->row->plan->global_batch, a->row->plan->schedule,
         b->row->plan->schedule, a->row->step_time_s, b->row->step_time_s, measured, a->predicted_s, b->predicted_s,
         predicted, agrees ? "agrees" : "differs", is_close ? " (within what was printed)" : "");
  return !agrees && !is_close;
}

TEST(the_faster_of_two_schedules_is_the_one_measured_faster) {
  const char *shared = g_getenv("STEPSIM_SHARED");
  g_autofree char *file = g_build_filename(shared != NULL ? shared : "", "measured", "measured.csv", NULL);
  if (!g_file_test(file, G_FILE_TEST_EXISTS)) {
    printf("# %s is not there: nothing to compare\n", file);
    return;
  }
  g_autoptr(GError) error = NULL;
  g_autoptr(MeasuredRows) rows = measured_rows_read(&file, 1, &(MeasuredAs){TRUE}, &error);
  ck_assert_msg(rows != NULL, "%s", error != NULL ? error->message : "");
  g_autoptr(GArray) runs = predict_source(rows, "zero-bubble");
  int n_pairs = 0, n_wrong = 0;
  for (guint i = 0; i < runs->len; i++)
    for (guint j = i + 1; j < runs->len; j++) {
      const Run *a = &g_array_index(runs, Run, i), *b = &g_array_index(runs, Run, j);
      if (!is_same_setting(a->row, b->row) || strcmp(a->row->plan->schedule, b->row->plan->schedule) == 0)
        continue;
      n_pairs++;
      n_wrong += is_wrong(a, b);
    }
  ck_assert_int_ge(n_pairs, 14);
  ck_assert_int_eq(n_wrong, 0);
}

int main(void) {
  return run_tests();
}
