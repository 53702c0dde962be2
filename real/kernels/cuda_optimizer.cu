/* The gradient's norm and AdamW. */
#include "cuda_element.cuh"

namespace {

/* Block i adds a fixed part of the elements; then one block adds the blocks' sums in order. */
template <typename G> __global__ void sum_squares(const G *__restrict__ x, int64_t n, double *partial) {
  __shared__ double shared[32];
  double sum = 0.0;
#pragma unroll 4
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
    const double g = to_float(x[i]);
    sum += g * g;
  }
  sum = block_reduce<SumOf>(sum, shared);
  if (threadIdx.x == 0)
    partial[blockIdx.x] = sum;
}

__global__ void add_partial(const double *__restrict__ partial, int n, double *to) {
  __shared__ double shared[32];
  double sum = 0.0;
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    sum += partial[i];
  sum = block_reduce<SumOf>(sum, shared);
  if (threadIdx.x == 0)
    *to += sum;
}

template <typename T, typename G> __global__ void adam(AdamKernel k) {
  float clip = 1.0f;
  if (k.norm_squared != nullptr) {
    if (!isfinite(*k.norm_squared))
      return; /* whoever reads the norm ends the run; the weights stay what they were */
    const double norm = sqrt(*k.norm_squared);
    clip = norm > (double)k.max_norm ? (float)((double)k.max_norm / norm) : 1.0f;
  }
  T *weight = (T *)k.weight;
  G *gradients = (G *)k.gradients;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < k.n; i += (int64_t)gridDim.x * blockDim.x) {
    const float g = to_float(gradients[i]) * clip;
    const float p = k.master == nullptr ? to_float(weight[i]) : k.master[i];
    const float m = k.beta1 * k.m[i] + (1.0f - k.beta1) * g;
    const float v = k.beta2 * k.v[i] + (1.0f - k.beta2) * g * g;
    const float step = m / k.correction1 / (sqrtf(v / k.correction2) + k.epsilon) + k.decay * p;
    const float moved = p - k.lr * step;
    k.m[i] = m;
    k.v[i] = v;
    if (k.master != nullptr)
      k.master[i] = moved;
    weight[i] = from_float<T>(moved);
    gradients[i] = from_float<G>(0.0f);
  }
}

} // namespace

cudaError_t cuda_sum_squares(const SumSquaresKernel *k, double *scratch, cudaStream_t stream) {
  const int blocks = (int)MIN((int64_t)CUDA_SUM_SQUARES_BLOCKS, MAX(1, ceil_div(k->n, BLOCK_THREADS)));
  return with_number(k->gradient, [&](auto zero) {
    using G = decltype(zero);
    sum_squares<G><<<blocks, BLOCK_THREADS, 0, stream>>>((const G *)k->x, k->n, scratch);
    add_partial<<<1, BLOCK_THREADS, 0, stream>>>(scratch, blocks, k->sum);
    return cudaGetLastError();
  });
}

cudaError_t cuda_adam(const AdamKernel *k, cudaStream_t stream) {
  const unsigned blocks = (unsigned)MIN(1 << 20, MAX(1, ceil_div(k->n, BLOCK_THREADS)));
  return with_number(k->number, [&](auto zero) {
    using T = decltype(zero);
    return with_number(k->gradient, [&](auto gradient_zero) {
      using G = decltype(gradient_zero);
      adam<T, G><<<blocks, BLOCK_THREADS, 0, stream>>>(*k);
      return cudaGetLastError();
    });
  });
}
