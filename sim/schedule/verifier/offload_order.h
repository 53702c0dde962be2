/* Private to the verifier: transfers to and from the host, and updates there, happen in the right order. */
#pragma once
#include "program.h"

/* Indices must be in range. Only Programs that copy to or from a host, or update there, are checked; each rank's list
 * separately, in time linear in its ops:
 *
 *     FETCH          if there are any, each UNSHARD of ZeRO-3 over dp waits for one of its own stage, micro-batch,
 *                    step and layers; no FETCH of a later step comes before an update
 *     GRAD_OUT       if the host updates: for each reduction, or if a stage is not reduced, for the last op that adds
 *                    to its gradient in a step, a later GRAD_OUT has it first in its `after`
 *     OPTIMIZER      on the host: in every step, parts numbered from 0, as many as in the first step, after all of
 *                    the step's GRAD_OUT and its NORM. A Program does not say whether they cover all that the rank
 *                    owns: host_updates.h
 *     STATE_READ     if there are any, each part of the host's OPTIMIZER waits for its own, and that waits for the
 *                    STATE_WRITE of its part, which follows the update, and for gradients written to the drives
 *     WEIGHTS_STORE  a later FETCH, or UNSHARD in its place, waits for it
 *     WEIGHTS_BACK   like WEIGHTS_STORE, after the part of the update that it copies; no later F or UNSHARD overlaps
 *                    with it. One per part in every step, in order, unless weights are fetched from the memory in
 *                    which they are updated
 *
 * An op after a host op waits for it, and for everything that one waited for, without naming it. IMPOSSIBLE naming
 * the rank, the op and what it lacks. */
gboolean offload_order_check(const Program *program, GError **error);
