/* Attention in the form that cuDNN's engines recognise. They match a graph by its operations, so the graphs are those
 * that cudnn-frontend 1.x builds (node/scaled_dot_product_flash_attention.h, utils/attn_score_modifiers.h; MIT
 * licence), without its other options:
 *
 *   forward   S = scale·(Q·Kᵀ), plus ALiBi, masked to −∞; P = softmax(S); O = P·V; lse = max + log Σ exp
 *   backward  D = Σ dO·O;  P = exp(S − lse), masked before the exp;  dV = Pᵀ·dO;  dS = scale·P·(dO·Vᵀ − D);
 *             dK = dSᵀ·Q;  dQ = dS·K, summed in fp32 and then rounded. With fewer key heads, dK and dV of all query
 *             heads are reduced.
 *
 * The mask of a block with more keys than queries has its diagonal at the bottom right; without a mask its nodes are
 * left out; a window is a second mask at the left. Of a block of a sequence's queries, the log-sum-exp has gaps
 * between sequences and heads: the engines get it without, in scratch. Gradients that are added to what is there are
 * computed in scratch, too, and added by our own kernel.
 *
 * Dropout is declined: cuDNN draws its random numbers by an element's place in the rank's tensor, so each way of
 * sharding would drop other elements.
 *
 * Needs cuDNN 9.6, which zeroes the sum of dQ itself. The version workarounds are that frontend's: before 9.10 the
 * mask is the lowest float, not −∞; 9.10.0 and 9.10.1 are wrong; backward is wrong up to 9.15.0 for numbers of keys
 * that are not a multiple of 128 (there the frontend pads, we decline). */
#include "cuda_cudnn.h"

#include "cuda_call.h"
#include "cuda_cudnn_graph.h"
#include "cuda_kernels.h"
#include "cuda_scratch.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
  CUDNN_OLDEST = 90600,
  CUDNN_DESCRIBED_GPUS = 90800,
  CUDNN_INFINITE_MASK = 91000,
  CUDNN_ANY_LENGTH = 91501,
  N_SHAPE = 20
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
  ID_SLOPES,
  ID_SCALE,
  ID_MINUS_INFINITY,
  ID_ONE,
  ID_QUERIES,
  ID_KEYS,
  ID_WINDOW,
  N_IDS
};

typedef struct {
  gint64 v[N_SHAPE]; /* first: the hash key */
  CudnnGraph graph;
  char *why_not; /* NULL: it can run */
  float *slopes; /* of ALiBi, on the device; NULL: none so far */
} Plan;

struct Cudnn {
  CudnnLibrary library;
  cudnnHandle_t handle;
  cudnnBackendDescriptor_t gpu; /* instead of the handle: plans are made for this GPU */
  gint64 version;               /* 91900: 9.19.0 */
  GHashTable *plans;            /* Plan → itself */
  CudaScratch scratch;
};

/* ---- what is computed ---- */

/* An attention and what follows from its block and rule. */
typedef struct {
  FlashKernel k;     /* with its block: flash_block() */
  gint64 window;     /* 0: every query sees all keys before it */
  gboolean is_ruled; /* by ALiBi */
  gboolean has_gaps; /* the log-sum-exp's rows are not all of a sequence's: it goes through scratch */
} Attention;

static Attention attention_of(const FlashKernel *kernel) {
  Attention a = {.k = *kernel};
  a.k.block = flash_block(kernel);
  a.window = kernel->rule.window < a.k.block.keys ? kernel->rule.window : 0;
  a.is_ruled = kernel->rule.alibi_heads > 0;
  a.has_gaps = a.k.block.queries != kernel->seq_len;
  return a;
}

static gint64 n_lse(const Attention *a) {
  return a->k.sequences * a->k.n_heads * a->k.block.queries;
}

/* ---- graphs ---- */

typedef struct {
  CudnnGraph *graph;
  const Attention *a;
  cudnnDataType_t type; /* of elements */
  CudnnTensor q, kt, scale;
} Parts;

