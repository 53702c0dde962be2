/* A predicted trace beside a measured one of the same Program.
 *
 * Error is predicted / measured − 1: +10 % means the prediction was a tenth of the measured time too long.
 *
 * Which step counts: in a trace of one step that one; of two, the second; of more, the median of all but the first,
 * which warms up caches and allocators. A step lasts from the end of the one before to its own end, the first from the
 * clock's zero, when the first host begins to issue, as in metrics.h. All other numbers are means over the counted
 * steps.
 *
 * If one trace is folded, each rank of the other is compared with the folded rank that stands for it. What one trace
 * records whole and the other as runs of kernels is compared whole (whole_ops.h). */
#pragma once
#include "whole_ops.h"

/* One kind of op over all ranks and counted steps. Communication is timed from the moment everyone it needs was
 * there; the wait before that is separate. */
typedef struct {
  GQuark name;
  gboolean is_communication;
  gboolean is_inner;                              /* inside compute: its time is also counted in F, I, W or B */
  gint64 n_predicted, n_measured;                 /* number of ops; they differ only if one trace is folded */
  gint64 predicted_ns, measured_ns;               /* sums */
  gint64 predicted_wait_ns, measured_wait_ns;     /* sums */
  double predicted_in_step_s, measured_in_step_s; /* per rank and step */
} CompareKind;

/* A rank's step in four parts that add up to it. */
typedef enum {
  COMPARE_WARM_UP,   /* until its first backward starts */
  COMPARE_STEADY,    /* until its last forward has ended */
  COMPARE_COOL_DOWN, /* until its last pass has ended */
  COMPARE_OPTIMIZER, /* until the step has ended: reductions, norm, optimizer, waiting for others */
  N_COMPARE_PHASES
} ComparePhase;
const char *compare_phase_name(ComparePhase phase);

/* For a recorded rank, means over the counted steps. */
typedef struct {
  double phase_s[N_COMPARE_PHASES];
  double busy_s; /* passes (including their tp collectives) and optimizer; the rest of the step is idle */
} RankTimes;

typedef struct {
  int rank; /* in the trace that is not folded; if both are: pipeline rank */
  int pipeline_rank;
  int predicted, measured; /* recorded ranks */
} CompareRow;

typedef struct {
  gint32 row, predicted, measured; /* indices of rows and of the traces' whole ops */
} ComparePair;

/* One trace and what was derived from it. */
typedef struct {
  const ChromeTrace *trace; /* borrowed */
  WholeOps *ops;
  gint64 *end_ns;     /* [steps] latest end of any op of this step or one before */
  double step_s;      /* the step time */
  double mean_step_s; /* mean of the counted steps, which phases and busy times refer to */
  RankTimes *ranks;   /* [recorded ranks] */
} CompareSide;

typedef struct {
  CompareSide predicted, measured;
  int n_steps, first_step; /* steps from first_step on count */
  CompareRow *rows;
  int n_rows;
  GArray *pairs;                      /* of ComparePair: by row, then in planned order */
  GArray *kinds;                      /* of CompareKind, largest difference over a step first */
  gint64 n_inversions;                /* pairs of ops on one stream that ran in the opposite of the planned order */
  gint64 n_violations;                /* measured ops that started or ended before something they depend on */
  GPtrArray *inversions, *violations; /* of char *: the first COMPARE_MOST_NAMED */
} Compare;

enum { COMPARE_MOST_NAMED = 8 };

/* Both traces must outlive the comparison. INPUT naming the first difference if they are not of one Program. */
Compare *compare_new(const ChromeTrace *predicted, const ChromeTrace *measured, GError **error);
void compare_free(Compare *compare);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Compare, compare_free)

/* predicted / measured − 1; not finite if nothing was measured. 0 if both are 0. */
double compare_error(double predicted, double measured);
/* In seconds; 0 of none. */
double compare_mean_s(gint64 sum_ns, gint64 n);
/* "the only step", "the second of 2 steps", "median of the last 4 of 5 steps; the first warms up". Owned by the caller.
 */
char *compare_steps_text(const Compare *compare);
/* Fill inversions and violations from rows, ops and pairs; compare_new() does. */
void compare_check_order(Compare *compare);
/* Row of `rank`, or −1. */
int compare_find_row(const Compare *compare, int rank);
