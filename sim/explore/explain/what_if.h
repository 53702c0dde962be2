/* A predicted step rerun with some of its costs removed or stretched: what each is worth, and what limits the step
 * next. The Program and its order stay as they are; only durations change. */
#pragma once
#include "predict.h"

typedef enum {
  WHAT_IF_FREE_TP,        /* tensor-parallel collectives take no time */
  WHAT_IF_FREE_CP,        /* nor do context-parallel ones and sends */
  WHAT_IF_FREE_EP,        /* nor do the experts' token exchanges */
  WHAT_IF_FREE_DP,        /* nor do gradient reductions and parameter gathers */
  WHAT_IF_FREE_PP,        /* nor do sends between stages */
  WHAT_IF_FREE_LAUNCHES,  /* the host issues kernels instantly */
  WHAT_IF_FUSED,          /* memory-bound kernels of layers, embedding and head take no time, as if fused into
                             the others */
  WHAT_IF_AT_PEAK,        /* matrix products and attention at the GPU's peak */
  WHAT_IF_FREE_OPTIMIZER, /* the update takes no time */
  WHAT_IF_FREE_OFFLOAD,   /* nor do copies to and from host memory and drives */
  N_WHAT_IFS
} WhatIf;
const char *what_if_name(WhatIf what);      /* "no tp communication" … */
const char *what_if_cost_name(WhatIf what); /* "tp communication" … */

/* The step with each cost in `of` (bits 1 << WhatIf) `times` as long, even beyond the peak; 0: removed, with
 * products and attention at the peak. Owned by the caller. */
Metrics *what_if_times(const Prediction *prediction, guint of, double times);
/* The step with the kernels of one global rank `times` as long; the plan's ranks must run apart. Owned by the
 * caller. */
Metrics *what_if_slow_rank(const Prediction *prediction, int rank, double times);

/* One cost removed, or several. */
typedef struct {
  guint without;
  gint64 step_ns;
  double breakdown_s[N_BREAKDOWN]; /* means over ranks */
} WhatIfStep;

/* Each cost on its own, largest gain first, only those that change something; of WhatIfStep, owned by the caller. */
GArray *what_if_each(const Prediction *prediction);
/* Cumulative: each step also removes the cost that then gains most, until none gains `least_gain` of the step (0.01:
 * 1 %). */
GArray *what_if_chain(const Prediction *prediction, double least_gain);
/* The step time if no stage ever waited for another: the work of the busiest rank. */
gint64 what_if_no_bubble_ns(const Metrics *metrics);

/* What faster parts would gain: the plan predicted again on the cluster with one kind of part made twice as fast. */

enum { FASTER_TIMES = 2 };

typedef struct {
  const char *what; /* static: "GPU memory twice as fast" */
  double step_time_s;
} FasterStep;

/* Only parts that the step uses. NICs are doubled together with their PCIe, but not the uplinks above them; where
 * PCIe is a node's scale-up network, it is doubled with its switches, uplinks and the links between sockets. Links
 * of a cluster whose collectives were measured or fitted, and GPU parts whose kernels were measured, are left out:
 * how fast better ones would be is not known. `plan` as passed to predict(). Of FasterStep; owned by the caller;
 * empty if the cluster's file can no longer be found. */
GArray *faster_hardware_new(const Prediction *prediction, const Plan *plan, int n_threads);
