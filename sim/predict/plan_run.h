/* A plan's order, lowered to a Program, expanded where whole pieces would not do, timed and run.
 *
 * For numbers alone a step of m micro-batches is first run with few: enough for the pipeline to fill and to repeat once
 * (few_micro_batches.h). If that run is seen to return to a state, the rest follows (steady.h). Its peak memory has
 * been reached by then too, as a group leaves memory as it found it. Otherwise all micro-batches are run. */
#pragma once
#include "predict.h"

typedef enum {
  RUN_RECORDS, /* every record of every micro-batch */
  RUN_NUMBERS, /* metrics, possibly from few micro-batches */
  RUN_STEP,    /* the same without metrics */
} RunDetail;

/* Predicts a plan whose schedule is not auto, or auto that stands for the order made for it, on the cluster as its GPUs
 * see it. RUN_STEP leaves out metrics and what follows from them. INPUT or IMPOSSIBLE as predict(). */
Prediction *plan_run(const Model *model, const Cluster *cluster, const Plan *plan, RunDetail detail, GError **error);
/* All records of the caller's Program, which is taken over. */
Prediction *plan_run_program(const Model *model, const Cluster *cluster, const Plan *plan, Program *program,
                             GError **error);
/* The text of the Program after a pass. IMPOSSIBLE also where it has too many pieces to be run. Owned by the caller. */
char *plan_run_dump(const Model *model, const Cluster *cluster, const Plan *plan, const char *after_pass,
                    GError **error);
