/* The kernels of a transformer step as plain data: what to compute, on which memory. Each device implements them in
 * its own way; the plain CPU implementation is the reference for the others.
 *
 * All matrices are row-major with a leading dimension in elements. `Number` is the storage format of elements: FP32,
 * BF16 or FP16, and FP8 for the operands of products; sums, statistics, losses and the optimizer's state are fp32 in
 * any case. T tokens are b sequences of s. "+=" adds the result to what is there. */
#pragma once
#include "dropout.h"
#include "expert_kernels.h"
#include "fp8.h"
#include "host_device.h"
#include "loss_scale.h"
#include "precision.h"
#include "score_rule.h"
#include "work_item.h"

/* All kernels, a row each: its name in enums, in functions and in messages; the member of Kernel with its operands;
 * where in Kernel the number formats of these are (0: none, it works on fp32 only). */
#define KERNEL_AT(member) offsetof(Kernel, member)
/* clang-format off */
#define KERNELS_BUT_PRODUCTS(ROW) \
  ROW(NARROW, narrow, "narrow", narrow, KERNEL_AT(narrow.number), 0) \
  ROW(NORM_FORWARD, norm_forward, "norm", norm, KERNEL_AT(norm.number), 0) \
  ROW(NORM_BACKWARD, norm_backward, "norm.backward", norm, KERNEL_AT(norm.number), KERNEL_AT(norm.gradient)) \
  ROW(NORM_SUMS, norm_sums, "norm.sums", norm, KERNEL_AT(norm.number), 0) \
  ROW(NORM_SUMS_BACKWARD, norm_sums_backward, "norm.sums.backward", norm, KERNEL_AT(norm.number), 0) \
  ROW(ROPE, rope, "rope", rope, KERNEL_AT(rope.number), 0) \
  ROW(LATENT_JOIN, latent_join, "latent.join", latent, KERNEL_AT(latent.number), 0) \
  ROW(LATENT_SPLIT, latent_split, "latent.split", latent, KERNEL_AT(latent.number), 0) \
  ROW(SOFTMAX_FORWARD, softmax_forward, "softmax", softmax, KERNEL_AT(softmax.number), 0) \
  ROW(SOFTMAX_BACKWARD, softmax_backward, "softmax.backward", softmax, KERNEL_AT(softmax.number), 0) \
  ROW(DROP_SCORES, drop_scores, "dropout.scores", drop_scores, KERNEL_AT(drop_scores.number), 0) \
  ROW(FLASH_FORWARD, flash_forward, "flash", flash, KERNEL_AT(flash.number), 0) \
  ROW(FLASH_BACKWARD, flash_backward, "flash.backward", flash, KERNEL_AT(flash.number), 0) \
  ROW(MERGE, merge, "merge", merge, KERNEL_AT(merge.number), 0) \
  ROW(ACTIVATION_FORWARD, activation_forward, "activation", activation, KERNEL_AT(activation.number), 0) \
  ROW(ACTIVATION_BACKWARD, activation_backward, "activation.backward", activation, KERNEL_AT(activation.number), 0) \
  ROW(ADD, add, "add", add, KERNEL_AT(add.number), 0) \
  ROW(DROP_ADD, drop_add, "dropout.add", drop_add, KERNEL_AT(drop_add.number), 0) \
  ROW(MOVE, move, "move", move, KERNEL_AT(move.number), 0) \
  ROW(BIAS_GRADIENT, bias_gradient, "bias_gradient", bias_gradient, KERNEL_AT(bias_gradient.number), KERNEL_AT(bias_gradient.gradient)) \
  ROW(EMBEDDING_FORWARD, embedding_forward, "embedding", embedding, KERNEL_AT(embedding.number), 0) \
  ROW(EMBEDDING_BACKWARD, embedding_backward, "embedding.backward", embedding, KERNEL_AT(embedding.number), KERNEL_AT(embedding.gradient)) \
  ROW(POSITIONS_FORWARD, positions_forward, "positions", positions, KERNEL_AT(positions.number), 0) \
  ROW(POSITIONS_BACKWARD, positions_backward, "positions.backward", positions, KERNEL_AT(positions.number), KERNEL_AT(positions.gradient)) \
  ROW(ROUTE_FORWARD, route_forward, "route", route, KERNEL_AT(route.number), 0) \
  ROW(ROUTE_BACKWARD, route_backward, "route.backward", route, KERNEL_AT(route.number), 0) \
  ROW(PERMUTE, permute, "permute", permute, KERNEL_AT(permute.number), 0) \
  ROW(UNPERMUTE, unpermute, "unpermute", permute, KERNEL_AT(permute.number), 0) \
  ROW(SWAP_BLOCKS, swap_blocks, "swap_blocks", swap_blocks, KERNEL_AT(swap_blocks.number), 0) \
  ROW(SPREAD, spread, "spread", gathered, KERNEL_AT(gathered.number), 0) \
  ROW(PICK, pick, "pick", gathered, KERNEL_AT(gathered.number), 0) \
  ROW(PUT, put, "put", gathered, KERNEL_AT(gathered.number), 0) \
  ROW(COLLECT, collect, "collect", gathered, KERNEL_AT(gathered.number), 0) \
  ROW(GATE_FORWARD, gate_forward, "gate", gate, KERNEL_AT(gate.number), 0) \
  ROW(GATE_BACKWARD, gate_backward, "gate.backward", gate, KERNEL_AT(gate.number), 0) \
  ROW(CAP_FORWARD, cap_forward, "cap", cap, KERNEL_AT(cap.number), 0) \
  ROW(CAP_BACKWARD, cap_backward, "cap.backward", cap, KERNEL_AT(cap.number), 0) \
  ROW(LOSS_MAX, loss_max, "loss.max", loss, KERNEL_AT(loss.number), 0) \
  ROW(LOSS_EXP, loss_exp, "loss.exp", loss, KERNEL_AT(loss.number), 0) \
  ROW(LOSS_SOFTMAX, loss_softmax, "loss.softmax", loss, KERNEL_AT(loss.number), 0) \
  ROW(LOSS_BACKWARD, loss_backward, "loss.backward", loss, KERNEL_AT(loss.number), 0) \
  ROW(SUM_SQUARES, sum_squares, "sum_squares", sum_squares, KERNEL_AT(sum_squares.gradient), 0) \
  ROW(ADAM, adam, "adam", adam, KERNEL_AT(adam.number), KERNEL_AT(adam.gradient)) \
  ROW(OUTER, outer, "outer", outer, KERNEL_AT(outer.number), 0) \
  ROW(LOSS_SCALE, loss_scale, "loss_scale", loss_scale, 0, 0) \
  ROW(CONVERT, convert, "convert", convert, KERNEL_AT(convert.from_number), KERNEL_AT(convert.to_number)) \
  ROW(FILL, fill, "fill", fill, 0, 0) \
  ROW(INIT, init, "init", init, KERNEL_AT(init.number), 0)
