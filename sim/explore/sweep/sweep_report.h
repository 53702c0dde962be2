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

/* Rows of those that ran and fit; ties go to the lower index, so that a report says the same whatever order rows came
 * in. */
typedef enum {
  SWEEP_BEST,    /* the best by the objective, at most n_top */
  SWEEP_BEST_OF, /* for each value of the axis `best_of`, in order, the best there is, if any; without an axis none */
  SWEEP_PARETO   /* those that no other beats in all of tokens per second, peak memory and, if prices are known, dollars
                    per token; of equal ones, the first. Fastest first */
} SweepRows;
/* Visits each with all of its columns. */
gboolean sweep_report_rows(const SweepReport *report, SweepRows which, ResultVisit visit, gpointer data,
                           GError **error);

/* For people: columns of the axes that vary, and the numbers that decide. Appends to `out`. */
gboolean sweep_report_text(const SweepReport *report, GString *out, GError **error);
/* One object; owned by the caller. */
char *sweep_report_json(const SweepReport *report, GError **error);
/* All rows in index order, with the database's columns. The file appears whole or not at all. */
gboolean sweep_report_csv(const SweepReport *report, const char *file, GError **error);
