/* Every distinct run is a job of its own, which writes nothing but its own entry, so that threads cannot change a
 * number; then every row is held against its run, in the order of the rows.
 *
 * The best scale of the baseline. Each |a·x − 1| = a·|x − 1/a|, so the sum is that of distances from x to the points
 * 1/a_i, each weighted a_i. It is convex and piecewise linear; left of the weighted median its slope is negative, right
 * of it positive:
 *
 *     slope at x  =  Σ{1/a_i < x} a_i − Σ{1/a_i > x} a_i
 *
 * so the minimum lies at the first point, from the smallest on, at which the weights passed reach half of all. */
#include "validation.h"

#include <math.h>
#include <string.h>

#include "error.h"
#include "parallel.h"
#include "predict.h"
#include "sort_doubles.h"
#include "suggest.h"

/* --- statistics --- */

static double quantile(const double *sorted, guint n, double share) {
  double at = share * (n - 1);
  guint below = (guint)floor(at);
  guint above = MIN(below + 1, n - 1);
  return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

ErrorStats error_stats(const double *errors, guint n) {
  ErrorStats stats = {NAN, NAN, NAN, NAN};
  if (n == 0)
    return stats;
  g_autofree double *absolute = g_new(double, n);
  double sum = 0, absolute_sum = 0;
  for (guint i = 0; i < n; i++) {
    absolute[i] = fabs(errors[i]);
    sum += errors[i];
    absolute_sum += absolute[i];
  }
  sort_doubles(absolute, n);
  stats.mape = absolute_sum / n;
  stats.bias = sum / n;
  stats.median_ape = quantile(absolute, n, 0.5);
  stats.p90_ape = quantile(absolute, n, 0.9);
  return stats;
}

double error_stats_best_scale(const double *a, guint n) {
  g_assert(n > 0);
  g_autofree double *sorted = g_memdup2(a, n * sizeof *a);
  sort_doubles(sorted, n); /* points 1/a fall as weights a rise: the smallest point is the last */
  double total = 0, passed = 0;
  for (guint i = 0; i < n; i++)
    total += sorted[i];
  guint i = n;
  while (i > 0 && 2 * passed < total)
    passed += sorted[--i];
  return 1 / sorted[i];
}

/* --- rows --- */

static const char source_column[] = "source";

/* A distinct run, as predict() answers it. */
typedef struct {
  const MeasuredRow *row; /* the first of that run */
  double n_passes;        /* about how many its simulation has */
  StepPrediction step;
  char *problem; /* owned; NULL: predicted */
} Run;

static void run_clear(gpointer data) {
  g_free(((Run *)data)->problem);
}

static void predict_run(gint64 i, int thread, gpointer data) {
  Run *run = ((GPtrArray *)data)->pdata[i];
  const MeasuredRow *row = run->row;
  if (row->problem != NULL) {
    run->problem = g_strdup(row->problem);
    return;
  }
  g_autoptr(GError) problem = NULL;
  if (!predict_step(NULL, row->model, row->machine, row->plan, &run->step, &problem))
    run->problem = g_strdup(problem->message);
}

static double count_passes(const MeasuredRow *row) {
  const Plan *plan = row->plan;
  if (plan == NULL)
    return 0;
  double dp = plan->dp > 0 ? plan->dp : MAX(1, plan->gpus / ((double)plan->tp * plan->cp * plan->pp));
  return (double)plan->pp * MAX(plan->chunks, 1) * plan->global_batch / (plan->micro_batch * dp);
}

static int compare_passes(gconstpointer a, gconstpointer b) {
  const Run *x = *(Run *const *)a, *y = *(Run *const *)b;
  if (x->n_passes != y->n_passes)
    return x->n_passes < y->n_passes ? 1 : -1;
  return (x > y) - (x < y);
}

/* The longest first, so that no thread is left with one when the others are done. */
static void predict_runs(GArray *runs, int n_threads) {
  g_autoptr(GPtrArray) jobs = g_ptr_array_new();
  for (guint i = 0; i < runs->len; i++)
    g_ptr_array_add(jobs, &g_array_index(runs, Run, i));
  g_ptr_array_sort(jobs, compare_passes);
  parallel_for(jobs->len, n_threads, predict_run, jobs, NULL);
}

/* The same run may have been measured again, with another release say: it is predicted once. GArray of Run; `which` has
 * the index of each row's. */
static GArray *distinct_runs(const Validation *validation, guint *which) {
  GArray *runs = g_array_new(FALSE, FALSE, sizeof(Run));
  g_array_set_clear_func(runs, run_clear);
  g_autoptr(GHashTable) known = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL); /* to index + 1 */
  for (guint i = 0; i < validation->n_rows; i++) {
    const MeasuredRow *row = validation_row(validation, i);
    char *text = measured_row_run(row);
    guint index = GPOINTER_TO_UINT(g_hash_table_lookup(known, text));
    if (index == 0) {
      Run run = {.row = row, .n_passes = count_passes(row)};
      g_array_append_val(runs, run);
      index = runs->len;
    }
    g_hash_table_replace(known, text, GUINT_TO_POINTER(index));
    which[i] = index - 1;
  }
  return runs;
}

