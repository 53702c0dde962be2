/* What a sweep found, from its store alone: the best, what nothing beats, why the rest lost. */
#pragma once
#include "objective.h"
#include "sweep_run.h"

typedef struct {
  ResultStore *store;
  const SweepTable *table;
  const Space *space; /* finished */
  Objective objective;
  int n_top;
  const char *best_of; /* an axis that was given, of whose every value the best is wanted; NULL: of none */
  const SweepProgress *progress;
} SweepReport;

/* Rows of each status. */
gboolean sweep_report_counts(const SweepReport *report, gint64 counts[N_SWEEP_STATUSES], GError **error);
/* The best configurations that ran and fit, by the objective and then by index: at most n_top. GArray of gint64
 * indices, owned by the caller; NULL with the error set. */
GArray *sweep_report_best(const SweepReport *report, GError **error);
/* Of each value of the axis `best_of`, in its order, the best configuration that ran and fits; values that have none
 * are left out. As above; empty without an axis. */
GArray *sweep_report_best_of(const SweepReport *report, GError **error);
/* Configurations that ran and fit and that no other beats in all of: tokens per second, peak memory, and dollars per
 * token where prices are known. Of equal ones the first. As above, fastest first. */
GArray *sweep_report_pareto(const SweepReport *report, GError **error);
/* Reasons, the most frequent first: a query of status, kind, how many, and one of the reasons in full. */
sqlite3_stmt *sweep_report_reasons(const SweepReport *report, GError **error);

/* Numbers of one row; `columns` are names of real columns, `values` gets NAN where the row has none. */
gboolean sweep_report_numbers(const SweepReport *report, gint64 index, const char *const *columns, int n_columns,
                              double *values, GError **error);
/* What to say of the first of `best` (sweep_report_best()): that it leaves next to no memory. Of char *, owned by the
 * caller, empty where there is nothing to say; NULL with the error set. */
GPtrArray *sweep_report_warnings(const SweepReport *report, const GArray *best, GError **error);

/* For people: columns of the axes that vary, and the numbers that decide. Appends to `out`. */
gboolean sweep_report_text(const SweepReport *report, GString *out, GError **error);
/* One object; owned by the caller. */
char *sweep_report_json(const SweepReport *report, GError **error);
/* All rows, in the order of their indices, as the database has them. The file appears whole or not at all. */
gboolean sweep_report_csv(const SweepReport *report, const char *file, GError **error);
