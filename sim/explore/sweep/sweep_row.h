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
 *     dollars_per_gpu_hour …                 if a price is known
 *     interval_low_s, interval_high_s        interval.low_s and high_s of `simulate --json` */
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

/* Columns that are neither a field of a plan nor a number that every StepReport has. */
typedef enum {
  SWEEP_MODEL,
  SWEEP_CLUSTER,
  SWEEP_MICRO_BATCHES,
  SWEEP_MEMORY_TOTAL_BYTES,
  SWEEP_MEMORY_USED,
  SWEEP_HOST_MEMORY_BYTES,
  SWEEP_NVME_BYTES,
  SWEEP_LINKS,
  SWEEP_LEAST_BYTES,
  SWEEP_DOLLARS_PER_GPU_HOUR,
  SWEEP_DOLLARS_PER_MILLION_TOKENS,
  N_SWEEP_OWN_COLUMNS
} SweepOwnColumn;

/* All columns after the index, status, kind and reason. Immutable: any number of threads may use it. */
typedef struct SweepTable SweepTable;
SweepTable *sweep_table_new(void);
void sweep_table_free(SweepTable *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SweepTable, sweep_table_free)
int sweep_table_n_columns(const SweepTable *table);
const SweepColumn *sweep_table_column(const SweepTable *table, int column);
/* Whether sweep_row_set_plan() fills it. */
gboolean sweep_table_is_of_plan(const SweepTable *table, int column);
/* −1: no column of that name. */
int sweep_table_find(const SweepTable *table, const char *name);
/* The column of an axis of a space; −1: it has none. */
int sweep_table_find_axis(const SweepTable *table, const char *axis);

typedef struct {
  CellType type; /* CELL_NONE: empty */
  union {
    gint64 whole;
    double real;
    const char *text; /* static, of the space, or one of the row's `texts` */
  };
} Cell;
/* To the last bit. */
gboolean cell_is_equal(const Cell *a, const Cell *b);

typedef struct {
  gint64 index; /* in the space */
  SweepStatus status;
  char *kind;          /* owned; the reason without its numbers: equal for equal reasons. NULL: it ran and fits */
  char *reason;        /* owned */
  Cell *cells;         /* [n_columns]; owned */
  GStringChunk *texts; /* owned */
} SweepRow;

/* Zero `row` and allocate its cells. */
void sweep_row_init(SweepRow *row, const SweepTable *table, gint64 index);
void sweep_row_clear(SweepRow *row);

/* Fill the plan's columns; the columns of `report` (a step that ran). */
void sweep_row_set_plan(SweepRow *row, const SweepTable *table, const Plan *plan);
void sweep_row_set_report(SweepRow *row, const SweepTable *table, const StepReport *report);
/* One cell; non-finite values are left empty. */
void sweep_row_set_real(SweepRow *row, const SweepTable *table, SweepOwnColumn column, double value);
/* A column as the option of its axis takes it. `value` is borrowed from the space. */
void sweep_row_set_asked(SweepRow *row, const SweepTable *table, int column, const char *value);
/* Why it did not run, or does not fit. Takes over `reason`. */
void sweep_row_set_reason(SweepRow *row, SweepStatus status, char *reason);
