/* Kernels of layers with experts (kernel.h): the choice, rows on their way there and back, the shared one's gate. */
#pragma once
#include <glib.h>

/* Which k = per_token of E experts each of T tokens goes to, and with what weight. Experts are dealt out by place:
 * choice i of token t is expert (t·k + i + shift) mod E, so that each gets T·k/E rows (a whole number). Rows are
 * numbered by expert, in the order of tokens within one.
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

/* PERMUTE    to[place[t·k + i]] = from[t]       T rows → T·k, each of `width`; `place` names every row once
 * UNPERMUTE  to[t] = Σ_i from[place[t·k + i]]   and back, summed */
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

/* Where all tokens of S ranks are on each of them (T each, dealt out alike), which has `n_own` experts from `first` on.
 * What a token's choice makes of it is told to the others in a byte and a weight for each expert, `chosen` and `dense`;
 * row r of an expert is its r/(T·k/E)-th rank's, in the order of RouteKernel's rows.
 *   SPREAD   chosen[t·E + e], dense[t·E + e] from weights[row]; 0 where e is not chosen            of a rank's tokens
 *   PICK     rows[e][s][…] and row_weights of them, from tokens and dense of all; 0 where chosen says no. Without
 *            chosen: rows alone, of all that are dealt out
 *   PUT      tokens = sums of the own experts' rows, dense from row_weights, both 0 elsewhere; dense NULL: tokens alone
 *   COLLECT  weights[row] from dense                                                              of a rank's tokens */
typedef struct {
  guint8 number; /* of tokens, rows and dense */
  gint64 sources, tokens, n_experts, per_token, shift;
  gint64 first, n_own, width;
  gint64 chosen_bytes; /* of each rank's: T·E or more */
  guint8 *chosen;      /* [S][chosen_bytes]; SPREAD: of one */
  void *dense;         /* [S][T][E]; SPREAD, COLLECT: of one */
  float *weights;      /* [T·k] by row of a rank's own */
  void *all_tokens;    /* [S][T][width] */
  void *rows;          /* [n_own][S][T·k/E][width] */
  float *row_weights;  /* [n_own][S][T·k/E] */
} GatheredKernel;
