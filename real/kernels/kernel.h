/* The kernels a transformer step is made of, as plain data: what to do, on which memory. Each device runs them its own
 * way; the plain CPU one is what the others are checked against.
 *
 * All matrices are row-major with a leading dimension in elements. `Number` says how elements are stored: FP32, BF16 or
 * FP16; sums, statistics, losses and the optimizer's state are fp32 whatever the elements are. T tokens are b sequences
 * of s. "+=" means the result is added to what is there. */
#pragma once
#include "dropout.h"
#include "expert_kernels.h"
#include "loss_scale.h"
#include "precision.h"
#include "score_rule.h"
#include "work_item.h"

typedef enum {
  KERNEL_MATMUL,
  KERNEL_NORM_FORWARD,
  KERNEL_NORM_BACKWARD,
  KERNEL_NORM_SUMS,
  KERNEL_NORM_SUMS_BACKWARD,
  KERNEL_ROPE,
  KERNEL_LATENT_JOIN,
  KERNEL_LATENT_SPLIT,
  KERNEL_SOFTMAX_FORWARD,
  KERNEL_SOFTMAX_BACKWARD,
  KERNEL_DROP_SCORES,
  KERNEL_FLASH_FORWARD,
  KERNEL_FLASH_BACKWARD,
  KERNEL_MERGE,
  KERNEL_ACTIVATION_FORWARD,
  KERNEL_ACTIVATION_BACKWARD,
  KERNEL_ADD,
  KERNEL_DROP_ADD,
  KERNEL_MOVE,
  KERNEL_BIAS_GRADIENT,
  KERNEL_EMBEDDING_FORWARD,
  KERNEL_EMBEDDING_BACKWARD,
  KERNEL_POSITIONS_FORWARD,
  KERNEL_POSITIONS_BACKWARD,
  KERNEL_ROUTE_FORWARD,
  KERNEL_ROUTE_BACKWARD,
  KERNEL_PERMUTE,
  KERNEL_UNPERMUTE,
  KERNEL_SWAP_BLOCKS,
  KERNEL_SPREAD,
  KERNEL_PICK,
  KERNEL_PUT,
  KERNEL_COLLECT,
  KERNEL_GATE_FORWARD,
  KERNEL_GATE_BACKWARD,
  KERNEL_CAP_FORWARD,
  KERNEL_CAP_BACKWARD,
  KERNEL_LOSS_MAX,
  KERNEL_LOSS_EXP,
  KERNEL_LOSS_SOFTMAX,
  KERNEL_LOSS_BACKWARD,
  KERNEL_SUM_SQUARES,
  KERNEL_ADAM,
  KERNEL_LOSS_SCALE,
  KERNEL_CONVERT,
  KERNEL_FILL,
  KERNEL_INIT,
  N_KERNELS
} KernelKind;

/* C (m×n) = A·B, or C += A·B, `batch` times with strides between matrices.
 *   LAYOUT_TN  A (m×k), B stored as (n×k):  C = A·Bᵀ     forward: X·Wᵀ with W (out×in)
 *   LAYOUT_NN  A (m×k), B (k×n):            C = A·B      input gradient: dY·W
 *   LAYOUT_NT  A stored as (k×m), B (k×n):  C = Aᵀ·B     weight gradient: dYᵀ·X */
typedef struct {
  guint8 layout;     /* MatmulLayout */
  guint8 number;     /* of A and B */
  guint8 result;     /* Number of C */
  guint8 accumulate; /* C += */
  gint64 batch, m, n, k;
  gint64 lda, ldb, ldc;
  gint64 stride_a, stride_b, stride_c; /* elements; unused for batch 1 */
  const void *a, *b;
  void *c;
  const void *bias; /* [n] of `number`, added to every row of C; NULL: none. Not with accumulate */
  float alpha;      /* C = alpha·A·B */
} MatmulKernel;

