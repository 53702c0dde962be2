/* Word and position tables: rows fetched in forward, gradients added to rows in backward.
 *
 * Several tokens can be the same word. To fix the order of additions, the tokens of a word are first linked in order
 * (next[t]: the next token with the same word, −1: none; first[t]: no earlier one exists). Then one block per first
 * token walks its chain:
 *
 *     token   7  3  7  7  3        first  1  1  0  0  0
 *     next    2  4  3 −1 −1        two blocks add: row 7 += d0 + d2 + d3,  row 3 += d1 + d4 */
#include "cuda_element.cuh"

namespace {

template <typename T, int N> __global__ void embedding_forward(EmbeddingKernel k, int64_t packs) {
  const int64_t column = column_here(), row = blockIdx.x;
  const int64_t word = k.token[row] - k.first_word;
  if (column >= packs)
    return;
  Pack<T, N> p;
  if (word >= 0 && word < k.n_words)
    p = ((const Pack<T, N> *)k.table)[word * packs + column];
  else
    for (int j = 0; j < N; j++)
      p.v[j] = from_float<T>(0.0f);
  if (k.factor != 1.0f)
    for (int j = 0; j < N; j++)
      p.v[j] = from_float<T>(k.factor * to_float(p.v[j]));
  ((Pack<T, N> *)k.out)[row * packs + column] = p;
}

/* One warp per token: searches back for an earlier one, then ahead for the next. */
__global__ void link_tokens(const gint32 *__restrict__ token, int n, gint32 *next, gint32 *first) {
  const int t = (int)((blockIdx.x * blockDim.x + threadIdx.x) / WARP_THREADS), lane = threadIdx.x % WARP_THREADS;
  if (t >= n)
    return;
  const gint32 word = token[t];
  bool is_first = true;
  for (int base = 0; base < t && is_first; base += WARP_THREADS)
    is_first = !__any_sync(ALL_LANES, base + lane < t && token[base + lane] == word);
  gint32 following = -1;
  for (int base = t + 1; base < n && following < 0; base += WARP_THREADS) {
    const unsigned found = __ballot_sync(ALL_LANES, base + lane < n && token[base + lane] == word);
    if (found != 0)
      following = base + __ffs((int)found) - 1;
  }
  if (lane == 0) {
    next[t] = following;
    first[t] = is_first;
  }
}

template <typename T, typename G>
__global__ void embedding_backward(EmbeddingKernel k, const gint32 *__restrict__ next,
                                   const gint32 *__restrict__ first) {
  const int64_t column = column_here(), word = k.token[blockIdx.x] - k.first_word;
  if (column >= k.width || !first[blockIdx.x] || word < 0 || word >= k.n_words)
    return;
  float sum = 0.0f;
  for (gint32 t = (gint32)blockIdx.x; t >= 0; t = next[t])
    sum += to_float(((const T *)k.dout)[t * k.width + column]);
  G *to = (G *)k.dtable + word * k.width + column;
  *to = from_float<G>(to_float(*to) + k.factor * sum);
}

template <typename T> __global__ void positions_forward(PositionsKernel k) {
  const int64_t column = column_here(), row = blockIdx.x;
  if (column >= k.width)
    return;
  T *to = (T *)k.x + row * k.width + column;
  const int64_t position = sequence_position(k.pieces, (k.first_row + row) % k.seq_len, k.seq_len);
  *to = from_float<T>(to_float(*to) + to_float(((const T *)k.table)[position * k.width + column]));
}

/* Block p adds all rows at position p of a sequence. */
template <typename T, typename G> __global__ void positions_backward(PositionsKernel k) {
  const int64_t column = column_here(), place = blockIdx.x;
  const int64_t start = (place - k.first_row % k.seq_len + k.seq_len) % k.seq_len;
  if (column >= k.width || start >= k.rows)
    return;
  float sum = 0.0f;
  for (int64_t row = start; row < k.rows; row += k.seq_len)
    sum += to_float(((const T *)k.dx)[row * k.width + column]);
  G *to = (G *)k.dtable + sequence_position(k.pieces, place, k.seq_len) * k.width + column;
  *to = from_float<G>(to_float(*to) + sum);
}

} // namespace

CUDA_PACKED_KERNEL(embedding_forward, EmbeddingKernel, k->tokens, k->width, k->table, k->out)

cudaError_t cuda_embedding_backward(const EmbeddingKernel *k, void *scratch, cudaStream_t stream) {
  gint32 *next = (gint32 *)scratch, *first = next + k->tokens;
  link_tokens<<<(unsigned)ceil_div(k->tokens * WARP_THREADS, BLOCK_THREADS), BLOCK_THREADS, 0, stream>>>(
      k->token, (int)k->tokens, next, first);
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess)
    return status;
  return with_numbers(k->number, k->gradient, [&](auto zero, auto gradient_zero) {
    using T = decltype(zero);
    using G = decltype(gradient_zero);
    embedding_backward<T, G><<<row_grid(k->tokens, k->width), BLOCK_THREADS, 0, stream>>>(*k, next, first);
  });
}

CUDA_KERNEL(positions_forward, PositionsKernel, row_grid(k->rows, k->width), BLOCK_THREADS, 0, *k)

cudaError_t cuda_positions_backward(const PositionsKernel *k, void *, cudaStream_t stream) {
  return with_numbers(k->number, k->gradient, [&](auto zero, auto gradient_zero) {
    using T = decltype(zero);
    using G = decltype(gradient_zero);
    positions_backward<T, G><<<row_grid(k->seq_len, k->width), BLOCK_THREADS, 0, stream>>>(*k);
  });
}
