/* Causal fused attention in plain fp32 arithmetic: for fp32, and where cuDNN is missing or declines. Algorithm:
 * online softmax over key tiles, arXiv 2205.14135; backward recomputes p from the log-sum-exp.
 *
 * All three kernels have the same structure. A block holds a tile of ROWS (n_warps × 4) in shared memory and loops
 * over tiles of 32 COLUMNS; a warp owns 4 rows. First each lane is a column: it computes 4 dot products (row ·
 * column) over head_dim. Then each lane is a set of dimensions (lane, lane + 32, …): it adds weight·column for the 32
 * columns, getting the weights from the other lanes by shuffle.
 *
 *     forward   rows = queries   columns = keys      o  += p·v
 *     dq        rows = queries   columns = keys      dq += ds·k
 *     dkv       rows = keys      columns = queries   dv += p·do,  dk += ds·q;  all query heads of a key head in turn
 *
 * For a block of keys the diagonal is `shift` keys further right than for a whole sequence; without a mask it is
 * after the last key. Blocks' outputs are merged by cuda_blocks.cu.
 *
 * ALiBi subtracts from a score by the distance of key and query; a window hides keys before it, and tiles that it
 * hides entirely are skipped.
 *
 * Dropout multiplies the weights of the sum, not the sum that divides it; backward draws the same numbers again.
 *
 * Without any of these three, kernels compiled without them run (RULED false), which use fewer registers.
 *
 * No atomics: each output element has one owner, which adds in a fixed order. */
#include "cuda_element.cuh"

#include <math_constants.h>

