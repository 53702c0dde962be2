/* Moving tokens to experts and back (cpu_experts.c has the picture). Rows are copied whole, in packs of 16 bytes.
 * Routing uses one thread per token; its gradient uses one per element of the scores, each of which sums over the
 * token's few choices again. */
#include "cuda_element.cuh"

namespace {

__device__ int64_t expert_at(const RouteKernel &k, int64_t choice) {
  return (choice + k.shift) % k.n_experts;
}

/* A pack of sums in fp32. */
template <typename T, int N> struct RowSum {
  float v[N] = {};
  __device__ void add(Pack<T, N> row) {
    for (int j = 0; j < N; j++)
      v[j] += to_float(row.v[j]);
  }
  __device__ Pack<T, N> rounded() const {
    Pack<T, N> out;
    for (int j = 0; j < N; j++)
      out.v[j] = from_float<T>(v[j]);
    return out;
  }
};

template <typename T> __global__ void route_forward(RouteKernel k) {
  const int64_t t = thread_here(), first = t * k.per_token;
  if (t >= k.tokens)
    return;
  const T *scores = (const T *)k.scores + t * k.n_experts;
  const int64_t rows_each = k.tokens * k.per_token / k.n_experts;
  float most = to_float(scores[expert_at(k, first)]), sum = 0.0f;
  for (int64_t i = 1; i < k.per_token; i++)
    most = fmaxf(most, to_float(scores[expert_at(k, first + i)]));
  for (int64_t i = 0; i < k.per_token; i++)
    sum += expf(to_float(scores[expert_at(k, first + i)]) - most);
  for (int64_t i = 0; i < k.per_token; i++) {
    const int64_t expert = expert_at(k, first + i), row = expert * rows_each + (first + i) / k.n_experts;
    k.place[first + i] = (gint32)row;
    k.weights[row] = k.factor * expf(to_float(scores[expert]) - most) / sum;
  }
}

template <typename T> __global__ void route_backward(RouteKernel k) {
  const int64_t expert = column_here(), t = blockIdx.x, first = t * k.per_token;
  if (expert >= k.n_experts)
    return;
  /* which of the token's choices this expert is */
  const int64_t own = (expert + k.n_experts - expert_at(k, first)) % k.n_experts;
  float value = 0.0f;
  if (own < k.per_token) {
    float sum = 0.0f;
    for (int64_t i = 0; i < k.per_token; i++)
      sum += k.weights[k.place[first + i]] * k.dweights[k.place[first + i]];
    const int64_t row = k.place[first + own];
    value = k.weights[row] * (k.dweights[row] - sum / k.factor);
  }
  ((T *)k.dscores)[t * k.n_experts + expert] = from_float<T>(value);
}

/* One block per choice. */
template <typename T, int N> __global__ void permute(PermuteKernel k, int64_t packs) {
  using P = Pack<T, N>;
  const int64_t column = column_here(), choice = blockIdx.x;
  if (column < packs)
    ((P *)k.to)[k.place[choice] * packs + column] = ((const P *)k.from)[choice / k.per_token * packs + column];
}

template <typename T, int N> __global__ void unpermute(PermuteKernel k, int64_t packs) {
  using P = Pack<T, N>;
  const int64_t column = column_here(), t = blockIdx.x;
  if (column >= packs)
    return;
  RowSum<T, N> sum;
  for (int64_t i = 0; i < k.per_token; i++)
    sum.add(((const P *)k.from)[k.place[t * k.per_token + i] * packs + column]);
  ((P *)k.to)[t * packs + column] = sum.rounded();
}

/* One CUDA block per block of elements. */
template <typename T, int N> __global__ void swap_blocks(SwapBlocksKernel k, int64_t packs) {
  using P = Pack<T, N>;
  const int64_t column = column_here(), o = blockIdx.x / k.inner, i = blockIdx.x % k.inner;
  if (column < packs)
    ((P *)k.to)[(i * k.outer + o) * packs + column] = ((const P *)k.from)[(int64_t)blockIdx.x * packs + column];
}

/* Kernels for all-gather dispatch (cpu_gathered.c): one thread per expert, one block per row, or one block per token.
 */
template <typename T> __global__ void spread(GatheredKernel k) {
  const int64_t expert = column_here(), t = blockIdx.x, first = t * k.per_token;
  if (expert >= k.n_experts)
    return;
  const int64_t i = gathered_nth_choice(&k, t, expert);
  const bool is_chosen = i < k.per_token;
  k.chosen[t * k.n_experts + expert] = is_chosen;
  ((T *)k.dense)[t * k.n_experts + expert] =
      from_float<T>(is_chosen ? k.weights[expert * gathered_rows_each(&k) + (first + i) / k.n_experts] : 0.0f);
}

template <typename T> __global__ void collect(GatheredKernel k) {
  const int64_t choice = thread_here();
  if (choice >= k.tokens * k.per_token)
    return;
  const int64_t expert = gathered_expert(&k, choice);
  k.weights[expert * gathered_rows_each(&k) + choice / k.n_experts] =
      to_float(((const T *)k.dense)[choice / k.per_token * k.n_experts + expert]);
}

template <typename T, int N> __global__ void pick(GatheredKernel k, int64_t packs) {
  const int64_t column = column_here(), each = gathered_rows_each(&k), row = blockIdx.x;
  const int64_t nth = row % each, source = row / each % k.sources, expert = k.first + row / each / k.sources;
  const int64_t choice = gathered_choice(&k, expert, nth);
  const int64_t token = choice / k.per_token, from = source * k.tokens + token;
  const bool is_chosen = k.chosen == nullptr || k.chosen[source * k.chosen_bytes + token * k.n_experts + expert] != 0;
  if (column == 0 && k.chosen != nullptr)
    k.row_weights[row] = is_chosen ? to_float(((const T *)k.dense)[from * k.n_experts + expert]) : 0.0f;
  if (column >= packs)
    return;
  Pack<T, N> value = RowSum<T, N>().rounded();
  if (is_chosen)
    value = ((const Pack<T, N> *)k.all_tokens)[from * packs + column];
  ((Pack<T, N> *)k.rows)[row * packs + column] = value;
}

template <typename T, int N> __global__ void put_tokens(GatheredKernel k, int64_t packs) {
  using P = Pack<T, N>;
  const int64_t column = column_here(), to = blockIdx.x, source = to / k.tokens, token = to % k.tokens;
  if (column >= packs)
    return;
  RowSum<T, N> sum;
  for (int64_t i = 0; i < k.per_token; i++) {
    const int64_t at = gathered_own_row(&k, source, token, i);
    if (at >= 0)
      sum.add(((const P *)k.rows)[at * packs + column]);
  }
  ((P *)k.all_tokens)[to * packs + column] = sum.rounded();
}

template <typename T> __global__ void put_weights(GatheredKernel k) {
  const int64_t expert = column_here(), to = blockIdx.x;
  const int64_t source = to / k.tokens, token = to % k.tokens;
  if (expert >= k.n_experts)
    return;
  const int64_t i = gathered_nth_choice(&k, token, expert);
  const int64_t at = i < k.per_token ? gathered_own_row(&k, source, token, i) : -1;
  ((T *)k.dense)[to * k.n_experts + expert] = from_float<T>(at < 0 ? 0.0f : k.row_weights[at]);
}

template <typename T> __global__ void gate_forward(GateKernel k) {
  const int64_t i = thread_here();
  if (i < k.n)
    k.gate[i] = 1.0f / (1.0f + expf(-to_float(((const T *)k.logit)[i])));
}

template <typename T> __global__ void gate_backward(GateKernel k) {
  const int64_t i = thread_here();
  if (i < k.n)
    ((T *)k.dlogit)[i] = from_float<T>(k.dgate[i] * k.gate[i] * (1.0f - k.gate[i]));
}

} // namespace

