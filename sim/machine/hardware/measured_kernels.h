/* Times of kernels measured on one kind of GPU: the optional mapping `measured` of a GPU file.
 *
 *     measured:
 *       source: stepreal calibrate, 2026-11-02, driver 570.86, 2 s of load before each product
 *       under_load: 1.0
 *       origin: stepreal
 *       kernel: 1.7 us
 *       host_launch: 2.3 us
 *       products:
 *         - {number: bf16, layout: tn, m: 4096, n: 12288, k: 4096, time: 652 us}
 *         - {number: bf16, layout: nt, accumulate: yes, batch: 1, m: 12288, n: 4096, k: 4096, time: 701 us}
 *       kernels:
 *         - {name: norm, bytes: 67108864 B, time: 41 us}
 *         - {name: memory, bytes: 67108864 B, time: 38 us}
 *       attention:
 *         - {number: bf16, backward: yes, batch: 32, seq_len: 4096, head_dim: 128, time: 1.9 ms}
 *         - {number: bf16, backward: yes, batch: 32, seq_len: 2048, keys: 1024, head_dim: 128, time: 0.5 ms}
 *         - {number: bf16, backward: no, batch: 32, seq_len: 4096, head_dim: 192, v_head_dim: 128, time: 1.1 ms}
 *
 * `source` says what was measured, when and how. At least one of the three lists is needed. A product is C(m,n) =
 * A(m,k) · B(k,n), `batch` times (default 1), in the operand layout that BLAS spells tn (forward), nn (input
 * gradient) or nt (weight gradient); `accumulate` (default no) adds to C. A kernel's bytes are the workload's nominal
 * ones, each tensor read or written once. Its name is the workload's (norm, silu_mul, loss.exp, adam …); `memory` is
 * the curve of all kernels without their own. A kernel name that the workload does not have is ignored. Attention is
 * the fused kernel, with batch = sequences × heads on the GPU, from seq_len queries to `keys` keys (default: the same
 * number, with a causal mask). Context parallelism has two other cases: fewer keys, a block that all queries see
 * completely; and more keys, the whole sequence, of which the queries are an early and a late piece
 * (work/pieces/context.c). In latent attention, heads of V have fewer columns than those of Q and K: `v_head_dim`
 * (default head_dim).
 *
 * `origin` says whose kernels were timed. Products and attention are those of libraries that frameworks call too. But
 * memory-bound kernels, the time to launch one from the host (host_launch) and the least time on the device (kernel)
 * are a program's own: with `origin: stepreal`, a plan with a framework does not use them, but the model,
 * latency.kernel and latency.host_launch. With `any` (the default) all plans use them; a file with this one as its base
 * can say so. `kernel` and `host_launch` default to those of `latency`.
 *
 * Times are device times, from the end of the previous kernel to the end of this one, with kernels back to back on
 * one stream. They are assumed to come from a GPU under sustained load, so the file's matmul.under_load, which turns
 * the rate of products run alone into that of a training step, does not apply to them. For measurements of a cool
 * GPU, set the mapping's own `under_load` (default 1): the share of the measured rate of products that a training
 * step keeps. cost/kernels/measured_cost.h says how the tables are used. */
#pragma once
#include "curve_point.h"
#include "precision.h"
#include "yaml_node.h"

enum { N_MEASURED_LAYOUTS = 3 }; /* tn, nn, nt: as MatmulLayout numbers them */

typedef struct {
  int number, layout, accumulate; /* Number, MatmulLayout, 0 or 1 */
  gint64 batch, m, n, k;
  double time_s;
  double log2_rows, log2_n, log2_k; /* (computed) rows = batch·m */
} MeasuredProduct;

typedef struct {
  char *name; /* owned */
  CurveSpan span;
} MeasuredCurve;

typedef struct {
  int number, backward; /* Number, 0 or 1 */
  gint64 batch, seq_len, keys, head_dim, v_head_dim;
  double time_s;
  double log2_batch, log2_seq_len, log2_keys; /* (computed) */
} MeasuredAttention;

/* Whose kernels were timed. */
typedef enum { ORIGIN_ANY, ORIGIN_STEPREAL, N_ORIGINS } MeasuredOrigin;

/* All arrays are owned and sorted. */
typedef struct {
  char *source;
  double under_load;
  int origin;                     /* MeasuredOrigin */
  double kernel_s, host_launch_s; /* 0: those of the GPU */
  MeasuredProduct *products;      /* by number, layout, accumulate, batch·m, n, k, batch; no key twice */
  int n_products;
  int group_first[N_NUMBERS * N_MEASURED_LAYOUTS * 2 + 1]; /* (computed) see measured_group() */
  MeasuredCurve *curves;                                   /* by name */
  int n_curves;
  int generic_curve; /* (computed) the one named "memory"; −1: none */
  CurvePoint *points;
  MeasuredAttention *attention; /* by number, backward, head_dim, v_head_dim, seq_len, keys, batch; no key twice */
  int n_attention;
} MeasuredKernels;

/* The products of group g are products[group_first[g] … group_first[g + 1]). */
int measured_group(int number, int layout, int accumulate);
/* Three-way order of `products`. */
int measured_product_compare(const MeasuredProduct *a, const MeasuredProduct *b);
/* FLOPs per pair of query and key: 2 for each column of Q·Kᵀ and P·V; backward recomputes Q·Kᵀ and makes dQ and dK,
 * dP and dV. */
double measured_attention_pair_flops(gboolean backward, gint64 head_dim, gint64 v_head_dim);
/* Pairs of query and key for one head of one sequence, depending on which of the three cases applies. */
double measured_attention_pairs(gint64 queries, gint64 keys);

/* Whether launches, least kernel time and memory-bound kernels of the tables are those of plans with a framework, or
 * without. */
gboolean measured_kernels_are_of(const MeasuredKernels *measured, gboolean has_framework);
/* Read the mapping. NULL with the error set for unknown names (suggesting the nearest), values out of range, a
 * duplicate key in a list, and a number format without a peak in `peak_flops`. */
MeasuredKernels *measured_kernels_read(YamlNode map, const double peak_flops[N_NUMBERS], GError **error);
void measured_kernels_free(MeasuredKernels *measured);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(MeasuredKernels, measured_kernels_free)
