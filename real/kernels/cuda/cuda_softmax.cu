/* Softmax over rows: of attention scores (causal), and of logits with the parts of the cross-entropy. One block per
 * row. */
#include "cuda_element.cuh"

#include <math_constants.h>

namespace {

/* Row r is query r % seq_len; keys after it, and before its window, are masked. */
template <typename T> __global__ void softmax_forward(SoftmaxKernel k) {
  __shared__ float shared[32];
  T *row = (T *)k.scores + blockIdx.x * k.seq_len;
  const int64_t query = blockIdx.x % k.seq_len, first = first_seen(&k.rule, query), n = query + 1;
  const float slope = k.rule.alibi_heads > 0 ? alibi_slope(&k.rule, blockIdx.x / k.seq_len % k.n_heads) : 0.0f;
  const auto score = [&](int64_t i) { return k.scale * to_float(row[i]) - slope * (float)(query - i); };
  float most = -CUDART_INF_F, sum = 0.0f;
  for (int64_t i = first + threadIdx.x; i < n; i += blockDim.x)
    most = fmaxf(most, score(i));
  most = block_reduce<MaxOf>(most, shared);
  for (int64_t i = first + threadIdx.x; i < n; i += blockDim.x)
    sum += expf(score(i) - most);
  const float inverse = 1.0f / block_reduce<SumOf>(sum, shared);
  for (int64_t i = threadIdx.x; i < k.seq_len; i += blockDim.x)
    row[i] = from_float<T>(i >= first && i < n ? expf(score(i) - most) * inverse : 0.0f);
}

template <typename T> __global__ void softmax_backward(SoftmaxKernel k) {
  __shared__ float shared[32];
  const T *p = (const T *)k.scores + blockIdx.x * k.seq_len;
  T *dp = (T *)k.dscores + blockIdx.x * k.seq_len;
  const int64_t query = blockIdx.x % k.seq_len, first = first_seen(&k.rule, query), n = query + 1;
  float sum = 0.0f;
  for (int64_t i = first + threadIdx.x; i < n; i += blockDim.x)
    sum += to_float(p[i]) * to_float(dp[i]);
  sum = block_reduce<SumOf>(sum, shared);
  for (int64_t i = threadIdx.x; i < k.seq_len; i += blockDim.x)
    dp[i] = from_float<T>(i >= first && i < n ? k.scale * to_float(p[i]) * (to_float(dp[i]) - sum) : 0.0f);
}

template <typename T> __global__ void loss_max(LossKernel k) {
  __shared__ float shared[32];
  const T *row = (const T *)k.logits + blockIdx.x * k.width;
  const int64_t n = loss_words(&k);
  float most = -CUDART_INF_F;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
    most = fmaxf(most, to_float(row[i]));
  most = block_reduce<MaxOf>(most, shared);
  if (threadIdx.x == 0)
    k.row_max[blockIdx.x] = most;
}

template <typename T> __global__ void loss_exp(LossKernel k) {
  __shared__ float shared[32];
  const T *row = (const T *)k.logits + blockIdx.x * k.width;
  float *probabilities = k.probabilities + blockIdx.x * k.width;
  const int64_t n = loss_words(&k), target = k.target[blockIdx.x] - k.first_word;
  const float most = k.row_max[blockIdx.x];
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < k.width; i += blockDim.x) {
    const float value = i < n ? expf(to_float(row[i]) - most) : 0.0f;
    probabilities[i] = value;
    sum += value;
  }
  sum = block_reduce<SumOf>(sum, shared);
  if (threadIdx.x == 0) {
    k.row_sum[blockIdx.x] = sum;
    k.row_target[blockIdx.x] = target >= 0 && target < n ? to_float(row[target]) - most : 0.0f;
  }
}

__global__ void loss_divide(LossKernel k) {
  float *probabilities = k.probabilities + blockIdx.x * k.width;
  const float inverse = 1.0f / k.row_sum[blockIdx.x];
  for (int64_t i = column_here(); i < k.width; i += (int64_t)gridDim.y * blockDim.x)
    probabilities[i] *= inverse;
}

__global__ void loss_sum(LossKernel k) {
  __shared__ double shared[32];
  double sum = 0.0;
  for (int64_t t = threadIdx.x; t < k.tokens; t += blockDim.x)
    sum += k.target[t] >= 0 ? log((double)k.row_sum[t]) - (double)k.row_target[t] : 0.0;
  sum = block_reduce<SumOf>(sum, shared);
  if (threadIdx.x == 0)
    *k.loss += k.loss_scale * sum;
}

template <typename T> __global__ void loss_backward(LossKernel k) {
  const int64_t column = column_here(), at = blockIdx.x * k.width + column;
  if (column >= k.width)
    return;
  const float hit = column == k.target[blockIdx.x] - k.first_word && column < loss_words(&k) ? 1.0f : 0.0f;
  const float counted = k.scale == nullptr ? k.gradient_scale : k.gradient_scale * (float)k.scale->scale;
  const float scale = k.target[blockIdx.x] >= 0 ? counted : 0.0f;
  ((T *)k.dlogits)[at] = from_float<T>(scale * (k.probabilities[at] - hit));
}

} // namespace

CUDA_KERNEL(softmax_forward, SoftmaxKernel, block_for_each(k->matrices * k->seq_len), BLOCK_THREADS, 0, *k)
CUDA_KERNEL(softmax_backward, SoftmaxKernel, block_for_each(k->matrices * k->seq_len), BLOCK_THREADS, 0, *k)
CUDA_KERNEL(loss_max, LossKernel, block_for_each(k->tokens), BLOCK_THREADS, 0, *k)
CUDA_KERNEL(loss_exp, LossKernel, block_for_each(k->tokens), BLOCK_THREADS, 0, *k)

cudaError_t cuda_loss_softmax(const LossKernel *k, void *, cudaStream_t stream) {
  loss_divide<<<row_grid(k->tokens, k->width, 4), BLOCK_THREADS, 0, stream>>>(*k);
  loss_sum<<<1, 1024, 0, stream>>>(*k);
  return cudaGetLastError();
}

CUDA_KERNEL(loss_backward, LossKernel, row_grid(k->tokens, k->width), BLOCK_THREADS, 0, *k)
