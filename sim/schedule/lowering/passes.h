/* Named lowering passes: from an order to a Program, one concern each, each dumpable.
 *
 *   place → unshard → send_recv → reduce_grad → optimizer → offload → memory → steps
 *
 * place        compute ops in the order's order
 * unshard      ZeRO-3: every F, I and B is cut into layers, each after an all-gather of its parameters on the dp
 *              stream (one for each matrix where the framework does so), at most `prefetch` layers ahead;
 *              ZeRO-1/2 with overlap_param: the first forward of each stage is cut into buckets, each after the
 *              all-gather of its bucket
 * send_recv    activations and gradients between stages on different ranks; a receive is placed on the peer when its
 *              send is scheduled
 * reduce_grad  the last backward of each stage (every backward for ZeRO ≥ 2) is cut into buckets, each followed by its
 *              all-reduce (ZeRO-0) or reduce-scatter (and all-reduce over replicas); without overlap_grad all of them
 *              wait for the last backward
 * optimizer    tied-embedding all-reduce, global gradient norm, the Adam step, ZeRO-1/2 all-gather where not
 *              overlapped, host sync
 * offload      gradients, weights and activations copied to and from the host, whose processors update then
 * memory       what each op holds and drops
 * steps        the list again, n_steps times
 */
#pragma once
#include "ops_beside.h"
#include "order.h"
#include "program.h"

/* What a micro-batch leaves behind on one rank, all its chunks, in any unit: F holds, I and W release. What I adds for
 * W makes i_drops negative. */
typedef struct {
  double f_holds, i_drops, w_drops;
} HeldShares;

typedef struct {
  const Order *order;
  const Workload *workload; /* NULL: a bare order (times only; no bytes, no optimizer) */
  int n_steps;
  const HeldShares *held; /* bare orders: activations; NULL: none */
  gboolean no_effects;    /* pass memory does nothing: what ops hold and drop is found otherwise */
  gboolean barrier;       /* bare orders: no rank begins a step before all have ended the one before */
  /* NULL: the result is proved. Else it is left to the caller to prove that it reaches its end, for which the matches
   * of its sends and receives go to *match, as from program_match() (program_share_matched()). */
  gint32 ***match;
} Lowering;

typedef struct {
  const char *name, *summary;
  void (*run)(Program *program, const Lowering *lowering);
} Pass;

/* The passes in order; ends with a NULL name. */
const Pass *passes(void);

/* All passes. `dump_after` (may be NULL) names a pass after which the program's text is stored in *dump (owned by the
 * caller). INPUT when the name is unknown (valid ones listed). The result has been verified (one
 * step of it; the others are its copies); IMPOSSIBLE when the order cannot run. */
Program *lower(const Lowering *lowering, const char *dump_after, char **dump, GError **error);

/* A copy of `program` in which every compute op is cut into runs of kernels and its tp collectives become ops of their
 * own on the tp stream (group "tp"): what executors run that do not fold, stepreal among them. Runs end where a
 * collective needs them, where they need a collective, and between first-time and recomputed work. Nothing else
 * changes. */
Program *program_expand(const Program *program, const Workload *workload);
/* Only the ops that are beside transfers, which tp's collectives inside may meet; without cp and ep. Those elsewhere
 * stay whole: a folded run takes as long. program_expand() makes the same of the result as of `program`. */
Program *program_expand_beside(const Program *program, const Workload *workload, const OpsBeside *beside);
/* Either (`beside` NULL: the former), with what the entries of its tables were made of (expand_entries.h) in *made,
 * owned by the caller; `made` NULL: nobody asks. */
Program *program_expand_noting(const Program *program, const Workload *workload, const OpsBeside *beside,
                               GArray **made);
/* The same of a program of the same ops, where those that `like` shares are what comes of it: with these, and tables of
 * its own, made of what its like's were. NULL: the entries come out under other numbers. */
Program *program_expand_like(const Program *program, const Workload *workload, const Program *like, const GArray *made);
/* Of an expanded program: ops of a forward and a backward that run as one (OVERLAP_F_B), or are to take turns
 * (Op.takes_turns) and are not of one micro-batch and stage, are taken in turns, so that each computes while the
 * other's tokens are on their way to experts and back (interleave.c); all such are then marked as overlapped. */
void program_interleave(Program *program);