/* y = (x − mean)·rstd·w + shift (LayerNorm), y = x·rstd·w (RMSNorm); rows × width. y may be x, dx may be dy.
 *
 * Rows may lie side by side, as heads do: row r of y, dy, dx and of forward's x is then at r/per_line·ld +
 * r mod per_line·width. `kept` is dense in any case. */
typedef struct {
  guint8 number, is_rms;
  gint64 rows, width;
  float epsilon;
  const void *x, *weight, *shift; /* weight NULL: 1, but of NORM_SUMS; shift NULL: none */
  void *y;
  gint64 per_line, ld; /* per_line 0: rows are dense */
  /* Of rows that are parts of rows of whole_width columns: what NORM_SUMS makes of a part, and the norms read once the
   * parts' are added up. 0: rows are whole, and nothing is read.
   *   forward   sums[0] = Σ x², sums[1] = Σ x       backward  sums[0] = Σ g·x̂, sums[1] = Σ g,  g = dy·w
   * RMSNorm has the first alone. NORM_SUMS reads x; its backward dy, weight, x or kept, mean and rstd. */
  gint64 whole_width;
  float *sums[2];     /* [rows] each */
  void *kept;         /* what forward copies x to, and backward reads in its place; NULL: x itself is kept */
  float *mean, *rstd; /* [rows] kept for backward; mean unused (may be NULL) for RMSNorm */
  /* backward: dx = …, weight gradients += in `gradient` format */
  const void *dy;
  void *dx;
  guint8 gradient;        /* Number of dweight, dshift */
  void *dweight, *dshift; /* dshift NULL: none; both: there are no weights */
} NormKernel;

/* A sequence's rows here are two pieces of a longer one: what is added to the positions of its first half, and of its
 * second. Zeros: they are all of it. */
typedef struct {
  gint64 early, late;
} SequencePieces;

/* Rotates pairs (j, j + d/2) of the first `n_heads` heads of each row of x in place by ±position·base^(−2j/d);
 * position = row % seq_len, and what its half adds. Heads are head_stride apart: d, or more where d is a part of each.
 */
typedef struct {
  guint8 number;
  guint8 inverse; /* backward */
  gint64 rows, seq_len, n_heads, head_dim, head_stride, ld;
  double base;
  SequencePieces pieces;
  void *x;
} RopeKernel;

/* K and V of latent attention (arXiv 2405.04434 §2.1), of what was made for each head, p of K and v of V, and of what
 * all heads share, o columns that are rotated as RopeKernel does:
 *   JOIN   k[t][head] = (made[t][head][: p], rotated shared[t]),  v[t][head] = made[t][head][p :]
 *   SPLIT  back, of gradients: shared[t] = Σ over heads, rotated by −position
 * made: rows × n_heads·(p + v), dense; shared, k and v: rows of ld_shared and, both, ld_kv elements. */
typedef struct {
  guint8 number;
  gint64 rows, seq_len, n_heads, plain_dim, rotated_dim, v_dim, ld_shared, ld_kv;
  double base;
  SequencePieces pieces;
  void *made, *shared, *k, *v; /* JOIN reads the first two, SPLIT the others */
} LatentKernel;

/* Rows of attention scores: p = softmax(scale·s), keys after the query masked; backward ds = scale·p·(dp − Σ dp·p), in
 * place of dp. matrices × (seq_len × seq_len), dense: of each sequence those of `n_heads` heads. */
typedef struct {
  guint8 number;
  gint64 matrices, seq_len;
  float scale;
  gint64 n_heads; /* looked at with a rule alone, as the rule is */
  ScoreRule rule;
  void *scores;  /* forward: s → p in place; backward: p (read) */
  void *dscores; /* backward: dp → ds in place */
} SoftmaxKernel;

/* Attention's probabilities, or their gradients, of whole sequences: to = drop(from), matrices × (seq_len × seq_len).
 * to may be from. */
