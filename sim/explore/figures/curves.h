/* The numbers behind curves over many runs: bubble against micro-batches, MFU against GPUs, busbw against size. */
#pragma once
#include "collective_cost.h"
#include "plots.h"
#include "predict.h"

/* All functions append to it: "series at x: why", for points that are impossible. */
typedef GPtrArray LeftOut;
/* Some to these: "series at x: warning", what simulate warns of; NULL: not wanted. */
typedef GPtrArray PointWarnings;

/* Schedules and micro-batches. */
typedef struct {
  char **schedules;     /* NULL-terminated */
  const GArray *counts; /* of gint64: micro-batches */
  int pp, chunks;       /* chunks, adjusted to what the schedule accepts; 0: its default */
} BubbleAxes;

/* For uniform stages (F = I = W) with free sends: bubble by stage spans, as a share of the span. GArray of
 * BubblePoint; NULL with INPUT for an unknown schedule or counts beyond order_run_check_size(). */
GArray *curves_bubble(const BubbleAxes *axes, LeftOut *left_out, GError **error);
/* For the given plan with its schedule, chunks and batch replaced: mean bubble / step, and the closed form for its
 * mean passes. `n_threads` and errors as variants_predict(). */
GArray *curves_bubble_predicted(const BubbleAxes *axes, const Model *model, const Cluster *cluster, const Plan *plan,
                                int n_threads, LeftOut *left_out, GError **error);

/* MFU over `gpus` (of gint64, each at most 2^24): first strong scaling at the plan's batch, then weak scaling that
 * reaches this batch at the largest number of GPUs. GArray of GpusPoint; errors as variants_predict(). */
GArray *curves_mfu(const Model *model, const Cluster *cluster, const Plan *plan, const GArray *gpus, int n_threads,
                   LeftOut *left_out, PointWarnings *warnings, GError **error);

/* The same for several plans: one series per run of `lines` (of Variant, not predicted), under its label, at its own
 * batch and every number of `gpus`. */
GArray *curves_strong_scaling(const GArray *lines, const GArray *gpus, int n_threads, LeftOut *left_out,
                              PointWarnings *warnings, GError **error);

/* Bus bandwidth over `sizes` (of double: bytes; 0 is skipped): of the given algorithm, or with −1 of the library's
 * choice followed by every algorithm it chose from or that can be requested. GArray of BusbwPoint. */
GArray *curves_busbw(const Cluster *cluster, Collective op, const GroupShape *shape, int algorithm,
                     const GArray *sizes);
/* The bus bandwidth a ring could reach; 0 if the operation has none. */
double curves_busbw_limit(const Cluster *cluster, Collective op, const GroupShape *shape);