#define KERNELS(ROW) \
  ROW(MATMUL, matmul, "matmul", matmul, KERNEL_AT(matmul.number), KERNEL_AT(matmul.result)) \
  KERNELS_BUT_PRODUCTS(ROW)
/* clang-format on */

typedef enum {
#define ROW(KIND, ...) KERNEL_##KIND,
  KERNELS(ROW)
#undef ROW
      N_KERNELS
} KernelKind;

/* C (m×n) = A·B, or C += A·B, `batch` times with strides between matrices.
 *   LAYOUT_TN  A (m×k), B stored as (n×k):  C = A·Bᵀ     forward: X·Wᵀ with W (out×in)
 *   LAYOUT_NN  A (m×k), B (k×n):            C = A·B      input gradient: dY·W
 *   LAYOUT_NT  A stored as (k×m), B (k×n):  C = Aᵀ·B     weight gradient: dYᵀ·X
 *
 * FP8: only LAYOUT_TN, as GPUs of compute capability 8.9 and 9.0 multiply no other; m, n, k and leading dimensions
 * multiples of FP8_MULTIPLE; operands at 16 bytes. Only one of A and B is E5M2, only one has scales of BLOCKS, and
 * with ROWS or BLOCKS both are dense. */
typedef struct {
  guint8 format;       /* Fp8Format */
  guint8 scaling;      /* Fp8Scaling */
  const float *scales; /* inverse, [fp8_n_scales()] for each matrix of the batch; at 16 bytes unless TENSOR */
} Fp8Operand;

