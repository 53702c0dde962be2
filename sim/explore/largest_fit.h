/* How far a plan can grow before it no longer fits in memory: larger micro-batches, longer sequences. */
#pragma once
#include "predict.h"

/* Why the next size up is not possible: memory; the micro-batch is already a pipeline's whole batch; the model or
 * the plan does not allow it (learned positions, for example); nothing larger is tried. */
typedef enum { LARGEST_BY_MEMORY, LARGEST_BY_BATCH, LARGEST_BY_PLAN, LARGEST_TRIED } LargestBound;

typedef struct {
  gint64 micro_batch; /* sequences, at the plan's length; 0: not even one fits */
  gint64 seq_len;     /* tokens, at the plan's micro-batch, a multiple of seq_step; 0: not even seq_step fit */
  gint64 seq_step;    /* 1,024 tokens, or a multiple that cp and tp divide */
  LargestBound micro_batch_bound, seq_len_bound;
} LargestFit;

enum { LARGEST_FIT_MOST = 1 << 24 }; /* nothing larger is tried */

/* `plan` as passed to predict(), and `completed`. The rest of the plan stays fixed: if it has a global batch, the
 * micro-batch must divide a pipeline's share of it, otherwise the batch grows along. A size fits if the simulated
 * step fits in GPUs of `capacity_bytes` and, for an offloading plan, in host memory and on drives. A size that the
 * model or the plan cannot have counts as not fitting, as does every larger one. */
LargestFit largest_fit(const Model *model, const Cluster *cluster, const Plan *plan, const Plan *completed,
                       double capacity_bytes);