/* Heads of `dim` columns, rows `ld` elements and sequences `step` rows apart. */
static CudnnShape head_shape(const Attention *a, gint64 heads, gint64 rows, gint64 dim, gint64 ld, gint64 step) {
  return (CudnnShape){{a->k.sequences, heads, rows, dim}, {step * ld, dim, ld, 1}};
}

/* Shapes of q and dq, and of o and its gradient. */
static CudnnShape query_shape(const Attention *a, gint64 dim, gint64 ld) {
  return head_shape(a, a->k.n_heads, a->k.block.queries, dim, ld, a->k.seq_len);
}

/* Shapes of k and v, and of their gradients. */
static CudnnShape key_shape(const Attention *a, gint64 dim, gint64 ld) {
  return head_shape(a, a->k.n_kv_heads, a->k.block.keys, dim, ld, a->k.block.key_rows);
}

/* Shape of dk or dv: where the gradient belongs, or in scratch without gaps. */
static CudnnShape key_gradient_shape(const Attention *a, gint64 dim) {
  if (a->k.block.adds)
    return head_shape(a, a->k.n_kv_heads, a->k.block.keys, dim, a->k.n_kv_heads * dim, a->k.block.keys);
  return key_shape(a, dim, a->k.block.ld_dkv);
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
  const FlashKernel *k = &p->a->k;
  return dense(k->sequences, k->n_heads, k->block.queries, k->block.keys);
}

static CudnnShape row_shape(const Parts *p) {
  return dense(p->a->k.sequences, p->a->k.n_heads, p->a->k.block.queries, 1);
}

/* y = mode(x, b), with the shape of scores or rows. */
static CudnnTensor apply(const Parts *p, cudnnPointwiseMode_t mode, CudnnTensor x, CudnnTensor b, CudnnShape shape) {
  CudnnTensor y = inner(p, CUDNN_DATA_FLOAT, shape);
  cudnn_pointwise(p->graph, mode, CUDNN_DATA_FLOAT, x, b, NULL, y);
  return y;
}

/* An index of each score, or what follows from it, in `type`. */
static CudnnTensor apply_to_index(const Parts *p, cudnnPointwiseMode_t mode, cudnnDataType_t type, CudnnTensor x,
                                  CudnnTensor b) {
  CudnnTensor y = inner(p, type, score_shape(p));
  cudnn_pointwise(p->graph, mode, type, x, b, NULL, y);
  return y;
}

enum { ROW = 2, COLUMN = 3 };

static CudnnTensor index_of(const Parts *p, gint64 axis, CudnnTensor scores) {
  CudnnTensor index = inner(p, CUDNN_DATA_INT32, score_shape(p));
  cudnn_index(p->graph, axis, scores, index);
  return index;
}

/* Subtracts what ALiBi does: adds slope·(key − query). */
static CudnnTensor add_alibi(const Parts *p, CudnnTensor scores) {
  const gint64 heads = p->a->k.n_heads;
  if (!p->a->is_ruled)
    return scores;
  CudnnTensor row = index_of(p, ROW, scores), column = index_of(p, COLUMN, scores);
  CudnnTensor slopes = cudnn_tensor(p->graph, ID_SLOPES, CUDNN_DATA_FLOAT, dense(1, heads, 1, 1));
  CudnnTensor distance = apply_to_index(p, CUDNN_POINTWISE_SUB, CUDNN_DATA_INT32, column, row);
  return apply(p, CUDNN_POINTWISE_ADD, scores, apply(p, CUDNN_POINTWISE_MUL, distance, slopes, score_shape(p)),
               score_shape(p));
}

static CudnnTensor select_seen(const Parts *p, cudnnPointwiseMode_t compare, CudnnTensor left, CudnnTensor right,
                               CudnnTensor scores) {
  CudnnTensor is_seen = apply_to_index(p, compare, CUDNN_DATA_BOOLEAN, left, right);
  CudnnTensor masked = inner(p, CUDNN_DATA_FLOAT, score_shape(p));
  cudnn_pointwise(p->graph, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, scores,
                  cudnn_scalar(p->graph, ID_MINUS_INFINITY, CUDNN_DATA_FLOAT), is_seen, masked);
  return masked;
}

