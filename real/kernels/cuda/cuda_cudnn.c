/* Causal attention in the form that cuDNN's engines recognise. They match a graph by its operations, so the graphs
 * are those that cudnn-frontend 1.x builds (node/scaled_dot_product_flash_attention.h; MIT licence), without its
 * options:
 *
 *   forward   S = scale·(Q·Kᵀ), masked to −∞ after the diagonal; P = softmax(S); O = P·V; lse = max + log Σ exp
 *   backward  D = Σ dO·O;  P = exp(S − lse), masked before the exp;  dV = Pᵀ·dO;  dS = scale·P·(dO·Vᵀ − D);
 *             dK = dSᵀ·Q;  dQ = dS·K, summed in fp32 and then rounded. With fewer key heads, dK and dV of all query
 *             heads are reduced.
 *
 * Needs cuDNN 9.6, which zeroes the sum of dQ itself. The version workarounds are that frontend's: before 9.10 the
 * mask is the lowest float, not −∞; backward is wrong in 9.10.0 and 9.10.1, and up to 9.15.0 for lengths that are not
 * a multiple of 128 (there the frontend pads, we decline). */
#include "cuda_cudnn.h"

#include "cuda_call.h"
#include "cuda_cudnn_graph.h"
#include "cuda_scratch.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
  CUDNN_OLDEST = 90600,
  CUDNN_DESCRIBED_GPUS = 90800,
  CUDNN_INFINITE_MASK = 91000,
  CUDNN_ANY_LENGTH = 91501,
  N_SHAPE = 12
};

enum {
  ID_Q = 1,
  ID_K,
  ID_V,
  ID_O,
  ID_LSE,
  ID_DO,
  ID_DQ,
  ID_DK,
  ID_DV,
  ID_DELTA,   /* D, in scratch */
  ID_DQ_FP32, /* in scratch */
  ID_SCALE,
  ID_MINUS_INFINITY,
  ID_ONE,
  N_IDS
};

typedef struct {
  gint64 v[N_SHAPE]; /* first: the hash key */
  CudnnGraph graph;
  char *why_not; /* NULL: it can run */
} Plan;

struct Cudnn {
  CudnnLibrary library;
  cudnnHandle_t handle;
  cudnnBackendDescriptor_t gpu; /* instead of the handle: plans are made for this GPU */
  gint64 version;               /* 91900: 9.19.0 */
  GHashTable *plans;            /* Plan → itself */
  CudaScratch scratch;
};

/* ---- graphs ---- */

typedef struct {
  CudnnGraph *graph;
  const FlashKernel *k;
  cudnnDataType_t type; /* of elements */
  CudnnTensor q, kt, scale;
} Parts;

/* Rows of heads of `dim` columns as stored, and the same transposed. */
static CudnnShape head_shape(const FlashKernel *k, gint64 heads, gint64 dim, gint64 ld) {
  return (CudnnShape){{k->sequences, heads, k->seq_len, dim}, {k->seq_len * ld, dim, ld, 1}};
}

static CudnnShape key_shape(const FlashKernel *k, gint64 ld) {
  return head_shape(k, k->n_kv_heads, k->head_dim, ld);
}

static CudnnShape value_shape(const FlashKernel *k, gint64 ld) {
  return head_shape(k, k->n_kv_heads, k->v_head_dim, ld);
}

/* Shape of o and its gradient. */
static CudnnShape output_shape(const FlashKernel *k) {
  return head_shape(k, k->n_heads, k->v_head_dim, k->ld_o);
}

static CudnnShape transposed(CudnnShape s) {
  return (CudnnShape){{s.sizes[0], s.sizes[1], s.sizes[3], s.sizes[2]},
                      {s.strides[0], s.strides[1], s.strides[3], s.strides[2]}};
}

static CudnnShape dense(gint64 sequences, gint64 heads, gint64 rows, gint64 columns) {
  return (CudnnShape){{sequences, heads, rows, columns}, {heads * rows * columns, rows * columns, columns, 1}};
}

static CudnnTensor inner(const Parts *p, cudnnDataType_t type, CudnnShape shape) {
  return cudnn_tensor(p->graph, 0, type, shape);
}

static CudnnShape score_shape(const Parts *p) {
  return dense(p->k->sequences, p->k->n_heads, p->k->seq_len, p->k->seq_len);
}

static CudnnShape row_shape(const Parts *p) {
  return dense(p->k->sequences, p->k->n_heads, p->k->seq_len, 1);
}

