/* Moving tokens to experts and back (cpu_experts.c has the picture). Rows are copied whole, in packs of 16 bytes.
 * Routing uses one thread per token; its gradient uses one per element of the scores, each of which sums over the
 * token's few choices again. */
#include "cuda_element.cuh"

namespace {

__device__ int64_t expert_at(const RouteKernel &k, int64_t choice) {
  return (choice + k.shift) % k.n_experts;
}

template <typename T> __global__ void route_forward(RouteKernel k) {
  const int64_t t = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, first = t * k.per_token;
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
  const int64_t expert = (int64_t)blockIdx.y * blockDim.x + threadIdx.x, t = blockIdx.x, first = t * k.per_token;
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
template <typename T, int N>
__global__ void permute(const gint32 *__restrict__ place, const Pack<T, N> *__restrict__ from,
                        Pack<T, N> *__restrict__ to, int64_t packs, int64_t per_token) {
  const int64_t column = (int64_t)blockIdx.y * blockDim.x + threadIdx.x, choice = blockIdx.x;
  if (column < packs)
    to[place[choice] * packs + column] = from[choice / per_token * packs + column];
}

template <typename T, int N>
__global__ void unpermute(const gint32 *__restrict__ place, const Pack<T, N> *__restrict__ from,
                          Pack<T, N> *__restrict__ to, int64_t packs, int64_t per_token) {
  const int64_t column = (int64_t)blockIdx.y * blockDim.x + threadIdx.x, t = blockIdx.x;
  if (column >= packs)
    return;
  float sum[N] = {};
  for (int64_t i = 0; i < per_token; i++) {
    const Pack<T, N> row = from[place[t * per_token + i] * packs + column];
    for (int j = 0; j < N; j++)
      sum[j] += to_float(row.v[j]);
  }
  Pack<T, N> out;
  for (int j = 0; j < N; j++)
    out.v[j] = from_float<T>(sum[j]);
  to[t * packs + column] = out;
}

/* One CUDA block per block of elements. */
template <typename T, int N>
__global__ void swap_blocks(const Pack<T, N> *__restrict__ from, Pack<T, N> *__restrict__ to, int64_t packs,
                            int64_t outer, int64_t inner) {
  const int64_t column = (int64_t)blockIdx.y * blockDim.x + threadIdx.x, o = blockIdx.x / inner, i = blockIdx.x % inner;
  if (column < packs)
    to[(i * outer + o) * packs + column] = from[(int64_t)blockIdx.x * packs + column];
}

/* Kernels for all-gather dispatch (cpu_gathered.c): one thread per expert, one block per row, or one block per token.
 */
__device__ int64_t rows_each(const GatheredKernel &k) {
  return k.tokens * k.per_token / k.n_experts;
}

__device__ int64_t expert_at(const GatheredKernel &k, int64_t choice) {
  return (choice + k.shift) % k.n_experts;
}

template <typename T> __global__ void spread(GatheredKernel k) {
  const int64_t expert = (int64_t)blockIdx.y * blockDim.x + threadIdx.x, t = blockIdx.x, first = t * k.per_token;
  if (expert >= k.n_experts)
    return;
  const int64_t i = (expert + k.n_experts - expert_at(k, first)) % k.n_experts;
  const bool is_chosen = i < k.per_token;
  k.chosen[t * k.n_experts + expert] = is_chosen;
  ((T *)k.dense)[t * k.n_experts + expert] =
      from_float<T>(is_chosen ? k.weights[expert * rows_each(k) + (first + i) / k.n_experts] : 0.0f);
}

template <typename T> __global__ void collect(GatheredKernel k) {
  const int64_t choice = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (choice >= k.tokens * k.per_token)
    return;
  const int64_t expert = expert_at(k, choice);
  k.weights[expert * rows_each(k) + choice / k.n_experts] =
      to_float(((const T *)k.dense)[choice / k.per_token * k.n_experts + expert]);
}

template <typename T, int N> __global__ void pick(GatheredKernel k, int64_t packs) {
  const int64_t column = (int64_t)blockIdx.y * blockDim.x + threadIdx.x, each = rows_each(k), row = blockIdx.x;
  const int64_t nth = row % each, source = row / each % k.sources, expert = k.first + row / each / k.sources;
  const int64_t choice = nth * k.n_experts + (expert + k.n_experts - k.shift % k.n_experts) % k.n_experts;
  const int64_t token = choice / k.per_token, from = source * k.tokens + token;
  const bool is_chosen = k.chosen == nullptr || k.chosen[source * k.chosen_bytes + token * k.n_experts + expert] != 0;
  if (column == 0 && k.chosen != nullptr)
    k.row_weights[row] = is_chosen ? to_float(((const T *)k.dense)[from * k.n_experts + expert]) : 0.0f;
  if (column >= packs)
    return;
  Pack<T, N> value;
  for (int j = 0; j < N; j++)
    value.v[j] = from_float<T>(0.0f);
  if (is_chosen)
    value = ((const Pack<T, N> *)k.all_tokens)[from * packs + column];
  ((Pack<T, N> *)k.rows)[row * packs + column] = value;
}

/* Row of the token's choice i; −1: its expert is on another rank. */
__device__ int64_t own_row(const GatheredKernel &k, int64_t source, int64_t token, int64_t i) {
  const int64_t choice = token * k.per_token + i, own = expert_at(k, choice) - k.first;
  return own < 0 || own >= k.n_own ? -1 : (own * k.sources + source) * rows_each(k) + choice / k.n_experts;
}

template <typename T, int N> __global__ void put(GatheredKernel k, int64_t packs) {
  const int64_t column = (int64_t)blockIdx.y * blockDim.x + threadIdx.x, to = blockIdx.x;
  const int64_t source = to / k.tokens, token = to % k.tokens;
  if (column >= packs)
    return;
  float sum[N] = {};
  for (int64_t i = 0; i < k.per_token; i++) {
    const int64_t at = own_row(k, source, token, i);
    if (at < 0)
      continue;
    const Pack<T, N> row = ((const Pack<T, N> *)k.rows)[at * packs + column];
    for (int j = 0; j < N; j++)
      sum[j] += to_float(row.v[j]);
  }
  Pack<T, N> out;
  for (int j = 0; j < N; j++)
    out.v[j] = from_float<T>(sum[j]);
  ((Pack<T, N> *)k.all_tokens)[to * packs + column] = out;
}

template <typename T> __global__ void put_weights(GatheredKernel k) {
  const int64_t expert = (int64_t)blockIdx.y * blockDim.x + threadIdx.x, to = blockIdx.x;
  const int64_t source = to / k.tokens, token = to % k.tokens;
  if (expert >= k.n_experts)
    return;
  const int64_t i = (expert + k.n_experts - expert_at(k, token * k.per_token)) % k.n_experts;
  const int64_t at = i < k.per_token ? own_row(k, source, token, i) : -1;
  ((T *)k.dense)[to * k.n_experts + expert] = from_float<T>(at < 0 ? 0.0f : k.row_weights[at]);
}

template <typename T> __global__ void gate_forward(GateKernel k) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < k.n)
    k.gate[i] = 1.0f / (1.0f + expf(-to_float(((const T *)k.logit)[i])));
}