typedef struct {
  guint8 layout;     /* MatmulLayout */
  guint8 number;     /* of A and B */
  guint8 result;     /* Number of C */
  guint8 accumulate; /* C += */
  guint8 is_fast;    /* FP8: a GPU may sum in less than fp32 (cuBLASLt's fast accumulation) */
  gint64 batch, m, n, k;
  gint64 lda, ldb, ldc;
  gint64 stride_a, stride_b, stride_c; /* elements; unused for batch 1 */
  const void *a, *b;
  void *c;
  const void *bias; /* [n] of matmul_bias_number(), added to every row of C; NULL: none. Not with accumulate */
  float alpha;      /* C = alpha·A·B */
  Fp8Operand fp8_a, fp8_b;
} MatmulKernel;

/* Copies of `batch` matrices x, rows × columns, for products in fp8: as_is, rows × columns, and turned, columns × rows,
 * each dense and with scales of its own, since products sum over the columns. `to` FP32 (x too): plain copies. Rows and
 * columns are multiples of FP8_MULTIPLE; x, its rows, and the copies lie at 16 bytes. */
typedef struct {
  guint8 number;  /* of x: BF16, or FP32 */
  guint8 to;      /* Number of the copies: FP8, or FP32 */
  guint8 format;  /* Fp8Format */
  guint8 scaling; /* Fp8Scaling */
  gint64 batch, rows, columns;
  gint64 ld, stride; /* of x; elements */
  const void *x;
  void *as_is, *turned;          /* NULL: not made */
  float *scales, *turned_scales; /* inverse, as in Fp8Operand; of copies that are not made NULL */
} NarrowKernel;

/* y = (x − mean)·rstd·w + shift (LayerNorm), y = x·rstd·w (RMSNorm); rows × width. y may be x, dx may be dy.
 *
 * Rows may lie side by side, as heads do: then row r of y, dy, dx and of forward's x is at r/per_line·ld + r mod
 * per_line·width. `kept` is always dense. */
typedef struct {
  guint8 number, is_rms;
  gint64 rows, width;
  float epsilon;
  const void *x, *weight, *shift; /* weight NULL: ones, but NORM_SUMS_BACKWARD needs it; shift NULL: none */
  void *y;
  gint64 per_line, ld; /* per_line 0: rows are dense */
  /* For rows that are parts of rows of whole_width columns (cut by tp): NORM_SUMS computes the sums of a part; the
   * norms read them once the parts' sums are added up. 0: rows are whole and sums are not used.
   *   forward   sums[0] = Σ x², sums[1] = Σ x       backward  sums[0] = Σ g·x̂, sums[1] = Σ g,  g = dy·w
   * RMSNorm has only sums[0]. NORM_SUMS reads x; its backward reads dy, weight, x or kept, mean and rstd. */
  gint64 whole_width;
  float *sums[2];     /* [rows] each */
  void *kept;         /* forward copies x here and backward reads it instead of x; NULL: x itself is kept */
  float *mean, *rstd; /* [rows] kept for backward; mean unused (may be NULL) for RMSNorm */
  /* backward: dx = …; weight gradients += in format `gradient` */
  const void *dy;
  void *dx;
  guint8 gradient;        /* Number of dweight, dshift */
  void *dweight, *dshift; /* dshift NULL: none; both NULL: the norm has no weights */
} NormKernel;

/* The rows of a sequence on this rank are two pieces of a longer sequence (context parallelism): `early` is added to
 * the positions of the first half, `late` to those of the second. Both 0: the whole sequence is here. */
typedef struct {
  gint64 early, late;
} SequencePieces;

