/* Steps that become periodic. Once a pipeline has filled, every further group of micro-batches costs the same: a step
 * of m micro-batches takes as long as one of m′ < m, plus (m − m′) / q times the period of a group of q. This is
 * exact if the run of m′ is seen to return to a state it was in before: from there on, a run with q more repeats what
 * happened before.
 *
 *     list     A A A │ B B B │ B B B │ C C              B: a group of q (repeats.h)
 *     time                 t₁──P──t₂                      every rank is at t₂ where it was at t₁, a group further on
 *
 * The state of a run at a moment is: the op at the head of each stream, since when heads that have started are ready,
 * and how far transfers have got. What ended earlier does not matter, as an op that has yet to start waits for
 * something later. What the host issued before it was needed comes even earlier, relative to the rest, if the host
 * issues faster than the ranks compute; so no op may have waited for its issue since t₁.
 *
 * It is therefore enough to compare t₁ with t₂, without what came before, with one exception: history that still
 * matters after t₁. The progress of a transfer under way depends on everything that has moved since it began, and an
 * idle rank's wait is charged from its last kernel on. Back to the earliest such moment, over all ranks, everything
 * that ended before t₁ must have a counterpart one period later. For transfers that slow each other, ends are
 * compared in ticks (network/ticks.h): equal ticks mean that rates changed at the same moments and that transfers
 * under way have got equally far.
 *
 *     time     ──s══t₁─────────s+P══t₂                      ══ the same, P later; and what is under way at t₁ and t₂
 *
 * All ranks return after one period because each waits for the others in every group: 1f1b and interleaved hold no
 * more micro-batches than fit in the round trip to the last stage. Where a schedule holds more, each rank runs at its
 * own pace until the stock between a faster and a slower rank is used up: gpipe's forwards never meet again, and zb-*
 * and dualpipe postpone so many W, or run so many forwards ahead, that it takes tens of rounds of the pipeline to
 * even out stages that differ by a head. These are run in full (schedule_repeats()). */
#pragma once
#include "omitted.h"
#include "trace.h"

/* What the traced run omits from a run with `n_groups` more groups in every step. The traced run is folded and its
 * transfers have no tax. NULL: it is not seen to return to a state. `early_ticks` as in Simulation. Owned by the
 * caller. */
Omitted *steady_omitted(const ProgramRepeats *repeats, gint64 n_groups, const Trace *trace, const gint16 *early_ticks);
