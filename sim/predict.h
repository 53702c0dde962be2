/* The façade: Model + Cluster + Plan → Prediction. Every command and sweep goes through it. */
#pragma once
#include "engine.h"
#include "memory_profile.h"
#include "metrics.h"
#include "order.h"

typedef struct {
  const Cluster *cluster; /* borrowed */
  Workload *workload;     /* holds copies of model and completed plan */
  Program *program;       /* what was run: expanded when not folded */
  Timing *timing;
  Trace *trace;
  Metrics *metrics;
  MemoryProfile *memory;
  EngineStats engine;

  double step_time_s, tokens_per_s, tokens_per_s_per_gpu;
  double tflops_per_gpu; /* model FLOPs */
  double mfu, hfu;       /* against peak_flops */
  double peak_flops;     /* of one GPU in the format of the linear layers */
  double wall_s;         /* of the engine */
  gboolean fits;         /* peak memory + reserved ≤ HBM */
} Prediction;

/* `plan` is completed on a copy. INPUT or IMPOSSIBLE as plan_complete() and lower(). A plan that does not fit in memory
 * is predicted all the same, with fits = FALSE. */
Prediction *predict(const Model *model, const Cluster *cluster, const Plan *plan, GError **error);
void prediction_free(Prediction *prediction);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Prediction, prediction_free)
