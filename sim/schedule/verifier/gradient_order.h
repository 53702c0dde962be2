/* Private to the verifier: no gradient is reduced over ranks, or copied out to the host, before it is complete. */
#pragma once
#include "program.h"

/* Indices must be in range, and all micro-batches complete (compute_order_check()). A reduction of one micro-batch
 * (REDUCE_GRAD with a micro-batch) comes after all that its B and W add on this rank; any other (REDUCE_GRAD,
 * TIED_GRAD, COPY_GRAD, WHOLE_GRAD) after all additions of its step. Reductions are distinguished by stage, and
 * within a stage by embedding, layers and head, as their transfer says; for the table that embedding and head share,
 * or both add to (Program.heads_add_to_table), by the transfer that moves it. If a rank reduces more than 4096
 * layers, or more than 2^24 (step, micro-batch, layer) triples, single layers are not checked. Time is linear in the
 * ops, and for each op in the layers that it adds to or reduces. A copy out (GRAD_OUT) comes after the latest
 * addition or reduction in the list before it with its step, stage, micro-batch and unit; one placed before its
 * reduction goes unnoticed. IMPOSSIBLE naming the reduction or copy and what it does not wait for. */
gboolean gradient_order_check(const Program *program, GError **error);
