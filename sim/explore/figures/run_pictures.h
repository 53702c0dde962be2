/* Runs of many configurations as pictures: bars, a map, a Pareto front. Owned by the caller; NULL with an error. */
#pragma once
#include "grid.h"
#include "plots.h"

/* A bar per run, in their order: parts of its step, or of the memory of its fullest GPU. What does not fit or cannot be
 * says so in its label. INPUT when no run is possible. `columns`: of the terminal it may be shown in. */
Picture *runs_breakdown_picture(const GArray *runs, const char *title, int columns, GError **error);
Picture *runs_memory_picture(const GArray *runs, const char *title, int columns, GError **error);

/* What a run is valued by. */
typedef enum { RUN_MFU, RUN_TOKENS_PER_S, RUN_STEP_TIME, N_RUN_VALUES } RunValue;
/* As --value takes it; NULL-terminated. */
const char *const *run_value_names(void);
const char *run_value_label(RunValue value); /* with its unit */

/* A cell per run: runs are row after row, and look->cells is not read. */
Picture *runs_grid_picture(const GArray *runs, RunValue value, const Grid *look, GError **error);

/* Tokens per second against memory with what is reserved: the front and the others. INPUT when no run is possible. */
Picture *runs_pareto_picture(const GArray *runs, const char *title, GError **error);
