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
template <typename T, int N>
__global__ void activation_forward(const Pack<T, N> *__restrict__ x, Pack<T, N> *__restrict__ y,
                                   const float *__restrict__ scale, int64_t packs, bool gated) {
  const int64_t column = (int64_t)blockIdx.y * blockDim.x + threadIdx.x, row = blockIdx.x;
  if (column >= packs)
    return;
  Pack<T, N> p = x[row * (gated ? 2 * packs : packs) + column], up = p;
  if (gated)
    up = x[row * 2 * packs + packs + column];
  const float factor = factor_of(scale, row);
  for (int j = 0; j < N; j++) {
    const float value = to_float(p.v[j]);
    p.v[j] = from_float<T>(factor * (gated ? Silu::of(value) * to_float(up.v[j]) : Gelu::of(value)));
  }
  y[row * packs + column] = p;
}

template <typename T, int N>
__global__ void activation_backward(const Pack<T, N> *x, const Pack<T, N> *dy, Pack<T, N> *dx,
                                    const float *__restrict__ scale, int64_t packs, bool gated) {
  const int64_t column = (int64_t)blockIdx.y * blockDim.x + threadIdx.x, row = blockIdx.x;
  if (column >= packs)
    return;
  const int64_t at = row * (gated ? 2 * packs : packs) + column;
  const Pack<T, N> d = dy[row * packs + column], gate = x[at], up = gated ? x[at + packs] : gate;
  const float factor = factor_of(scale, row);
  Pack<T, N> dgate, dup;
  for (int j = 0; j < N; j++) {
    const float slope = factor * to_float(d.v[j]), value = to_float(gate.v[j]);
    if (gated)
      dup.v[j] = from_float<T>(slope * Silu::of(value));
    dgate.v[j] = from_float<T>(gated ? slope * to_float(up.v[j]) * Silu::slope(value) : slope * Gelu::slope(value));
  }
  dx[at] = dgate;
  if (gated)
    dx[at + packs] = dup;
}

/* One block per row: dscale = Σ dy·(y without scale). */
template <typename T>
__global__ void activation_scale_gradient(const T *__restrict__ x, const T *__restrict__ dy, float *dscale,
                                          int64_t width, bool gated) {
  __shared__ float shared[WARP_THREADS];
  const int64_t row = blockIdx.x;
  x += row * (gated ? 2 * width : width);
  float sum = 0.0f;
  for (int64_t j = threadIdx.x; j < width; j += blockDim.x) {
    const float value = to_float(x[j]), y = gated ? Silu::of(value) * to_float(x[width + j]) : Gelu::of(value);
    sum += to_float(dy[row * width + j]) * y;
  }
  sum = block_reduce<SumOf>(sum, shared);
  if (threadIdx.x == 0)
    dscale[row] = sum;
}

template <typename T, int N>
__global__ void add(const Pack<T, N> *a, const Pack<T, N> *b, const Pack<T, N> *__restrict__ bias, Pack<T, N> *out,
                    int64_t packs) {
  const int64_t column = (int64_t)blockIdx.y * blockDim.x + threadIdx.x, at = blockIdx.x * packs + column;
  if (column >= packs)
    return;
  Pack<T, N> sum = a[at];
  const Pack<T, N> other = b[at];
  for (int j = 0; j < N; j++) {
    const float value = to_float(sum.v[j]) + to_float(other.v[j]);
    sum.v[j] = from_float<T>(bias == nullptr ? value : value + to_float(bias[column].v[j]));
  }
  out[at] = sum;
}

template <typename T, int N>
__global__ void cap_forward(const Pack<T, N> *__restrict__ x, Pack<T, N> *__restrict__ y, int64_t packs, float cap) {
  const int64_t column = (int64_t)blockIdx.y * blockDim.x + threadIdx.x, at = blockIdx.x * packs + column;
  if (column >= packs)
    return;
  Pack<T, N> p = x[at];
  for (int j = 0; j < N; j++)
    p.v[j] = from_float<T>(cap * tanhf(to_float(p.v[j]) / cap));
  y[at] = p;
}

template <typename T, int N>
__global__ void cap_backward(const Pack<T, N> *__restrict__ y, const Pack<T, N> *dy, Pack<T, N> *dx, int64_t packs,
                             float cap) {
  const int64_t column = (int64_t)blockIdx.y * blockDim.x + threadIdx.x, at = blockIdx.x * packs + column;
  if (column >= packs)
    return;
  const Pack<T, N> p = y[at];
  Pack<T, N> d = dy[at];
  for (int j = 0; j < N; j++) {
    const float share = to_float(p.v[j]) / cap;
    d.v[j] = from_float<T>(to_float(d.v[j]) * (1.0f - share * share));
  }
  dx[at] = d;
}

template <typename T, typename R> __global__ void add_bias(R *to, const T *__restrict__ bias, int64_t n, int64_t ld) {
  const int64_t column = (int64_t)blockIdx.y * blockDim.x + threadIdx.x, at = blockIdx.x * ld + column;
  if (column < n)
    to[at] = from_float<R>(to_float(to[at]) + to_float(bias[column]));
}