/* y = mode(x, b), with the shape of scores or rows. */
static CudnnTensor apply(const Parts *p, cudnnPointwiseMode_t mode, CudnnTensor x, CudnnTensor b, CudnnShape shape) {
  CudnnTensor y = inner(p, CUDNN_DATA_FLOAT, shape);
  cudnn_pointwise(p->graph, mode, CUDNN_DATA_FLOAT, x, b, NULL, y);
  return y;
}

static CudnnTensor mask(const Parts *p, CudnnTensor scores) {
  const CudnnShape shape = score_shape(p);
  CudnnTensor row = inner(p, CUDNN_DATA_INT32, shape), column = inner(p, CUDNN_DATA_INT32, shape);
  CudnnTensor is_seen = inner(p, CUDNN_DATA_BOOLEAN, shape), masked = inner(p, CUDNN_DATA_FLOAT, shape);
  cudnn_index(p->graph, 2, scores, row);
  cudnn_index(p->graph, 3, scores, column);
  cudnn_pointwise(p->graph, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, row, column, NULL, is_seen);
  cudnn_pointwise(p->graph, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, scores,
                  cudnn_scalar(p->graph, ID_MINUS_INFINITY), is_seen, masked);
  return masked;
}

static Parts parts_new(CudnnGraph *graph, const FlashKernel *k) {
  Parts p = {graph, k, k->number == NUMBER_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF, NULL, NULL, NULL};
  p.q = cudnn_tensor(graph, ID_Q, p.type, head_shape(k, k->n_heads, k->head_dim, k->ld_qkv));
  p.kt = cudnn_tensor(graph, ID_K, p.type, transposed(key_shape(k, k->ld_qkv)));
  p.scale = cudnn_scalar(graph, ID_SCALE);
  return p;
}

/* scale·(Q·Kᵀ) */
static CudnnTensor scaled_scores(const Parts *p) {
  CudnnTensor scores = inner(p, CUDNN_DATA_FLOAT, score_shape(p));
  cudnn_matmul(p->graph, p->q, p->kt, scores);
  return apply(p, CUDNN_POINTWISE_MUL, scores, p->scale, score_shape(p));
}

static void build_forward(CudnnGraph *graph, const FlashKernel *k) {
  const Parts p = parts_new(graph, k);
  const CudnnShape scores = score_shape(&p), rows = row_shape(&p);
  CudnnTensor v = cudnn_tensor(graph, ID_V, p.type, value_shape(k, k->ld_qkv));
  CudnnTensor o = cudnn_tensor(graph, ID_O, p.type, output_shape(k));
  CudnnTensor lse = cudnn_tensor(graph, ID_LSE, CUDNN_DATA_FLOAT, rows);
  CudnnTensor masked = mask(&p, scaled_scores(&p));
  CudnnTensor most = inner(&p, CUDNN_DATA_FLOAT, rows), sum = inner(&p, CUDNN_DATA_FLOAT, rows);
  cudnn_reduce(graph, CUDNN_REDUCE_TENSOR_MAX, masked, most);
  CudnnTensor less = apply(&p, CUDNN_POINTWISE_SUB, masked, most, scores);
  CudnnTensor powers = apply(&p, CUDNN_POINTWISE_EXP, less, NULL, scores);
  cudnn_reduce(graph, CUDNN_REDUCE_TENSOR_ADD, powers, sum);
  CudnnTensor log_sum = apply(&p, CUDNN_POINTWISE_LOG, sum, NULL, rows);
  cudnn_pointwise(graph, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, most, log_sum, NULL, lse);
  CudnnTensor probabilities = inner(&p, p.type, scores);
  cudnn_pointwise(graph, CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT, powers, sum, NULL, probabilities);
  cudnn_matmul(graph, probabilities, v, o);
}

/* to = weightsᵀ·x over queries; summed over the query heads that share a key head. */
static void transposed_product(const Parts *p, CudnnTensor weights, CudnnTensor x, gint64 id, CudnnShape shape) {
  const FlashKernel *k = p->k;
  CudnnTensor turned = inner(p, p->type, transposed(score_shape(p)));
  CudnnTensor to = cudnn_tensor(p->graph, id, p->type, shape);
  cudnn_reshape(p->graph, weights, turned);
  if (k->n_heads == k->n_kv_heads) {
    cudnn_matmul(p->graph, turned, x, to);
    return;
  }
  CudnnTensor all = inner(p, p->type, dense(k->sequences, k->n_heads, k->seq_len, shape.sizes[3]));
  cudnn_matmul(p->graph, turned, x, all);
  cudnn_reduce(p->graph, CUDNN_REDUCE_TENSOR_ADD, all, to);
}

