/* The kernels of one layer, the embedding and the head: shapes, work and time, as printed by `stepsim simulate
 * --kernels`. */
#pragma once
#include "timing.h"

/* `peak_flops`: FLOP/s of one GPU by number format (indexed by Number); gives the time at peak and the share of peak
 * reached. */
void kernel_table_print(const Workload *workload, const Timing *timing, const double *peak_flops, GString *out);
