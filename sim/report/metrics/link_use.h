/* How much of its links a rank uses in a step: which link is the next to bound it. Of the bytes' time of each transfer,
 * what it takes of each way (WayLoad, timing.h); tp collectives, most of them inside compute ops, take their load
 * (Timing.tp) while they run. */
#pragma once
#include "cluster.h"
#include "metrics.h"

typedef struct {
  double
      mean; /* share of the step for which a rank's part of the way is taken, the fuller direction; mean over ranks */
  double most; /* of the busiest rank */
  int busiest; /* the first such rank of the plan, folded or not; −1: the way is not used */
} LinkUse;

/* Of the run with all that this one leaves out (`omitted` NULL: nothing), as the metrics are. `uses` [TIMING_MAX_WAYS]
 * is filled. FALSE: not known (a measured trace, or one whose timing has no loads). */
gboolean link_use_of(const Trace *trace, const Metrics *metrics, const Omitted *omitted, LinkUse *uses);
/* "scale-up links", "NICs", "uplinks of 3072 GPUs", "host memory". Owned by the caller. */
char *link_use_name(const Cluster *cluster, int way);
