/* The gradient's norm, AdamW and the loss's scale. */
#include "cuda_element.cuh"

namespace {

/* Block i sums a fixed part of the elements; then one block adds the blocks' sums in order. */
template <typename G> __global__ void sum_squares(const G *__restrict__ x, int64_t n, double *partial) {
  __shared__ double shared[32];
  double sum = 0.0;
#pragma unroll 4
  for (int64_t i = thread_here(); i < n; i += (int64_t)gridDim.x * blockDim.x) {
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
  T *weight = (T *)k.weight;
  G *gradients = (G *)k.gradients;
  const int64_t first = thread_here(), stride = (int64_t)gridDim.x * blockDim.x;
  if (k.norm_squared != nullptr && !isfinite(*k.norm_squared)) {
    /* the step is skipped, or the reader of the norm ends the run; the weights do not change */
    const bool skips = k.scale != nullptr && loss_scale_skips(k.scale, *k.norm_squared);
    for (int64_t i = first; skips && i < k.n; i += stride)
      gradients[i] = from_float<G>(0.0f);
    return;
  }
  const float factor = adam_gradient_factor(&k);
  const float c1 = k.scale != nullptr ? (float)(1.0 - k.scale->power1) : k.correction1;
  const float c2 = k.scale != nullptr ? (float)(1.0 - k.scale->power2) : k.correction2;
  for (int64_t i = first; i < k.n; i += stride) {
    const float g = to_float(gradients[i]) * factor;
    const float p = k.master == nullptr ? to_float(weight[i]) : k.master[i];
    const float m = k.beta1 * k.m[i] + (1.0f - k.beta1) * g;
    const float v = k.beta2 * k.v[i] + (1.0f - k.beta2) * g * g;
    const float step = m / c1 / (sqrtf(v / c2) + k.epsilon) + k.decay * p;
    const float moved = p - k.lr * step;
    k.m[i] = m;
    k.v[i] = v;
    if (k.master != nullptr)
      k.master[i] = moved;
    weight[i] = from_float<T>(moved);
    gradients[i] = from_float<G>(0.0f);
  }
}

template <typename T> __global__ void outer(OuterKernel k) {
  T *weight = (T *)k.weight;
  for (int64_t i = thread_here(); i < k.n; i += (int64_t)gridDim.x * blockDim.x) {
    if (k.is_before) {
      k.sum[i] = k.anchor[i] - (k.master == nullptr ? to_float(weight[i]) : k.master[i]);
      continue;
    }
    const float d = k.share * k.sum[i], m = k.factor * k.m[i] + d;
    const float p = k.anchor[i] - k.lr * (d + k.factor * m);
    k.m[i] = m;
    k.anchor[i] = p;
    if (k.master != nullptr)
      k.master[i] = p;
    weight[i] = from_float<T>(p);
  }
}

__global__ void loss_scale(LossScaleKernel k) {
  *k.to = loss_scale_next(k.from, *k.norm_squared, k.beta1, k.beta2);
}

} // namespace

cudaError_t cuda_sum_squares(const SumSquaresKernel *k, void *scratch, cudaStream_t stream) {
  const int blocks = (int)MIN((int64_t)CUDA_SUM_SQUARES_BLOCKS, MAX(1, ceil_div(k->n, BLOCK_THREADS)));
  return with_number(k->gradient, [&](auto zero) {
    using G = decltype(zero);
    sum_squares<G><<<blocks, BLOCK_THREADS, 0, stream>>>((const G *)k->x, k->n, (double *)scratch);
    add_partial<<<1, BLOCK_THREADS, 0, stream>>>((double *)scratch, blocks, k->sum);
  });
}

cudaError_t cuda_adam(const AdamKernel *k, void *, cudaStream_t stream) {
  const unsigned blocks = (unsigned)MIN(1 << 20, MAX(1, ceil_div(k->n, BLOCK_THREADS)));
  return with_numbers(k->number, k->gradient, [&](auto zero, auto gradient_zero) {
    using T = decltype(zero);
    using G = decltype(gradient_zero);
    adam<T, G><<<blocks, BLOCK_THREADS, 0, stream>>>(*k);
  });
}

cudaError_t cuda_outer(const OuterKernel *k, void *, cudaStream_t stream) {
  const unsigned blocks = (unsigned)MIN(1 << 20, MAX(1, ceil_div(k->n, BLOCK_THREADS)));
  return with_number(k->number, [&](auto zero) {
    using T = decltype(zero);
    outer<T><<<blocks, BLOCK_THREADS, 0, stream>>>(*k);
  });
}

cudaError_t cuda_loss_scale(const LossScaleKernel *k, void *, cudaStream_t stream) {
  loss_scale<<<1, 1, 0, stream>>>(*k);
  return cudaGetLastError();
}
