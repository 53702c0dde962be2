/* Private to the verifier: with the optimizer on the host, every gradient goes there and all updated weights come back.
 */
#pragma once
#include "program.h"

/* Indices must be in range. Only Programs that update on the host, or copy gradients there or weights back, are
 * checked. Of each reduction, and if a stage is not reduced, of the last op that adds to its gradient in a step, a
 * later GRAD_OUT must have it first in its `after`. In every step there are as many parts of the update as in the first
 * one, at least one, and each is copied to where its weights belong, unless they are fetched from the memory in which
 * they are updated. A Program does not say whether the parts cover all that the rank owns: program_sizes.h. That all of
 * these happen in the right order: accesses.h. IMPOSSIBLE naming the rank, and the op or the step. */
gboolean host_copies_check(const Program *program, GError **error);
