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