/* D = Σ dO·O. */
static CudnnTensor row_deltas(const Parts *p, CudnnTensor d_o) {
  const FlashKernel *k = p->k;
  const gint64 h = k->n_heads, s = k->seq_len, d = k->v_head_dim;
  CudnnTensor o = cudnn_tensor(p->graph, ID_O, p->type, output_shape(k));
  CudnnTensor product =
      apply(p, CUDNN_POINTWISE_MUL, d_o, o, (CudnnShape){{k->sequences, h, s, d}, {h * s * d, s * d, h * d, 1}});
  CudnnTensor sums = inner(p, CUDNN_DATA_FLOAT, row_shape(p));
  CudnnTensor delta = cudnn_tensor(p->graph, ID_DELTA, CUDNN_DATA_FLOAT, row_shape(p));
  cudnn_reduce(p->graph, CUDNN_REDUCE_TENSOR_ADD, product, sums);
  cudnn_pointwise(p->graph, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, sums, cudnn_scalar(p->graph, ID_ONE), NULL, delta);
  return delta;
}

static void build_backward(CudnnGraph *graph, const FlashKernel *k) {
  const Parts p = parts_new(graph, k);
  const CudnnShape scores = score_shape(&p);
  CudnnTensor vt = cudnn_tensor(graph, ID_V, p.type, transposed(value_shape(k, k->ld_qkv)));
  CudnnTensor d_o = cudnn_tensor(graph, ID_DO, p.type, output_shape(k));
  CudnnTensor lse = cudnn_tensor(graph, ID_LSE, CUDNN_DATA_FLOAT, row_shape(&p));
  CudnnTensor delta = row_deltas(&p, d_o);
  CudnnTensor less = apply(&p, CUDNN_POINTWISE_SUB, scaled_scores(&p), lse, scores);
  CudnnTensor probabilities = apply(&p, CUDNN_POINTWISE_EXP, mask(&p, less), NULL, scores);
  transposed_product(&p, probabilities, d_o, ID_DV, value_shape(k, k->ld_dkv));
  CudnnTensor dp = inner(&p, CUDNN_DATA_FLOAT, scores);
  cudnn_matmul(graph, d_o, vt, dp);
  CudnnTensor centred = apply(&p, CUDNN_POINTWISE_SUB, dp, delta, scores);
  CudnnTensor weighted = apply(&p, CUDNN_POINTWISE_MUL, centred, probabilities, scores);
  CudnnTensor ds = apply(&p, CUDNN_POINTWISE_MUL, weighted, p.scale, scores);
  transposed_product(&p, ds, p.q, ID_DK, key_shape(k, k->ld_dkv));
  CudnnTensor keys = inner(&p, CUDNN_DATA_FLOAT, key_shape(k, k->ld_qkv));
  cudnn_reshape(graph, p.kt, keys);
  CudnnTensor sum =
      cudnn_tensor(graph, ID_DQ_FP32, CUDNN_DATA_FLOAT, dense(k->sequences, k->n_heads, k->seq_len, k->head_dim));
  CudnnTensor dq = cudnn_tensor(graph, ID_DQ, p.type, head_shape(k, k->n_heads, k->head_dim, k->ld_dq));
  cudnn_matmul(graph, ds, keys, sum);
  cudnn_pointwise(graph, CUDNN_POINTWISE_IDENTITY, CUDNN_DATA_FLOAT, sum, NULL, NULL, dq);
}

/* ---- plans ---- */

static guint plan_hash(gconstpointer data) {
  const Plan *plan = data;
  guint64 hash = G_GUINT64_CONSTANT(0xcbf29ce484222325); /* FNV-1a, a word at a time */
  for (int i = 0; i < N_SHAPE; i++)
    hash = (hash ^ (guint64)plan->v[i]) * G_GUINT64_CONSTANT(0x100000001b3);
  return (guint)(hash ^ (hash >> 32));
}

static gboolean plan_equal(gconstpointer a, gconstpointer b) {
  return memcmp(((const Plan *)a)->v, ((const Plan *)b)->v, sizeof((const Plan *)a)->v) == 0;
}

static void plan_free(gpointer data) {
  Plan *plan = data;
  cudnn_graph_clear(&plan->graph);
  g_free(plan->why_not);
  g_free(plan);
}