namespace {

constexpr int TILE = 32; /* columns at a time: one per lane */
constexpr int ROWS = 4;  /* rows per warp */
constexpr int MAX_DIM = 256;

/* Rows of one head of one sequence: element (i, d) is base[i·ld + d]. Heads of q and k have `dim` columns, those of v
 * and o `dim_v`. */
template <typename T> struct HeadRows {
  const T *base;
  int64_t ld;
};

template <typename T>
__device__ HeadRows<T> query_rows(const void *base, int64_t ld, int dim, const FlashKernel &k, int64_t sequence,
                                  int64_t head) {
  return {(const T *)base + sequence * k.seq_len * ld + head * dim, ld};
}

template <typename T>
__device__ HeadRows<T> key_rows(const void *base, int64_t ld, int dim, const FlashKernel &k, int64_t sequence,
                                int64_t head) {
  return {(const T *)base + sequence * k.block.key_rows * ld + head * dim, ld};
}

/* Query i sees keys up to i + shift. */
__device__ __forceinline__ int diagonal_shift(const FlashBlock &block) {
  return (int)(block.is_full ? block.keys : block.keys - block.queries);
}

/* The head's slope; 0 without ALiBi. */
template <bool RULED> __device__ __forceinline__ float slope_of(const FlashKernel &k, int64_t head) {
  return RULED ? alibi_slope(&k.rule, head) : 0.0f;
}

/* What ALiBi subtracts from a score. */
template <bool RULED> __device__ __forceinline__ float alibi_of(const FlashKernel &k, float slope, int query, int key) {
  if (!RULED || slope == 0.0f)
    return 0.0f;
  return slope * (float)(row_position(&k.block.query_at, query) - row_position(&k.block.key_at, key));
}

/* The factor that dropout multiplies a probability by. */
template <bool RULED> __device__ __forceinline__ float drop_of(const FlashKernel &k, int64_t head, int query, int key) {
  if (!RULED || k.drop.dropout.rate == 0.0f)
    return 1.0f;
  const guint64 row = score_row_place(&k.drop, blockIdx.z, head, row_position(&k.block.query_at, query));
  return dropout_factor(&k.drop.dropout, row + (guint64)row_position(&k.block.key_at, key));
}

/* Whether the query sees the key. `shift`: of the diagonal, and of the window's end. */
template <bool RULED> __device__ __forceinline__ bool sees(const FlashKernel &k, int shift, int query, int key) {
  return key <= query + shift && (!RULED || k.rule.window == 0 || key > query + shift - k.rule.window);
}

/* Loads rows [first, first + n) into shared memory, `pitch` floats apart; zeros past the last of `n_rows`. */
template <typename T>
__device__ void load_rows(float *to, HeadRows<T> from, int first, int n, int n_rows, int dim, int pitch) {
  for (int i = threadIdx.x; i < n * dim; i += blockDim.x) {
    const int row = i / dim, d = i % dim;
    to[row * pitch + d] = first + row < n_rows ? to_float(from.base[(first + row) * from.ld + d]) : 0.0f;
  }
}

/* dots[r] = rows[r] · column. `rows`: the warp's first row. */
__device__ __forceinline__ void dot_rows(const float *rows, const float *column, int dim, int pitch, float dots[ROWS]) {
  for (int r = 0; r < ROWS; r++)
    dots[r] = 0.0f;
#pragma unroll 8
  for (int d = 0; d < dim; d++) {
    const float value = column[d];
    for (int r = 0; r < ROWS; r++)
      dots[r] += rows[r * pitch + d] * value;
  }
}

/* sums[r][i] += Σ over columns c of (weights[r] of lane c)·columns[c][lane + 32·i]. */
template <int PARTS>
__device__ __forceinline__ void add_columns(const float weights[ROWS], const float *columns, int dim, int pitch,
                                            float sums[ROWS][PARTS]) {
  const int lane = threadIdx.x % WARP_THREADS;
  for (int c = 0; c < TILE; c++) {
    float w[ROWS];
    for (int r = 0; r < ROWS; r++)
      w[r] = __shfl_sync(ALL_LANES, weights[r], c);
#pragma unroll
    for (int i = 0; i < PARTS; i++) {
      const int d = lane + WARP_THREADS * i;
      const float value = d < dim ? columns[c * pitch + d] : 0.0f;
      for (int r = 0; r < ROWS; r++)
        sums[r][i] += w[r] * value;
    }
  }
}

/* Stores the warp's 4 rows of sums, each times its factor, to the rows of `to` below `n_rows`, or adds them there. */
template <typename T, int PARTS>
__device__ void store_rows(HeadRows<T> to, int first, int n_rows, int dim, bool adds, const float factors[ROWS],
                           const float sums[ROWS][PARTS]) {
  const int lane = threadIdx.x % WARP_THREADS;
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int i = 0; i < PARTS; i++) {
      const int d = lane + WARP_THREADS * i;
      if (first + r >= n_rows || d >= dim)
        continue;
      T *at = (T *)to.base + (first + r) * to.ld + d;
      *at = from_float<T>(sums[r][i] * factors[r] + (adds ? to_float(*at) : 0.0f));
    }
}

/* Weights of one key tile: updates the running maximum and scales old sums by `keep`. */
__device__ __forceinline__ void online_softmax(float scores[ROWS], float most[ROWS], float total[ROWS],
                                               float keep[ROWS]) {
  for (int r = 0; r < ROWS; r++) {
    const float now = fmaxf(most[r], warp_reduce<MaxOf>(scores[r]));
    const float base = now == -CUDART_INF_F ? 0.0f : now; /* nothing seen yet */
    keep[r] = expf(most[r] - base);
    scores[r] = expf(scores[r] - base);
    total[r] = total[r] * keep[r] + warp_reduce<SumOf>(scores[r]);
    most[r] = now;
  }
}

