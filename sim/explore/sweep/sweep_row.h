/* One configuration's row: what it is, what became of it, and what was predicted, as the columns of a table.
 *
 *     model cluster gpus tp … memory_cap     the plan: as it ran, completed; of an impossible one as it was asked for,
 *                                            empty where it was left open
 *     step_time_s … links                    every number of `simulate --json` but how long the run took, named as
 *                                            there: memory.peak_bytes is memory_peak_bytes
 *     memory_total_bytes                     the peak with what context and libraries reserve
 *     memory_capacity_bytes                  less the margin of the sweep
 *     memory_used                            share of a GPU's memory, margin counted in, that the worst rank takes in
 *                                            all
 *     least_bytes                            of one that was not run: what it holds at least (memory_bound.h)
 *     dollars_per_gpu_hour …                 where a price is known */
#pragma once
#include "space.h"
#include "step_report.h"

typedef enum {
  SWEEP_RAN,           /* "ran" */
  SWEEP_OUT_OF_MEMORY, /* "out_of_memory": it ran, but does not fit */
  SWEEP_TOO_LARGE,     /* "too_large": known before a run not to fit */
  SWEEP_IMPOSSIBLE,    /* "impossible" */
  N_SWEEP_STATUSES
} SweepStatus;
const char *const *sweep_status_names(void); /* NULL-terminated, in enum order */

typedef enum { CELL_NONE, CELL_WHOLE, CELL_REAL, CELL_TEXT } CellType;

typedef struct {
  const char *name; /* interned */
  CellType type;
} SweepColumn;

/* All columns after the index, status, kind and reason. Immutable: any number of threads. */
typedef struct SweepTable SweepTable;
SweepTable *sweep_table_new(void);
void sweep_table_free(SweepTable *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SweepTable, sweep_table_free)
int sweep_table_n_columns(const SweepTable *table);
const SweepColumn *sweep_table_column(const SweepTable *table, int column);
/* −1: none of that name. */
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
  char *kind;   /* owned; of the reason, numbers left out: equal for equal reasons. NULL: it ran and fits */
  char *reason; /* owned */
  Cell *cells;  /* [n_columns]; owned */
} SweepRow;

/* Zero `row` and give it its cells. */
void sweep_row_init(SweepRow *row, const SweepTable *table, gint64 index);
void sweep_row_clear(SweepRow *row, const SweepTable *table);

/* Fill the plan's columns; those of `report` (a step that ran). */
void sweep_row_set_plan(SweepRow *row, const SweepTable *table, const Plan *plan);
void sweep_row_set_report(SweepRow *row, const SweepTable *table, const StepReport *report);
/* One cell by its column's name; not finite is empty. */
void sweep_row_set_real(SweepRow *row, const SweepTable *table, const char *column, double value);
/* The values of a space's axes, as far as columns have them, where no plan came about. */
void sweep_row_set_asked(SweepRow *row, const SweepTable *table, const Space *space);
/* Why it did not run, or does not fit. Takes over `reason`. */
void sweep_row_set_reason(SweepRow *row, SweepStatus status, char *reason);

/* Rows as bytes, for another process of the same program on an equal machine. */
void sweep_row_pack(const SweepRow *row, const SweepTable *table, GByteArray *bytes);
/* Reads one row at *at, which moves behind it; FALSE, with nothing to clear, when the bytes are not one. */
gboolean sweep_row_unpack(SweepRow *row, const SweepTable *table, const guint8 *bytes, gsize n_bytes, gsize *at);
