/* Elementwise kernels: activations, additions, conversions, initial values. */
#include "cuda_element.cuh"

namespace {

constexpr float GELU_A = 0.7978845608028654f; /* √(2/π) */
constexpr float GELU_B = 0.044715f;

struct Gelu {
  static __device__ float of(float x) {
    return 0.5f * x * (1.0f + tanhf(GELU_A * (x + GELU_B * x * x * x)));
  }
  static __device__ float slope(float x) {
    const float t = tanhf(GELU_A * (x + GELU_B * x * x * x));
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * GELU_A * (1.0f + 3.0f * GELU_B * x * x);
  }
};

struct Silu {
  static __device__ float of(float x) {
    return x / (1.0f + expf(-x));
  }
  static __device__ float slope(float x) {
    const float sigmoid = 1.0f / (1.0f + expf(-x));
    return sigmoid * (1.0f + x * (1.0f - sigmoid));
  }
};

__device__ float factor_of(const float *scale, int64_t row) {
  return scale == nullptr ? 1.0f : scale[row];
}

/* `packs` of N columns per row of y; gated: x has twice as many. */
template <typename T, int N> __global__ void activation_forward(ActivationKernel k, int64_t packs) {
  const auto *x = (const Pack<T, N> *)k.x;
  const int64_t column = column_here(), row = blockIdx.x;
  const bool gated = k.gated;
  if (column >= packs)
    return;
  Pack<T, N> p = x[row * (gated ? 2 * packs : packs) + column], up = p;
  if (gated)
    up = x[row * 2 * packs + packs + column];
  const float factor = factor_of(k.scale, row);
  for (int j = 0; j < N; j++) {
    const float value = to_float(p.v[j]);
    p.v[j] = from_float<T>(factor * (gated ? Silu::of(value) * to_float(up.v[j]) : Gelu::of(value)));
  }
  ((Pack<T, N> *)k.y)[row * packs + column] = p;
}

template <typename T, int N> __global__ void activation_backward(ActivationKernel k, int64_t packs) {
  using P = Pack<T, N>;
  const P *x = (const P *)k.x;
  const bool gated = k.gated;
  const int64_t column = column_here(), row = blockIdx.x;
  if (column >= packs)
    return;
  const int64_t at = row * (gated ? 2 * packs : packs) + column;
  const P d = ((const P *)k.dy)[row * packs + column], gate = x[at], up = gated ? x[at + packs] : gate;
  const float factor = factor_of(k.scale, row);
  P dgate, dup;
  for (int j = 0; j < N; j++) {
    const float slope = factor * to_float(d.v[j]), value = to_float(gate.v[j]);
    if (gated)
      dup.v[j] = from_float<T>(slope * Silu::of(value));
    dgate.v[j] = from_float<T>(gated ? slope * to_float(up.v[j]) * Silu::slope(value) : slope * Gelu::slope(value));
  }
  ((P *)k.dx)[at] = dgate;
  if (gated)
    ((P *)k.dx)[at + packs] = dup;
}

/* One block per row: dscale = Σ dy·(y without scale). */
template <typename T> __global__ void activation_scale_gradient(ActivationKernel k) {
  __shared__ float shared[WARP_THREADS];
  const int64_t row = blockIdx.x, width = k.width;
  const bool gated = k.gated;
  const T *x = (const T *)k.x + row * (gated ? 2 * width : width);
  float sum = 0.0f;
  for (int64_t j = threadIdx.x; j < width; j += blockDim.x) {
    const float value = to_float(x[j]), y = gated ? Silu::of(value) * to_float(x[width + j]) : Gelu::of(value);
    sum += to_float(((const T *)k.dy)[row * width + j]) * y;
  }
  sum = block_reduce<SumOf>(sum, shared);
  if (threadIdx.x == 0)
    k.dscale[row] = sum;
}

template <typename T, int N> __global__ void add(AddKernel k, int64_t packs) {
  using P = Pack<T, N>;
  const P *bias = (const P *)k.bias;
  const int64_t column = column_here(), at = blockIdx.x * packs + column;
  if (column >= packs)
    return;
  P sum = ((const P *)k.a)[at];
  const P other = ((const P *)k.b)[at];
  for (int j = 0; j < N; j++) {
    const float value = to_float(sum.v[j]) + to_float(other.v[j]);
    sum.v[j] = from_float<T>(bias == nullptr ? value : value + to_float(bias[column].v[j]));
  }
  ((P *)k.out)[at] = sum;
}

template <typename T, int N> __global__ void cap_forward(CapKernel k, int64_t packs) {
  const int64_t column = column_here(), at = blockIdx.x * packs + column;
  if (column >= packs)
    return;
  Pack<T, N> p = ((const Pack<T, N> *)k.x)[at];
  for (int j = 0; j < N; j++)
    p.v[j] = from_float<T>(k.cap * tanhf(to_float(p.v[j]) / k.cap));
  ((Pack<T, N> *)k.y)[at] = p;
}

template <typename T, int N> __global__ void cap_backward(CapKernel k, int64_t packs) {
  const int64_t column = column_here(), at = blockIdx.x * packs + column;
  if (column >= packs)
    return;
  const Pack<T, N> p = ((const Pack<T, N> *)k.y)[at];
  Pack<T, N> d = ((const Pack<T, N> *)k.dy)[at];
  for (int j = 0; j < N; j++) {
    const float share = to_float(p.v[j]) / k.cap;
    d.v[j] = from_float<T>(to_float(d.v[j]) * (1.0f - share * share));
  }
  ((Pack<T, N> *)k.dx)[at] = d;
}

template <typename T, typename R> __global__ void add_bias(R *to, const T *__restrict__ bias, int64_t n, int64_t ld) {
  const int64_t column = column_here(), at = blockIdx.x * ld + column;
  if (column < n)
    to[at] = from_float<R>(to_float(to[at]) + to_float(bias[column]));
}

template <typename From, typename To, int N> __global__ void convert(ConvertKernel k, int64_t packs) {
  const int64_t i = thread_here();
  if (i >= packs)
    return;
  const Pack<From, N> in = ((const Pack<From, N> *)k.from)[i];
  Pack<To, N> *to = (Pack<To, N> *)k.to, out;
  if (k.accumulate)
    out = to[i];
  for (int j = 0; j < N; j++)
    out.v[j] = from_float<To>(k.accumulate ? to_float(out.v[j]) + to_float(in.v[j]) : to_float(in.v[j]));
  to[i] = out;
}

template <typename T> __global__ void init(InitKernel k) {
  const int64_t column = column_here(), row = blockIdx.x;
  if (column >= k.columns)
    return;
  double value = 0.0;
  if (k.first_row + row < k.whole_rows) {
    const guint64 at = (guint64)(k.first_row + row) * (guint64)k.whole_width + (guint64)(k.first_column + column);
    const double scale = (double)k.deviation * (3.4641016151377544 / 4294967296.0); /* √12 / 2³² */
    const gint32 centred = (gint32)(kernel_random(k.seed, at) ^ 0x80000000u);       /* (u − ½)·2³², exactly */
    value = k.mean + scale * (double)centred;
  }
  ((T *)k.to)[row * k.ld + column] = from_float<T>((float)value);
}

} // namespace

