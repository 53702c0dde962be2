/* Predicted beside measured: every row of measured.csv through predict(), and what the errors are, by group.
 *
 * Beside each group's errors stands those of a baseline that knows only how many FLOPs a step has: one constant share
 * of the peak for all rows of a source,
 *
 *     time = FLOPs of the step, recomputed ones included / (GPUs × peak of the linears' format × share)
 *
 * with the share fitted to the very rows it is judged on, so that MAPE is least. A simulation has to beat that. */
#pragma once
#include "error_stats.h"
#include "measured_rows.h"

/* One row's prediction. */
typedef struct {
  double step_time_s; /* NAN when it failed */
  double error;       /* of the step time; NAN when it failed or nothing was measured */
  double baseline_error;
  double peak_bytes;   /* resident on the fullest GPU, without what context and libraries reserve */
  double memory_error; /* NAN where not measured */
  gboolean fits;       /* with what they reserve */
  double utilisation;  /* FLOPs of the step with recomputation / (measured time × GPUs × peak); NAN as `error` */
  int gpus;            /* of the completed plan, as is the batch; 0 when it failed */
  gint64 global_batch;
  char *problem; /* owned; why it failed, NULL when it was predicted */
} RowPrediction;

typedef struct {
  char *name;                                   /* owned; of the group */
  guint n_rows, n_predicted, n_failed;          /* rows = predicted + failed */
  guint n_timed, n_memory;                      /* of the predicted ones: with a measured time, a measured peak */
  ErrorStats time;                              /* over the timed ones */
  double baseline_mape;                         /* over the same */
  double memory_mape, memory_bias;              /* over those with a measured peak */
  guint n_ran, n_ran_right;                     /* predicted rows that ran; of these, said to fit */
  guint n_out_of_memory, n_out_of_memory_right; /* predicted rows that ran out of memory; said not to fit */
} ValidationGroup;

typedef struct {
  MeasuredRows *rows;         /* owned */
  RowPrediction *predictions; /* [rows]; owned */
  guint n_rows;
  guint n_runs; /* that differ: rows may be measurements of one run */
  char *by;     /* owned; the column that groups rows */
  ValidationGroup all;
  GArray *groups; /* of ValidationGroup, in the order in which the rows bring them up */
  int n_threads;
  double wall_s; /* of predicting, clusters read before */
} Validation;

/* Predict every row (rows that ran the same once) on `n_threads` threads (0: as many as there are processors); the
 * numbers do not depend on how many. `by` names the column that groups rows; NULL is source. Takes over `rows`, also on
 * failure. INPUT when no file has the column named. */
Validation *validation_run(MeasuredRows *rows, const char *by, int n_threads, GError **error);
void validation_free(Validation *validation);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Validation, validation_free)

static inline const MeasuredRow *validation_row(const Validation *validation, guint i) {
  return &g_array_index(validation->rows->rows, MeasuredRow, i);
}
