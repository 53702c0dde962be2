/* How far a plan can grow before it no longer fits in memory: larger micro-batches, longer sequences. */
#pragma once
#include "predict.h"

/* Why the next larger one is not: memory; a micro-batch is all that a pipeline gets of the batch; the model or the plan
 * has none as large, as a model with learned positions; none larger is tried. */
typedef enum { LARGEST_BY_MEMORY, LARGEST_BY_BATCH, LARGEST_BY_PLAN, LARGEST_TRIED } LargestBound;

typedef struct {
  gint64 micro_batch; /* sequences, of the plan's length; 0: not even one fits */
  gint64 seq_len;     /* tokens, at the plan's micro-batch, a multiple of seq_step; 0: not even that many fit */
  gint64 seq_step;    /* 1,024 tokens, or a multiple that cp and tp divide */
  LargestBound micro_batch_bound, seq_len_bound;
} LargestFit;

enum { LARGEST_FIT_MOST = 1 << 24 }; /* nothing larger is tried */

/* `plan` as it was asked for and `completed`. All else of the plan stays: where it has a global batch the micro-batch
 * divides what a pipeline gets of it, else the batch grows with it. What fits is what GPUs of `capacity_bytes` and, of
 * an offloading plan, host memory and drives hold of the simulated step. A size that the model or the plan cannot
 * have counts as one that does not fit, as does each above it. */
LargestFit largest_fit(const Model *model, const Cluster *cluster, const Plan *plan, const Plan *completed,
                       double capacity_bytes);
