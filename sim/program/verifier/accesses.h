/* Private to the verifier: weights, gradients and activations are complete when used. */
#pragma once
#include "program.h"

/* Whether both are of one stage, micro-batch and unit in one step. */
static inline gboolean op_same_place(const Op *a, const Op *b) {
  return a->stage == b->stage && a->micro_batch == b->micro_batch && a->unit == b->unit && a->step == b->step;
}

/* Indices must be in range, and every action computed exactly once (actions_check()). Each rank's list separately, by a
 * table of what each kind of op does to which resource (accesses.c). A reduction or an addition for one micro-batch
 * concerns that one, any other all of its step. An op after a host op waits for it, and for everything that one waited
 * for, without naming it.
 *
 * The result of an UNSHARD with a micro-batch is for that micro-batch's readers in its step; of any other, for all
 * later readers of its stage. F, I and B (with their recompute) read embedding, layers and head as their work says, W
 * none:
 *
 *     F          waits for the first UNSHARD of its micro-batch and step that brings what it reads
 *     I, B       wait for the last one so far
 *     any        of these without one of its own waits for the last one of any micro-batch
 *     a layer    of a stage that is gathered for several micro-batches of a step must be gathered for each of them,
 *                and again for its I or B, unless these name the F's gather in their `after`
 *     UNSHARD    over dp, in Programs with FETCHes, names one of its own in its `after`
 *
 * If a rank gathers more than some 4096 layers, or more than 2^24 (step, micro-batch, layer) triples, its readers are
 * not checked. Time is linear in the ops of Programs made by the passes. IMPOSSIBLE naming the rank, the op and what it
 * does not wait for, is behind of, or lacks. */
gboolean accesses_check(const Program *program, GError **error);