template <typename From, typename To, int N>
__global__ void convert(const Pack<From, N> *from, Pack<To, N> *to, int64_t packs, bool accumulate) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= packs)
    return;
  const Pack<From, N> in = from[i];
  Pack<To, N> out;
  if (accumulate)
    out = to[i];
  for (int j = 0; j < N; j++)
    out.v[j] = from_float<To>(accumulate ? to_float(out.v[j]) + to_float(in.v[j]) : to_float(in.v[j]));
  to[i] = out;
}

template <typename T> __global__ void init(InitKernel k) {
  const int64_t column = (int64_t)blockIdx.y * blockDim.x + threadIdx.x, row = blockIdx.x;
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

cudaError_t cuda_activation_forward(const ActivationKernel *k, void *, cudaStream_t stream) {
  const auto launch = [&](auto pack, int64_t packs) {
    using P = decltype(pack);
    activation_forward<<<row_grid(k->rows, packs, 1), BLOCK_THREADS, 0, stream>>>((const P *)k->x, (P *)k->y, k->scale,
                                                                                  packs, k->gated);
  };
  return with_packs(k->number, k->width, launch, k->x, k->y);
}

cudaError_t cuda_activation_backward(const ActivationKernel *k, void *, cudaStream_t stream) {
  const auto launch = [&](auto pack, int64_t packs) {
    using P = decltype(pack);
    using T = typename P::Element;
    if (k->scale != nullptr) /* before dx, which may alias x */
      activation_scale_gradient<T><<<(unsigned)k->rows, BLOCK_THREADS, 0, stream>>>((const T *)k->x, (const T *)k->dy,
                                                                                    k->dscale, k->width, k->gated);
    activation_backward<<<row_grid(k->rows, packs, 1), BLOCK_THREADS, 0, stream>>>(
        (const P *)k->x, (const P *)k->dy, (P *)k->dx, k->scale, packs, k->gated);
  };
  return with_packs(k->number, k->width, launch, k->x, k->dy, k->dx);
}

cudaError_t cuda_add(const AddKernel *k, void *, cudaStream_t stream) {
  const auto launch = [&](auto pack, int64_t packs) {
    using P = decltype(pack);
    add<<<row_grid(k->rows, packs, 1), BLOCK_THREADS, 0, stream>>>((const P *)k->a, (const P *)k->b, (const P *)k->bias,
                                                                   (P *)k->out, packs);
  };
  return with_packs(k->number, k->width, launch, k->a, k->b, k->bias, k->out);
}

cudaError_t cuda_cap_forward(const CapKernel *k, void *, cudaStream_t stream) {
  const auto launch = [&](auto pack, int64_t packs) {
    using P = decltype(pack);
    cap_forward<<<row_grid(k->rows, packs, 1), BLOCK_THREADS, 0, stream>>>((const P *)k->x, (P *)k->y, packs, k->cap);
  };
  return with_packs(k->number, k->width, launch, k->x, k->y);
}

cudaError_t cuda_cap_backward(const CapKernel *k, void *, cudaStream_t stream) {
  const auto launch = [&](auto pack, int64_t packs) {
    using P = decltype(pack);
    cap_backward<<<row_grid(k->rows, packs, 1), BLOCK_THREADS, 0, stream>>>((const P *)k->y, (const P *)k->dy,
                                                                            (P *)k->dx, packs, k->cap);
  };
  return with_packs(k->number, k->width, launch, k->y, k->dy, k->dx);
}

cudaError_t cuda_add_bias(int number, int result, void *to, const void *bias, gint64 m, gint64 n, gint64 ld,
                          cudaStream_t stream) {
  return with_number(number, [&](auto zero) {
    using T = decltype(zero);
    return with_number(result, [&](auto result_zero) {
      using R = decltype(result_zero);
      add_bias<T, R><<<row_grid(m, n, 1), BLOCK_THREADS, 0, stream>>>((R *)to, (const T *)bias, n, ld);
      return cudaGetLastError();
    });
  });
}

template <typename From, typename To, int N>
static cudaError_t launch_convert(const ConvertKernel *k, cudaStream_t stream) {
  const gint64 packs = k->n / N;
  convert<From, To, N><<<(unsigned)ceil_div(packs, BLOCK_THREADS), BLOCK_THREADS, 0, stream>>>(
      (const Pack<From, N> *)k->from, (Pack<To, N> *)k->to, packs, k->accumulate);
  return cudaGetLastError();
}

cudaError_t cuda_convert(const ConvertKernel *k, void *, cudaStream_t stream) {
  if (k->n == 0)
    return cudaSuccess;
  return with_number(k->from_number, [&](auto from_zero) {
    using From = decltype(from_zero);
    return with_number(k->to_number, [&](auto to_zero) {
      using To = decltype(to_zero);
      const bool wide = k->n % 4 == 0 && is_aligned(k->from) && is_aligned(k->to);
      return wide ? launch_convert<From, To, 4>(k, stream) : launch_convert<From, To, 1>(k, stream);
    });
  });
}

cudaError_t cuda_init(const InitKernel *k, void *, cudaStream_t stream) {
  return with_number(k->number, [&](auto zero) {
    using T = decltype(zero);
    init<T><<<row_grid(k->rows, k->columns, 1), BLOCK_THREADS, 0, stream>>>(*k);
  });
}
