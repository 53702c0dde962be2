/* Proves that a Program can run, before anyone runs it. */
#pragma once
#include "program.h"

/* Checks: indices in range and `after` earlier in the list; every send matched by one receive of equal bytes; the
 * same sequence of collectives on every member of a group; no F before its input (the receive, or the previous stage
 * on this rank), no W before its I; every micro-batch's F, and B or I + W, exactly once per stage and step; no
 * gradient reduced over ranks, or copied to the host, before it is complete (gradient_order.h); weights present when
 * computed with (weights_order.h); GPU updates after all reductions, and nothing using weights before they are
 * updated (update_order.h); weights, gradients and updates of a host (offload_order.h) and activations copied back
 * (saved_order.h) not used too early; and an untimed run under the Program's semantics, with rendezvous sends,
 * reaches the end. IMPOSSIBLE with what is wrong; for a stuck program, that is each rank and stream's head op and
 * what it waits for. */
gboolean program_verify(const Program *program, GError **error);
/* For a Program from a file: also checks that no gather, nor its FETCH, overwrites weights that are still in use
 * (gather_buffers.h). */
gboolean program_verify_given(const Program *program, GError **error);
