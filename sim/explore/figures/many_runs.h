/* Many configurations predicted in parallel, for figures that compare them. */
#pragma once
#include "order.h"
#include "predict.h"

typedef struct {
  char *label;            /* (set) owned */
  const Model *model;     /* (set) borrowed, as is the cluster */
  const Cluster *cluster; /* (set) */
  Plan *plan;             /* (set) not completed; owned */
  /* (computed) */
  char *problem; /* why it is impossible; NULL: it was predicted; owned */
  int gpus;
  double step_time_s, tokens_per_s, mfu;
  double bubble_fraction; /* mean bubble / step */
  double breakdown_s[N_BREAKDOWN];
  double memory_bytes[N_MEMORY]; /* peak of the fullest rank */
  double peak_bytes;             /* their sum */
  double reserved_bytes, capacity_bytes;
  gboolean fits;
  double closed_form_bubble; /* fraction, for the mean F, I and W of all ranks with free sends; NAN: no exact form */
} ManyRun;

/* GArray of ManyRun that owns its contents. */
GArray *many_runs_new(void);
/* Takes over `plan`. */
void many_runs_add(GArray *runs, const char *label, const Model *model, const Cluster *cluster, Plan *plan);
static inline ManyRun *many_runs_get(const GArray *runs, guint i) {
  return &g_array_index(runs, ManyRun, i);
}

/* Predict all on `n_threads` threads (0: one per processor); results do not depend on the number. Impossible runs
 * get a `problem`. INPUT of the first run (in order) with such an error, with its label. */
gboolean many_runs_predict(GArray *runs, int n_threads, GError **error);
/* How many runs are possible. */
guint many_runs_count_possible(const GArray *runs);