/* Query i sees keys j ≤ i + keys − queries. */
static CudnnTensor mask_later(const Parts *p, CudnnTensor scores) {
  const FlashBlock *block = &p->a->k.block;
  if (block->is_full)
    return scores;
  CudnnTensor row = index_of(p, ROW, scores), column = index_of(p, COLUMN, scores);
  if (block->keys != block->queries) {
    row = apply_to_index(p, CUDNN_POINTWISE_ADD, CUDNN_DATA_INT32, row,
                         cudnn_scalar(p->graph, ID_KEYS, CUDNN_DATA_INT32));
    row = apply_to_index(p, CUDNN_POINTWISE_SUB, CUDNN_DATA_INT32, row,
                         cudnn_scalar(p->graph, ID_QUERIES, CUDNN_DATA_INT32));
  }
  return select_seen(p, CUDNN_POINTWISE_CMP_GE, row, column, scores);
}

/* … of which j + window − (keys − queries) > i. */
static CudnnTensor mask_earlier(const Parts *p, CudnnTensor scores) {
  if (p->a->window == 0)
    return scores;
  CudnnTensor row = index_of(p, ROW, scores), column = index_of(p, COLUMN, scores);
  column = apply_to_index(p, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, column,
                          cudnn_scalar(p->graph, ID_WINDOW, CUDNN_DATA_FLOAT));
  return select_seen(p, CUDNN_POINTWISE_CMP_GT, column, row, scores);
}

static CudnnTensor mask(const Parts *p, CudnnTensor scores) {
  return mask_earlier(p, mask_later(p, scores));
}

static Parts parts_new(CudnnGraph *graph, const Attention *a) {
  const FlashKernel *k = &a->k;
  Parts p = {graph, a, k->number == NUMBER_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF, NULL, NULL, NULL};
  p.q = cudnn_tensor(graph, ID_Q, p.type, query_shape(a, k->head_dim, k->ld_qkv));
  p.kt = cudnn_tensor(graph, ID_K, p.type, transposed(key_shape(a, k->head_dim, k->block.ld_kv)));
  p.scale = cudnn_scalar(graph, ID_SCALE, CUDNN_DATA_FLOAT);
  return p;
}

/* scale·(Q·Kᵀ), plus ALiBi */
static CudnnTensor scores_of(const Parts *p) {
  CudnnTensor scores = inner(p, CUDNN_DATA_FLOAT, score_shape(p));
  cudnn_matmul(p->graph, p->q, p->kt, scores);
  return add_alibi(p, apply(p, CUDNN_POINTWISE_MUL, scores, p->scale, score_shape(p)));
}