static Plan *find_plan(Cudnn *cudnn, const FlashKernel *k, gboolean is_backward) {
  const Plan key = {.v = {k->number, is_backward, k->sequences, k->seq_len, k->n_heads, k->n_kv_heads, k->head_dim,
                          k->v_head_dim, k->ld_qkv, k->ld_dq, k->ld_dkv, k->ld_o}};
  Plan *plan = g_hash_table_lookup(cudnn->plans, &key);
  if (plan != NULL)
    return plan;
  plan = g_new0(Plan, 1);
  memcpy(plan->v, key.v, sizeof plan->v);
  cudnn_graph_init(&plan->graph, &cudnn->library, cudnn->handle, cudnn->gpu);
  if (is_backward)
    build_backward(&plan->graph, k);
  else
    build_forward(&plan->graph, k);
  if (plan->graph.why_not != NULL || !cudnn_graph_plan(&plan->graph))
    plan->why_not = g_strdup(plan->graph.why_not);
  g_hash_table_add(cudnn->plans, plan);
  return plan;
}

/* ---- running ---- */

/* FALSE with the reason: the library is missing or too old. */
static gboolean load(Cudnn *cudnn, gint64 oldest, char **why_not) {
  if (!cudnn_library_load(&cudnn->library, why_not))
    return FALSE;
  cudnn->version = (gint64)cudnn->library.GetVersion();
  if (cudnn->version < oldest)
    *why_not = g_strdup_printf("version %" G_GINT64_FORMAT " is older than %" G_GINT64_FORMAT, cudnn->version, oldest);
  return cudnn->version >= oldest;
}

static Cudnn *cudnn_alloc(void) {
  Cudnn *cudnn = g_new0(Cudnn, 1);
  cudnn->plans = g_hash_table_new_full(plan_hash, plan_equal, NULL, plan_free);
  return cudnn;
}

Cudnn *cudnn_new(char **why_not) {
  Cudnn *cudnn = cudnn_alloc();
  if (load(cudnn, CUDNN_OLDEST, why_not)) {
    const cudnnStatus_t status = cudnn->library.Create(&cudnn->handle);
    if (status == CUDNN_STATUS_SUCCESS)
      return cudnn;
    *why_not = g_strdup(cudnn->library.GetErrorString(status));
  }
  cudnn_free(cudnn);
  return NULL;
}

Cudnn *cudnn_new_described(const char *gpu, char **why_not) {
  Cudnn *cudnn = cudnn_alloc();
  if (load(cudnn, CUDNN_DESCRIBED_GPUS, why_not)) {
    cudnn->gpu = cudnn_gpu_new(&cudnn->library, gpu, why_not);
    if (cudnn->gpu != NULL)
      return cudnn;
  }
  cudnn_free(cudnn);
  return NULL;
}

void cudnn_free(Cudnn *cudnn) {
  if (cudnn == NULL)
    return;
  g_hash_table_unref(cudnn->plans);
  if (cudnn->gpu != NULL)
    (void)cudnn->library.BackendDestroyDescriptor(cudnn->gpu);
  if (cudnn->handle != NULL)
    (void)cudnn->library.Destroy(cudnn->handle);
  cudnn_library_unload(&cudnn->library);
  cuda_scratch_clear(&cudnn->scratch);
  g_free(cudnn);
}

char *cudnn_describe(const Cudnn *cudnn) {
  const int v = (int)cudnn->version;
  return g_strdup_printf("cuDNN %d.%d.%d", v / 10000, v / 100 % 100, v % 100);
}

/* cuDNN reads 16 bytes at a time. */
static gboolean is_aligned(const FlashKernel *k, gboolean is_backward) {
  const void *all[] = {k->q, k->k, k->v, k->o, k->d_o, k->dq, k->dk, k->dv};
  for (gsize i = 0; i < (is_backward ? G_N_ELEMENTS(all) : 4); i++)
    if ((guintptr)all[i] % 16 != 0)
      return FALSE;
  const gint64 steps[] = {k->head_dim, k->v_head_dim, k->ld_qkv, k->ld_o, k->ld_dq, k->ld_dkv};
  for (gsize i = 0; i < (is_backward ? G_N_ELEMENTS(steps) : 4); i++)
    if (steps[i] % 8 != 0)
      return FALSE;
  return TRUE;
}

const char *cudnn_attention_outside(const FlashKernel *k, gboolean is_backward) {
  return k->number == NUMBER_FP32      ? "not for fp32"
         : k->block.is_cut             ? "not for a block of a cut sequence"
         : k->rule.alibi_heads > 0     ? "not for ALiBi"
         : k->rule.window > 0          ? "not for a sliding window"
         : k->drop.dropout.rate > 0    ? "not with dropout"
         : !is_aligned(k, is_backward) ? "not aligned to 16 bytes"
                                       : NULL;
}

