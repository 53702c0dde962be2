/* Private to pass_offload.c: copies (offload_copy.c) and the update (offload_update.c). */
#pragma once
#include "lowering.h"

#include <math.h>

/* A copy of `bytes` between the rank and its node's memory, on copy_out if the route leads outward, else on copy. No
 * dependencies yet. */
Op offload_copy(Program *program, ActionKind action, CopyRoute route, int stage, double bytes);
/* A copy that replaces a gather over one rank; like the gather, it records whose parameters it brings. */
Op offload_gather(Program *program, CopyRoute route, const Op *gather, double bytes);
/* Makes `op` wait for the latest op on `stream` in the new list, if any. */
void offload_add_after_last(Op *op, const OpEditor *editor, Stream stream);
/* Replaces old op `index`, the GPU's Adam step, by that of the node's processors, chunk by chunk, with all its
 * copies. Ops that waited for the step now wait until its last weights have arrived where they are kept. */
void offload_add_update(Program *program, OpEditor *editor, const Workload *workload, int rank, int index);
