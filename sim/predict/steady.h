/* Steps that repeat themselves. Once a pipeline has filled, every further group of micro-batches costs the same: a step
 * of m of them takes as long as one of m′ < m and (m − m′) / q times the period of q more. Exactly, where the run of m′
 * is seen to have come back to a state that it was in: what happens from there on with q more is what happened before.
 *
 *     list     A A A │ B B B │ B B B │ C C              B: a group of q (repeats.h)
 *     time                 t₁──P──t₂                        every rank is at t₂ where it was at t₁, a group further on
 *
 * The state of a run at a moment: which op is at the head of each stream, since when heads that have started are ready,
 * how far transfers are. What ended before is over: an op that has yet to start waits for something later. What the
 * host issued before it was needed comes still earlier, relative to the rest, if it issues faster than the ranks
 * compute; so no op may have waited for its issue since t₁.
 *
 * So it is enough to compare t₁ with t₂, and not what had come before. But for what is still looked at behind t₁: how
 * far a transfer under way is follows from all that has moved since it began, and what a rank that computes nothing
 * waits for is charged from its last kernel on. As far back as that, on all ranks, all that ended before t₁ has its
 * like a period later. Of transfers that slow each other, ends in ticks (network/ticks.h) are compared: then rates
 * changed at the same moments, and those under way are as far.
 *
 *     time     ──s══t₁─────────s+P══t₂                      ══ the same, P later; and what is under way at t₁ and t₂
 *
 * All ranks come back after one period because each waits for the others in every group: 1f1b and interleaved hold no
 * more micro-batches than the way to the last stage and back takes. Where they hold more, each rank goes on at its own
 * pace until what is stored between a faster and a slower one is used up: gpipe's forwards never meet again, and zb-*
 * and dualpipe put off as many W, or run as many forwards ahead, as take tens of rounds of the pipeline to even out
 * stages that differ by a head. These are run in full (ScheduleInfo.repeats). */
#pragma once
#include "omitted.h"
#include "trace.h"

/* What the folded run that the trace is of, one in which transfers have no tax, leaves out of a run of `n_groups` more
 * groups in every step. NULL: it is not seen to have come back to a state. `early_ticks` as Simulation's. Owned
 * by the caller. */
Omitted *steady_omitted(const ProgramRepeats *repeats, gint64 n_groups, const Trace *trace, const gint16 *early_ticks);
