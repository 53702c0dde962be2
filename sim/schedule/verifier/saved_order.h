/* Private to the verifier: activations that leave for the host are whole, and back when they are needed. */
#pragma once
#include "program.h"

/* Indices must be in range. Only Programs with SAVED_OUT or SAVED_IN are looked at; each rank's list by itself, linear
 * in its ops. Of a step, stage, micro-batch and unit
 *
 *     F            saves nothing that is away
 *     SAVED_OUT    is behind the F in front of it, before the I or B, of what is not away already
 *     SAVED_IN     behind the SAVED_OUT, one for each
 *     I, B         of what has left, behind the SAVED_IN
 *
 * IMPOSSIBLE naming the rank, the op and what it does not wait for or what is missing. */
gboolean saved_order_check(const Program *program, GError **error);
