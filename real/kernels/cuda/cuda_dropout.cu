/* Dropout of rows and of attention probabilities. No masks are stored: what is dropped follows from the positions. */
#include "cuda_element.cuh"

namespace {

template <typename T, int N> __global__ void drop_add(DropAddKernel k, int64_t packs) {
  using P = Pack<T, N>;
  const int64_t column = column_here(), row = blockIdx.x, at = row * packs + column;
  if (column >= packs)
    return;
  const guint64 place = token_place(&k.places, row) * (guint64)k.width + (guint64)(column * N);
  P out = ((const P *)k.b)[at], bias = out, a = out;
  if (k.bias != nullptr)
    bias = ((const P *)k.bias)[column];
  if (k.a != nullptr)
    a = ((const P *)k.a)[at];
  for (int j = 0; j < N; j++) {
    const float branch = to_float(out.v[j]) + (k.bias != nullptr ? to_float(bias.v[j]) : 0.0f);
    const float kept = dropout_factor(&k.dropout, place + (guint64)j) * branch;
    out.v[j] = from_float<T>(k.a != nullptr ? to_float(a.v[j]) + kept : kept);
  }
  ((P *)k.out)[at] = out;
}

/* One block per row. */
template <typename T> __global__ void drop_scores(DropScoresKernel k) {
  const int64_t row = blockIdx.x, matrix = row / k.seq_len;
  const guint64 place = score_row_place(&k.drop, matrix / k.n_heads, matrix % k.n_heads, row % k.seq_len);
  const T *from = (const T *)k.from + row * k.seq_len;
  T *to = (T *)k.to + row * k.seq_len;
  for (int64_t i = threadIdx.x; i < k.seq_len; i += blockDim.x)
    to[i] = from_float<T>(dropout_factor(&k.drop.dropout, place + (guint64)i) * to_float(from[i]));
}

} // namespace

CUDA_PACKED_KERNEL(drop_add, DropAddKernel, k->rows, k->width, k->a, k->b, k->bias, k->out)
CUDA_KERNEL(drop_scores, DropScoresKernel, (unsigned)(k->matrices * k->seq_len), BLOCK_THREADS, 0, *k)
