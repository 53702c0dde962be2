/* Norms, and the sums over rows that give the gradients of weights and biases.
 *
 * Sums over rows: rows are cut into chunks; a block sums the rows of one chunk for 32 columns into scratch
 * [sum][chunk][width]; a second kernel adds the chunks to the gradient, in order. */
#include "cuda_element.cuh"

namespace {

constexpr int COLUMNS = 32;
constexpr int ROW_LANES = 8;
constexpr int MAX_CHUNKS = 128;

int n_chunks(gint64 rows) {
  return (int)MIN(MAX_CHUNKS, MAX(1, ceil_div(rows, 4 * ROW_LANES)));
}

/* The terms of a row and column: up to two sums. */
template <typename T> struct BiasTerm {
  const T *dy;
  int64_t width;
  __device__ void add(int64_t row, int64_t column, float sum[2]) const {
    sum[0] += to_float(dy[row * width + column]);
  }
};

/* IN_LINES: rows lie side by side. */
template <typename T, bool IN_LINES> struct NormTerm {
  NormKernel k;
  __device__ void add(int64_t row, int64_t column, float sum[2]) const {
    const int64_t at = IN_LINES ? norm_row_at(&k, row) : row * k.width;
    const T *x = k.kept == nullptr ? (const T *)k.x + at : (const T *)k.kept + row * k.width;
    const float d = to_float(((const T *)k.dy)[at + column]), centre = k.is_rms ? 0.0f : k.mean[row];
    sum[0] += d * (to_float(x[column]) - centre) * k.rstd[row];
    sum[1] += d;
  }
};

template <typename Term>
__global__ void sum_chunks(Term term, int64_t rows, int64_t width, int n_sums, float *__restrict__ partial) {
  __shared__ float shared[2][ROW_LANES][COLUMNS];
  const int64_t column = (int64_t)blockIdx.x * COLUMNS + threadIdx.x;
  const int64_t per_chunk = (rows + gridDim.y - 1) / gridDim.y;
  const int64_t first = blockIdx.y * per_chunk, end = min(rows, first + per_chunk);
  float sum[2] = {0.0f, 0.0f};
  if (column < width)
    for (int64_t row = first + threadIdx.y; row < end; row += ROW_LANES)
      term.add(row, column, sum);
  for (int s = 0; s < 2; s++)
    shared[s][threadIdx.y][threadIdx.x] = sum[s];
  __syncthreads();
  if ((int)threadIdx.y >= n_sums || column >= width)
    return;
  float total = 0.0f;
  for (int i = 0; i < ROW_LANES; i++)
    total += shared[threadIdx.y][i][threadIdx.x];
  partial[((int64_t)threadIdx.y * gridDim.y + blockIdx.y) * width + column] = total;
}

template <typename G> __global__ void add_chunks(const float *__restrict__ partial, int chunks, int64_t width, G *to) {
  const int64_t column = thread_here();
  if (column >= width)
    return;
  float total = 0.0f;
  for (int i = 0; i < chunks; i++)
    total += partial[i * width + column];
  to[column] = from_float<G>(to_float(to[column]) + total);
}

cudaError_t add_to_gradient(int gradient, const float *partial, int chunks, gint64 width, void *to,
                            cudaStream_t stream) {
  return with_number(gradient, [&](auto zero) {
    using G = decltype(zero);
    add_chunks<G>
        <<<(unsigned)ceil_div(width, BLOCK_THREADS), BLOCK_THREADS, 0, stream>>>(partial, chunks, width, (G *)to);
    return cudaGetLastError();
  });
}

template <typename Term>
cudaError_t sum_rows(Term term, gint64 rows, gint64 width, int n_sums, float *scratch, cudaStream_t stream) {
  const dim3 grid((unsigned)ceil_div(width, COLUMNS), (unsigned)n_chunks(rows));
  sum_chunks<<<grid, dim3(COLUMNS, ROW_LANES), 0, stream>>>(term, rows, width, n_sums, scratch);
  return cudaGetLastError();
}

/* The weights; ones if there are none. */
template <typename T, int N> __device__ Pack<T, N> weights_at(const Pack<T, N> *weight, int64_t i) {
  if (weight != nullptr)
    return weight[i];
  Pack<T, N> ones;
  for (int j = 0; j < N; j++)
    ones.v[j] = from_float<T>(1.0f);
  return ones;
}

/* One block per row; each pass reads the row again, from cache. A row of y may be that of x. */
template <typename T, int N> __global__ void norm_forward(NormKernel k) {
  using P = Pack<T, N>;
  __shared__ float shared[32];
  const int64_t row = blockIdx.x, at = norm_row_at(&k, row), packs = k.width / N;
  const P *x = (const P *)((const T *)k.x + at), *weight = (const P *)k.weight, *shift = (const P *)k.shift;
  P *y = (P *)((T *)k.y + at), *kept = k.kept == nullptr ? nullptr : (P *)((T *)k.kept + row * k.width);
  const bool is_part = k.whole_width > 0;
  const float n = (float)(is_part ? k.whole_width : k.width);
  float centre = 0.0f, sum = 0.0f;
  if (!k.is_rms && is_part) {
    centre = k.sums[1][row] / n;
  } else if (!k.is_rms) {
    for (int64_t i = threadIdx.x; i < packs; i += blockDim.x) {
      const P p = x[i];
      for (int j = 0; j < N; j++)
        sum += to_float(p.v[j]);
    }
    centre = block_reduce<SumOf>(sum, shared) / n;
    sum = 0.0f;
  }
  for (int64_t i = threadIdx.x; i < packs && !is_part; i += blockDim.x) {
    const P p = x[i];
    for (int j = 0; j < N; j++) {
      const float d = to_float(p.v[j]) - centre;
      sum += d * d;
    }
  }
  const float variance =
      is_part ? fmaxf(k.sums[0][row] / n - centre * centre, 0.0f) : block_reduce<SumOf>(sum, shared) / n;
  const float scale = 1.0f / sqrtf(variance + k.epsilon);
  for (int64_t i = threadIdx.x; i < packs; i += blockDim.x) {
    P p = x[i];
    const P w = weights_at<T, N>(weight, i);
    if (kept != nullptr)
      kept[i] = p;
    for (int j = 0; j < N; j++) {
      const float value = (to_float(p.v[j]) - centre) * scale * to_float(w.v[j]);
      p.v[j] = from_float<T>(shift == nullptr ? value : value + to_float(shift[i].v[j]));
    }
    y[i] = p;
  }
  if (threadIdx.x == 0) {
    k.rstd[row] = scale;
    if (!k.is_rms)
      k.mean[row] = centre;
  }
}

/* With g = dy·w and the normalised x̂: dx = rstd·(g − mean(g) − x̂·mean(g·x̂)); RMSNorm without mean(g). */
template <typename T, int N> __global__ void norm_backward(NormKernel k) {
  using P = Pack<T, N>;
  __shared__ float shared[32];
  const int64_t row = blockIdx.x, at = norm_row_at(&k, row), packs = k.width / N;
  const T *base = k.kept == nullptr ? (const T *)k.x + at : (const T *)k.kept + row * k.width;
  const P *x = (const P *)base, *weight = (const P *)k.weight, *dy = (const P *)((const T *)k.dy + at);
  P *dx = (P *)((T *)k.dx + at);
  const bool is_part = k.whole_width > 0;
  const float n = (float)(is_part ? k.whole_width : k.width), scale = k.rstd[row];
  const float centre = k.is_rms ? 0.0f : k.mean[row];
  float sum_g = 0.0f, sum_gx = 0.0f;
  for (int64_t i = threadIdx.x; i < packs && !is_part; i += blockDim.x) {
    const P p = x[i], w = weights_at<T, N>(weight, i), d = dy[i];
    for (int j = 0; j < N; j++) {
      const float g = to_float(d.v[j]) * to_float(w.v[j]);
      sum_g += g;
      sum_gx += g * (to_float(p.v[j]) - centre) * scale;
    }
  }
  const float mean_g = k.is_rms ? 0.0f : (is_part ? k.sums[1][row] : block_reduce<SumOf>(sum_g, shared)) / n;
  const float mean_gx = (is_part ? k.sums[0][row] : block_reduce<SumOf>(sum_gx, shared)) / n;
  for (int64_t i = threadIdx.x; i < packs; i += blockDim.x) {
    const P p = x[i], w = weights_at<T, N>(weight, i);
    P d = dy[i];
    for (int j = 0; j < N; j++) {
      const float normal = (to_float(p.v[j]) - centre) * scale;
      d.v[j] = from_float<T>(scale * (to_float(d.v[j]) * to_float(w.v[j]) - mean_g - normal * mean_gx));
    }
    dx[i] = d;
  }
}

/* One block per row, or per part of a row on this rank. */
template <typename T> __global__ void norm_sums(NormKernel k) {
  __shared__ float shared[32];
  const int64_t row = blockIdx.x;
  const T *x = (const T *)k.x + norm_row_at(&k, row);
  float squares = 0.0f, sum = 0.0f;
  for (int64_t j = threadIdx.x; j < k.width; j += blockDim.x) {
    const float value = to_float(x[j]);
    squares += value * value;
    sum += value;
  }
  squares = block_reduce<SumOf>(squares, shared);
  sum = k.is_rms ? 0.0f : block_reduce<SumOf>(sum, shared);
  if (threadIdx.x > 0)
    return;
  k.sums[0][row] = squares;
  if (!k.is_rms)
    k.sums[1][row] = sum;
}

template <typename T> __global__ void norm_sums_backward(NormKernel k) {
  __shared__ float shared[32];
  const int64_t row = blockIdx.x, at = norm_row_at(&k, row);
  const T *x = k.kept == nullptr ? (const T *)k.x + at : (const T *)k.kept + row * k.width;
  const T *dy = (const T *)k.dy + at, *weight = (const T *)k.weight;
  const float scale = k.rstd[row], centre = k.is_rms ? 0.0f : k.mean[row];
  float sum_g = 0.0f, sum_gx = 0.0f;
  for (int64_t j = threadIdx.x; j < k.width; j += blockDim.x) {
    const float g = to_float(dy[j]) * to_float(weight[j]);
    sum_g += g;
    sum_gx += g * (to_float(x[j]) - centre) * scale;
  }
  sum_gx = block_reduce<SumOf>(sum_gx, shared);
  sum_g = k.is_rms ? 0.0f : block_reduce<SumOf>(sum_g, shared);
  if (threadIdx.x > 0)
    return;
  k.sums[0][row] = sum_gx;
  if (!k.is_rms)
    k.sums[1][row] = sum_g;
}

/* One thread per pack of a narrow row, in whole warps. */
unsigned row_threads(gint64 packs) {
  return (unsigned)MIN(BLOCK_THREADS, ceil_div(packs, WARP_THREADS) * WARP_THREADS);
}

/* Whether packs of N elements are aligned to 16 bytes in all rows. */
template <int N> bool is_wide(const NormKernel *k) {
  return k->width % N == 0 && (k->per_line == 0 || k->ld % N == 0) && is_aligned(k->weight) && is_aligned(k->kept);
}

} // namespace

