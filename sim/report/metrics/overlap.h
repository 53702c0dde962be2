/* Which part of a rank's communication ran beside its kernels. Kernels do not fill a compute op: a whole one of a
 * folded run stops inside for its tp collectives, a launch-bound one for the host, and a transfer that goes on
 * meanwhile hides nothing then. */
#pragma once
#include "omitted.h"
#include "trace.h"

typedef struct Overlap Overlap;

/* What moves: data of an axis, or what is offloaded. */
enum { MOVER_OFFLOAD = N_AXES, N_MOVERS };

Overlap *overlap_new(const Trace *trace);
void overlap_free(Overlap *overlap);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Overlap, overlap_free)

/* Forget what was added, for the next rank. */
void overlap_begin_rank(Overlap *overlap, int rank);
/* [start, end) of compute op `op`, in which kernels ran for `kernels_ns`; in order of time. `host_is_ahead`: the op
 * took its timing's run_ns and no launch was late. */
void overlap_add_op(Overlap *overlap, gint32 op, gint64 start_ns, gint64 end_ns, gint64 kernels_ns,
                    gboolean host_is_ahead);
/* Data of `mover`, an axis or MOVER_OFFLOAD, moved in [start, end); of each stream in order of time. */
void overlap_add_transfer(Overlap *overlap, Stream stream, int mover, gint64 start_ns, gint64 end_ns);
/* Add up, for each mover, the time in which its data moved and kernels ran; with what was left out (NULL: nothing). */
void overlap_sum(Overlap *overlap, const Omitted *omitted, gint64 hidden_ns[N_MOVERS]);
