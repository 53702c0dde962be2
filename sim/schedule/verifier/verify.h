/* Proof that a Program can run, before anyone runs it. */
#pragma once
#include "program.h"

/* Checks: indices in range and `after` earlier in the list; every send matched by one receive of equal bytes; the same
 * sequence of collectives on every member of a group; no F before its input (the receive, or the stage before on this
 * rank), no W before its I, every micro-batch's F, and B or I + W, exactly once per stage and step; no gradient is
 * summed over ranks, or copied to the host, before all has been added to it (gradient_order.h); what computes with
 * weights has them (weights_order.h); the GPU updates with what is summed, and nothing uses what it has not updated yet
 * (update_order.h); weights, gradients and updates of a host do not come too early (offload_order.h), nor activations
 * from there (saved_order.h); and an untimed run under the Program's semantics with rendezvous sends reaches the end.
 * IMPOSSIBLE with what is wrong; a stuck program names for each rank and stream the op at its head and what it waits
 * for. */
gboolean program_verify(const Program *program, GError **error);
/* For a Program from a file: the same, and that no gather, nor its FETCH, overwrites weights that are still in use
 * (gather_buffers.h). */
gboolean program_verify_given(const Program *program, GError **error);
/* program_verify() without the untimed run, for callers who prove in another way that the program reaches its end
 * (course.h). *match: sends and receives matched, as by program_match(). */
gboolean program_verify_but_end(const Program *program, gint32 ***match, GError **error);
