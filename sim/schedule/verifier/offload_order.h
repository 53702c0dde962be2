/* Private to the verifier: what goes to the host, and what is there, is in time. */
#pragma once
#include "program.h"

/* Indices must be in range. Only Programs that copy to or from a host, or update there, are looked at; each rank's list
 * by itself, linear in its ops:
 *
 *     FETCH          where there are any, each UNSHARD of ZeRO-3 over dp waits for one of its own stage, micro-batch,
 *                    step and layers, and none of a later step is in front of an update
 *     GRAD_OUT       where the host updates, each sum of gradients, or, of a stage that is not summed, the last op that
 *                    adds to them in a step, is what one behind it waits for first
 *     OPTIMIZER      of the host: in every step, its parts numbered from 0, as many as in the first, behind all of the
 *                    step's GRAD_OUT and its NORM. Whether they are all that the rank owns a Program does not say:
 *                    host_updates.h
 *     STATE_READ     where there are any, each part of the host's OPTIMIZER waits for its own, and that for the
 *                    STATE_WRITE of its part, which is behind the update, and for gradients that leave for the drives
 *     WEIGHTS_STORE  in front of a FETCH, or an UNSHARD in its place, is what that waits for
 *     WEIGHTS_BACK   behind the part of the update that it copies, as WEIGHTS_STORE; and no F or UNSHARD behind it runs
 *                    beside it. One for each part of every step, in their order, but where weights are fetched from the
 *                    memory that they are updated in
 *
 * An op behind one of the host stream waits for it without saying so, and for all that that one waited for. IMPOSSIBLE
 * naming the rank, the op and what it lacks. */
gboolean offload_order_check(const Program *program, GError **error);
