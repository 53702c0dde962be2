/* How much of a rank's communication overlapped with its kernels. Kernels do not fill a compute op: a whole op of a
 * folded run pauses for its tp collectives, a launch-bound op for the host. A transfer running during such a pause
 * is not hidden. */
#pragma once
#include "omitted.h"
#include "trace.h"

typedef struct Overlap Overlap;

/* What moves: the data of an axis, or offloaded data. */
enum { MOVER_OFFLOAD = N_AXES, N_MOVERS };

Overlap *overlap_new(const Trace *trace);
void overlap_free(Overlap *overlap);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Overlap, overlap_free)

/* Reset for the next rank. */
void overlap_begin_rank(Overlap *overlap, int rank);
/* Compute op `op` ran in [start, end), its kernels for `kernels_ns` of that. Call in order of time. `host_is_ahead`:
 * the op took its timing's run_ns and no launch was late. */
void overlap_add_op(Overlap *overlap, gint32 op, gint64 start_ns, gint64 end_ns, gint64 kernels_ns,
                    gboolean host_is_ahead);
/* Data of `mover` (an axis or MOVER_OFFLOAD) moved in [start, end). Call in order of time within each stream. */
void overlap_add_transfer(Overlap *overlap, Stream stream, int mover, gint64 start_ns, gint64 end_ns);
/* For each mover, the total time during which its data moved while kernels ran, including what was omitted (NULL:
 * nothing). */
void overlap_sum(Overlap *overlap, const Omitted *omitted, gint64 hidden_ns[N_MOVERS]);