static RowPrediction compare_row(const MeasuredRow *row, const Run *run) {
  if (run->problem != NULL)
    return (RowPrediction){.step_time_s = NAN,
                           .error = NAN,
                           .baseline_error = NAN,
                           .peak_bytes = NAN,
                           .shown_bytes = {NAN, NAN, NAN},
                           .memory_error = NAN,
                           .utilisation = NAN,
                           .problem = g_strdup(run->problem)};
  RowPrediction prediction = {.step_time_s = run->step.step_time_s,
                              .error = run->step.step_time_s / row->step_time_s - 1, /* NAN stays NAN */
                              .baseline_error = NAN,
                              .peak_bytes = run->step.peak_bytes,
                              .memory_error = run->step.shown_bytes[row->memory_of] / row->memory_bytes - 1,
                              .fits = run->step.fits,
                              .gpus = run->step.gpus,
                              .global_batch = run->step.global_batch,
                              .utilisation = run->step.hardware_flops / (row->step_time_s * run->step.peak_flops)};
  memcpy(prediction.shown_bytes, run->step.shown_bytes, sizeof prediction.shown_bytes);
  return prediction;
}

static void predict_rows(Validation *validation) {
  g_autofree guint *which = g_new(guint, validation->n_rows);
  g_autoptr(GArray) runs = distinct_runs(validation, which);
  validation->n_runs = runs->len;
  validation->n_threads = MIN(validation->n_threads, (int)runs->len);
  gint64 before_us = g_get_monotonic_time();
  predict_runs(runs, validation->n_threads);
  validation->wall_s = (g_get_monotonic_time() - before_us) * 1e-6;
  validation->predictions = g_new(RowPrediction, validation->n_rows);
  for (guint i = 0; i < validation->n_rows; i++)
    validation->predictions[i] = compare_row(validation_row(validation, i), &g_array_index(runs, Run, which[i]));
}

static gboolean find_intervals(Validation *validation, GError **error) {
  const MeasuredRows *rows = validation->rows;
  for (guint i = 0; rows->want_intervals && rows->without == 0 && i < validation->n_rows; i++) {
    const MeasuredRow *row = validation_row(validation, i);
    RowPrediction *prediction = &validation->predictions[i];
    if (prediction->problem != NULL)
      continue;
    const IntervalCase predicted = {row->machine, *row->read_as != '\0' ? row->read_as : NULL, prediction->gpus,
                                    model_has_experts(row->model), prediction->step_time_s};
    if (!interval_find(&predicted, &prediction->interval, error))
      return FALSE;
  }
  return TRUE;
}

typedef struct {
  const char *name; /* borrowed */
  GArray *rows;     /* of guint; owned */
} Part;

static void part_clear(gpointer part) {
  g_array_unref(((Part *)part)->rows);
}

/* Rows by their cell in `column`, in order of appearance: GArray of Part. */
static GArray *partition_rows(const Validation *validation, const char *column) {
  GArray *parts = g_array_new(FALSE, FALSE, sizeof(Part));
  g_array_set_clear_func(parts, part_clear);
  g_autoptr(GHashTable) known = g_hash_table_new(g_str_hash, g_str_equal); /* name → its rows */
  for (guint i = 0; i < validation->n_rows; i++) {
    const char *name = measured_row_cell(validation_row(validation, i), column);
    Part part = {name, g_hash_table_lookup(known, name)};
    if (part.rows == NULL) {
      part.rows = g_array_new(FALSE, FALSE, sizeof(guint));
      g_hash_table_insert(known, (gpointer)name, part.rows);
      g_array_append_val(parts, part);
    }
    g_array_append_val(part.rows, i);
  }
  return parts;
}

/* The finite ones of a field over `rows`, in their order. */
static GArray *finite_values(const Validation *validation, const GArray *rows, size_t offset) {
  GArray *values = g_array_sized_new(FALSE, FALSE, sizeof(double), rows->len);
  for (guint i = 0; i < rows->len; i++) {
    const RowPrediction *prediction = &validation->predictions[g_array_index(rows, guint, i)];
    double value = *(const double *)((const char *)prediction + offset);
    if (isfinite(value))
      g_array_append_val(values, value);
  }
  return values;
}

