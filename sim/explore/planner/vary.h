/* Variations of a plan, or of its cluster, predicted beside each other on several threads. */
#pragma once
#include "plan_outcome.h"

typedef struct {
  char *label;        /* what it is called; owned; NULL: by its option */
  const char *option; /* that is varied, "--tp"; static; NULL: none alone */
  char *from, *to;    /* its values; owned */
  const Model *model; /* borrowed, as is the cluster */
  const Cluster *cluster;
  Plan *plan;           /* not completed; owned */
  PlanOutcome *outcome; /* once predicted, if it can be; owned */
  GPtrArray *warnings;  /* then, those of simulate (warnings_of_step()); owned */
  GError *problem;      /* why it cannot; owned */
} Variant;

/* GArray of Variant that owns its contents. */
GArray *variants_new(void);
/* Takes over `plan`. Valid until the next is added. */
Variant *variants_add(GArray *variants, const Model *model, const Cluster *cluster, Plan *plan);
static inline Variant *variants_get(const GArray *variants, guint i) {
  return &g_array_index(variants, Variant, i);
}

/* A copy of the plan with a field (plan_fields.h) as its option sets it; NULL: there is no such value. */
Plan *vary(const Plan *plan, const char *field, const char *value);
/* Whether it changes anything of a plan: sequence parallelism without tp does not. */
gboolean vary_is_felt(const Plan *plan, const Model *model, const char *field);
/* A copy on so many GPUs: dp follows. */
Plan *vary_size(const Plan *plan, gint64 gpus, gint64 global_batch);

typedef struct {
  int n_threads;              /* 0: one per processor */
  const PlanScoring *scoring; /* NULL: by tokens per second */
  /* NULL: nothing is shown. Else each prediction, with its trace, on the thread that made it */
  void (*look)(gint64 variant, const Prediction *prediction, gpointer data);
  gpointer data;
} VaryHow;

/* Predict all that have no problem yet; results do not depend on the number of threads. INPUT of the first (in order)
 * with such an error, with its label. */
gboolean variants_predict(GArray *variants, const VaryHow *how, GError **error);
/* How many are possible. */
guint variants_count_possible(const GArray *variants);