template <typename T> __global__ void gate_backward(GateKernel k) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < k.n)
    ((T *)k.dlogit)[i] = from_float<T>(k.dgate[i] * k.gate[i] * (1.0f - k.gate[i]));
}

} // namespace

cudaError_t cuda_route_forward(const RouteKernel *k, void *, cudaStream_t stream) {
  return with_number(k->number, [&](auto zero) {
    using T = decltype(zero);
    route_forward<T><<<(unsigned)ceil_div(k->tokens, BLOCK_THREADS), BLOCK_THREADS, 0, stream>>>(*k);
  });
}

cudaError_t cuda_route_backward(const RouteKernel *k, void *, cudaStream_t stream) {
  return with_number(k->number, [&](auto zero) {
    using T = decltype(zero);
    route_backward<T><<<row_grid(k->tokens, k->n_experts, 1), BLOCK_THREADS, 0, stream>>>(*k);
  });
}

cudaError_t cuda_permute(const PermuteKernel *k, void *, cudaStream_t stream) {
  const auto launch = [&](auto pack, int64_t packs) {
    using P = decltype(pack);
    permute<<<row_grid(k->tokens * k->per_token, packs, 1), BLOCK_THREADS, 0, stream>>>(
        k->place, (const P *)k->from, (P *)k->to, packs, k->per_token);
  };
  return with_packs(k->number, k->width, launch, k->from, k->to);
}

