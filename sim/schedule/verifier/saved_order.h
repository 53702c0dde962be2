/* Private to the verifier: activations are complete when copied to the host, and back when needed. */
#pragma once
#include "program.h"

/* Indices must be in range. Only Programs with SAVED_OUT or SAVED_IN are checked; each rank's list separately, in
 * time linear in its ops. For each step, stage, micro-batch and unit
 *
 *     F            must not save activations that are currently on the host
 *     SAVED_OUT    waits for the F before it, precedes the I or B, and must not repeat
 *     SAVED_IN     waits for its SAVED_OUT, one for each
 *     I, B         wait for the SAVED_IN, if the activations were copied out
 *
 * IMPOSSIBLE naming the rank, the op and what it does not wait for or what is missing. */
gboolean saved_order_check(const Program *program, GError **error);