/* grid: (query tiles, n_heads, sequences) */
template <typename T, int PARTS, bool RULED> __global__ void flash_forward(FlashKernel k) {
  extern __shared__ float shared[];
  const int dim = (int)k.head_dim, dim_v = (int)k.v_head_dim, n = (int)k.block.queries, m = (int)k.block.keys,
            shift = diagonal_shift(k.block);
  const int pitch = max(dim, dim_v) | 1, warps = blockDim.x / WARP_THREADS;
  const int lane = threadIdx.x % WARP_THREADS, own = threadIdx.x / WARP_THREADS * ROWS;
  const int first = (int)(gridDim.x - 1 - blockIdx.x) * warps * ROWS; /* the longest rows start first */
  const int64_t kv_head = blockIdx.y / (k.n_heads / k.n_kv_heads);
  float *q = shared, *keys = q + warps * ROWS * pitch, *values = keys + TILE * pitch;
  load_rows(q, query_rows<T>(k.q, k.ld_qkv, dim, k, blockIdx.z, blockIdx.y), first, warps * ROWS, n, dim, pitch);
  const float slope = slope_of<RULED>(k, blockIdx.y);
  float sums[ROWS][PARTS] = {}, most[ROWS], total[ROWS] = {}, keep[ROWS], scores[ROWS];
  for (int r = 0; r < ROWS; r++)
    most[r] = -CUDART_INF_F;
  const int end = min(m, first + warps * ROWS + shift);
  for (int start = RULED ? (int)first_seen(&k.rule, first + shift) / TILE * TILE : 0; start < end; start += TILE) {
    __syncthreads();
    load_rows(keys, key_rows<T>(k.k, k.block.ld_kv, dim, k, blockIdx.z, kv_head), start, TILE, m, dim, pitch);
    load_rows(values, key_rows<T>(k.v, k.block.ld_kv, dim_v, k, blockIdx.z, kv_head), start, TILE, m, dim_v, pitch);
    __syncthreads();
    dot_rows(q + own * pitch, keys + lane * pitch, dim, pitch, scores);
    const int key = start + lane;
    for (int r = 0; r < ROWS; r++) {
      const int query = first + own + r;
      const bool is_seen = key < m && sees<RULED>(k, shift, query, key);
      scores[r] = is_seen ? scores[r] * k.scale - alibi_of<RULED>(k, slope, query, key) : -CUDART_INF_F;
    }
    online_softmax(scores, most, total, keep);
    for (int r = 0; r < ROWS; r++)
      scores[r] *= drop_of<RULED>(k, blockIdx.y, first + own + r, key);
    for (int r = 0; r < ROWS; r++)
#pragma unroll
      for (int i = 0; i < PARTS; i++)
        sums[r][i] *= keep[r];
    add_columns<PARTS>(scores, values, dim_v, pitch, sums);
  }
  float inverse[ROWS];
  for (int r = 0; r < ROWS; r++) {
    inverse[r] = 1.0f / total[r];
    if (lane == 0 && first + own + r < n)
      k.lse[((int64_t)blockIdx.z * k.n_heads + blockIdx.y) * k.seq_len + first + own + r] = most[r] + logf(total[r]);
  }
  store_rows<T, PARTS>(query_rows<T>(k.o, k.ld_o, dim_v, k, blockIdx.z, blockIdx.y), first + own, n, dim_v, false,
                       inverse, sums);
}

/* delta[b][h][i] = Σ_d do·o. One warp per (row, head). */
template <typename T> __global__ void flash_delta(FlashKernel k, float *delta) {
  const int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP_THREADS;
  const int64_t n = k.block.queries, i = at % n, head = at / n % k.n_heads, sequence = at / n / k.n_heads;
  if (at >= k.sequences * k.n_heads * n)
    return;
  const int dim_v = (int)k.v_head_dim;
  const T *o = query_rows<T>(k.o, k.ld_o, dim_v, k, sequence, head).base + i * k.ld_o;
  const T *d_o = query_rows<T>(k.d_o, k.ld_o, dim_v, k, sequence, head).base + i * k.ld_o;
  float sum = 0.0f;
  for (int64_t d = threadIdx.x % WARP_THREADS; d < dim_v; d += WARP_THREADS)
    sum += to_float(o[d]) * to_float(d_o[d]);
  sum = warp_reduce<SumOf>(sum);
  if (threadIdx.x % WARP_THREADS == 0)
    delta[at] = sum;
}

