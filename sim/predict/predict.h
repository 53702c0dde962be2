/* The façade: Model + Cluster + Plan → Prediction. Every command and sweep goes through it. */
#pragma once
#include "engine.h"
#include "memory_profile.h"
#include "metrics.h"
#include "order.h"
#include "plan_order.h"
#include "program_cache.h"
#include "tier_memory.h"

typedef struct {
  const Cluster *cluster; /* borrowed, or `worn` */
  Cluster *worn;          /* the cluster with what its faults leave of its links, or with the GPUs of a domain that the
                             plan has; owned; NULL: it lists none, and the plan has all */
  Workload *workload;     /* holds copies of model and completed plan */
  Program *program;       /* what was run: expanded where not folded, and beside what tp's collectives may meet */
  Timing *timing;
  Trace *trace;
  Metrics *metrics;
  MemoryProfile *memory;
  EngineStats engine;
  /* NULL: nothing. Else program, timing and trace are of fewer micro-batches, and all other members, metrics and memory
   * among them, of all of the plan's; owned. Likewise where program->n_steps is 1 and the plan has more steps */
  Omitted *omitted;
  ProgramRepeats *repeats; /* of omitted; owned */

  double step_time_s, tokens_per_s, tokens_per_s_per_gpu;
  double tflops_per_gpu;  /* model FLOPs */
  double mfu, hfu;        /* against peak_flops */
  double peak_flops;      /* of one GPU in the format of the linear layers; the mean of several kinds */
  double wall_s;          /* of the engine */
  TierUse tiers[N_TIERS]; /* host memory and drives of the fullest node, where the plan offloads */
  gboolean fits;          /* peak memory + reserved ≤ HBM, of the smallest kind of GPU; and each tier fits */
  char *gpu_names;        /* of all kinds the plan runs on; owned */
} Prediction;

/* `plan` is completed on a copy. INPUT or IMPOSSIBLE as plan_complete() and lower(). A plan that does not fit in memory
 * is predicted all the same, with fits = FALSE. Schedule auto is the order made for the plan's times (auto_plan.h), or
 * a schedule of the table with as many chunks where that fits and is faster between ranks that are all alike; the
 * prediction's plan then names it, "auto: interleaved". It holds at most what a GPU has, or plan->memory_cap;
 * IMPOSSIBLE when no order is found that does. */
Prediction *predict(const Model *model, const Cluster *cluster, const Plan *plan, GError **error);

/* What predictions made one after another need not do twice: above all, Programs of one structure are lowered and
 * proved once. For one thread; predictions do not depend on it, to the bit, and outlive it. Once there is one, up to
 * 64 MiB that a thread's predictions give back stay with the process for the next ones. */
typedef struct PredictScratch PredictScratch;
/* One of n_scratches of a machine (0 counts as 1): the fewer there are, the more each keeps, 4.7 GB in all and 289 MB
 * each at most. */
PredictScratch *predict_scratch_new(int n_scratches);
void predict_scratch_free(PredictScratch *scratch);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PredictScratch, predict_scratch_free)
ProgramCacheStats predict_scratch_programs(const PredictScratch *scratch);
/* predict() with what the scratch has from earlier ones; NULL: none. A failed prediction leaves it usable. */
Prediction *predict_with(PredictScratch *scratch, const Model *model, const Cluster *cluster, const Plan *plan,
                         GError **error);

/* What predict_with() says in numbers, to the last bit: a step of many micro-batches may be run with fewer of them, and
 * what is `omitted` is counted in (steady.h); of steps in a row one may be run (predict_steps.c). A long pipeline takes
 * a fraction of the time. */
Prediction *predict_numbers(PredictScratch *scratch, const Model *model, const Cluster *cluster, const Plan *plan,
                            GError **error);

/* So many of a complete plan's micro-batches have all that its order has: with more of them a rank does a group of what
 * it does more often, and holds no more. As many as it has where its schedule does not go in turn. */
gint64 predict_enough_micro_batches(const PlanOrder *choice, const Plan *plan);

/* What a step takes, without where the time goes. */
typedef struct {
  double step_time_s, peak_bytes; /* as Prediction's, peak_bytes that of its memory */
  gboolean fits;                  /* as Prediction's */
  double peak_flops;              /* of all GPUs */
  double hardware_flops;          /* of the step */
  int gpus;
  gint64 global_batch;
  gint64 n_run; /* micro-batches that were run: fewer than there are where the others are seen to repeat (steady.h) */
} StepPrediction;

/* The same of these alone; a little faster than predict_numbers(). FALSE: as NULL there. */
gboolean predict_step(PredictScratch *scratch, const Model *model, const Cluster *cluster, const Plan *plan,
                      StepPrediction *step, GError **error);

/* predict() with a Program of the caller's (read from text, say) in place of the lowered one; it must have been
 * verified and is taken over, also on failure. INPUT when it does not belong to this model and plan. */
Prediction *predict_program(const Model *model, const Cluster *cluster, const Plan *plan, Program *program,
                            GError **error);
void prediction_free(Prediction *prediction);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Prediction, prediction_free)

/* The text of the Program after the named lowering pass. Owned by the caller. */
char *predict_dump(const Model *model, const Cluster *cluster, const Plan *plan, const char *after_pass,
                   GError **error);
