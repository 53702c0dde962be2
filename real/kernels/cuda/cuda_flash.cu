/* Causal attention in plain fp32 arithmetic: for fp32, and where cuDNN is missing or declines. Online softmax over
 * tiles of keys, arXiv 2205.14135; backward recomputes p from the log-sum-exp.
 *
 * A block is one warp and has one row of a head; it loops over tiles of 32 columns. First each lane is a column: it
 * computes its weight from dot products with the row. Then each lane is a set of dimensions (lane, lane + 32, …): it
 * adds weight·column for the tile's columns.
 *
 *     forward   row = query   columns = keys      o  += p·v
 *     dq        row = query   columns = keys      dq += ds·k
 *     dkv       row = key     columns = queries   dv += p·do,  dk += ds·q;  all query heads of a key head in turn
 *
 * For a block of keys the diagonal is `shift` keys further right than for a whole sequence; without a mask it is
 * after the last key. Blocks' outputs are merged by cuda_blocks.cu.
 *
 * ALiBi subtracts from a score by the distance of key and query; a window hides keys before it. Dropout multiplies the
 * weights of the sum, not the sum that divides it; backward draws the same numbers again.
 *
 * No atomics: each output element has one owner, which adds in a fixed order. */
#include "cuda_element.cuh"

#include <math_constants.h>