/* Rotates pairs (j, j + d/2) of the first `n_heads` heads of each row of x in place by ±position·base^(−2j/d);
 * position = row % seq_len plus the offset of its half. Heads are head_stride apart: d, or more where only d elements
 * of a head are rotated. */
typedef struct {
  guint8 number;
  guint8 inverse; /* backward */
  gint64 rows, seq_len, n_heads, head_dim, head_stride, ld;
  double base;
  SequencePieces pieces;
  void *x;
} RopeKernel;

/* K and V of latent attention (arXiv 2405.04434 §2.1). `made` holds p elements of K and v of V per head; `shared`
 * holds o columns common to all heads, which are rotated as in RopeKernel:
 *   JOIN   k[t][head] = (made[t][head][: p], rotated shared[t]),  v[t][head] = made[t][head][p :]
 *   SPLIT  the inverse, for gradients: shared[t] = Σ over heads, rotated by −position
 * made: rows × n_heads·(p + v), dense; rows of shared are ld_shared elements apart, rows of k and of v ld_kv. */
typedef struct {
  guint8 number;
  gint64 rows, seq_len, n_heads, plain_dim, rotated_dim, v_dim, ld_shared, ld_kv;
  double base;
  SequencePieces pieces;
  void *made, *shared, *k, *v; /* JOIN reads the first two, SPLIT the others */
} LatentKernel;

/* Rows of attention scores: p = softmax(scale·s) with keys after the query masked; backward ds = scale·p·(dp − Σ
 * dp·p), in place of dp. matrices × (seq_len × seq_len), dense; each sequence has `n_heads` of these matrices. */
typedef struct {
  guint8 number;
  gint64 matrices, seq_len;
  float scale;
  gint64 n_heads; /* used only with ALiBi */
  ScoreRule rule;
  void *scores;  /* forward: s → p in place; backward: p (read) */
  void *dscores; /* backward: dp → ds in place */
} SoftmaxKernel;

/* Dropout on attention probabilities of whole sequences, or on their gradients: to = drop(from), matrices × (seq_len
 * × seq_len). to may be from. */
typedef struct {
  guint8 number;
  gint64 matrices, seq_len, n_heads; /* per sequence */
  ScoreDropout drop;
  const void *from;
  void *to;
} DropScoresKernel;

/* Attention to a block of the keys. The pointers are to the first row of the block in the first sequence. Causal:
 * query i sees keys 0 … i + keys − queries; keys ≥ queries. */
typedef struct {
  guint8 is_cut;        /* FALSE: all seq_len queries and keys, causal, all with ld_qkv; other fields are ignored */
  guint8 is_full;       /* no mask */
  guint8 adds;          /* backward: dk and dv += */
  gint64 queries, keys; /* in each sequence */
  gint64 key_rows;      /* rows from one sequence's keys to the next one's; for queries, o and lse: seq_len */
  gint64 ld_kv;         /* of k, v; of q: ld_qkv */
  gint64 ld_dq, ld_dkv; /* of dq; of dk, dv */
  RowPositions query_at, key_at; /* for ALiBi */
} FlashBlock;

/* Causal fused attention, to all keys or to a block of them, over rows of q, k, v (T × ld; heads side by side, of
 * head_dim elements, in v and o of v_head_dim). Query head h reads key head h / (n_heads / n_kv_heads). lse
 * [b][n_heads][s]: log-sum-exp of scaled scores. Backward overwrites dq, dk, dv. */
typedef struct {
  guint8 number;
  gint64 sequences, seq_len, n_heads, n_kv_heads, head_dim, v_head_dim;
  float scale;
  ScoreRule rule; /* a window on a cut block: keys must be consecutive up to the last query's position; not without a
                     mask, and backward must add */
  ScoreDropout drop;
  gint64 ld_qkv;        /* of q, k, v */
  gint64 ld_dq, ld_dkv; /* of dq; of dk, dv */
  gint64 ld_o;          /* of o and d_o */
  const void *q, *k, *v;
  void *o;
  float *lse;
  const void *d_o; /* backward: reads o, lse too */
  void *dq, *dk, *dv;
  FlashBlock block;
} FlashKernel;

