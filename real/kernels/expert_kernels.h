/* Kernels of MoE layers (kernel.h): routing, permuting rows to experts and back, the shared expert's gate. */
#pragma once
#include "host_device.h"

#include <glib.h>

/* Which k = per_token of E experts each of T tokens goes to, and with what weight. Routing is balanced by
 * construction: choice i of token t is expert (t·k + i + shift) mod E, so that each expert gets T·k/E rows (a whole
 * number). Rows are ordered by expert, and by token within an expert.
 *   row       expert·T·k/E + (t·k + i)/E
 *   forward   place[t·k + i] = row; weights[row] = factor·softmax of the token's k scores
 *   backward  dscores (T × E) from dweights[row], place and weights; 0 where an expert is not chosen */
typedef struct {
  guint8 number; /* of scores and dscores */
  gint64 tokens, n_experts, per_token, shift;
  float factor;       /* > 0 */
  const void *scores; /* T × E */
  gint32 *place;      /* [T·k] */
  float *weights;     /* [T·k] */
  const float *dweights;
  void *dscores;
} RouteKernel;

/* PERMUTE    to[place[t·k + i]] = from[t]       T rows → T·k, each of `width`; `place` is a permutation
 * UNPERMUTE  to[t] = Σ_i from[place[t·k + i]]   the inverse, summed over choices */
typedef struct {
  guint8 number;
  gint64 tokens, per_token, width;
  const gint32 *place;
  const void *from;
  void *to;
} PermuteKernel;

/* to[i][o] = from[o][i]: outer × inner blocks of `block` elements become inner × outer. */
typedef struct {
  guint8 number;
  gint64 outer, inner, block;
  const void *from;
  void *to;
} SwapBlocksKernel;

/* forward: gate = 1/(1 + e^(−logit)); backward: dlogit = dgate·gate·(1 − gate). n of each. */
typedef struct {
  guint8 number; /* of logit and dlogit */
  gint64 n;
  const void *logit;
  float *gate;
  const float *dgate;
  void *dlogit;
} GateKernel;

/* For experts that receive all tokens by all-gather: every rank has the tokens of S ranks (T each, routed alike) and
 * `n_own` experts from `first` on. Each rank tells the others the routing of its tokens as a byte (`chosen`) and a
 * weight (`dense`) per token and expert. Row r of an expert belongs to rank r/(T·k/E); rows are in the order of
 * RouteKernel.
 *   SPREAD   chosen[t·E + e], dense[t·E + e] from weights[row]; 0 where e is not chosen         one rank's tokens
 *   PICK     rows[e][s][…] and their row_weights, from all ranks' tokens and dense; 0 where chosen is 0. Without
 *            chosen: only the rows, for all choices
 *   PUT      tokens = sums of own experts' rows, dense from row_weights, both 0 elsewhere; dense NULL: tokens only
 *   COLLECT  weights[row] from dense                                                            one rank's tokens */
typedef struct {
  guint8 number; /* of tokens, rows and dense */
  gint64 sources, tokens, n_experts, per_token, shift;
  gint64 first, n_own, width;
  gint64 chosen_bytes; /* per rank: T·E or more */
  guint8 *chosen;      /* [S][chosen_bytes]; SPREAD: one rank's */
  void *dense;         /* [S][T][E]; SPREAD, COLLECT: one rank's */
  float *weights;      /* [T·k] by row, one rank's own */
  void *all_tokens;    /* [S][T][width] */
  void *rows;          /* [n_own][S][T·k/E][width] */
  float *row_weights;  /* [n_own][S][T·k/E] */
} GatheredKernel;

/* Rows of an expert that are one rank's. */
HOST_DEVICE gint64 gathered_rows_each(const GatheredKernel *task) {
  return task->tokens * task->per_token / task->n_experts;
}

HOST_DEVICE gint64 gathered_expert(const GatheredKernel *task, gint64 choice) {
  return (choice + task->shift) % task->n_experts;
}

/* The choice that became row `nth` of an expert. */
HOST_DEVICE gint64 gathered_choice(const GatheredKernel *task, gint64 expert, gint64 nth) {
  return nth * task->n_experts + (expert + task->n_experts - task->shift % task->n_experts) % task->n_experts;
}

/* Which of the token's choices the expert is; ≥ per_token: none. */
HOST_DEVICE gint64 gathered_nth_choice(const GatheredKernel *task, gint64 token, gint64 expert) {
  const gint64 n = task->n_experts;
  return (expert + n - gathered_expert(task, token * task->per_token)) % n;
}

/* Row of the token's choice i; −1: its expert is on another rank. */
HOST_DEVICE gint64 gathered_own_row(const GatheredKernel *task, gint64 source, gint64 token, gint64 i) {
  const gint64 choice = token * task->per_token + i, own = gathered_expert(task, choice) - task->first;
  return own < 0 || own >= task->n_own
             ? -1
             : (own * task->sources + source) * gathered_rows_each(task) + choice / task->n_experts;
}
