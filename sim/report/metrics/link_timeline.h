/* What a rank does with its links over time, and which of them its step waits for.
 *
 * While the bytes of a transfer move, it takes of each way (WayLoad, timing.h) what it would alone, less as it is
 * slowed down: share · time alone / time taken. That is its mean: a link that it shared for a while and then had alone
 * may count as more than whole while it was shared; sums over time are right. A tp collective inside a compute op takes
 * its share while it runs. */
#pragma once
#include "metrics.h"

/* Of the program's transfers, by number: a collective of tensor parallelism alone. Its load is Timing.tp. */
gboolean link_is_of_tp(const Program *program, gint32 number);

/* From time_ns on, until the next moment. */
typedef struct {
  gint64 time_ns;
  gboolean computes;            /* a kernel runs */
  double used[TIMING_MAX_WAYS]; /* share of the rank's part of each way, the fuller direction */
} LinkMoment;

/* Of the last step of a recorded rank (where it has more kernels than two million, a compute op is one stretch of
 * kernels, then one of what tp leaves exposed of it): GArray of LinkMoment, ascending; the first is the step's begin,
 * the last its end. Owned by the caller. NULL: not known (as link_use_of()). */
GArray *link_timeline_of(const Trace *trace, const Metrics *metrics, int rank);

typedef struct {
  int way;        /* most in use while the rank waits for communication or copies; −1: none is */
  int rank;       /* the recorded rank that waits for them the longest */
  int first_rank; /* the first rank of the plan that it stands for */
  double wait_s;  /* how long in a step: its exposed communication and copies */
  double busy_s;  /* time alone of what moved on the way while the rank ran no kernel: at most its idle time */
} BoundingLink;

/* way −1 also where nothing is known. */
BoundingLink bounding_link_of(const Trace *trace, const Metrics *metrics);
