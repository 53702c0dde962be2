/* Shared by the CUDA kernels: elements of three formats computed on as floats, packs of 16 bytes, sums over a block,
 * and the choice of a template by Number.
 *
 * Work is laid out as a grid of (row, piece of the row): neighbouring threads have neighbouring elements, so reads
 * and writes are coalesced. */
#pragma once
#include "cuda_kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

constexpr int BLOCK_THREADS = 256;
constexpr int WARP_THREADS = 32;
constexpr unsigned ALL_LANES = 0xffffffffu;

static __device__ __forceinline__ float to_float(float x) {
  return x;
}
static __device__ __forceinline__ float to_float(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
static __device__ __forceinline__ float to_float(__half x) {
  return __half2float(x);
}

template <typename T> __device__ __forceinline__ T from_float(float x);
template <> __device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <> __device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <> __device__ __forceinline__ __half from_float<__half>(float x) {
  return __float2half_rn(x);
}

/* N elements read or written at once. */
template <typename T, int N> struct alignas(sizeof(T) * N) Pack {
  using Element = T;
  static constexpr int n = N;
  T v[N];
};

struct SumOf {
  static __device__ __forceinline__ float of(float a, float b) {
    return a + b;
  }
  static __device__ __forceinline__ double of(double a, double b) {
    return a + b;
  }
};
struct MaxOf {
  static __device__ __forceinline__ float of(float a, float b) {
    return fmaxf(a, b);
  }
};

template <typename Op, typename V> __device__ __forceinline__ V warp_reduce(V value) {
  for (int offset = WARP_THREADS / 2; offset > 0; offset /= 2)
    value = Op::of(value, __shfl_xor_sync(ALL_LANES, value, offset));
  return value;
}

/* Reduces over a block of whole warps; every thread gets the result. The order of additions is fixed. `shared`: 32
 * values, reusable after the call. */
template <typename Op, typename V> __device__ V block_reduce(V value, V *shared) {
  const int lane = threadIdx.x % WARP_THREADS, warp = threadIdx.x / WARP_THREADS;
  value = warp_reduce<Op>(value);
  if (lane == 0)
    shared[warp] = value;
  __syncthreads();
  value = shared[0];
  for (int i = 1; i < (int)blockDim.x / WARP_THREADS; i++)
    value = Op::of(value, shared[i]);
  __syncthreads();
  return value;
}

template <typename F, typename T> static cudaError_t launched_by(F f, T zero) {
  if constexpr (std::is_void_v<decltype(f(zero))>) {
    f(zero);
    return cudaGetLastError();
  } else {
    return f(zero);
  }
}

/* Calls f with a value of the element type that `number` names; the value is unused. f returns an error, or nothing:
 * then it is that of its launches. */
template <typename F> static cudaError_t with_number(int number, F f) {
  switch (number) {
  case NUMBER_FP32:
    return launched_by(f, float());
  case NUMBER_BF16:
    return launched_by(f, __nv_bfloat16());
  case NUMBER_FP16:
    return launched_by(f, __half());
  default:
    return cudaErrorInvalidValue;
  }
}

/* As with_number(), for the types of two. */
template <typename F> static cudaError_t with_numbers(int a, int b, F f) {
  return with_number(a, [&](auto a_zero) { return with_number(b, [&](auto b_zero) { f(a_zero, b_zero); }); });
}

static inline bool is_aligned(const void *pointer) {
  return (guintptr)pointer % 16 == 0; /* true for NULL */
}

/* Calls f with a pack, whose value is unused, and how many of these a row of `width` elements has: packs of 16 bytes
 * where the width and all pointers allow it, else single elements. */
template <typename F, typename... Pointers>
static cudaError_t with_packs(int number, int64_t width, F f, Pointers... pointers) {
  return with_number(number, [&](auto zero) {
    using T = decltype(zero);
    constexpr int N = 16 / sizeof(T);
    if (width % N == 0 && (is_aligned(pointers) && ...))
      f(Pack<T, N>{}, width / N);
    else
      f(Pack<T, 1>{}, width);
  });
}

/* Of a grid of rows and pieces of them: this thread's place in its row. */
static __device__ __forceinline__ int64_t column_here() {
  return (int64_t)blockIdx.y * blockDim.x + threadIdx.x;
}

/* Of a grid of one dimension. */
static __device__ __forceinline__ int64_t thread_here() {
  return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static inline int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/* Grid of rows × pieces of BLOCK_THREADS·per_thread columns. */
static inline dim3 row_grid(int64_t rows, int64_t width, int per_thread = 1) {
  return dim3((unsigned)rows, (unsigned)ceil_div(width, (int64_t)BLOCK_THREADS * per_thread));
}

/* At least one thread for each of n. */
static inline dim3 thread_grid(int64_t n) {
  return dim3((unsigned)ceil_div(n, BLOCK_THREADS));
}

static inline dim3 block_for_each(int64_t n) {
  return dim3((unsigned)n);
}

/* cuda_NAME(): one launch of NAME<T> for the task `k`, T the type of its elements; the rest are its arguments. */
#define CUDA_KERNEL(name, Task, grid, threads, shared_bytes, ...)                                                      \
  cudaError_t cuda_##name(const Task *k, void *, cudaStream_t stream) {                                                \
    return with_number(k->number, [&](auto zero) {                                                                     \
      using T = decltype(zero);                                                                                        \
      name<T><<<grid, threads, shared_bytes, stream>>>(__VA_ARGS__);                                                   \
    });                                                                                                                \
  }

/* cuda_NAME(): one launch of NAME<T, N> for the task and how many packs of N elements a row has; the rest are its
 * pointers, as of with_packs(). A thread for each pack. */
#define CUDA_PACKED_KERNEL(name, Task, rows, width, ...)                                                               \
  cudaError_t cuda_##name(const Task *k, void *, cudaStream_t stream) {                                                \
    const auto launch = [&](auto pack, int64_t packs) {                                                                \
      using T = typename decltype(pack)::Element;                                                                      \
      constexpr int N = decltype(pack)::n;                                                                             \
      name<T, N><<<row_grid(rows, packs), BLOCK_THREADS, 0, stream>>>(*k, packs);                                      \
    };                                                                                                                 \
    return with_packs(k->number, width, launch, __VA_ARGS__);                                                          \
  }
