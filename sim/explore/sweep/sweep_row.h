/* One configuration's row: what it is, what became of it, and what was predicted, as the columns of a table.
 *
 *     model cluster gpus tp … memory_cap     the plan: as it ran, completed; if impossible, as requested, with open
 *                                            options empty
 *     step_time_s … links                    every number of `simulate --json` except the run time, with the same
 *                                            names: memory.peak_bytes is memory_peak_bytes
 *     memory_total_bytes                     the peak including what context and libraries reserve
 *     memory_capacity_bytes                  minus the margin of the sweep
 *     memory_used                            share of a GPU's memory, including the margin, used by the worst rank in
 *                                            all
 *     least_bytes                            if it was not run: its lower bound (memory_bound.h)
 *     dollars_per_gpu_hour …                 if a price is known */
#pragma once
#include "space.h"
#include "step_report.h"

typedef enum {
  SWEEP_RAN,           /* "ran" */
  SWEEP_OUT_OF_MEMORY, /* "out_of_memory": it ran, but does not fit */
  SWEEP_TOO_LARGE,     /* "too_large": known not to fit before a run */
  SWEEP_IMPOSSIBLE,    /* "impossible" */
  N_SWEEP_STATUSES
} SweepStatus;
const char *const *sweep_status_names(void); /* NULL-terminated, in enum order */

typedef enum { CELL_NONE, CELL_WHOLE, CELL_REAL, CELL_TEXT } CellType;

typedef struct {
  const char *name; /* interned */
  CellType type;
} SweepColumn;

/* All columns after the index, status, kind and reason. Immutable: any number of threads may use it. */
typedef struct SweepTable SweepTable;
SweepTable *sweep_table_new(void);
void sweep_table_free(SweepTable *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SweepTable, sweep_table_free)
int sweep_table_n_columns(const SweepTable *table);
const SweepColumn *sweep_table_column(const SweepTable *table, int column);
/* −1: no column of that name. */
int sweep_table_find(const SweepTable *table, const char *name);

typedef struct {
  CellType type; /* CELL_NONE: empty */
  gint64 whole;
  double real;
  char *text; /* owned */
} Cell;

typedef struct {
  gint64 index; /* in the space */
  SweepStatus status;
  char *kind;   /* owned; the reason without its numbers: equal for equal reasons. NULL: it ran and fits */
  char *reason; /* owned */
  Cell *cells;  /* [n_columns]; owned */
} SweepRow;

/* Zero `row` and allocate its cells. */
void sweep_row_init(SweepRow *row, const SweepTable *table, gint64 index);
void sweep_row_clear(SweepRow *row, const SweepTable *table);

/* Fill the plan's columns; the columns of `report` (a step that ran). */
void sweep_row_set_plan(SweepRow *row, const SweepTable *table, const Plan *plan);
void sweep_row_set_report(SweepRow *row, const SweepTable *table, const StepReport *report);
/* One cell by its column's name; non-finite values are left empty. */
void sweep_row_set_real(SweepRow *row, const SweepTable *table, const char *column, double value);
/* The values of a space's axes that have columns, for a configuration without a plan. */
void sweep_row_set_asked(SweepRow *row, const SweepTable *table, const Space *space);
/* Why it did not run, or does not fit. Takes over `reason`. */
void sweep_row_set_reason(SweepRow *row, SweepStatus status, char *reason);
