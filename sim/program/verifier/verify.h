/* Proves that a Program can run, before anyone runs it. */
#pragma once
#include "program.h"

/* Checks: indices in range and `after` earlier in the list; every send matched by one receive of equal bytes; the
 * same sequence of collectives on every member of a group; every micro-batch's F, and B or I + W, exactly once per
 * stage and step, on one rank, after its input (the receive, or the previous stage on this rank), and no W before its I
 * (actions.c); weights, gradients and activations complete when used, on the GPU and on the host (accesses.c); what the
 * host updates copied there and back (host_copies.c); and an untimed run under the Program's semantics, with rendezvous
 * sends, reaches the end. IMPOSSIBLE with what is wrong; for a stuck program, that is each rank and stream's head op
 * and what it waits for. */
gboolean program_verify(const Program *program, GError **error);
/* For a Program from a file: also checks that no gather, nor its FETCH, overwrites weights that are still in use
 * (gather_buffers.h). */
gboolean program_verify_given(const Program *program, GError **error);
