/* Many configurations predicted side by side, for pictures over them. */
#pragma once
#include "order.h"
#include "predict.h"

typedef struct {
  char *label;            /* (set) owned */
  const Model *model;     /* (set) borrowed, as is the cluster */
  const Cluster *cluster; /* (set) */
  Plan *plan;             /* (set) not complete; owned */
  /* (computed) */
  char *problem; /* why it is impossible; NULL: predicted; owned */
  int gpus;
  double step_time_s, tokens_per_s, mfu;
  double bubble_fraction; /* mean bubble / step */
  double breakdown_s[N_BREAKDOWN];
  double memory_bytes[N_MEMORY]; /* of the fullest rank at its peak */
  double peak_bytes;             /* their sum */
  double reserved_bytes, capacity_bytes;
  gboolean fits;
  double closed_form_bubble; /* fraction, of the mean F, I and W of all ranks with free sends; NAN: none is exact */
} ManyRun;

/* GArray of ManyRun that owns what they hold. */
GArray *many_runs_new(void);
/* Takes over `plan`. */
void many_runs_add(GArray *runs, const char *label, const Model *model, const Cluster *cluster, Plan *plan);
static inline ManyRun *many_runs_get(const GArray *runs, guint i) {
  return &g_array_index(runs, ManyRun, i);
}

/* Predict all on `n_threads` threads (0: as many as there are processors); the numbers do not depend on how many. What
 * is impossible gets a `problem`. INPUT of the first run, in their order, that has such an error, with its label. */
gboolean many_runs_predict(GArray *runs, int n_threads, GError **error);
/* How many are not impossible. */
guint many_runs_count_possible(const GArray *runs);
