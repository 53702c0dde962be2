/* Predictions against measurements: every row of measured.csv through predict(), and the errors by group.
 *
 * Beside each group's errors are those of a baseline that knows only the FLOPs of a step: one constant share of the
 * peak for all rows of a source,
 *
 *     time = FLOPs of the step, recomputed ones included / (GPUs × peak of the linears' format × share)
 *
 * with the share fitted to the very rows it is judged on, to minimise MAPE. A simulation has to beat that. */
#pragma once
#include <glib.h>

#include "interval.h"
#include "measured_rows.h"

/* Statistics of prediction errors. An error is predicted / measured − 1: positive if the prediction is too slow. */

/* Over n errors, all NAN if n = 0. Fractions, not per cent. */
typedef struct {
  double mape;       /* mean of the absolute errors */
  double median_ape; /* their median, */
  double p90_ape;    /* and 90th percentile, between neighbours by linear interpolation (Hyndman & Fan's type 7) */
  double bias;       /* mean of the signed errors */
} ErrorStats;
ErrorStats error_stats(const double *errors, guint n);

/* The x ≥ 0 that minimises Σ |a_i · x − 1| over n ≥ 1 values a_i > 0: exact; the smallest one if there are
 * several. */
double error_stats_best_scale(const double *a, guint n);

/* One row's prediction. */
typedef struct {
  double step_time_s; /* NAN when it failed */
  double error;       /* of the step time; NAN if it failed or nothing was measured */
  double baseline_error;
  double peak_bytes;           /* resident on the fullest GPU, without what context and libraries reserve */
  double shown_bytes[N_SHOWN]; /* that peak, as other programs show it */
  double memory_error;         /* NAN if not measured */
  gboolean fits;               /* including what they reserve */
  double utilisation; /* FLOPs of the step with recomputation / (measured time × GPUs × peak); NAN as `error` */
  int gpus;           /* of the completed plan, as is the batch; 0 if it failed */
  gint64 global_batch;
  Interval interval; /* of step_time_s; zeroed: it was not asked for */
  char *problem;     /* owned; why it failed, NULL if it was predicted */
} RowPrediction;

typedef struct {
  char *name;                                   /* owned; of the group */
  guint n_rows, n_predicted, n_failed;          /* rows = predicted + failed */
  guint n_inside;                               /* timed rows inside their intervals */
  guint n_timed, n_memory;                      /* predicted rows with a measured time, with a measured peak */
  ErrorStats time;                              /* over the timed ones */
  double baseline_mape;                         /* over the same */
  double memory_mape, memory_bias;              /* over those with a measured peak */
  guint n_ran, n_ran_right;                     /* predicted rows that ran; of these, predicted to fit */
  guint n_out_of_memory, n_out_of_memory_right; /* predicted rows that ran out of memory; predicted not to fit */
} ValidationGroup;

typedef struct {
  MeasuredRows *rows;         /* owned */
  RowPrediction *predictions; /* [rows]; owned */
  guint n_rows;
  guint n_runs; /* distinct ones: several rows may measure one run */
  char *by;     /* owned; the column that groups rows */
  ValidationGroup all;
  GArray *groups; /* of ValidationGroup, in order of first appearance */
  int n_threads;
  double wall_s; /* of predicting, without reading */
} Validation;

/* Predict every row (rows with the same run only once) on `n_threads` threads (0: one per processor); results do not
 * depend on the number. `by` names the column that groups rows; NULL is source. Takes over `rows`, also on failure.
 * INPUT if no file has that column. */
Validation *validation_run(MeasuredRows *rows, const char *by, int n_threads, GError **error);
void validation_free(Validation *validation);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Validation, validation_free)

static inline const MeasuredRow *validation_row(const Validation *validation, guint i) {
  return &g_array_index(validation->rows->rows, MeasuredRow, i);
}
