/* Private to the verifier: what the GPU updates is updated by whole gradients, and used updated. */
#pragma once
#include "program.h"

/* Indices must be in range. Each rank's list by itself, linear in its ops; of every step
 *
 *     sums         REDUCE_GRAD, TIED_GRAD, COPY_GRAD and WHOLE_GRAD are collectives on the streams dp or tp, as NORM is
 *     NORM         behind all that the step adds to gradients, and all of its sums
 *     OPTIMIZER    of the GPU: behind all of these and NORM
 *     UNSHARD      a collective or a copy on dp or copy; behind the OPTIMIZER in front of it
 *     SYNC         behind the OPTIMIZER in front of it, and what that has gathered behind it
 *
 * IMPOSSIBLE naming the rank, the op and what it does not wait for, or what comes too late. */
gboolean update_order_check(const Program *program, GError **error);