/* Combines the outputs of the same `queries` of each sequence for two sets of keys (arXiv 2205.14135 §3.1):
 *   lse' = log(e^lse + e^other_lse),  o = o·e^(lse − lse') + other·e^(other_lse − lse'),  in place of o and lse.
 * o, other: rows of n_heads·head_dim; lse [sequences][n_heads][seq_len]; sequences are seq_len rows apart. */
typedef struct {
  guint8 number; /* of o and other */
  gint64 sequences, seq_len, queries, n_heads, head_dim;
  void *o;
  float *lse;
  const void *other;
  const float *other_lse;
} MergeKernel;

/* gelu (tanh form): y = gelu(x), rows × width. gated: x is rows × 2·width, y = silu(x[:, :width])·x[:, width:]. With
 * `scale` each row is multiplied by its own factor, and backward gives dscale[row] = Σ_j dy·(y without scale). */
typedef struct {
  guint8 number, gated;
  gint64 rows, width; /* of y */
  const void *x;
  void *y;
  const void *dy;
  void *dx;           /* backward: shape of x */
  const float *scale; /* [rows]; NULL: none */
  float *dscale;      /* backward with scale: [rows] */
} ActivationKernel;

/* out = a + b (+ bias per column); rows × width, dense; out may be a or b. */
typedef struct {
  guint8 number;
  gint64 rows, width;
  const void *a, *b, *bias; /* bias NULL: none */
  void *out;
} AddKernel;

/* Which tokens the rows hold: row r is token first_row + r of the sequences here, which have seq_len tokens on this
 * rank (at the positions `pieces` gives) and `length` in all. first_sequence: the step's index of the first one. */
typedef struct {
  gint64 first_row, seq_len, first_sequence, length;
  SequencePieces pieces;
} TokenPlaces;

/* out = a + drop(b + bias), where element (r, c) has random-number position token_place(r)·width + c. a NULL: zeros;
 * bias NULL: none. out may be a or b. */
typedef struct {
  guint8 number;
  gint64 rows, width;
  Dropout dropout;
  TokenPlaces places;
  const void *a, *b, *bias;
  void *out;
} DropAddKernel;

/* Moves blocks of rows: out = a + b, `batch` times with strides between blocks. b NULL: only a; a NULL too: zeros.
 * out may be a or b, otherwise it must not overlap them. */
typedef struct {
  guint8 number;
  gint64 batch, rows, width;
  gint64 ld_a, ld_b, ld_out;             /* elements */
  gint64 stride_a, stride_b, stride_out; /* elements; may be negative */
  const void *a, *b;
  void *out;
} MoveKernel;

/* gradient[j] += Σ_rows dy[row][j]. */
typedef struct {
  guint8 number, gradient; /* Numbers of dy and of the gradient */
  gint64 rows, width;
  const void *dy;
  void *out;
} BiasGradientKernel;

/* The rows of the word table held here: words [first_word, first_word + n_words); other words give zeros.
 *   forward: out[t] = factor·table[token[t]]. backward: gradient of the table += factor·rows of dout. */
typedef struct {
  guint8 number, gradient;
  gint64 tokens, width, first_word, n_words;
  const gint32 *token;
  float factor;
  const void *table, *dout;
  void *out, *dtable;
} EmbeddingKernel;

/* forward: y = cap·tanh(x/cap); backward: dx = dy·(1 − (y/cap)²). rows × width, dense; dx may be dy. */
typedef struct {
  guint8 number;
  gint64 rows, width;
  float cap;
  const void *x;
  void *y; /* backward reads it */
  const void *dy;
  void *dx;
} CapKernel;

/* forward: x[t] += table[position], position = (first_row + t) % seq_len plus the offset of its half; backward:
 * gradient of the table += rows of dx. `first_row`: index of row 0 among the micro-batch's tokens (> 0 for shards
 * under sequence parallelism). */