gint64 cuda_column_sum_scratch_bytes(gint64 rows, gint64 width, int n_sums) {
  return (gint64)sizeof(float) * n_sums * n_chunks(rows) * width;
}

cudaError_t cuda_norm_forward(const NormKernel *k, void *, cudaStream_t stream) {
  return with_number(k->number, [&](auto zero) {
    using T = decltype(zero);
    constexpr int N = 16 / sizeof(T);
    if (is_wide<N>(k) && is_aligned(k->x) && is_aligned(k->shift) && is_aligned(k->y))
      norm_forward<T, N><<<(unsigned)k->rows, row_threads(k->width / N), 0, stream>>>(*k);
    else
      norm_forward<T, 1><<<(unsigned)k->rows, row_threads(k->width), 0, stream>>>(*k);
  });
}

template <typename T> cudaError_t add_weight_gradients(const NormKernel *k, float *scratch, cudaStream_t stream) {
  const int chunks = n_chunks(k->rows), n_sums = k->dshift == nullptr ? 1 : 2;
  cudaError_t status = k->per_line > 0 ? sum_rows(NormTerm<T, true>{*k}, k->rows, k->width, n_sums, scratch, stream)
                                       : sum_rows(NormTerm<T, false>{*k}, k->rows, k->width, n_sums, scratch, stream);
  if (status == cudaSuccess)
    status = add_to_gradient(k->gradient, scratch, chunks, k->width, k->dweight, stream);
  if (status == cudaSuccess && n_sums == 2)
    status = add_to_gradient(k->gradient, scratch + chunks * k->width, chunks, k->width, k->dshift, stream);
  return status;
}

