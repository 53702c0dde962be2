/* Numbers from a Trace: where the time went, per rank and on average.
 *
 * The step's window is [0, end] for one step and [end of step N−2, end of step N−1] for N > 1 (steady state). Within
 * it, every nanosecond of a rank's compute stream is charged exactly once. Running kernels are charged to compute,
 * recompute or optimizer. An idle interval is charged to what ended it:
 *
 *     another stage's work                      bubble; from the moment the sender was ready, pp
 *     a collective                              its axis (group across stages: bubble until its last member arrived)
 *     the launch stream                         host
 *     a copy to or from host memory or drives   offload
 *     an update by the node's processors        optimizer
 *
 * Idle time before the thing that ended the interval had begun is charged to whatever delayed that in turn (a
 * gradient norm behind this rank's own reduction: dp). The norm itself, which spans all axes, is other. Idle time at
 * the end of the step is charged to the axis of this rank's own last communication until that ended, then to
 * bubble. */
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
  gint64 ns[N_BREAKDOWN];     /* sums exactly to the step */
  gint64 hidden_ns[N_MOVERS]; /* communication of each axis, and copies, that ran beside kernels */
  gint64 exposed_ns[N_AXES];  /* = ns[] of that axis */
} RankBreakdown;

typedef struct {
  gint64 step_ns;
  /* of metrics_new_of_period(): its steps, those that were run at its end, and what these, and a step before them,
   * take; else period is 0 */
  int period, window;
  gint64 window_ns, plain_step_ns;
  RankBreakdown *ranks; /* [trace ranks]; in the same block of memory */
  int n_ranks;
  double mean_s[N_BREAKDOWN];                     /* over ranks */
  double hidden_s[N_MOVERS], exposed_s[N_MOVERS]; /* means; exposed MOVER_OFFLOAD is mean_s[BREAKDOWN_OFFLOAD] */
  double bubble_fraction;                         /* mean bubble / step */
  double bubble_overhead;                         /* mean bubble / (step − mean bubble) */
  /* Over stage spans, as the zero-bubble paper measures: the rank with the longest span (last compute end − first
   * compute start), and that span less its work. */
  gint64 span_ns, span_bubble_ns;
} Metrics;

Metrics *metrics_new(const Trace *trace);
/* Metrics of the full run, including what the trace omits (`omitted`; NULL: nothing), exact to the bit: what ended
 * in the repeated period is charged once per repetition. Returns NULL if a charge depends on a launch that would
 * come earlier in the full run. */
Metrics *metrics_new_with(const Trace *trace, const Omitted *omitted);
/* Of the mean step of a period of so many, of which the last `window` ones and, if there are others, the step before
 * these were run: it stands for all others. What each rank is charged sums to the mean step to the nanosecond. */
Metrics *metrics_new_of_period(const Trace *trace, int period, int window);
/* Of ranks that no step brings together: the mean over the second half of a run's steps, of each rank in its own time.
 * step_ns is that in which the ranks take as many steps as there are ranks. */
Metrics *metrics_new_of_workers(const Trace *trace);
void metrics_free(Metrics *metrics);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Metrics, metrics_free)

/* A stretch of the step's window in which a recorded rank ran no op on its compute stream, and what it is charged to.
 */
typedef struct {
  gint32 rank;
  guint8 charge; /* BreakdownKind */
  gint64 start_ns, end_ns;
} IdleSpan;
/* All of them, rank by rank. A rank's bubble is the sum of its spans of that kind. An array of IdleSpan; owned by the
 * caller. */
GArray *metrics_idle_spans(const Trace *trace);

/* Peak micro-batches in flight on each pipeline rank: F's started minus B's (or W's) ended, in units of one chunk of
 * one micro-batch. `peak` has one entry per program rank. */
void metrics_in_flight(const Trace *trace, int *peak);
