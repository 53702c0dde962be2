/* Named lowering passes: from an order to a Program, one concern each, each dumpable.
 *
 *   place → unshard → send_recv → reduce_grad → optimizer → offload → memory → steps
 *
 * place        compute ops in the order's order
 * unshard      ZeRO-3: every F, I and B is cut into layers, each after an all-gather of its parameters on the dp
 *              stream (one per matrix if the framework does so), at most `prefetch` layers ahead;
 *              ZeRO-1/2 with overlap_param: the first forward of each stage is cut into buckets, each after the
 *              all-gather of its bucket
 * send_recv    activations and gradients between stages on different ranks; a receive is placed on the peer when its
 *              send is scheduled
 * reduce_grad  the last backward of each stage (every backward for ZeRO ≥ 2) is cut into buckets, each followed by its
 *              all-reduce (ZeRO-0) or reduce-scatter (and all-reduce over replicas); without overlap_grad all of them
 *              wait for the last backward
 * optimizer    tied-embedding all-reduce, global gradient norm, the Adam step, ZeRO-1/2 all-gather where not
 *              overlapped, host sync
 * offload      gradients, weights and activations copied to and from the host, whose processors run the update
 * memory       what each op holds and drops
 * steps        the list repeated n_steps times
 */
#pragma once
#include "ops_beside.h"
#include "order.h"
#include "program.h"

/* Memory that a micro-batch holds on one rank (all its chunks), in any unit: F adds it, I and W release it. i_drops
 * is negative if I adds more for W than it releases. */
typedef struct {
  double f_holds, i_drops, w_drops;
} HeldShares;

typedef struct {
  const Order *order;
  const Workload *workload; /* NULL: a bare order (times only; no bytes, no optimizer) */
  int n_steps;
  const HeldShares *held; /* bare orders: activations; NULL: not modelled */
  gboolean barrier;       /* bare orders: no rank begins a step before all have ended the previous one */
} Lowering;

typedef struct {
  const char *name, *summary;
  void (*run)(Program *program, const Lowering *lowering);
} Pass;

/* All passes in order; the list ends with a NULL name. */
const Pass *passes(void);

/* Runs all passes. `dump_after` (may be NULL) names a pass after which the program's text is stored in *dump (owned
 * by the caller). INPUT if the name is unknown (lists the valid ones). Unless the order is generated, the result has
 * been verified (one step of it; the others are copies); IMPOSSIBLE if the order cannot run. */
Program *lower(const Lowering *lowering, const char *dump_after, char **dump, GError **error);

/* A copy of `program` in which every compute op is cut into runs of kernels, and its tp collectives are separate ops
 * on the tp stream (group "tp"): for executors that do not fold, such as stepreal. A run ends where a collective
 * needs it, where it needs a collective, and between first-time and recomputed work. Nothing else changes. */
Program *program_expand(const Program *program, const Workload *workload);
/* Expands only the ops in `beside`, whose tp collectives may compete with transfers, of a program without cp and ep.
 * Other ops stay whole: a folded run takes equally long. Applying program_expand() to the result gives the same as to
 * `program`. `beside` NULL: as program_expand(). */
Program *program_expand_beside(const Program *program, const Workload *workload, const OpsBeside *beside);
/* For an expanded program: interleaves a forward and a backward that run as one (OVERLAP_F_B) or are to take turns
 * (Op.takes_turns, unless both are of one micro-batch and stage), so that each computes while the other's tokens are
 * on their way to experts and back (interleave.c). Marks all of these ops as overlapped. */
void program_interleave(Program *program);
