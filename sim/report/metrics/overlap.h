/* How much of a rank's communication overlapped with its kernels. Kernels do not fill a compute op: a whole op of a
 * folded run pauses for its tp collectives, a launch-bound op for the host. A transfer running during such a pause
 * is not hidden. */
#pragma once
#include "omitted.h"
#include "trace.h"

/* What moves: the data of an axis, or offloaded data. */
enum { MOVER_OFFLOAD = N_AXES, N_MOVERS };

/* Compute op `op` ran in [start, end). */
typedef struct {
  gint64 start_ns, end_ns;
  gint64 clock_ns; /* kernel time of all ops before it */
  gint32 op;
  gboolean host_is_ahead; /* it took its timing's run_ns and no launch was late */
} Running;

/* Data of `mover` (an axis or MOVER_OFFLOAD) moved in [start, end). */
typedef struct {
  gint64 start_ns, end_ns;
  gint32 near; /* index of the first running op behind it in the list */
  guint8 stream, mover;
} Moving;

/* Of one rank. */
typedef struct {
  Running *running; /* [n_running + 1] in order of time; the last has only a clock */
  Moving *moving;   /* [n_moving] in order of time within each stream */
  int n_running, n_moving;
} OverlapRecords;

typedef struct Overlap Overlap;

Overlap *overlap_new(const Trace *trace);
void overlap_free(Overlap *overlap);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Overlap, overlap_free)

/* Adds for each mover the total time during which its data moved while kernels of recorded rank `rank` ran, including
 * what was omitted (NULL: nothing). */
void overlap_add_hidden(Overlap *overlap, int rank, const OverlapRecords *records, const Omitted *omitted,
                        gint64 hidden_ns[N_MOVERS]);
