/* Numbers from a Trace: where the time went, per rank and on average.
 *
 * The step's window is [0, end] for one step, [end of step N−2, end of step N−1] for N > 1 (steady state), and
 * [Trace.since_ns, end] for one that follows another. Within it
 * every nanosecond of a rank's compute stream is charged once: running kernels to compute, recompute or optimizer; an
 * idle interval to what ended it: a wait for another stage's work is bubble, the part after the sender was ready is pp,
 * a collective's wait is its axis (of a group over stages: bubble until its last member came), a wait for the launch
 * stream is host, for a copy to or from the node's memory or drives offload, for an update by the node's processors
 * optimizer. Time before what ended an interval had begun belongs to what held that up in turn (a gradient norm
 * behind this rank's own reduction: dp). The norm itself, over all axes at once, is other. What is left at the end is
 * the axis of this rank's own last communication until that ended, then bubble. */
#pragma once
#include "omitted.h"
#include "overlap.h"
#include "trace.h"

typedef enum {
  BREAKDOWN_COMPUTE,
  BREAKDOWN_RECOMPUTE,
  BREAKDOWN_TP,
  BREAKDOWN_PP,
  BREAKDOWN_CP,
  BREAKDOWN_EP,
  BREAKDOWN_DP,
  BREAKDOWN_BUBBLE,
  BREAKDOWN_OPTIMIZER,
  BREAKDOWN_HOST,
  BREAKDOWN_OFFLOAD,
  BREAKDOWN_OTHER,
  N_BREAKDOWN
} BreakdownKind;
const char *breakdown_name(BreakdownKind kind);

typedef struct {
  gint64 ns[N_BREAKDOWN];     /* sums to the step exactly */
  gint64 hidden_ns[N_MOVERS]; /* communication of each axis, and copies, beside running kernels */
  gint64 exposed_ns[N_AXES];  /* = what ns[] has for the axis */
} RankBreakdown;

typedef struct {
  gint64 step_ns;
  RankBreakdown *ranks; /* [trace ranks]; owned */
  int n_ranks;
  double mean_s[N_BREAKDOWN];                     /* over ranks */
  double hidden_s[N_MOVERS], exposed_s[N_MOVERS]; /* means; exposed of MOVER_OFFLOAD as mean_s[BREAKDOWN_OFFLOAD] */
  double bubble_fraction;                         /* mean bubble / step */
  double bubble_overhead;                         /* mean bubble / (step − mean bubble) */
  /* on stage spans, as the zero-bubble paper measures: rank with the longest (last compute end − first compute start)
   * less its work */
  gint64 span_ns, span_bubble_ns;
} Metrics;

Metrics *metrics_new(const Trace *trace);
/* Of the run with all that this one leaves out (NULL: nothing), to the last bit: a rank is charged for what ended in
 * the period as often as it comes about. NULL: a charge rests on a launch that would come earlier then. */
Metrics *metrics_new_with(const Trace *trace, const Omitted *omitted);
void metrics_free(Metrics *metrics);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Metrics, metrics_free)

/* Peak micro-batches held by each pipeline rank: F's started less B's (or W's) ended, in units of one chunk of one
 * micro-batch. `peak` has program ranks entries. */
void metrics_in_flight(const Trace *trace, int *peak);
