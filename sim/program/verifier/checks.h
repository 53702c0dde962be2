/* Private to the verifier: its steps (verify.c), in their order. */
#pragma once
#include "program.h"

/* Whether both are of one stage, micro-batch and unit in one step. */
static inline gboolean op_same_place(const Op *a, const Op *b) {
  return a->stage == b->stage && a->micro_batch == b->micro_batch && a->unit == b->unit && a->step == b->step;
}

/* --- actions.c: every action is computed exactly once, and after what it needs --- */

/* Indices must be in range. In every stage and step, every micro-batch has one F, and one B or one I and one W. Parts
 * of an action are adjacent on the compute stream. F, I and B come after their input (the receive, or the
 * neighbouring stage on this rank), W after its I, sends after what they send. What
 * belongs to a stage is on the rank that computes it. IMPOSSIBLE naming the first op that
 * violates this, or what is missing. */
gboolean actions_check(const Program *program, GError **error);

/* --- host_copies.c: with the optimizer on the host, every gradient goes there and all updated weights come back --- */

/* Indices must be in range. Only Programs that update on the host, or copy gradients there or weights back, are
 * checked. Of each reduction, and if a stage is not reduced, of the last op that adds to its gradient in a step, a
 * later GRAD_OUT must have it first in its `after`. In every step there are as many parts of the update as in the first
 * one, at least one, and each is copied to where its weights belong, unless they are fetched from the memory in which
 * they are updated. A Program does not say whether the parts cover all that the rank owns: program_sizes.h. That all of
 * these happen in the right order: accesses_check(). IMPOSSIBLE naming the rank, and the op or the step. */
gboolean host_copies_check(const Program *program, GError **error);

/* --- accesses.c: weights, gradients and activations are complete when used --- */

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

/* --- ways_check.c: outer steps of islands, and parameter servers --- */

/* Indices must be in range. Sums over islands wait for what is learned, outer steps for sums, gathers for these; servers'
 * updates wait for pushes, pulls for updates; forwards for what brings their weights. IMPOSSIBLE naming the rank, the op
 * and what it does not wait for. */
gboolean ways_check(const Program *program, GError **error);

/* --- untimed_run.c: the Program without time, under its semantics, with every send a rendezvous --- */

/* Collectives of one group that spans pipeline ranks: for every member, by rank, its ops in list order. All members
 * have the same number of them, so the k-th collective of member m is ops[m · n_each + k]. */
typedef struct {
  gint32 rank, op;
} OpPlace;
typedef struct {
  GArray *ops;   /* of OpPlace; owned */
  int n_members; /* pipeline ranks in the group */
  int n_each;
} Rendezvous;

/* `partner[rank][op]`: for a send or receive, its match on the peer; for a collective over pipeline ranks, its k.
 * `rendezvous`: one per group of the program; empty for groups within a pipeline rank. IMPOSSIBLE, naming what every
 * stream waits for, if the run does not reach the end. */
gboolean untimed_run(const Program *program, gint32 *const *partner, const Rendezvous *rendezvous, GError **error);
