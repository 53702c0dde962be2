/* A predicted trace beside a measured one of the same Program.
 *
 * Error is predicted / measured − 1: +10 % says the prediction was too long by a tenth of what was measured.
 *
 * The step: a trace of one step has that one, from its first op's start to its last op's end; of two, the second
 * counts; of more, the median of all but the first, which warms caches and allocators up. Step k > 0 lasts from the end
 * of step k − 1 to its own end. All other numbers are means over the counted steps.
 *
 * Where one trace is folded, each rank of the other is compared with the folded rank that stands for it; what one trace
 * has whole and the other in runs of kernels is compared whole (whole_ops.h). */
#pragma once
#include "whole_ops.h"

/* One kind of op over all ranks and counted steps. What communicates is timed from when everyone it needs was there;
 * the wait before stands apart. */
typedef struct {
  gint32 name; /* Compare.names */
  gboolean is_communication;
  gboolean is_inner;                              /* inside computing: its time is also in F, I, W or B */
  gint64 n_predicted, n_measured;                 /* ops; they differ only where one trace is folded */
  gint64 predicted_ns, measured_ns;               /* sums */
  gint64 predicted_wait_ns, measured_wait_ns;     /* sums */
  double predicted_in_step_s, measured_in_step_s; /* per rank and step */
} CompareKind;

/* A rank's step in four parts that add up to it. */
typedef enum {
  COMPARE_WARM_UP,   /* until its first backward begins */
  COMPARE_STEADY,    /* until its last forward ended */
  COMPARE_COOL_DOWN, /* until its last pass ended */
  COMPARE_OPTIMIZER, /* until the step ended: reductions, norm, optimizer, waiting for others */
  N_COMPARE_PHASES
} ComparePhase;
const char *compare_phase_name(ComparePhase phase);

/* Of a recorded rank, means over the counted steps. */
typedef struct {
  double phase_s[N_COMPARE_PHASES];
  double busy_s; /* passes (tp collectives in them included) and optimizer; the rest of the step is idle */
} RankTimes;

typedef struct {
  int rank; /* of the trace that is not folded; both folded: pipeline rank */
  int pipeline_rank;
  int predicted, measured; /* recorded ranks */
} CompareRow;

typedef struct {
  gint32 row, predicted, measured; /* indices of rows and of the traces' whole ops */
} ComparePair;

/* One trace and what was read off it. */
typedef struct {
  const ChromeTrace *trace; /* borrowed */
  WholeOps *ops;
  gint64 start_ns;    /* of its first op */
  gint64 *end_ns;     /* [steps] latest end of any op of this step or one before */
  double step_s;      /* the step time */
  double mean_step_s; /* mean of the counted steps: what phases and busy times are parts of */
  RankTimes *ranks;   /* [recorded ranks] */
} CompareSide;

typedef struct {
  NameTable *names;
  CompareSide predicted, measured;
  int n_steps, first_step; /* steps from first_step on count */
  CompareRow *rows;
  int n_rows;
  GArray *pairs;                      /* of ComparePair: by row, then as planned */
  GArray *kinds;                      /* of CompareKind, what differs most over a step first */
  gint64 n_inversions;                /* pairs of ops of a stream that ran in the other order than planned */
  gint64 n_violations;                /* measured ops that began or ended before what they need */
  GPtrArray *inversions, *violations; /* of char *: the first COMPARE_MOST_NAMED */
} Compare;

enum { COMPARE_MOST_NAMED = 8 };

/* Both traces outlive the comparison. INPUT naming the first difference when they are not of one Program. */
Compare *compare_new(const ChromeTrace *predicted, const ChromeTrace *measured, GError **error);
void compare_free(Compare *compare);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Compare, compare_free)

/* predicted / measured − 1; not finite when nothing was measured. 0 when both are 0. */
double compare_error(double predicted, double measured);
/* "the only step", "the second of 2 steps", "median of the last 4 of 5 steps; the first warms up". Owned by the caller.
 */
char *compare_steps_text(const Compare *compare);
/* Row of `rank`, or −1. */
int compare_find_row(const Compare *compare, int rank);