/* The weight gradients come first: dx may overwrite dy. */
cudaError_t cuda_norm_backward(const NormKernel *k, void *scratch, cudaStream_t stream) {
  return with_number(k->number, [&](auto zero) {
    using T = decltype(zero);
    constexpr int N = 16 / sizeof(T);
    if (k->dweight != nullptr) {
      const cudaError_t status = add_weight_gradients<T>(k, (float *)scratch, stream);
      if (status != cudaSuccess)
        return status;
    }
    if (is_wide<N>(k) && is_aligned(k->x) && is_aligned(k->dy) && is_aligned(k->dx))
      norm_backward<T, N><<<(unsigned)k->rows, row_threads(k->width / N), 0, stream>>>(*k);
    else
      norm_backward<T, 1><<<(unsigned)k->rows, row_threads(k->width), 0, stream>>>(*k);
    return cudaGetLastError();
  });
}

CUDA_KERNEL(norm_sums, NormKernel, block_for_each(k->rows), row_threads(k->width), 0, *k)
CUDA_KERNEL(norm_sums_backward, NormKernel, block_for_each(k->rows), row_threads(k->width), 0, *k)

cudaError_t cuda_bias_gradient(const BiasGradientKernel *k, void *scratch, cudaStream_t stream) {
  float *sums = (float *)scratch;
  cudaError_t status = with_number(k->number, [&](auto zero) {
    using T = decltype(zero);
    const BiasTerm<T> term = {(const T *)k->dy, k->width};
    return sum_rows(term, k->rows, k->width, 1, sums, stream);
  });
  if (status == cudaSuccess)
    status = add_to_gradient(k->gradient, sums, n_chunks(k->rows), k->width, k->out, stream);
  return status;
}
