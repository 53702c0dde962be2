/* Private to the verifier: weights are present when computed with. */
#pragma once
#include "program.h"

/* Indices must be in range. Only Programs that gather weights (UNSHARD) are checked; each rank's list separately, in
 * time linear in its ops, and for each op in the layers that it gathers or computes with. F, I and B (with their
 * recompute) read embedding, layers and head as their work says; W reads none. The result of an UNSHARD with a
 * micro-batch is for that micro-batch's readers in its step; of any other, for all later readers of its stage:
 *
 *     F          waits for the first UNSHARD of its micro-batch and step that brings what it reads
 *     I, B       wait for the last one so far
 *     any        of these without one of its own waits for the last one of any micro-batch
 *     a layer    of a stage that is gathered for several micro-batches of a step must be gathered for each of them,
 *                and again for its I or B, unless these name the F's gather in their `after`
 *
 * Weights of experts and all others are gathered separately. If a rank has more than 4096 layers, or more than 2^24
 * (step, micro-batch, layer) triples, its layers are not checked. IMPOSSIBLE naming the rank, the op and what it does
 * not wait for. */
gboolean weights_order_check(const Program *program, GError **error);
