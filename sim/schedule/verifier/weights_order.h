/* Private to the verifier: what computes with weights has them. */
#pragma once
#include "program.h"

/* Indices must be in range. Only Programs that gather weights (UNSHARD) are looked at; each rank's list by itself,
 * linear in its ops, and of each in the layers that it gathers or computes with. F, I and B (with what they make again)
 * read embedding, layers and head as their work says, W reads none. What an UNSHARD of a micro-batch brings is for the
 * readers of this one in its step, any other for all of its stage behind it:
 *
 *     F          waits for the first UNSHARD of its micro-batch and step that brings what it reads
 *     I, B       for the last in front
 *     any        that has none of its own, for the last of any in front
 *     a layer    of a stage that is gathered for several micro-batches of a step is gathered for each of them, and
 *                again for its I or B, unless this names that of the F in its `after`
 *
 * Weights of experts and all others are gathered apart. A rank with more than 4096 layers, or more than 2^24 of (step,
 * micro-batch, layer), has no layer looked at. IMPOSSIBLE naming the rank, the op and what it does not wait for. */
gboolean weights_order_check(const Program *program, GError **error);
