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

template <typename T, int N>
__global__ void embedding_forward(const gint32 *__restrict__ token, const Pack<T, N> *__restrict__ table,
                                  Pack<T, N> *__restrict__ out, float factor, int64_t packs, int64_t first_word,
                                  int64_t n_words) {
  const int64_t column = (int64_t)blockIdx.y * blockDim.x + threadIdx.x, row = blockIdx.x;
  const int64_t word = token[row] - first_word;
  if (column >= packs)
    return;
  Pack<T, N> p;
  if (word >= 0 && word < n_words)
    p = table[word * packs + column];
  else
    for (int j = 0; j < N; j++)
      p.v[j] = from_float<T>(0.0f);
  if (factor != 1.0f)
    for (int j = 0; j < N; j++)
      p.v[j] = from_float<T>(factor * to_float(p.v[j]));
  out[row * packs + column] = p;
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
__global__ void embedding_backward(const gint32 *__restrict__ token, const gint32 *__restrict__ next,
                                   const gint32 *__restrict__ first, const T *__restrict__ dout, G *dtable,
                                   float factor, int64_t width, int64_t first_word, int64_t n_words) {
  const int64_t column = (int64_t)blockIdx.y * blockDim.x + threadIdx.x, word = token[blockIdx.x] - first_word;
  if (column >= width || !first[blockIdx.x] || word < 0 || word >= n_words)
    return;
  float sum = 0.0f;
  for (gint32 t = (gint32)blockIdx.x; t >= 0; t = next[t])
    sum += to_float(dout[t * width + column]);
  G *to = dtable + word * width + column;
  *to = from_float<G>(to_float(*to) + factor * sum);
}

template <typename T>
__global__ void positions_forward(const T *__restrict__ table, T *x, int64_t width, int64_t first_row, int64_t seq_len,
                                  SequencePieces pieces) {
  const int64_t column = (int64_t)blockIdx.y * blockDim.x + threadIdx.x, row = blockIdx.x;
  if (column >= width)
    return;
  T *to = x + row * width + column;
  const int64_t position = sequence_position(pieces, (first_row + row) % seq_len, seq_len);
  *to = from_float<T>(to_float(*to) + to_float(table[position * width + column]));
}

/* Block p adds all rows at position p of a sequence. */
template <typename T, typename G>
__global__ void positions_backward(const T *__restrict__ dx, G *dtable, int64_t rows, int64_t width, int64_t first_row,
                                   int64_t seq_len, SequencePieces pieces) {
  const int64_t column = (int64_t)blockIdx.y * blockDim.x + threadIdx.x, place = blockIdx.x;
  const int64_t start = (place - first_row % seq_len + seq_len) % seq_len;
  if (column >= width || start >= rows)
    return;
  float sum = 0.0f;
  for (int64_t row = start; row < rows; row += seq_len)
    sum += to_float(dx[row * width + column]);
  G *to = dtable + sequence_position(pieces, place, seq_len) * width + column;
  *to = from_float<G>(to_float(*to) + sum);
}

template <typename T, int N> cudaError_t launch_embedding(const EmbeddingKernel *k, cudaStream_t stream) {
  using P = Pack<T, N>;
  embedding_forward<T, N><<<row_grid(k->tokens, k->width, N), BLOCK_THREADS, 0, stream>>>(
      k->token, (const P *)k->table, (P *)k->out, k->factor, k->width / N, k->first_word, k->n_words);
  return cudaGetLastError();
}

} // namespace

cudaError_t cuda_embedding_forward(const EmbeddingKernel *k, void *, cudaStream_t stream) {
  return with_number(k->number, [&](auto zero) {
    using T = decltype(zero);
    constexpr int N = 16 / sizeof(T);
    const bool wide = k->width % N == 0 && is_aligned(k->table) && is_aligned(k->out);
    return wide ? launch_embedding<T, N>(k, stream) : launch_embedding<T, 1>(k, stream);
  });
}

cudaError_t cuda_embedding_backward(const EmbeddingKernel *k, void *scratch, cudaStream_t stream) {
  gint32 *next = (gint32 *)scratch, *first = next + k->tokens;
  link_tokens<<<(unsigned)ceil_div(k->tokens * WARP_THREADS, BLOCK_THREADS), BLOCK_THREADS, 0, stream>>>(
      k->token, (int)k->tokens, next, first);
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess)
    return status;
  return with_number(k->number, [&](auto zero) {
    using T = decltype(zero);
    return with_number(k->gradient, [&](auto gradient_zero) {
      using G = decltype(gradient_zero);
      embedding_backward<T, G><<<row_grid(k->tokens, k->width, 1), BLOCK_THREADS, 0, stream>>>(
          k->token, next, first, (const T *)k->dout, (G *)k->dtable, k->factor, k->width, k->first_word, k->n_words);
      return cudaGetLastError();
    });
  });
}

cudaError_t cuda_positions_forward(const PositionsKernel *k, void *, cudaStream_t stream) {
  return with_number(k->number, [&](auto zero) {
    using T = decltype(zero);
    positions_forward<T><<<row_grid(k->rows, k->width, 1), BLOCK_THREADS, 0, stream>>>(
        (const T *)k->table, (T *)k->x, k->width, k->first_row, k->seq_len, k->pieces);
  });
}

cudaError_t cuda_positions_backward(const PositionsKernel *k, void *, cudaStream_t stream) {
  return with_number(k->number, [&](auto zero) {
    using T = decltype(zero);
    return with_number(k->gradient, [&](auto gradient_zero) {
      using G = decltype(gradient_zero);
      positions_backward<T, G><<<row_grid(k->seq_len, k->width, 1), BLOCK_THREADS, 0, stream>>>(
          (const T *)k->dx, (G *)k->dtable, k->rows, k->width, k->first_row, k->seq_len, k->pieces);
      return cudaGetLastError();
    });
  });
}
