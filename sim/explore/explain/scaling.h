/* One plan on more and more GPUs: the data-parallel size grows, and with it the cost of each token. */
#pragma once
#include "space.h"
#include "vary.h"

typedef struct {
  int gpus;
  gint64 global_batch, n_micro_batches; /* per step; per pipeline */
  int dp;
  double step_time_s, tokens_per_s, mfu;
  Interval interval;                   /* of step_time_s */
  double gpu_s_per_token[N_BREAKDOWN]; /* mean over ranks × GPUs / tokens */
  gboolean fits;
} ScalingSize;

/* GPU time added per token from the first size to the last, by part of the step. */
typedef struct {
  GArray *sizes;            /* of ScalingSize, in the order given */
  double factor;            /* GPU time per token, last size / first size */
  double grew[N_BREAKDOWN]; /* relative to the first size's GPU time per token: 0.1 is 10 % more */
  int order[N_BREAKDOWN];   /* BreakdownKinds, largest growth first */
} Scaling;

/* One simulation per entry of `gpus` (at least two); dp follows from the GPUs. Strong scaling keeps the point's global
 * batch; with `is_weak` the batch grows with the GPUs, from the first size on. NULL with *error set as by predict(),
 * naming the size. */
Scaling *scaling_new(const SpacePoint *point, const GArray *gpus, gboolean is_weak, GError **error);
void scaling_free(Scaling *scaling);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Scaling, scaling_free)
/* For the size with the lowest MFU: one sentence on what grew and one on each of the main causes. Of char *, owned
 * by the caller. */
GPtrArray *scaling_verdict(const Scaling *scaling, const Plan *plan, int domain_gpus);