typedef struct {
  guint8 number, gradient;
  gint64 rows, width, first_row, seq_len;
  SequencePieces pieces;
  const void *table;
  void *x;
  const void *dx;
  void *dtable;
} PositionsKernel;

/* Cross-entropy over a vocabulary cut by tp: columns [first_word, first_word + width) are here; those ≥ n_words of
 * the whole vocabulary are padding and count as −∞.
 *   MAX      row_max[t] = max_j logits[t][j]
 *   EXP      probabilities[t][j] = exp(logits − row_max) in fp32; row_sum[t] = Σ_j of them; row_target[t] = the
 * target's
 *            logit − row_max, 0 when the target is not here
 *   SOFTMAX  probabilities /= row_sum;  *loss += loss_scale·Σ_t (log row_sum − row_target)
 *   BACKWARD dlogits[t][j] = gradient_scale·scale·(probabilities − [j is the target])
 * A token with a negative target is padding: it adds nothing to the loss, and its gradient is 0. */
typedef struct {
  guint8 number; /* of logits and dlogits */
  gint64 tokens, width, first_word, n_words;
  const gint32 *target;
  const void *logits;
  float *row_max, *row_sum, *row_target;
  float *probabilities;
  double *loss;
  double loss_scale;
  float gradient_scale;
  const LossScale *scale; /* NULL: 1 */
  void *dlogits;
} LossKernel;

/* *sum += Σ g². */
typedef struct {
  guint8 gradient;
  gint64 n;
  const void *x;
  double *sum;
} SumSquaresKernel;

/* AdamW on n elements (arXiv 1711.05101). Gradients are first scaled by min(1, max_norm / √*norm_squared) (NULL:
 * not). `scale` (NULL: 1) is the factor that gradients, and hence the norm, carry; with it, c1 and c2 are 1 minus its
 * powers.
 *   m = β1·m + (1−β1)·g;  v = β2·v + (1−β2)·g²;  p −= lr·(m/c1 / (√(v/c2) + ε) + decay·p),  c1 = 1 − β1^t …
 * The fp32 `master` is updated and rounded to `weight`; without one (NULL) the weight itself is updated. The gradient
 * is zeroed afterwards. If *norm_squared is not finite, nothing is done, except that the gradient is still zeroed if
 * `scale` has the step skipped. */
typedef struct {
  guint8 number, gradient; /* Numbers of weight and gradient */
  gint64 n;
  void *weight;
  float *master; /* NULL: none */
  void *gradients;
  float *m, *v;
  const double *norm_squared; /* not NULL with a scale */
  const LossScale *scale;
  float max_norm, lr, beta1, beta2, epsilon, decay, correction1, correction2;
} AdamKernel;

/* An outer step of islands (outer_step.h) on n elements, p the fp32 `master`, or without one (NULL) the weight itself.
 * Before the differences are summed over islands (`is_before`), and after:
 *   sum = anchor − p
 *   d = share·sum;  m = factor·m + d;  anchor −= lr·(d + factor·m);  p = anchor, rounded to `weight` */
typedef struct {
  guint8 number; /* of the weight */
  guint8 is_before;
  gint64 n;
  void *weight;
  float *master, *anchor, *m, *sum;
  float share, lr, factor;
} OuterKernel;

/* *to = the state of the step after that of *from (loss_scale_next()). */
typedef struct {
  const LossScale *from;
  const double *norm_squared;
  double beta1, beta2;
  LossScale *to;
} LossScaleKernel;

/* to[i] = from[i], or to[i] += from[i]; formats may differ. */
typedef struct {
  guint8 from_number, to_number, accumulate;
  gint64 n;
  const void *from;
  void *to;
} ConvertKernel;

/* Sets `bytes` bytes to zero. */
typedef struct {
  gint64 bytes;
  void *to;
} FillKernel;

/* A shard of a seeded matrix: element (r, c) of the whole matrix, r = first_row + i, c = first_column + j, is
 *   mean + deviation·√12·(u − ½),  u = uniform [0, 1) from kernel_random(seed, r·whole_width + c)
 * so that every sharding of the matrix holds the same numbers. Rows ≥ whole_rows are zero (padding). */
