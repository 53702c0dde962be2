/* A plan's order, lowered to a Program, expanded where whole pieces would not do, timed and run.
 *
 * For numbers alone a step of m micro-batches is first run with few: enough for the pipeline to fill and to repeat once
 * (few_micro_batches.h). If that run is seen to return to a state, the rest follows (steady.h). Its peak memory has
 * been reached by then too, as a group leaves memory as it found it. Otherwise all micro-batches are run. */
#pragma once
#include "costs.h"
#include "predict.h"
#include "structures.h"

/* NULL wherever one is asked for: nothing is remembered. */
struct Predictor {
  Structures *structures; /* owned, as is the next */
  Costs *costs;
};

typedef enum {
  RUN_RECORDS, /* every record of every micro-batch */
  RUN_NUMBERS, /* metrics, possibly from few micro-batches */
  RUN_STEP,    /* the same without metrics */
} RunDetail;

/* Predicts what predict_settle() has settled, on the cluster as its GPUs see it. RUN_STEP leaves out metrics and what
 * follows from them. Takes over the workload, which may lack its lists, also on failure. INPUT or IMPOSSIBLE as
 * predict(). */
Prediction *plan_run(Predictor *predictor, Workload *workload, const Cluster *cluster, RunDetail detail,
                     GError **error);
/* All records of the caller's Program, which is taken over like the workload. */
Prediction *plan_run_program(Workload *workload, const Cluster *cluster, Program *program, GError **error);
/* Of the step that a run of such a plan shows. Owned by the caller. */
Metrics *plan_run_metrics(const Method *method, const Trace *trace);
/* The text of the Program after a pass. IMPOSSIBLE also where it has too many pieces to be run. Owned by the caller. */
char *plan_run_dump(const Workload *workload, const Cluster *cluster, const char *after_pass, GError **error);
/* Factors by which each rank's kernels take longer, as Simulation has them; NULL: all 1. Owned by the caller. */
double *plan_run_speeds(const Workload *workload, const Cluster *cluster);

/* predict_auto.c: from a plan to the workload that is run: open values settled, and of auto's candidates the fastest.
 * INPUT or IMPOSSIBLE as predict(). Owned by the caller. */
Workload *predict_settle(const Model *model, const Cluster *cluster, const Plan *plan, GError **error);
/* auto_plan.c: the order made for the workload's own predicted times and its GPUs' memory. Owned by the caller.
 * IMPOSSIBLE when not even one micro-batch fits beside weights, gradients and optimizer (the message gives the rank,
 * the least it needs and what it has), or as auto_order_new(). */
Order *auto_plan_order(const Workload *workload, const Cluster *cluster, GError **error);
/* program_belongs.c: INPUT when a Program of the caller's (edited text, say) cannot be run as this workload. */
gboolean program_belongs(const Program *program, const Workload *workload, GError **error);
