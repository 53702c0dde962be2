/* Runs of many configurations as pictures: bars, a map, a Pareto front. Owned by the caller; NULL with an error. */
#pragma once
#include "curves.h"

/* One bar per run, in order: the parts of its step, or of the memory of its fullest GPU. The label says if a run
 * does not fit or is impossible. IMPOSSIBLE if no run is possible. `columns`: width of the terminal it may be shown
 * in. */
Picture *runs_breakdown_picture(const GArray *runs, const char *title, int columns, GError **error);
Picture *runs_memory_picture(const GArray *runs, const char *title, int columns, GError **error);

/* The value of a run. */
typedef enum { RUN_MFU, RUN_TOKENS_PER_S, RUN_STEP_TIME, N_RUN_VALUES } RunValue;
/* As --value takes it; NULL-terminated. */
const char *const *run_value_names(void);
const char *run_value_label(RunValue value); /* with its unit */

/* One cell per run: runs are given row by row, and look->cells is ignored. */
Picture *runs_grid_picture(const GArray *runs, RunValue value, const Grid *look, GError **error);

/* Tokens per second against memory including the reserved part: the Pareto front and the rest. IMPOSSIBLE if no run
 * is possible. */
Picture *runs_pareto_picture(const GArray *runs, const char *title, GError **error);

/* The model state of a GPU, of a model known by its number of parameters: runs have a plan alone. */
typedef struct {
  double parameters, capacity_bytes; /* capacity 0: not known */
  const char *title;
  int columns; /* as above */
} StateLook;
/* One bar per run. IMPOSSIBLE if no run is possible. */
Picture *runs_state_picture(const GArray *runs, const StateLook *look, GError **error);
/* A line per run over numbers of GPUs (of gint64), at most 2^24, from which dp follows. */
Picture *runs_state_curves(const GArray *runs, const GArray *gpus, const StateLook *look, LeftOut *left_out,
                           GError **error);