/* The baseline's time is utilisation · x · measured, with x = 1/share. */
static void fit_baseline(Validation *validation, const GArray *rows) {
  g_autoptr(GArray) utilisation = finite_values(validation, rows, offsetof(RowPrediction, utilisation));
  if (utilisation->len == 0)
    return;
  double scale = error_stats_best_scale((const double *)utilisation->data, utilisation->len);
  for (guint i = 0; i < rows->len; i++) {
    RowPrediction *prediction = &validation->predictions[g_array_index(rows, guint, i)];
    prediction->baseline_error = prediction->utilisation * scale - 1;
  }
}

static ErrorStats stats_of(const Validation *validation, const GArray *rows, size_t offset, guint *n) {
  g_autoptr(GArray) errors = finite_values(validation, rows, offset);
  *n = errors->len;
  return error_stats((const double *)errors->data, errors->len);
}

static void count_row(ValidationGroup *group, const MeasuredRow *row, const RowPrediction *prediction) {
  group->n_rows++;
  if (prediction->problem != NULL) {
    group->n_failed++;
    return;
  }
  group->n_predicted++;
  gboolean ran = isfinite(row->step_time_s);
  group->n_ran += ran;
  group->n_ran_right += ran && prediction->fits;
  group->n_inside +=
      ran && row->step_time_s >= prediction->interval.low_s && row->step_time_s <= prediction->interval.high_s;
  group->n_out_of_memory += !ran;
  group->n_out_of_memory_right += !ran && !prediction->fits;
}

static ValidationGroup sum_up(const Validation *validation, const char *name, const GArray *rows) {
  ValidationGroup group = {.name = g_strdup(name)};
  for (guint i = 0; i < rows->len; i++) {
    guint row = g_array_index(rows, guint, i);
    count_row(&group, validation_row(validation, row), &validation->predictions[row]);
  }
  guint n_baseline;
  group.time = stats_of(validation, rows, offsetof(RowPrediction, error), &group.n_timed);
  group.baseline_mape = stats_of(validation, rows, offsetof(RowPrediction, baseline_error), &n_baseline).mape;
  ErrorStats memory = stats_of(validation, rows, offsetof(RowPrediction, memory_error), &group.n_memory);
  group.memory_mape = memory.mape;
  group.memory_bias = memory.bias;
  return group;
}

static void group_clear(gpointer data) {
  g_free(((ValidationGroup *)data)->name);
}

static void sum_up_groups(Validation *validation) {
  g_autoptr(GArray) sources = partition_rows(validation, source_column),
                    groups = partition_rows(validation, validation->by);
  for (guint i = 0; i < sources->len; i++)
    fit_baseline(validation, g_array_index(sources, Part, i).rows);
  for (guint i = 0; i < groups->len; i++) {
    const Part *part = &g_array_index(groups, Part, i);
    const ValidationGroup group = sum_up(validation, part->name, part->rows);
    g_array_append_val(validation->groups, group);
  }
  g_autoptr(GArray) everything = g_array_new(FALSE, FALSE, sizeof(guint));
  for (guint i = 0; i < validation->n_rows; i++)
    g_array_append_val(everything, i);
  validation->all = sum_up(validation, "all", everything);
}

static gboolean check_column(const MeasuredRows *rows, const char *by, GError **error) {
  g_autoptr(GPtrArray) names = g_ptr_array_new();
  for (guint t = 0; t < rows->tables->len; t++) {
    const CsvTable *table = g_ptr_array_index(rows->tables, t);
    if (csv_table_find_column(table, by) >= 0)
      return TRUE;
    g_ptr_array_extend(names, table->columns, NULL, NULL);
  }
  g_ptr_array_add(names, NULL);
  g_autofree char *expected = suggest_message(by, (const char *const *)names->pdata);
  return fail_input(error, "no file has a column \"%.80s\" to group by, %s", by, expected);
}

Validation *validation_run(MeasuredRows *rows, const char *by, int n_threads, GError **error) {
  g_autoptr(Validation) validation = g_new0(Validation, 1);
  validation->rows = rows;
  validation->n_rows = rows->rows->len;
  validation->by = g_strdup(by != NULL ? by : source_column);
  validation->groups = g_array_new(FALSE, FALSE, sizeof(ValidationGroup));
  g_array_set_clear_func(validation->groups, group_clear);
  if (by != NULL && !check_column(rows, by, error))
    return NULL;
  validation->n_threads = n_threads > 0 ? n_threads : (int)g_get_num_processors();
  predict_rows(validation);
  if (!find_intervals(validation, error))
    return NULL;
  sum_up_groups(validation);
  return g_steal_pointer(&validation);
}

void validation_free(Validation *validation) {
  if (validation == NULL)
    return;
  for (guint i = 0; validation->predictions != NULL && i < validation->n_rows; i++)
    g_free(validation->predictions[i].problem);
  g_free(validation->predictions);
  g_free(validation->by);
  group_clear(&validation->all);
  g_clear_pointer(&validation->groups, g_array_unref);
  measured_rows_free(validation->rows);
  g_free(validation);
}