/* NULL: no known fault. */
static const char *known_fault(const Cudnn *cudnn, const FlashKernel *k, gboolean is_backward) {
  if (is_backward && (cudnn->version == 91000 || cudnn->version == 91001))
    return "backward is wrong in this version";
  if (is_backward && cudnn->version < CUDNN_ANY_LENGTH && k->seq_len % 128 != 0)
    return "backward of this version needs lengths that are multiples of 128";
  return NULL;
}

static gboolean execute(Cudnn *cudnn, Plan *plan, const FlashKernel *k, gboolean is_backward, char *scratch,
                        gint64 delta_bytes, gint64 dq_bytes) {
  float minus_infinity = cudnn->version < CUDNN_INFINITE_MASK ? -FLT_MAX : -INFINITY, one = 1.0f, scale = k->scale;
  void *const of_id[N_IDS] = {[ID_Q] = (void *)k->q,
                              [ID_K] = (void *)k->k,
                              [ID_V] = (void *)k->v,
                              [ID_O] = k->o,
                              [ID_LSE] = k->lse,
                              [ID_DO] = (void *)k->d_o,
                              [ID_DQ] = k->dq,
                              [ID_DK] = k->dk,
                              [ID_DV] = k->dv,
                              [ID_DELTA] = scratch,
                              [ID_DQ_FP32] = scratch + delta_bytes,
                              [ID_SCALE] = &scale,
                              [ID_MINUS_INFINITY] = &minus_infinity,
                              [ID_ONE] = &one};
  static const gint64 forward[] = {ID_Q, ID_K, ID_V, ID_O, ID_LSE, ID_SCALE, ID_MINUS_INFINITY};
  static const gint64 backward[] = {
      ID_Q,  ID_K, ID_V, ID_O, ID_LSE, ID_DO, ID_DQ, ID_DK, ID_DV, ID_DELTA, ID_DQ_FP32, ID_SCALE, ID_MINUS_INFINITY,
      ID_ONE};
  const gint64 *ids = is_backward ? backward : forward;
  const gint64 n = is_backward ? G_N_ELEMENTS(backward) : G_N_ELEMENTS(forward);
  void *memory[N_IDS];
  for (gint64 i = 0; i < n; i++)
    memory[i] = of_id[ids[i]];
  return cudnn_graph_execute(&plan->graph, ids, memory, n, scratch + delta_bytes + dq_bytes);
}

static gint64 round_up(gint64 bytes) {
  return (bytes + 255) / 256 * 256;
}

/* NULL with the reason if there is no graph for the kernel. A Plan whose own why_not is set: cuDNN found none. */
static Plan *plan_of(Cudnn *cudnn, const FlashKernel *k, gboolean is_backward, char **why_not) {
  const char *fault = cudnn_attention_outside(k, is_backward);
  if (fault == NULL)
    fault = known_fault(cudnn, k, is_backward);
  if (fault == NULL)
    return find_plan(cudnn, k, is_backward);
  *why_not = g_strdup(fault);
  return NULL;
}

gint64 cudnn_workspace_bytes(Cudnn *cudnn, const FlashKernel *k, gboolean is_backward, char **why_not) {
  const Plan *plan = plan_of(cudnn, k, is_backward, why_not);
  if (plan != NULL && plan->why_not == NULL)
    return plan->graph.workspace_bytes;
  if (plan != NULL)
    *why_not = g_strdup(plan->why_not);
  return -1;
}

gboolean cudnn_attention(Cudnn *cudnn, const FlashKernel *k, gboolean is_backward, cudaStream_t stream,
                         char **why_not) {
  Plan *plan = plan_of(cudnn, k, is_backward, why_not);
  if (plan == NULL)
    return FALSE;
  if (plan->why_not == NULL) {
    const gint64 rows = is_backward ? k->sequences * k->n_heads * k->seq_len : 0;
    const gint64 delta_bytes = round_up(rows * 4), dq_bytes = round_up(rows * k->head_dim * 4);
    g_autoptr(GError) error = NULL;
    char *scratch = cuda_scratch_get(&cudnn->scratch, delta_bytes + dq_bytes + plan->graph.workspace_bytes, &error);
    if (scratch == NULL)
      plan->why_not = g_strdup(error->message);
    else if (cudnn->library.SetStream(cudnn->handle, stream) != CUDNN_STATUS_SUCCESS)
      plan->why_not = g_strdup("the stream cannot be set");
    else if (!execute(cudnn, plan, k, is_backward, scratch, delta_bytes, dq_bytes))
      plan->why_not = g_strdup(plan->graph.why_not);
  }
  *why_not = g_strdup(plan->why_not);
  return plan->why_not == NULL;
}