/* grid: (query tiles, n_heads, sequences) */
template <typename T, int PARTS, bool RULED> __global__ void flash_dq(FlashKernel k, const float *__restrict__ delta) {
  extern __shared__ float shared[];
  const int dim = (int)k.head_dim, dim_v = (int)k.v_head_dim, n = (int)k.block.queries, m = (int)k.block.keys,
            shift = diagonal_shift(k.block);
  const int pitch = max(dim, dim_v) | 1, warps = blockDim.x / WARP_THREADS;
  const int lane = threadIdx.x % WARP_THREADS, own = threadIdx.x / WARP_THREADS * ROWS;
  const int first = (int)(gridDim.x - 1 - blockIdx.x) * warps * ROWS;
  const int64_t kv_head = blockIdx.y / (k.n_heads / k.n_kv_heads);
  const int64_t statistics = (int64_t)blockIdx.z * k.n_heads + blockIdx.y; /* head of a sequence */
  float *q = shared, *d_o = q + warps * ROWS * pitch, *keys = d_o + warps * ROWS * pitch;
  float *values = keys + TILE * pitch;
  load_rows(q, query_rows<T>(k.q, k.ld_qkv, dim, k, blockIdx.z, blockIdx.y), first, warps * ROWS, n, dim, pitch);
  load_rows(d_o, query_rows<T>(k.d_o, k.ld_o, dim_v, k, blockIdx.z, blockIdx.y), first, warps * ROWS, n, dim_v, pitch);
  const float slope = slope_of<RULED>(k, blockIdx.y);
  float sums[ROWS][PARTS] = {}, p[ROWS], ds[ROWS], lse[ROWS], centre[ROWS];
  for (int r = 0; r < ROWS; r++) {
    const int row = min(n - 1, first + own + r);
    lse[r] = k.lse[statistics * k.seq_len + row];
    centre[r] = delta[statistics * n + row];
  }
  const int end = min(m, first + warps * ROWS + shift);
  for (int start = RULED ? (int)first_seen(&k.rule, first + shift) / TILE * TILE : 0; start < end; start += TILE) {
    __syncthreads();
    load_rows(keys, key_rows<T>(k.k, k.block.ld_kv, dim, k, blockIdx.z, kv_head), start, TILE, m, dim, pitch);
    load_rows(values, key_rows<T>(k.v, k.block.ld_kv, dim_v, k, blockIdx.z, kv_head), start, TILE, m, dim_v, pitch);
    __syncthreads();
    dot_rows(q + own * pitch, keys + lane * pitch, dim, pitch, p);
    dot_rows(d_o + own * pitch, values + lane * pitch, dim_v, pitch, ds);
    const int key = start + lane;
    for (int r = 0; r < ROWS; r++) {
      const int query = first + own + r;
      const bool is_seen = key < m && sees<RULED>(k, shift, query, key);
      ds[r] = is_seen ? expf(k.scale * p[r] - alibi_of<RULED>(k, slope, query, key) - lse[r]) *
                            (ds[r] * drop_of<RULED>(k, blockIdx.y, query, key) - centre[r])
                      : 0.0f;
    }
    add_columns<PARTS>(ds, keys, dim, pitch, sums);
  }
  const float factors[ROWS] = {k.scale, k.scale, k.scale, k.scale};
  store_rows<T, PARTS>(query_rows<T>(k.dq, k.block.ld_dq, dim, k, blockIdx.z, blockIdx.y), first + own, n, dim, false,
                       factors, sums);
}

