/* What a sweep found, read from its store alone: the best, the Pareto front, why the rest lost. */
#pragma once
#include "objective.h"
#include "sweep_run.h"

typedef struct {
  ResultStore *store;
  const SweepTable *table;
  const Space *space; /* finished */
  Objective objective;
  int n_top;
  const char *best_of; /* a given axis for whose every value the best is wanted; NULL: none */
  const SweepProgress *progress;
} SweepReport;

/* Rows of each status. */
gboolean sweep_report_counts(const SweepReport *report, gint64 counts[N_SWEEP_STATUSES], GError **error);
/* The best configurations that ran and fit, by the objective and then by index: at most n_top. GArray of gint64
 * indices, owned by the caller; NULL with the error set. */
GArray *sweep_report_best(const SweepReport *report, GError **error);
/* For each value of the axis `best_of`, in order, the best configuration that ran and fits; values without one are
 * skipped. As above; empty without an axis. */
GArray *sweep_report_best_of(const SweepReport *report, GError **error);
/* Configurations that ran and fit and that no other beats in all of tokens per second, peak memory and, if prices
 * are known, dollars per token. Of equal ones, the first. As above, fastest first. */
GArray *sweep_report_pareto(const SweepReport *report, GError **error);
/* Reasons, most frequent first: a query of status, kind, count, and one of the reasons in full. */
sqlite3_stmt *sweep_report_reasons(const SweepReport *report, GError **error);

/* Numbers of one row; `columns` must be names of real columns, `values` gets NAN if the row has none. */
gboolean sweep_report_numbers(const SweepReport *report, gint64 index, const char *const *columns, int n_columns,
                              double *values, GError **error);
/* Warnings about the first of `best` (sweep_report_best()), such as almost no memory left. Of char *, owned by the
 * caller, possibly empty; NULL with the error set. */
GPtrArray *sweep_report_warnings(const SweepReport *report, const GArray *best, GError **error);

/* For people: columns of the axes that vary, and the numbers that decide. Appends to `out`. */
gboolean sweep_report_text(const SweepReport *report, GString *out, GError **error);
/* One object; owned by the caller. */
char *sweep_report_json(const SweepReport *report, GError **error);
/* All rows in index order, with the database's columns. The file appears whole or not at all. */
gboolean sweep_report_csv(const SweepReport *report, const char *file, GError **error);