CUDA_KERNEL(route_forward, RouteKernel, thread_grid(k->tokens), BLOCK_THREADS, 0, *k)
CUDA_KERNEL(route_backward, RouteKernel, row_grid(k->tokens, k->n_experts), BLOCK_THREADS, 0, *k)
CUDA_PACKED_KERNEL(permute, PermuteKernel, k->tokens * k->per_token, k->width, k->from, k->to)
CUDA_PACKED_KERNEL(unpermute, PermuteKernel, k->tokens, k->width, k->from, k->to)
CUDA_PACKED_KERNEL(swap_blocks, SwapBlocksKernel, k->outer * k->inner, k->block, k->from, k->to)
CUDA_KERNEL(spread, GatheredKernel, row_grid(k->tokens, k->n_experts), BLOCK_THREADS, 0, *k)
CUDA_KERNEL(collect, GatheredKernel, thread_grid(k->tokens * k->per_token), BLOCK_THREADS, 0, *k)
CUDA_PACKED_KERNEL(pick, GatheredKernel, k->n_own * k->sources * gathered_rows_each(k), k->width, k->all_tokens,
                   k->rows)
CUDA_KERNEL(gate_forward, GateKernel, thread_grid(k->n), BLOCK_THREADS, 0, *k)
CUDA_KERNEL(gate_backward, GateKernel, thread_grid(k->n), BLOCK_THREADS, 0, *k)
static CUDA_PACKED_KERNEL(put_tokens, GatheredKernel, k->sources * k->tokens, k->width, k->all_tokens,
                          k->rows) static CUDA_KERNEL(put_weights, GatheredKernel,
                                                      row_grid(k->sources * k->tokens, k->n_experts), BLOCK_THREADS, 0,
                                                      *k)

    cudaError_t cuda_put(const GatheredKernel *k, void *scratch, cudaStream_t stream) {
  const cudaError_t status = cuda_put_tokens(k, scratch, stream);
  return status == cudaSuccess && k->dense != nullptr ? cuda_put_weights(k, scratch, stream) : status;
}
