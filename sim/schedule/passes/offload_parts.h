/* What pass_offload.c is made of: copies (offload_copy.c) and the update (offload_update.c). Not for others. */
#pragma once
#include "lowering.h"

#include <math.h>

/* A copy of `bytes` between the rank and the memory of its node, on copy_out where the route leads outward, else on
 * copy. Waits for nothing yet. */
Op offload_copy(Program *program, ActionKind action, CopyRoute route, int stage, double bytes);
/* In place of a gather over one rank: the copy says whose parameters it brings, as that does. */
Op offload_gather(Program *program, CopyRoute route, const Op *gather, double bytes);
/* `op` waits for the latest op of the new list on `stream`, where there is one. */
void offload_add_after_last(Op *op, const OpEditor *editor, Stream stream);
/* In place of old op `index`, the Adam step of the GPU: that of the node's processors, chunk by chunk, with all that is
 * copied for it. What waited for the step waits for its last weights to be where they belong. */
void offload_add_update(Program *program, OpEditor *editor, const Workload *workload, int rank, int index);