typedef struct {
  guint8 number;
  gint64 matrices, seq_len, n_heads; /* of each sequence */
  ScoreDropout drop;
  const void *from;
  void *to;
} DropScoresKernel;

/* Attention to a block of the keys: rows of each sequence that take part, from the pointers on. Causal: query i sees
 * keys 0 … i + keys − queries; keys ≥ queries. */
typedef struct {
  guint8 is_cut;        /* FALSE: all seq_len queries and keys, causal, all of ld_qkv; the rest is not looked at */
  guint8 is_full;       /* no mask */
  guint8 adds;          /* backward: dk and dv += */
  gint64 queries, keys; /* in each sequence */
  gint64 key_rows;      /* from one sequence's keys to the next one's; of queries, o and lse: seq_len */
  gint64 ld_kv;         /* of k, v; of q: ld_qkv */
  gint64 ld_dq, ld_dkv; /* of dq; of dk, dv */
  RowPositions query_at, key_at; /* for ALiBi */
} FlashBlock;

/* Causal fused attention, to all keys or to a block of them, over rows of q, k, v (T × ld, heads of head_dim, of v and
 * o v_head_dim, side by side); query head h reads key head h / (n_heads / n_kv_heads). lse [b][n_heads][s]: log-sum-exp
 * of scaled scores. Backward overwrites dq, dk, dv. */
