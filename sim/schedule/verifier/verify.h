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
/* The same, and what is about how a Program is written rather than what it means, for one that others wrote: no gather,
 * nor its FETCH, writes over weights that are still used (gather_buffers.h). */
gboolean program_verify_given(const Program *program, GError **error);
/* As program_verify() but for the untimed run: for who proves otherwise that the program reaches the end (course.h).
 * What was matched on the way goes to *match, as from program_match(). */
gboolean program_verify_but_end(const Program *program, gint32 ***match, GError **error);