/* grid: (key tiles, n_kv_heads, sequences) */
template <typename T, int PARTS, bool RULED> __global__ void flash_dkv(FlashKernel k, const float *__restrict__ delta) {
  extern __shared__ float shared[];
  const int dim = (int)k.head_dim, dim_v = (int)k.v_head_dim, n = (int)k.block.queries, m = (int)k.block.keys,
            shift = diagonal_shift(k.block);
  const int pitch = max(dim, dim_v) | 1, warps = blockDim.x / WARP_THREADS;
  const int lane = threadIdx.x % WARP_THREADS, own = threadIdx.x / WARP_THREADS * ROWS;
  const int first = (int)blockIdx.x * warps * ROWS, heads = (int)(k.n_heads / k.n_kv_heads);
  float *keys = shared, *values = keys + warps * ROWS * pitch, *q = values + warps * ROWS * pitch;
  float *d_o = q + TILE * pitch;
  load_rows(keys, key_rows<T>(k.k, k.block.ld_kv, dim, k, blockIdx.z, blockIdx.y), first, warps * ROWS, m, dim, pitch);
  load_rows(values, key_rows<T>(k.v, k.block.ld_kv, dim_v, k, blockIdx.z, blockIdx.y), first, warps * ROWS, m, dim_v,
            pitch);
  float sum_k[ROWS][PARTS] = {}, sum_v[ROWS][PARTS] = {}, p[ROWS], ds[ROWS];
  const int past = first + warps * ROWS - 1 - shift; /* the last key's window ends last */
  const int end = !RULED || k.rule.window == 0 || past + k.rule.window > n ? n : past + (int)k.rule.window;
  for (int head = (int)blockIdx.y * heads; head < ((int)blockIdx.y + 1) * heads; head++) {
    const float slope = slope_of<RULED>(k, head);
    for (int start = max(0, first - shift) / TILE * TILE; start < end; start += TILE) {
      __syncthreads();
      load_rows(q, query_rows<T>(k.q, k.ld_qkv, dim, k, blockIdx.z, head), start, TILE, n, dim, pitch);
      load_rows(d_o, query_rows<T>(k.d_o, k.ld_o, dim_v, k, blockIdx.z, head), start, TILE, n, dim_v, pitch);
      __syncthreads();
      const int64_t of_head = (int64_t)blockIdx.z * k.n_heads + head, query = min(n - 1, start + lane);
      const float lse = k.lse[of_head * k.seq_len + query], centre = delta[of_head * n + query];
      dot_rows(keys + own * pitch, q + lane * pitch, dim, pitch, p);
      dot_rows(values + own * pitch, d_o + lane * pitch, dim_v, pitch, ds);
      for (int r = 0; r < ROWS; r++) {
        const int key = first + own + r;
        const bool is_seen = start + lane < n && sees<RULED>(k, shift, start + lane, key);
        p[r] = is_seen ? expf(k.scale * p[r] - alibi_of<RULED>(k, slope, start + lane, key) - lse) : 0.0f;
        const float factor = drop_of<RULED>(k, head, start + lane, key);
        ds[r] = p[r] * (ds[r] * factor - centre);
        p[r] *= factor;
      }
      add_columns<PARTS>(p, d_o, dim_v, pitch, sum_v);
      add_columns<PARTS>(ds, q, dim, pitch, sum_k);
    }
  }
  const float scales[ROWS] = {k.scale, k.scale, k.scale, k.scale}, ones[ROWS] = {1.0f, 1.0f, 1.0f, 1.0f};
  store_rows<T, PARTS>(key_rows<T>(k.dk, k.block.ld_dkv, dim, k, blockIdx.z, blockIdx.y), first + own, m, dim,
                       k.block.adds, scales, sum_k);
  store_rows<T, PARTS>(key_rows<T>(k.dv, k.block.ld_dkv, dim_v, k, blockIdx.z, blockIdx.y), first + own, m, dim_v,
                       k.block.adds, ones, sum_v);
}