typedef struct {
  guint8 number;
  gint64 sequences, seq_len, n_heads, n_kv_heads, head_dim, v_head_dim;
  float scale;
  ScoreRule rule; /* a window of a cut block: of keys that follow each other up to the last query's; not without mask,
                     and backward has to add */
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

/* Outputs of the same `queries` of each sequence for two sets of keys become those for both (arXiv 2205.14135 §3.1):
 *   lse' = log(e^lse + e^other_lse),  o = o·e^(lse − lse') + other·e^(other_lse − lse'),  in place of o and lse.
 * o, other: rows of n_heads·head_dim; lse [sequences][n_heads][seq_len]; a sequence's rows are seq_len apart. */
typedef struct {
  guint8 number, sum; /* of other; of o: the same or fp32 */
  gint64 sequences, seq_len, queries, n_heads, head_dim;
  void *o;
  float *lse;
  const void *other;
  const float *other_lse;
} MergeKernel;

/* gelu (tanh form): y = gelu(x), rows × width. gated: x is rows × 2·width, y = silu(x[:, :width])·x[:, width:]. With
 * `scale` each row is multiplied by its own; backward then gives dscale[row] = Σ_j dy·(y without scale), too. */
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

/* Which tokens rows are: row r is the (first_row + r)-th of sequences that have seq_len tokens here, where `pieces`
 * says, and `length` in all; the first is the step's first_sequence-th. */
typedef struct {
  gint64 first_row, seq_len, first_sequence, length;
  SequencePieces pieces;
} TokenPlaces;

/* out = a + drop(b + bias), element (r, c) at token_place(r)·width + c; a NULL: zeros; bias NULL: none. out may be a or
 * b. */
typedef struct {
  guint8 number;
  gint64 rows, width;
  Dropout dropout;
  TokenPlaces places;
  const void *a, *b, *bias;
  void *out;
} DropAddKernel;

/* Blocks of rows to another place: out = a + b, `batch` times with strides between blocks. b NULL: a alone; a NULL too:
 * zeros. out may be a or b, else does not overlap them. */
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

/* Rows of the word table held here: words [first_word, first_word + n_words); others give zeros.
 * forward: out[t] = factor·table[token[t]]. backward: gradient of the table += factor·rows of dout. */
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

/* forward: x[t] += table[(first_row + t) % seq_len, and what its half adds]; backward: gradient of the table += rows of
 * dx. `first_row`: place of row 0 among the micro-batch's tokens (a shard under sequence parallelism). */
typedef struct {
  guint8 number, gradient;
  gint64 rows, width, first_row, seq_len;
  SequencePieces pieces;
  const void *table;
  void *x;
  const void *dx;
  void *dtable;
} PositionsKernel;

/* Cross-entropy over a vocabulary cut by tp: columns [first_word, first_word + width) here, of which those ≥ n_words of
 * the whole vocabulary are padding and count as −∞.
 *   MAX      row_max[t] = max_j logits[t][j]
 *   EXP      probabilities[t][j] = exp(logits − row_max) in fp32; row_sum[t] = Σ_j of it; row_target[t] = logits of the
 *            target less row_max, 0 when the target is not here
 *   SOFTMAX  probabilities /= row_sum;  *loss += loss_scale·Σ_t (log row_sum − row_target)
 *   BACKWARD dlogits[t][j] = gradient_scale·scale·(probabilities − [j is the target]) */
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

/* AdamW on n elements (arXiv 1711.05101), gradients scaled by min(1, max_norm / √*norm_squared) first (NULL: not).
 * `scale` (NULL: 1): what gradients, and thereby the norm, are multiplied by; then c1 and c2 are 1 less its powers.
 *   m = β1·m + (1−β1)·g;  v = β2·v + (1−β2)·g²;  p −= lr·(m/c1 / (√(v/c2) + ε) + decay·p),  c1 = 1 − β1^t …
 * The fp32 `master` is updated and rounded to `weight`; without one (NULL) the weight itself is updated. The gradient
 * is zeroed afterwards. With a *norm_squared that is not finite nothing is done, but where `scale` has the step skipped
 * the gradient is zeroed all the same. */
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

/* *to = the state of the step after *from's (loss_scale_next()). */
typedef struct {
  const LossScale *from;
  const double *norm_squared;
  double beta1, beta2;
  LossScale *to;
} LossScaleKernel;

/* to[i] = from[i], or += ; formats may differ. */
typedef struct {
  guint8 from_number, to_number, accumulate;
  gint64 n;
  const void *from;
  void *to;
} ConvertKernel;

/* n bytes of zero. */
typedef struct {
  gint64 bytes;
  void *to;
} FillKernel;

/* A shard of a seeded matrix: element (r, c) of the whole, r = first_row + i, c = first_column + j, is
 *   mean + deviation·√12·(u − ½),  u = uniform [0, 1) from kernel_random(seed, r·whole_width + c)
 * so that every cut of the matrix holds the same numbers. Rows ≥ whole_rows are zero (padding). */
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
    LossScaleKernel loss_scale;
    ConvertKernel convert;
    FillKernel fill;
    InitKernel init;
  };
} Kernel;

/* The block that a kernel works on, also where it is all. */
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

/* Where a row begins that may lie beside others, in elements. */
#ifdef __CUDACC__
__host__ __device__
#endif
    static inline gint64
    norm_row_at(const NormKernel *norm, gint64 row) {
  return norm->per_line == 0 ? row * norm->width : row / norm->per_line * norm->ld + row % norm->per_line * norm->width;
}

/* Position in the whole sequence of a row of the `seq_len` here. */
#ifdef __CUDACC__
__host__ __device__
#endif
    static inline gint64
    sequence_position(SequencePieces pieces, gint64 row, gint64 seq_len) {
  return row + (row < seq_len / 2 ? pieces.early : pieces.late);
}

/* Of a row, among all tokens of the step. */
#ifdef __CUDACC__
__host__ __device__
#endif
    static inline guint64
    token_place(const TokenPlaces *places, gint64 row) {
  const gint64 token = places->first_row + row, sequence = places->first_sequence + token / places->seq_len;
  return (guint64)(sequence * places->length +
                   sequence_position(places->pieces, token % places->seq_len, places->seq_len));
}

const char *kernel_name(KernelKind kind);
/* Bytes of one stored element: 4 or 2. */
int kernel_element_bytes(Number number);