typedef struct {
  guint8 number;
  gint64 rows, columns, ld;
  gint64 first_row, first_column, whole_rows, whole_width;
  guint64 seed;
  float mean, deviation;
  void *to;
} InitKernel;

typedef struct {
  guint8 kind; /* KernelKind */
  union {
    MatmulKernel matmul;
    NarrowKernel narrow;
    NormKernel norm; /* both directions */
    RopeKernel rope;
    LatentKernel latent; /* both directions */
    SoftmaxKernel softmax;
    FlashKernel flash;
    MergeKernel merge;
    ActivationKernel activation;
    AddKernel add;
    DropAddKernel drop_add;
    DropScoresKernel drop_scores;
    MoveKernel move;
    BiasGradientKernel bias_gradient;
    EmbeddingKernel embedding;
    PositionsKernel positions;
    RouteKernel route;
    PermuteKernel permute; /* both directions */
    SwapBlocksKernel swap_blocks;
    GatheredKernel gathered; /* spread, pick, put, collect */
    GateKernel gate;
    CapKernel cap; /* both directions */
    LossKernel loss;
    SumSquaresKernel sum_squares;
    AdamKernel adam;
    OuterKernel outer;
    LossScaleKernel loss_scale;
    ConvertKernel convert;
    FillKernel fill;
    InitKernel init;
  };
} Kernel;

/* A bias of products in fp8 is in the format of other tensors. */
static inline Number matmul_bias_number(const MatmulKernel *matmul) {
  return matmul->number == NUMBER_FP8 ? NUMBER_BF16 : (Number)matmul->number;
}

/* The block that a kernel works on; all queries and keys if it is not cut. */
static inline FlashBlock flash_block(const FlashKernel *kernel) {
  FlashBlock block = kernel->block;
  if (block.is_cut)
    return block;
  block.is_cut = TRUE;
  block.is_full = block.adds = FALSE;
  block.queries = block.keys = block.key_rows = kernel->seq_len;
  block.ld_kv = kernel->ld_qkv;
  block.ld_dq = kernel->ld_dq;
  block.ld_dkv = kernel->ld_dkv;
  return block;
}

/* Offset of a row, in elements; rows may lie side by side. */
HOST_DEVICE gint64 norm_row_at(const NormKernel *norm, gint64 row) {
  return norm->per_line == 0 ? row * norm->width : row / norm->per_line * norm->ld + row % norm->per_line * norm->width;
}

/* Columns of this shard of the logits that are words, not padding. */
HOST_DEVICE gint64 loss_words(const LossKernel *loss) {
  return CLAMP(loss->n_words - loss->first_word, 0, loss->width);
}

/* Factor of the gradients: the inverse of the loss scale, times the clipping factor. */
HOST_DEVICE float adam_gradient_factor(const AdamKernel *adam) {
  const double inverse = adam->scale != NULL ? 1 / adam->scale->scale : 1;
  const double norm = adam->norm_squared != NULL ? inverse * sqrt(*adam->norm_squared) : 0;
  return (float)(norm > (double)adam->max_norm ? inverse * ((double)adam->max_norm / norm) : inverse);
}

/* Position in the whole sequence of a row of the `seq_len` on this rank. */
HOST_DEVICE gint64 sequence_position(SequencePieces pieces, gint64 row, gint64 seq_len) {
  return row + (row < seq_len / 2 ? pieces.early : pieces.late);
}

/* Index of a row's token among all tokens of the step. */
HOST_DEVICE guint64 token_place(const TokenPlaces *places, gint64 row) {
  const gint64 token = places->first_row + row, sequence = places->first_sequence + token / places->seq_len;
  return (guint64)(sequence * places->length +
                   sequence_position(places->pieces, token % places->seq_len, places->seq_len));
}

const char *kernel_name(KernelKind kind);
/* Bytes of one stored element: 4, 2 or 1. */
int kernel_element_bytes(Number number);
