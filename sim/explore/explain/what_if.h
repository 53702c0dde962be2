/* A predicted step run again with some of its costs taken away, or longer: what each of them is worth, and what bounds
 * the step next. The Program stays as it is, its order too; only durations change. */
#pragma once
#include "predict.h"

typedef enum {
  WHAT_IF_FREE_TP,        /* tensor-parallel collectives take no time */
  WHAT_IF_FREE_CP,        /* nor context-parallel ones and sends */
  WHAT_IF_FREE_EP,        /* nor the experts' exchanges of tokens */
  WHAT_IF_FREE_DP,        /* nor gradients' reductions and parameters' gathers */
  WHAT_IF_FREE_PP,        /* nor sends between stages */
  WHAT_IF_FREE_LAUNCHES,  /* the host issues kernels in no time */
  WHAT_IF_FUSED,          /* memory-bound kernels of layers and ends take no time, as if fused into the others */
  WHAT_IF_AT_PEAK,        /* matrix products and attention at the GPU's peak */
  WHAT_IF_FREE_OPTIMIZER, /* the update takes no time */
  WHAT_IF_FREE_OFFLOAD,   /* nor copies to and from the host's memory and drives */
  N_WHAT_IFS
} WhatIf;
const char *what_if_name(WhatIf what);      /* "no tp communication" … */
const char *what_if_cost_name(WhatIf what); /* "tp communication" … */

/* The step with what is in `without` (bits 1 << WhatIf) taken away; owned by the caller. Its metrics stand alone. */
Metrics *what_if_run(const Prediction *prediction, guint without);
/* The step with each cost in `of` (bits 1 << WhatIf) `times` as long, whatever the peak; 0: away, products and
 * attention at the peak. Owned by the caller. */
Metrics *what_if_times(const Prediction *prediction, guint of, double times);
/* The step with the kernels of a global rank `times` as long, of a plan whose ranks run apart; owned by the caller. */
Metrics *what_if_slow_rank(const Prediction *prediction, int rank, double times);

/* One cost taken away, or several. */
typedef struct {
  guint without;
  gint64 step_ns;
  double breakdown_s[N_BREAKDOWN]; /* means over ranks */
} WhatIfStep;

/* Each alone, greatest gain first, those that change something; of WhatIfStep, owned by the caller. */
GArray *what_if_each(const Prediction *prediction);
/* One more at each step, the one that then gains most, until none gains `least_gain` of the step (0.01: 1 %). */
GArray *what_if_chain(const Prediction *prediction, double least_gain);
/* The step if no stage ever waited for another: what the fullest rank does in it. */
gint64 what_if_no_bubble_ns(const Metrics *metrics);
