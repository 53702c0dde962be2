/* Private to the verifier: no gradient is summed over ranks, or copied out to the host, before it is whole. */
#pragma once
#include "program.h"

/* Indices must be in range, and every micro-batch there (compute_order_check()). A sum of a micro-batch's gradients
 * (REDUCE_GRAD of a micro-batch) comes after all that this one's B and W add to them on its rank, any other
 * (REDUCE_GRAD, TIED_GRAD, COPY_GRAD, WHOLE_GRAD) after all that its step's add. Sums are told apart by stage and there
 * by embedding, layers and head, as their transfer says; of the table that embedding and head share, or both add to
 * (Program.heads_add_to_table), by the transfer that moves it. A rank that sums of more than 4096 layers, or more
 * than 2^24 of (step, micro-batch, layer), has no layer looked at by itself. Linear in the ops, and of each in the
 * layers that it adds to or sums. A copy out (GRAD_OUT) comes after the latest addition or sum in front of it with its
 * step, stage, micro-batch and unit: one that stands in front of its sum is not found. IMPOSSIBLE naming the sum or
 * copy and what it does not wait for. */
gboolean gradient_order_check(const Program *program, GError **error);
