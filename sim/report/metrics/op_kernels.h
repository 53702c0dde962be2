/* The kernels inside a compute op's record; known if the trace carries a Timing. */
#pragma once
#include "trace.h"

/* Replace `spans` (of ItemSpan) by the kernels and tensor-parallel collectives of op `index` on recorded rank
 * `rank`, in list order. Empty for ops without kernels (optimizer, bare orders, measured traces, ops that never
 * ran). If an executor stretched the op (jitter, slow ranks), its spans are stretched with it. */
void op_kernels(const Trace *trace, int rank, int index, GArray *spans);
/* How many spans op_kernels() returns over all records of a recorded rank, or of the whole trace. */
gint64 op_kernels_count_of(const Trace *trace, int rank);
gint64 op_kernels_count(const Trace *trace);
