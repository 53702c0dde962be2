/* Private to the verifier: no gradient is summed over ranks before it is whole. */
#pragma once
#include "program.h"

/* Indices must be in range. A sum of a micro-batch's gradients (REDUCE_GRAD of a micro-batch) comes after all that this
 * one's B and W add to them on its rank, any other (REDUCE_GRAD, TIED_GRAD, COPY_GRAD) after all that its step's add.
 * Sums are told apart by stage and there by embedding, layers and head, as their transfer says; of the table that
 * embedding and head share, or both add to (Program.heads_add_to_table), by the transfer that moves it. IMPOSSIBLE
 * naming the sum and what it does not wait for. */
gboolean gradient_order_check(const Program *program, GError **error);
