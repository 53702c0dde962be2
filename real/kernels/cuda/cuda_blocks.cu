/* Kernels for attention to blocks of a cut sequence, besides cuda_flash.cu: merging two blocks' outputs, and moving
 * rows between orders. */
#include "cuda_element.cuh"

namespace {

/* One warp per row of a head. */
template <typename T> __global__ void merge(MergeKernel k) {
  const int64_t at = thread_here() / WARP_THREADS;
  if (at >= k.sequences * k.n_heads * k.queries)
    return;
  const int64_t query = at % k.queries, head = at / k.queries % k.n_heads, sequence = at / k.queries / k.n_heads;
  float *lse = k.lse + (sequence * k.n_heads + head) * k.seq_len + query;
  const float own = __shfl_sync(ALL_LANES, *lse, 0); /* all lanes have read it before the first one writes */
  const float added = k.other_lse[(sequence * k.n_heads + head) * k.seq_len + query];
  const float most = fmaxf(own, added), both = most + logf(expf(own - most) + expf(added - most));
  const float own_share = expf(own - both), added_share = expf(added - both);
  const int64_t first = ((sequence * k.seq_len + query) * k.n_heads + head) * k.head_dim;
  T *o = (T *)k.o + first;
  const T *other = (const T *)k.other + first;
  for (int64_t d = threadIdx.x % WARP_THREADS; d < k.head_dim; d += WARP_THREADS)
    o[d] = from_float<T>(own_share * to_float(o[d]) + added_share * to_float(other[d]));
  if (threadIdx.x % WARP_THREADS == 0)
    *lse = both;
}

/* grid: (rows of all blocks, pieces of the row) */
template <typename T, int N> __global__ void move(MoveKernel k) {
  using P = Pack<T, N>;
  const int64_t column = column_here() * N;
  const int64_t block = blockIdx.x / k.rows, row = blockIdx.x % k.rows;
  if (column >= k.width)
    return;
  P value = {};
  if (k.a != nullptr)
    value = *(const P *)((const T *)k.a + block * k.stride_a + row * k.ld_a + column);
  if (k.a != nullptr && k.b != nullptr) {
    const P other = *(const P *)((const T *)k.b + block * k.stride_b + row * k.ld_b + column);
    for (int j = 0; j < N; j++)
      value.v[j] = from_float<T>(to_float(value.v[j]) + to_float(other.v[j]));
  }
  *(P *)((T *)k.out + block * k.stride_out + row * k.ld_out + column) = value;
}

/* Whether every row starts at a whole pack. */
bool is_packed(const MoveKernel *k, int64_t n) {
  const gint64 steps[] = {k->width, k->ld_a, k->ld_b, k->ld_out, k->stride_a, k->stride_b, k->stride_out};
  for (gint64 step : steps)
    if (step % n != 0)
      return false;
  return is_aligned(k->a) && is_aligned(k->b) && is_aligned(k->out);
}

} // namespace

CUDA_KERNEL(merge, MergeKernel, thread_grid(k->sequences * k->n_heads * k->queries * WARP_THREADS), BLOCK_THREADS, 0,
            *k)

cudaError_t cuda_move(const MoveKernel *k, void *, cudaStream_t stream) {
  return with_number(k->number, [&](auto zero) {
    using T = decltype(zero);
    constexpr int N = 16 / sizeof(T);
    if (is_packed(k, N))
      move<T, N><<<row_grid(k->batch * k->rows, k->width, N), BLOCK_THREADS, 0, stream>>>(*k);
    else
      move<T, 1><<<row_grid(k->batch * k->rows, k->width), BLOCK_THREADS, 0, stream>>>(*k);
  });
}
