/* Private to the verifier: GPU updates use complete gradients, and weights are used only once updated. */
#pragma once
#include "program.h"

/* Indices must be in range. Each rank's list separately, in time linear in its ops; in every step
 *
 *     sums         REDUCE_GRAD, TIED_GRAD, COPY_GRAD and WHOLE_GRAD are collectives on stream dp or tp, like NORM
 *     NORM         waits for all additions to gradients in the step, and all of its sums
 *     OPTIMIZER    of the GPU: waits for all of these and NORM
 *     UNSHARD      a collective or a copy on dp or copy; waits for the previous OPTIMIZER
 *     SYNC         waits for the previous OPTIMIZER, and for gathers of what it updated
 *
 * IMPOSSIBLE naming the rank, the op and what it does not wait for, or what comes too late. */
gboolean update_order_check(const Program *program, GError **error);