namespace {

constexpr int TILE = WARP_THREADS; /* columns at a time: one per lane */
constexpr int MAX_DIM = 256;
constexpr int PARTS = MAX_DIM / WARP_THREADS; /* dimensions of a lane */

/* Rows of one head of one sequence: element (i, d) is base[i·ld + d]. Heads of q and k have head_dim columns, those of
 * v and o v_head_dim. */
template <typename T> struct HeadRows {
  const T *base;
  int64_t ld;
  __device__ const T *at(int64_t row) const {
    return base + row * ld;
  }
};

template <typename T>
__device__ HeadRows<T> query_rows(const FlashKernel &k, const void *base, int64_t ld, int64_t dim, int64_t head) {
  return {(const T *)base + blockIdx.z * k.seq_len * ld + head * dim, ld};
}

template <typename T>
__device__ HeadRows<T> key_rows(const FlashKernel &k, const void *base, int64_t ld, int64_t dim, int64_t head) {
  return {(const T *)base + blockIdx.z * k.block.key_rows * ld + head * dim, ld};
}

struct Range {
  int64_t first, end;
};

/* Query i sees keys up to i + shift, of which a window hides the earlier ones. */
__device__ int64_t diagonal_shift(const FlashKernel &k) {
  return k.block.is_full ? k.block.keys : k.block.keys - k.block.queries;
}

__device__ Range keys_of(const FlashKernel &k, int64_t query) {
  const int64_t last = query + diagonal_shift(k);
  return {first_seen(&k.rule, last), min(k.block.keys, last + 1)};
}

__device__ Range queries_of(const FlashKernel &k, int64_t key) {
  const int64_t first = key - diagonal_shift(k), n = k.block.queries;
  return {max((int64_t)0, first), k.rule.window == 0 ? n : min(n, first + k.rule.window)};
}

/* What ALiBi subtracts from a score. */
__device__ float alibi_of(const FlashKernel &k, int64_t head, int64_t query, int64_t key) {
  if (k.rule.alibi_heads == 0)
    return 0.0f;
  return alibi_slope(&k.rule, head) *
         (float)(row_position(&k.block.query_at, query) - row_position(&k.block.key_at, key));
}

/* The factor that dropout multiplies a probability by. */
__device__ float drop_of(const FlashKernel &k, int64_t head, int64_t query, int64_t key) {
  if (k.drop.dropout.rate == 0.0f)
    return 1.0f;
  const guint64 row = score_row_place(&k.drop, blockIdx.z, head, row_position(&k.block.query_at, query));
  return dropout_factor(&k.drop.dropout, row + (guint64)row_position(&k.block.key_at, key));
}

template <typename T> __device__ void load_row(float *to, const T *from, int64_t dim) {
  for (int64_t d = threadIdx.x; d < dim; d += WARP_THREADS)
    to[d] = to_float(from[d]);
}

template <typename T> __device__ float dot(const float *row, const T *column, int64_t dim) {
  float sum = 0.0f;
  for (int64_t d = 0; d < dim; d++)
    sum += row[d] * to_float(column[d]);
  return sum;
}

/* sums[i] += Σ over n columns c, from `first` on, of weights[c]·columns[c][lane + 32·i]. */
template <typename T>
__device__ void add_columns(float sums[PARTS], const float *weights, HeadRows<T> columns, int64_t first, int64_t n,
                            int64_t dim) {
  for (int64_t c = 0; c < n; c++)
#pragma unroll
    for (int i = 0; i < PARTS; i++) {
      const int64_t d = threadIdx.x + WARP_THREADS * i;
      if (d < dim)
        sums[i] += weights[c] * to_float(columns.at(first + c)[d]);
    }
}

template <typename T>
__device__ void store_row(const T *row, int64_t dim, bool adds, float factor, const float sums[PARTS]) {
#pragma unroll
  for (int i = 0; i < PARTS; i++) {
    const int64_t d = threadIdx.x + WARP_THREADS * i;
    if (d < dim)
      ((T *)row)[d] = from_float<T>(sums[i] * factor + (adds ? to_float(row[d]) : 0.0f));
  }
}

/* grid: (queries, n_heads, sequences) */
template <typename T> __global__ void flash_forward(FlashKernel k) {
  __shared__ float q[MAX_DIM];
  __shared__ float weights[TILE];
  const int64_t query = blockIdx.x, head = blockIdx.y, kv_head = head / (k.n_heads / k.n_kv_heads);
  const Range seen = keys_of(k, query);
  const HeadRows<T> keys = key_rows<T>(k, k.k, k.block.ld_kv, k.head_dim, kv_head);
  const HeadRows<T> values = key_rows<T>(k, k.v, k.block.ld_kv, k.v_head_dim, kv_head);
  float sums[PARTS] = {}, most = -CUDART_INF_F, total = 0.0f;
  load_row(q, query_rows<T>(k, k.q, k.ld_qkv, k.head_dim, head).at(query), k.head_dim);
  __syncthreads();
  for (int64_t start = seen.first; start < seen.end; start += TILE) {
    const int64_t key = start + threadIdx.x;
    const float score =
        key < seen.end ? k.scale * dot(q, keys.at(key), k.head_dim) - alibi_of(k, head, query, key) : -CUDART_INF_F;
    const float now = fmaxf(most, warp_reduce<MaxOf>(score)), keep = expf(most - now), weight = expf(score - now);
    total = total * keep + warp_reduce<SumOf>(weight);
    most = now;
    weights[threadIdx.x] = weight * drop_of(k, head, query, key);
    for (int i = 0; i < PARTS; i++)
      sums[i] *= keep;
    __syncthreads();
    add_columns(sums, weights, values, start, min((int64_t)TILE, seen.end - start), k.v_head_dim);
    __syncthreads();
  }
  if (threadIdx.x == 0)
    k.lse[(blockIdx.z * k.n_heads + head) * k.seq_len + query] = most + logf(total);
  store_row(query_rows<T>(k, k.o, k.ld_o, k.v_head_dim, head).at(query), k.v_head_dim, false, 1.0f / total, sums);
}

/* grid: (queries, n_heads, sequences). Also leaves delta[sequence][head][query] = Σ_d do·o. */
template <typename T> __global__ void flash_dq(FlashKernel k, float *delta) {
  __shared__ float q[MAX_DIM];
  __shared__ float d_o[MAX_DIM];
  __shared__ float weights[TILE];
  const int64_t query = blockIdx.x, head = blockIdx.y, kv_head = head / (k.n_heads / k.n_kv_heads);
  const int64_t of_head = blockIdx.z * k.n_heads + head;
  const Range seen = keys_of(k, query);
  const HeadRows<T> keys = key_rows<T>(k, k.k, k.block.ld_kv, k.head_dim, kv_head);
  const HeadRows<T> values = key_rows<T>(k, k.v, k.block.ld_kv, k.v_head_dim, kv_head);
  const T *o = query_rows<T>(k, k.o, k.ld_o, k.v_head_dim, head).at(query);
  float sums[PARTS] = {}, centre = 0.0f;
  load_row(q, query_rows<T>(k, k.q, k.ld_qkv, k.head_dim, head).at(query), k.head_dim);
  load_row(d_o, query_rows<T>(k, k.d_o, k.ld_o, k.v_head_dim, head).at(query), k.v_head_dim);
  __syncthreads();
  for (int64_t d = threadIdx.x; d < k.v_head_dim; d += WARP_THREADS)
    centre += d_o[d] * to_float(o[d]);
  centre = warp_reduce<SumOf>(centre);
  if (threadIdx.x == 0)
    delta[of_head * k.block.queries + query] = centre;
  const float lse = k.lse[of_head * k.seq_len + query];
  for (int64_t start = seen.first; start < seen.end; start += TILE) {
    const int64_t key = start + threadIdx.x;
    float ds = 0.0f;
    if (key < seen.end)
      ds = expf(k.scale * dot(q, keys.at(key), k.head_dim) - alibi_of(k, head, query, key) - lse) *
           (dot(d_o, values.at(key), k.v_head_dim) * drop_of(k, head, query, key) - centre);
    weights[threadIdx.x] = ds;
    __syncthreads();
    add_columns(sums, weights, keys, start, min((int64_t)TILE, seen.end - start), k.head_dim);
    __syncthreads();
  }
  store_row(query_rows<T>(k, k.dq, k.block.ld_dq, k.head_dim, head).at(query), k.head_dim, false, k.scale, sums);
}

/* grid: (keys, n_kv_heads, sequences) */
template <typename T> __global__ void flash_dkv(FlashKernel k, const float *delta) {
  __shared__ float own_key[MAX_DIM];
  __shared__ float own_value[MAX_DIM];
  __shared__ float p[TILE];
  __shared__ float ds[TILE];
  const int64_t key = blockIdx.x, kv_head = blockIdx.y, shared = k.n_heads / k.n_kv_heads;
  const Range seen = queries_of(k, key);
  float sum_k[PARTS] = {}, sum_v[PARTS] = {};
  load_row(own_key, key_rows<T>(k, k.k, k.block.ld_kv, k.head_dim, kv_head).at(key), k.head_dim);
  load_row(own_value, key_rows<T>(k, k.v, k.block.ld_kv, k.v_head_dim, kv_head).at(key), k.v_head_dim);
  __syncthreads();
  for (int64_t head = kv_head * shared; head < (kv_head + 1) * shared; head++) {
    const HeadRows<T> q = query_rows<T>(k, k.q, k.ld_qkv, k.head_dim, head);
    const HeadRows<T> d_o = query_rows<T>(k, k.d_o, k.ld_o, k.v_head_dim, head);
    const int64_t of_head = blockIdx.z * k.n_heads + head;
    for (int64_t start = seen.first; start < seen.end; start += TILE) {
      const int64_t query = start + threadIdx.x, n = min((int64_t)TILE, seen.end - start);
      if (query < seen.end) {
        const float factor = drop_of(k, head, query, key);
        const float weight = expf(k.scale * dot(own_key, q.at(query), k.head_dim) - alibi_of(k, head, query, key) -
                                  k.lse[of_head * k.seq_len + query]);
        p[threadIdx.x] = weight * factor;
        ds[threadIdx.x] =
            weight * (dot(own_value, d_o.at(query), k.v_head_dim) * factor - delta[of_head * k.block.queries + query]);
      }
      __syncthreads();
      add_columns(sum_v, p, d_o, start, n, k.v_head_dim);
      add_columns(sum_k, ds, q, start, n, k.head_dim);
      __syncthreads();
    }
  }
  const bool adds = k.block.adds;
  store_row(key_rows<T>(k, k.dk, k.block.ld_dkv, k.head_dim, kv_head).at(key), k.head_dim, adds, k.scale, sum_k);
  store_row(key_rows<T>(k, k.dv, k.block.ld_dkv, k.v_head_dim, kv_head).at(key), k.v_head_dim, adds, 1.0f, sum_v);
}

bool is_possible(const FlashKernel &k) {
  return MAX(k.head_dim, k.v_head_dim) <= MAX_DIM && !(k.block.is_full && k.rule.window > 0);
}

FlashKernel with_block(const FlashKernel *kernel) {
  FlashKernel k = *kernel;
  k.block = flash_block(kernel);
  return k;
}

dim3 row_blocks(const FlashKernel &k, gint64 rows, gint64 heads) {
  return dim3((unsigned)rows, (unsigned)heads, (unsigned)k.sequences);
}

} // namespace

cudaError_t cuda_flash_forward(const FlashKernel *kernel, void *, cudaStream_t stream) {
  const FlashKernel k = with_block(kernel);
  if (!is_possible(k))
    return cudaErrorInvalidValue;
  return with_number(k.number, [&](auto zero) {
    using T = decltype(zero);
    flash_forward<T><<<row_blocks(k, k.block.queries, k.n_heads), WARP_THREADS, 0, stream>>>(k);
  });
}

cudaError_t cuda_flash_backward(const FlashKernel *kernel, void *scratch, cudaStream_t stream) {
  const FlashKernel k = with_block(kernel);
  if (!is_possible(k))
    return cudaErrorInvalidValue;
  return with_number(k.number, [&](auto zero) {
    using T = decltype(zero);
    flash_dq<T><<<row_blocks(k, k.block.queries, k.n_heads), WARP_THREADS, 0, stream>>>(k, (float *)scratch);
    flash_dkv<T><<<row_blocks(k, k.block.keys, k.n_kv_heads), WARP_THREADS, 0, stream>>>(k, (const float *)scratch);
  });
}
