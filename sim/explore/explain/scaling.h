/* One plan on more and more GPUs: the data parallel size grows, and with it what each token costs. */
#pragma once
#include "planner.h"

typedef struct {
  int gpus;
  gint64 global_batch, n_micro_batches; /* per step; per pipeline */
  int dp;
  double step_time_s, tokens_per_s, mfu;
  double gpu_s_per_token[N_BREAKDOWN]; /* mean over ranks × GPUs / tokens */
  gboolean fits;
} ScalingSize;

/* GPU time per token that was added from the first size to the last, by part of the step. */
typedef struct {
  GArray *sizes;            /* of ScalingSize, in the order given */
  double factor;            /* GPU time per token, last / first */
  double grew[N_BREAKDOWN]; /* of the first's GPU time per token: 0.1 is a tenth more */
  int order[N_BREAKDOWN];   /* BreakdownKinds, what grew most first */
} Scaling;

/* One simulation per number in `gpus` (at least two), dp being what is left. Strong scaling keeps the point's global
 * batch, `is_weak` its ratio to the GPUs at the first size. NULL with *error set as predict(), naming the size. */
Scaling *scaling_new(const SpacePoint *point, const GArray *gpus, gboolean is_weak, GError **error);
void scaling_free(Scaling *scaling);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Scaling, scaling_free)