cudaError_t cuda_unpermute(const PermuteKernel *k, void *, cudaStream_t stream) {
  const auto launch = [&](auto pack, int64_t packs) {
    using P = decltype(pack);
    unpermute<<<row_grid(k->tokens, packs, 1), BLOCK_THREADS, 0, stream>>>(k->place, (const P *)k->from, (P *)k->to,
                                                                           packs, k->per_token);
  };
  return with_packs(k->number, k->width, launch, k->from, k->to);
}

cudaError_t cuda_swap_blocks(const SwapBlocksKernel *k, void *, cudaStream_t stream) {
  const auto launch = [&](auto pack, int64_t packs) {
    using P = decltype(pack);
    swap_blocks<<<row_grid(k->outer * k->inner, packs, 1), BLOCK_THREADS, 0, stream>>>((const P *)k->from, (P *)k->to,
                                                                                       packs, k->outer, k->inner);
  };
  return with_packs(k->number, k->block, launch, k->from, k->to);
}

cudaError_t cuda_spread(const GatheredKernel *k, void *, cudaStream_t stream) {
  return with_number(k->number, [&](auto zero) {
    using T = decltype(zero);
    spread<T><<<row_grid(k->tokens, k->n_experts, 1), BLOCK_THREADS, 0, stream>>>(*k);
  });
}

cudaError_t cuda_collect(const GatheredKernel *k, void *, cudaStream_t stream) {
  return with_number(k->number, [&](auto zero) {
    using T = decltype(zero);
    const int64_t blocks = ceil_div(k->tokens * k->per_token, BLOCK_THREADS);
    collect<T><<<(unsigned)blocks, BLOCK_THREADS, 0, stream>>>(*k);
  });
}

cudaError_t cuda_pick(const GatheredKernel *k, void *, cudaStream_t stream) {
  const int64_t rows = k->n_own * k->sources * (k->tokens * k->per_token / k->n_experts);
  const auto launch = [&](auto pack, int64_t packs) {
    using T = typename decltype(pack)::Element;
    constexpr int N = decltype(pack)::n;
    pick<T, N><<<row_grid(rows, packs, 1), BLOCK_THREADS, 0, stream>>>(*k, packs);
  };
  return with_packs(k->number, k->width, launch, k->all_tokens, k->rows);
}

cudaError_t cuda_put(const GatheredKernel *k, void *, cudaStream_t stream) {
  const auto launch = [&](auto pack, int64_t packs) {
    using T = typename decltype(pack)::Element;
    constexpr int N = decltype(pack)::n;
    put<T, N><<<row_grid(k->sources * k->tokens, packs, 1), BLOCK_THREADS, 0, stream>>>(*k, packs);
  };
  const cudaError_t put_tokens = with_packs(k->number, k->width, launch, k->all_tokens, k->rows);
  if (put_tokens != cudaSuccess || k->dense == NULL)
    return put_tokens;
  return with_number(k->number, [&](auto zero) {
    using T = decltype(zero);
    put_weights<T><<<row_grid(k->sources * k->tokens, k->n_experts, 1), BLOCK_THREADS, 0, stream>>>(*k);
  });
}

cudaError_t cuda_gate_forward(const GateKernel *k, void *, cudaStream_t stream) {
  return with_number(k->number, [&](auto zero) {
    using T = decltype(zero);
    gate_forward<T><<<(unsigned)ceil_div(k->n, BLOCK_THREADS), BLOCK_THREADS, 0, stream>>>(*k);
  });
}

cudaError_t cuda_gate_backward(const GateKernel *k, void *, cudaStream_t stream) {
  return with_number(k->number, [&](auto zero) {
    using T = decltype(zero);
    gate_backward<T><<<(unsigned)ceil_div(k->n, BLOCK_THREADS), BLOCK_THREADS, 0, stream>>>(*k);
  });
}