CUDA_PACKED_KERNEL(activation_forward, ActivationKernel, k->rows, k->width, k->x, k->y)

cudaError_t cuda_activation_backward(const ActivationKernel *k, void *, cudaStream_t stream) {
  const auto launch = [&](auto pack, int64_t packs) {
    using T = typename decltype(pack)::Element;
    constexpr int N = decltype(pack)::n;
    if (k->scale != nullptr) /* before dx, which may alias x */
      activation_scale_gradient<T><<<(unsigned)k->rows, BLOCK_THREADS, 0, stream>>>(*k);
    activation_backward<T, N><<<row_grid(k->rows, packs), BLOCK_THREADS, 0, stream>>>(*k, packs);
  };
  return with_packs(k->number, k->width, launch, k->x, k->dy, k->dx);
}

CUDA_PACKED_KERNEL(add, AddKernel, k->rows, k->width, k->a, k->b, k->bias, k->out)
CUDA_PACKED_KERNEL(cap_forward, CapKernel, k->rows, k->width, k->x, k->y)
CUDA_PACKED_KERNEL(cap_backward, CapKernel, k->rows, k->width, k->y, k->dy, k->dx)

cudaError_t cuda_add_bias(int number, int result, void *to, const void *bias, gint64 m, gint64 n, gint64 ld,
                          cudaStream_t stream) {
  return with_numbers(number, result, [&](auto zero, auto result_zero) {
    using T = decltype(zero);
    using R = decltype(result_zero);
    add_bias<T, R><<<row_grid(m, n), BLOCK_THREADS, 0, stream>>>((R *)to, (const T *)bias, n, ld);
  });
}

cudaError_t cuda_convert(const ConvertKernel *k, void *, cudaStream_t stream) {
  if (k->n == 0)
    return cudaSuccess;
  return with_numbers(k->from_number, k->to_number, [&](auto from_zero, auto to_zero) {
    using From = decltype(from_zero);
    using To = decltype(to_zero);
    if (k->n % 4 == 0 && is_aligned(k->from) && is_aligned(k->to))
      convert<From, To, 4><<<thread_grid(k->n / 4), BLOCK_THREADS, 0, stream>>>(*k, k->n / 4);
    else
      convert<From, To, 1><<<thread_grid(k->n), BLOCK_THREADS, 0, stream>>>(*k, k->n);
  });
}

CUDA_KERNEL(init, InitKernel, row_grid(k->rows, k->columns), BLOCK_THREADS, 0, *k)
