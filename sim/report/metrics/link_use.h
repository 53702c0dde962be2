/* How much of its links a rank uses in a step, to tell which link limits it next. Each transfer counts the transfer
 * time of its bytes, times its share of each way (WayLoad, timing.h; of tp collectives, most of them inside compute
 * ops: Timing.tp). Without contention transfers have a way each to itself, and may ask for more than it carries. */
#pragma once
#include "cluster.h"
#include "metrics.h"

typedef struct {
  double mean;  /* share of the step for which a rank's part of the way is taken, the fuller direction: at most 1; mean
                  over ranks */
  double most;  /* the same for the busiest rank */
  double asked; /* what that rank's transfers ask for; above 1 they are timed as if the way carried as much */
  int busiest;  /* the first such rank of the plan, folded or not; −1: the way is unused */
} LinkUse;

/* Fills `uses` [TIMING_MAX_WAYS]. As with the metrics, the result is that of the full run, including what the trace
 * omits (`omitted`; NULL: nothing). FALSE: not known (a measured trace, or one whose timing has no loads). */
gboolean link_use_of(const Trace *trace, const Metrics *metrics, const Omitted *omitted, LinkUse *uses);
/* "scale-up links", "NICs", "uplinks of 3072 GPUs", "host memory". Owned by the caller. */
char *link_use_name(const Cluster *cluster, int way);

/* A rank's link use over time, and the link its step waits for most.
 *
 * While its bytes move, a transfer uses of each way (WayLoad, timing.h) the share it would use alone, scaled down by
 * its slowdown: share · time alone / time taken. Where the ways of several leave too little for that, those that end
 * later move their bytes later. A tp collective inside a compute op uses its share while it runs. */

/* Holds from time_ns until the next moment. */
typedef struct {
  gint64 time_ns;
  gboolean computes;            /* a kernel is running */
  double used[TIMING_MAX_WAYS]; /* share of the rank's part of each way, in the busier direction; at most 1 */
} LinkMoment;

/* The last step of a recorded rank, as a GArray of LinkMoment in ascending time; the first is the start of the step,
 * the last its end. If the rank has more than two million kernels, a compute op is one stretch of kernels followed
 * by one of its exposed tp time. Owned by the caller. NULL: not known (see link_use_of()). */
GArray *link_timeline_of(const Trace *trace, const Metrics *metrics, int rank);

typedef struct {
  int way;        /* the most used way while the rank waits for communication or copies; −1: none */
  int rank;       /* the recorded rank that waits longest for these, on any way */
  int first_rank; /* the first rank of the plan that this one stands for */
  double wait_s;  /* per step: its exposed communication and copies */
  double idle_s;  /* the time in which the rank ran no kernel, for any reason; 0 where it does not wait */
  double busy_s;  /* time alone of what moved on the way meanwhile; at most idle_s */
} BoundingLink;

/* Also returns way −1 if nothing is known. */
BoundingLink bounding_link_of(const Trace *trace, const Metrics *metrics);
