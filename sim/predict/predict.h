/* The façade: Model + Cluster + Plan → Prediction. Every command and sweep goes through it. */
#pragma once
#include "costs.h"
#include "engine.h"
#include "interval.h"
#include "memory_profile.h"
#include "metrics.h"
#include "order.h"
#include "plan_schedule.h"
#include "server_cost.h"
#include "shown_memory.h"
#include "tier_memory.h"

typedef struct {
  const Cluster *cluster; /* borrowed, or the same as `worn` */
  Cluster *worn;          /* a copy of the cluster with its links as faults leave them, or with only the plan's GPUs
                             of a domain; owned; NULL: no faults, and the plan has whole domains */
  Workload *workload;     /* holds copies of the model and the completed plan */
  int n_programs;         /* of the next */
  Program **programs;     /* the same for each rank of dp, whose micro-batches differ; [0] is `program`; owned, as
                             are the others; NULL: all are alike */
  Program *program;       /* what was run: expanded if not folded, and around transfers that tp's collectives may
                             meet */
  Timing *timing;
  Trace *trace;
  Metrics *metrics;
  MemoryProfile *memory;
  EngineStats engine;
  /* NULL: nothing is omitted. Otherwise program, timing and trace have fewer micro-batches than the plan, while all
   * other members, metrics and memory included, count all of them; owned */
  Omitted *omitted;
  ProgramRepeats *repeats; /* of omitted; owned */

  double step_time_s, tokens_per_s, tokens_per_s_per_gpu;
  Interval interval;      /* of step_time_s */
  double tflops_per_gpu;  /* of model FLOPs */
  double mfu, hfu;        /* relative to peak_flops */
  double peak_flops;      /* of one GPU in the format of the linear layers; with several kinds of GPU, their mean */
  double wall_s;          /* wall time of the engine */
  TierUse tiers[N_TIERS]; /* host memory and drives of the fullest node, if the plan offloads */
  ServerUse servers;      /* n 0: none */
  gboolean fits;          /* peak memory + reserved ≤ HBM of the smallest kind of GPU, and each tier fits */
  char *gpu_names;        /* all kinds of GPU that the plan runs on; owned */
} Prediction;

/* What the predictions of one thread remember for the next ones: plans that differ in sizes alone are then predicted in
 * a fraction of the time, with the same result to the last bit. Models and clusters may go in between. */
typedef struct Predictor Predictor;
Predictor *predictor_new(void);
void predictor_free(Predictor *predictor);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Predictor, predictor_free)
Costs *predictor_costs(Predictor *predictor);

/* `plan` is completed on a copy. INPUT or IMPOSSIBLE as plan_complete() and lower(). A plan that does not fit in
 * memory is still predicted, with fits = FALSE.
 *
 * Schedule auto stands for the order made for the plan's times (auto_plan.c), or for a built-in schedule with as many
 * chunks if that fits and is faster when all ranks are alike; the prediction's plan then names it ("auto:
 * interleaved"). It holds at most what a GPU has, or plan->memory_cap; IMPOSSIBLE when no such order is found. */
Prediction *predict(const Model *model, const Cluster *cluster, const Plan *plan, GError **error);

/* The same numbers as predict(), to the last bit, but in a fraction of the time for a long pipeline: a step of
 * many micro-batches may be run with fewer, with those `omitted` counted in (steady.h). `predictor` may be NULL. */
Prediction *predict_numbers(Predictor *predictor, const Model *model, const Cluster *cluster, const Plan *plan,
                            GError **error);

/* The same for a caller that knows what workload_complete() or workload_outline() makes of these, which is taken
 * over. */
Prediction *predict_numbers_of(Predictor *predictor, const Model *model, const Cluster *cluster, const Plan *plan,
                               Workload *complete, GError **error);

/* The time of a step, without a breakdown. */
typedef struct {
  double step_time_s, peak_bytes; /* as in Prediction; peak_bytes as in its memory */
  double shown_bytes[N_SHOWN];    /* that peak, as others show it */
  gboolean fits;                  /* as in Prediction */
  double peak_flops;              /* of all GPUs */
  double hardware_flops;          /* of the step */
  int gpus;
  gint64 global_batch;
  gint64 n_run; /* micro-batches actually run: fewer than the plan's if the rest are seen to repeat (steady.h) */
} StepPrediction;

/* predict_numbers() for these alone, a little faster. FALSE where that returns NULL. */
gboolean predict_step(Predictor *predictor, const Model *model, const Cluster *cluster, const Plan *plan,
                      StepPrediction *step, GError **error);

/* predict() with the caller's Program (read from text, say) in place of the lowered one. It must have been verified;
 * it is taken over, also on failure. INPUT when it does not belong to this model and plan. */
Prediction *predict_program(const Model *model, const Cluster *cluster, const Plan *plan, Program *program,
                            GError **error);
void prediction_free(Prediction *prediction);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Prediction, prediction_free)

/* The text of the Program after the named lowering pass. Owned by the caller. */
char *predict_dump(const Model *model, const Cluster *cluster, const Plan *plan, const char *after_pass,
                   GError **error);