/* Dynamic shared memory above 48 KiB must be requested; the function keeps the limit. */
template <typename K> cudaError_t allow_shared(K *function, size_t bytes) {
  return cudaFuncSetAttribute((const void *)function, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
}

int widest_head(const FlashKernel *k) {
  return (int)(k->head_dim > k->v_head_dim ? k->head_dim : k->v_head_dim);
}

/* Warps per block, 4 rows each: 8, or 4 for wide heads (every GPU since sm_86 has 99 KiB of shared memory). */
int n_warps(const FlashKernel *k) {
  return widest_head(k) > 128 ? 4 : 8;
}

dim3 tile_grid(const FlashKernel *k, gint64 rows, gint64 heads) {
  return dim3((unsigned)ceil_div(rows, n_warps(k) * ROWS), (unsigned)heads, (unsigned)k->sequences);
}

FlashKernel with_block(const FlashKernel *k) {
  FlashKernel with = *k;
  with.block = flash_block(k);
  return with;
}

template <typename T, int PARTS, bool RULED> cudaError_t launch_forward(const FlashKernel *k, cudaStream_t stream) {
  const int warps = n_warps(k);
  const size_t bytes = sizeof(float) * (widest_head(k) | 1) * (warps * ROWS + 2 * TILE);
  const cudaError_t status = allow_shared(flash_forward<T, PARTS, RULED>, bytes);
  if (status != cudaSuccess)
    return status;
  flash_forward<T, PARTS, RULED>
      <<<tile_grid(k, k->block.queries, k->n_heads), warps * WARP_THREADS, bytes, stream>>>(*k);
  return cudaGetLastError();
}

template <typename T, int PARTS, bool RULED>
cudaError_t launch_backward(const FlashKernel *k, float *delta, cudaStream_t stream) {
  const int warps = n_warps(k);
  const size_t bytes = sizeof(float) * (widest_head(k) | 1) * 2 * (warps * ROWS + TILE);
  cudaError_t status = allow_shared(flash_dq<T, PARTS, RULED>, bytes);
  if (status == cudaSuccess)
    status = allow_shared(flash_dkv<T, PARTS, RULED>, bytes);
  if (status != cudaSuccess)
    return status;
  const gint64 rows = k->sequences * k->n_heads * k->block.queries;
  flash_delta<T><<<(unsigned)ceil_div(rows * WARP_THREADS, BLOCK_THREADS), BLOCK_THREADS, 0, stream>>>(*k, delta);
  flash_dq<T, PARTS, RULED>
      <<<tile_grid(k, k->block.queries, k->n_heads), warps * WARP_THREADS, bytes, stream>>>(*k, delta);
  flash_dkv<T, PARTS, RULED>
      <<<tile_grid(k, k->block.keys, k->n_kv_heads), warps * WARP_THREADS, bytes, stream>>>(*k, delta);
  return cudaGetLastError();
}

template <typename T, bool RULED> cudaError_t forward_of(const FlashKernel *k, cudaStream_t stream) {
  return widest_head(k) <= 64    ? launch_forward<T, 2, RULED>(k, stream)
         : widest_head(k) <= 128 ? launch_forward<T, 4, RULED>(k, stream)
                                 : launch_forward<T, 8, RULED>(k, stream);
}

template <typename T, bool RULED> cudaError_t backward_of(const FlashKernel *k, float *scratch, cudaStream_t stream) {
  return widest_head(k) <= 64    ? launch_backward<T, 2, RULED>(k, scratch, stream)
         : widest_head(k) <= 128 ? launch_backward<T, 4, RULED>(k, scratch, stream)
                                 : launch_backward<T, 8, RULED>(k, scratch, stream);
}

bool is_ruled(const FlashKernel *k) {
  return k->rule.alibi_heads > 0 || k->rule.window > 0 || k->drop.dropout.rate > 0;
}

} // namespace

cudaError_t cuda_flash_forward(const FlashKernel *kernel, cudaStream_t stream) {
  const FlashKernel with = with_block(kernel), *k = &with;
  if (widest_head(k) > MAX_DIM || (k->block.is_full && k->rule.window > 0))
    return cudaErrorInvalidValue;
  return with_number(k->number, [&](auto zero) {
    using T = decltype(zero);
    return is_ruled(k) ? forward_of<T, true>(k, stream) : forward_of<T, false>(k, stream);
  });
}

cudaError_t cuda_flash_backward(const FlashKernel *kernel, float *scratch, cudaStream_t stream) {
  const FlashKernel with = with_block(kernel), *k = &with;
  if (widest_head(k) > MAX_DIM || (k->block.is_full && k->rule.window > 0))
    return cudaErrorInvalidValue;
  return with_number(k->number, [&](auto zero) {
    using T = decltype(zero);
    return is_ruled(k) ? backward_of<T, true>(k, scratch, stream) : backward_of<T, false>(k, scratch, stream);
  });
}