static void build_forward(CudnnGraph *graph, const Attention *a) {
  const FlashKernel *k = &a->k;
  const Parts p = parts_new(graph, a);
  const CudnnShape scores = score_shape(&p), rows = row_shape(&p);
  CudnnTensor v = cudnn_tensor(graph, ID_V, p.type, key_shape(a, k->v_head_dim, k->block.ld_kv));
  CudnnTensor o = cudnn_tensor(graph, ID_O, p.type, query_shape(a, k->v_head_dim, k->ld_o));
  CudnnTensor lse = cudnn_tensor(graph, ID_LSE, CUDNN_DATA_FLOAT, rows);
  CudnnTensor masked = mask(&p, scores_of(&p));
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
static void transposed_product(const Parts *p, CudnnTensor weights, CudnnTensor x, gint64 id, gint64 dim) {
  const FlashKernel *k = &p->a->k;
  CudnnTensor turned = inner(p, p->type, transposed(score_shape(p)));
  CudnnTensor to = cudnn_tensor(p->graph, id, p->type, key_gradient_shape(p->a, dim));
  cudnn_reshape(p->graph, weights, turned);
  if (k->n_heads == k->n_kv_heads) {
    cudnn_matmul(p->graph, turned, x, to);
    return;
  }
  CudnnTensor all = inner(p, p->type, dense(k->sequences, k->n_heads, k->block.keys, dim));
  cudnn_matmul(p->graph, turned, x, all);
  cudnn_reduce(p->graph, CUDNN_REDUCE_TENSOR_ADD, all, to);
}

/* D = Σ dO·O. */
static CudnnTensor row_deltas(const Parts *p, CudnnTensor d_o) {
  const FlashKernel *k = &p->a->k;
  const gint64 h = k->n_heads, s = k->block.queries, d = k->v_head_dim;
  CudnnTensor o = cudnn_tensor(p->graph, ID_O, p->type, query_shape(p->a, d, k->ld_o));
  CudnnTensor product =
      apply(p, CUDNN_POINTWISE_MUL, d_o, o, (CudnnShape){{k->sequences, h, s, d}, {h * s * d, s * d, h * d, 1}});
  CudnnTensor sums = inner(p, CUDNN_DATA_FLOAT, row_shape(p));
  CudnnTensor delta = cudnn_tensor(p->graph, ID_DELTA, CUDNN_DATA_FLOAT, row_shape(p));
  cudnn_reduce(p->graph, CUDNN_REDUCE_TENSOR_ADD, product, sums);
  cudnn_pointwise(p->graph, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, sums,
                  cudnn_scalar(p->graph, ID_ONE, CUDNN_DATA_FLOAT), NULL, delta);
  return delta;
}

static void build_backward(CudnnGraph *graph, const Attention *a) {
  const FlashKernel *k = &a->k;
  const Parts p = parts_new(graph, a);
  const CudnnShape scores = score_shape(&p), keys = key_shape(a, k->head_dim, k->block.ld_kv);
  CudnnTensor vt = cudnn_tensor(graph, ID_V, p.type, transposed(key_shape(a, k->v_head_dim, k->block.ld_kv)));
  CudnnTensor d_o = cudnn_tensor(graph, ID_DO, p.type, query_shape(a, k->v_head_dim, k->ld_o));
  CudnnTensor lse = cudnn_tensor(graph, ID_LSE, CUDNN_DATA_FLOAT, row_shape(&p));
  CudnnTensor delta = row_deltas(&p, d_o);
  CudnnTensor less = apply(&p, CUDNN_POINTWISE_SUB, scores_of(&p), lse, scores);
  CudnnTensor probabilities = apply(&p, CUDNN_POINTWISE_EXP, mask(&p, less), NULL, scores);
  transposed_product(&p, probabilities, d_o, ID_DV, k->v_head_dim);
  CudnnTensor dp = inner(&p, CUDNN_DATA_FLOAT, scores);
  cudnn_matmul(graph, d_o, vt, dp);
  CudnnTensor centred = apply(&p, CUDNN_POINTWISE_SUB, dp, delta, scores);
  CudnnTensor weighted = apply(&p, CUDNN_POINTWISE_MUL, centred, probabilities, scores);
  CudnnTensor ds = apply(&p, CUDNN_POINTWISE_MUL, weighted, p.scale, scores);
  transposed_product(&p, ds, p.q, ID_DK, k->head_dim);
  CudnnTensor rows_of_k = inner(&p, CUDNN_DATA_FLOAT, keys);
  cudnn_reshape(graph, p.kt, rows_of_k);
  CudnnTensor sum =
      cudnn_tensor(graph, ID_DQ_FP32, CUDNN_DATA_FLOAT, dense(k->sequences, k->n_heads, k->block.queries, k->head_dim));
  CudnnTensor dq = cudnn_tensor(graph, ID_DQ, p.type, query_shape(a, k->head_dim, k->block.ld_dq));
  cudnn_matmul(graph, ds, rows_of_k, sum);
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
  if (plan->slopes != NULL)
    (void)cudaFree(plan->slopes);
  g_free(plan->why_not);
  g_free(plan);
}

static Plan *find_plan(Cudnn *cudnn, const Attention *a, gboolean is_backward) {
  const FlashKernel *k = &a->k;
  const FlashBlock *block = &k->block;
  const Plan key = {.v = {k->number,
                          is_backward,
                          k->sequences,
                          k->seq_len,
                          k->n_heads,
                          k->n_kv_heads,
                          k->head_dim,
                          k->v_head_dim,
                          k->ld_qkv,
                          k->ld_o,
                          block->is_full,
                          block->adds,
                          block->queries,
                          block->keys,
                          block->key_rows,
                          block->ld_kv,
                          is_backward ? block->ld_dq : 0,
                          is_backward ? block->ld_dkv : 0,
                          a->window,
                          a->is_ruled ? k->rule.alibi_heads << 32 | k->rule.first_head : -1}};
  Plan *plan = g_hash_table_lookup(cudnn->plans, &key);
  if (plan != NULL)
    return plan;
  plan = g_new0(Plan, 1);
  memcpy(plan->v, key.v, sizeof plan->v);
  cudnn_graph_init(&plan->graph, &cudnn->library, cudnn->handle, cudnn->gpu);
  if (is_backward)
    build_backward(&plan->graph, a);
  else
    build_forward(&plan->graph, a);
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
static gboolean is_aligned(const Attention *a, gboolean is_backward) {
  const FlashKernel *k = &a->k;
  const void *all[] = {k->q, k->k, k->v, k->o, k->d_o, k->dq, k->dk, k->dv};
  for (gsize i = 0; i < (is_backward ? G_N_ELEMENTS(all) : 4); i++)
    if ((guintptr)all[i] % 16 != 0)
      return FALSE;
  const gint64 steps[] = {k->head_dim, k->v_head_dim,  k->ld_qkv,      k->block.ld_kv,
                          k->ld_o,     k->block.ld_dq, k->block.ld_dkv};
  for (gsize i = 0; i < (is_backward ? G_N_ELEMENTS(steps) : 5); i++)
    if (steps[i] % 8 != 0)
      return FALSE;
  return TRUE;
}

/* Whether the first query is at the first key's position, and all others follow in order. */
static gboolean starts_alike(const FlashBlock *block) {
  const RowPositions *rows[] = {&block->query_at, &block->key_at};
  const gint64 n_rows[] = {block->queries, block->keys};
  for (int i = 0; i < 2; i++)
    if (rows[i]->half > 0 && rows[i]->half < n_rows[i] && rows[i]->early != rows[i]->late)
      return FALSE;
  return row_position(&block->query_at, 0) == row_position(&block->key_at, 0);
}

const char *cudnn_attention_outside(const FlashKernel *kernel, gboolean is_backward) {
  const Attention a = attention_of(kernel);
  const FlashBlock *block = &a.k.block;
  return kernel->number == NUMBER_FP32   ? "not for fp32"
         : kernel->drop.dropout.rate > 0 ? "not with dropout"
         : a.is_ruled && (block->is_full || block->keys != block->queries || !starts_alike(block))
             ? "ALiBi only where queries and keys are the same tokens"
         : !is_aligned(&a, is_backward) ? "not aligned to 16 bytes"
                                        : NULL;
}

/* NULL: no known fault. */
static const char *known_fault(const Cudnn *cudnn, const Attention *a, gboolean is_backward) {
  if (cudnn->version >= 91000 && cudnn->version < 91002)
    return "attention is wrong in this version";
  if (is_backward && cudnn->version < CUDNN_ANY_LENGTH && a->k.block.keys % 128 != 0)
    return "backward of this version needs numbers of keys that are multiples of 128";
  return NULL;
}

/* Places in scratch; each begins at a multiple of 256 bytes. */
typedef struct {
  gint64 delta, dq_fp32, lse, dk, dv, workspace, end;
} Places;

static gint64 place_after(gint64 place, gint64 bytes) {
  return place + (bytes + 255) / 256 * 256;
}

static Places places_of(const Attention *a, gboolean is_backward, gint64 workspace_bytes) {
  const FlashKernel *k = &a->k;
  const gint64 rows = is_backward ? n_lse(a) : 0, adds = is_backward && k->block.adds ? 1 : 0;
  const gint64 key_rows = adds * k->sequences * k->block.keys * k->n_kv_heads * kernel_element_bytes((Number)k->number);
  Places p = {0};
  p.dq_fp32 = place_after(p.delta, rows * 4);
  p.lse = place_after(p.dq_fp32, rows * k->head_dim * 4);
  p.dk = place_after(p.lse, a->has_gaps ? n_lse(a) * 4 : 0);
  p.dv = place_after(p.dk, key_rows * k->head_dim);
  p.workspace = place_after(p.dv, key_rows * k->v_head_dim);
  p.end = p.workspace + workspace_bytes;
  return p;
}

/* The log-sum-exp into scratch without gaps, or back. */
static gboolean copy_lse(const Attention *a, float *dense_rows, gboolean is_back, cudaStream_t stream, GError **error) {
  const FlashKernel *k = &a->k;
  const gsize row = (gsize)k->block.queries * sizeof(float), step = (gsize)k->seq_len * sizeof(float);
  const gsize n = (gsize)(k->sequences * k->n_heads);
  return !a->has_gaps ||
         CUDA_CALL(cudaMemcpy2DAsync(is_back ? k->lse : dense_rows, is_back ? step : row, is_back ? dense_rows : k->lse,
                                     is_back ? row : step, row, n, cudaMemcpyDeviceToDevice, stream),
                   error);
}

/* to += the gradient computed in scratch. */
static gboolean add_gradient(const Attention *a, gint64 dim, const void *from, void *to, cudaStream_t stream,
                             GError **error) {
  const FlashKernel *k = &a->k;
  const gint64 width = k->n_kv_heads * dim, step = k->block.key_rows * k->block.ld_dkv;
  const MoveKernel add = {.number = k->number,
                          .batch = k->sequences,
                          .rows = k->block.keys,
                          .width = width,
                          .ld_a = k->block.ld_dkv,
                          .ld_b = width,
                          .ld_out = k->block.ld_dkv,
                          .stride_a = step,
                          .stride_b = k->block.keys * width,
                          .stride_out = step,
                          .a = to,
                          .b = from,
                          .out = to};
  return CUDA_CALL(cuda_move(&add, NULL, stream), error);
}

/* Written by kernels at the plan's first run: a copy from the host's memory might wait for the stream, which may wait
 * for another rank. */
static gboolean set_slopes(Plan *plan, const Attention *a, cudaStream_t stream, GError **error) {
  if (!a->is_ruled || plan->slopes != NULL)
    return TRUE;
  gboolean ok = CUDA_CALL(cudaMalloc((void **)&plan->slopes, (gsize)a->k.n_heads * sizeof(float)), error);
  for (gint64 head = 0; ok && head < a->k.n_heads; head++) {
    const InitKernel one = {.number = NUMBER_FP32,
                            .rows = 1,
                            .columns = 1,
                            .ld = 1,
                            .whole_rows = 1,
                            .whole_width = 1,
                            .mean = alibi_slope(&a->k.rule, head),
                            .to = plan->slopes + head};
    ok = CUDA_CALL(cuda_init(&one, NULL, stream), error);
  }
  return ok;
}

static gboolean execute(Cudnn *cudnn, Plan *plan, const Attention *a, const Places *places, char *scratch) {
  const FlashKernel *k = &a->k;
  const gboolean adds = k->block.adds;
  float minus_infinity = cudnn->version < CUDNN_INFINITE_MASK ? -FLT_MAX : -INFINITY, one = 1.0f, scale = k->scale;
  float window = (float)(a->window - k->block.keys + k->block.queries);
  gint32 queries = (gint32)k->block.queries, keys = (gint32)k->block.keys;
  void *const of_id[N_IDS] = {[ID_Q] = (void *)k->q,
                              [ID_K] = (void *)k->k,
                              [ID_V] = (void *)k->v,
                              [ID_O] = k->o,
                              [ID_LSE] = a->has_gaps ? (void *)(scratch + places->lse) : k->lse,
                              [ID_DO] = (void *)k->d_o,
                              [ID_DQ] = k->dq,
                              [ID_DK] = adds ? scratch + places->dk : k->dk,
                              [ID_DV] = adds ? scratch + places->dv : k->dv,
                              [ID_DELTA] = scratch + places->delta,
                              [ID_DQ_FP32] = scratch + places->dq_fp32,
                              [ID_SLOPES] = plan->slopes,
                              [ID_SCALE] = &scale,
                              [ID_MINUS_INFINITY] = &minus_infinity,
                              [ID_ONE] = &one,
                              [ID_QUERIES] = &queries,
                              [ID_KEYS] = &keys,
                              [ID_WINDOW] = &window};
  return cudnn_graph_execute(&plan->graph, of_id, scratch + places->workspace);
}

/* NULL with the reason if there is no graph for the kernel. A Plan whose own why_not is set: cuDNN found none. */
static Plan *plan_of(Cudnn *cudnn, const Attention *a, gboolean is_backward, char **why_not) {
  const char *fault = cudnn_attention_outside(&a->k, is_backward);
  if (fault == NULL)
    fault = known_fault(cudnn, a, is_backward);
  if (fault == NULL)
    return find_plan(cudnn, a, is_backward);
  *why_not = g_strdup(fault);
  return NULL;
}

gint64 cudnn_workspace_bytes(Cudnn *cudnn, const FlashKernel *kernel, gboolean is_backward, char **why_not) {
  const Attention a = attention_of(kernel);
  const Plan *plan = plan_of(cudnn, &a, is_backward, why_not);
  if (plan != NULL && plan->why_not == NULL)
    return plan->graph.workspace_bytes;
  if (plan != NULL)
    *why_not = g_strdup(plan->why_not);
  return -1;
}

static gboolean run_plan(Cudnn *cudnn, Plan *plan, const Attention *a, gboolean is_backward, cudaStream_t stream,
                         GError **error) {
  const Places places = places_of(a, is_backward, plan->graph.workspace_bytes);
  char *scratch = cuda_scratch_get(&cudnn->scratch, places.end, error);
  if (scratch == NULL || !set_slopes(plan, a, stream, error))
    return FALSE;
  if (cudnn->library.SetStream(cudnn->handle, stream) != CUDNN_STATUS_SUCCESS)
    return fail_impossible(error, "the stream cannot be set");
  float *lse = (float *)(void *)(scratch + places.lse);
  if (is_backward && !copy_lse(a, lse, FALSE, stream, error))
    return FALSE;
  if (!execute(cudnn, plan, a, &places, scratch))
    return fail_impossible(error, "%s", plan->graph.why_not);
  if (!is_backward)
    return copy_lse(a, lse, TRUE, stream, error);
  return !a->k.block.adds || (add_gradient(a, a->k.head_dim, scratch + places.dk, a->k.dk, stream, error) &&
                              add_gradient(a, a->k.v_head_dim, scratch + places.dv, a->k.dv, stream, error));
}

gboolean cudnn_attention(Cudnn *cudnn, const FlashKernel *kernel, gboolean is_backward, cudaStream_t stream,
                         char **why_not) {
  const Attention a = attention_of(kernel);
  g_autoptr(GError) error = NULL;
  Plan *plan = plan_of(cudnn, &a, is_backward, why_not);
  if (plan == NULL)
    return FALSE;
  if (plan->why_not == NULL && !run_plan(cudnn, plan, &a, is_backward, stream, &error))
    plan->why_not = g_strdup(error->message);
  *why_not = g_strdup(plan->why_not);
  return plan->why_not == NULL;
}
