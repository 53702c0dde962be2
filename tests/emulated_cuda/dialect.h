/* CUDA C++ for a host compiler. Kernels become plain functions that a Launch runs on the stream's thread, block after
 * block, with a fiber for each thread of a block (block.cpp). Only what the kernels in real/kernels use is here;
 * translate.pl rewrites launches and dynamic shared memory in these terms.
 *
 * Stricter than a GPU where a GPU's result would depend on timing: a fiber runs until it waits; warps and lanes run in
 * an order that differs between blocks and between launches. If lanes never join a warp's exchange, or not all threads
 * reach a __syncthreads, the process ends with the kernel's name. Misaligned accesses and array indices out of bounds
 * do the same. */
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <unistd.h>

using std::isfinite;

struct EmulatedThread {
  dim3 thread, block, block_size, grid_size;
  unsigned lane = 0; /* of the warp */
};
extern __thread EmulatedThread emulated_thread; /* of the fiber that runs; __thread: initialised before any code */

#define threadIdx (emulated_thread.thread)
#define blockIdx (emulated_thread.block)
#define blockDim (emulated_thread.block_size)
#define gridDim (emulated_thread.grid_size)

void *emulated_dynamic_shared(void);
/* A shared-memory array, static in its function (a stream's thread runs one block at a time). At the start of each
 * block it is filled with NaN. */
void emulated_shared(void *array, size_t bytes);
void emulated_syncthreads(void);
/* Waits for all lanes of the warp in `mask`; returns the lanes' 32 values, valid until the lane's next call. */
const uint64_t *emulated_exchange(unsigned mask, uint64_t value);

__attribute__((always_inline)) inline void __syncthreads(void) {
  emulated_syncthreads();
}

template <typename V> uint64_t emulated_pack(V value) {
  static_assert(sizeof(V) <= 8, "a lane's value has 8 bytes");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  return bits;
}

template <typename V> V emulated_unpack(uint64_t bits) {
  V value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

template <typename V> __attribute__((always_inline)) inline V __shfl_sync(unsigned mask, V value, int lane) {
  return emulated_unpack<V>(emulated_exchange(mask, emulated_pack(value))[(unsigned)lane % 32]);
}

template <typename V> __attribute__((always_inline)) inline V __shfl_xor_sync(unsigned mask, V value, int lanes) {
  return emulated_unpack<V>(emulated_exchange(mask, emulated_pack(value))[emulated_thread.lane ^ (unsigned)lanes]);
}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
  const uint64_t *values = emulated_exchange(mask, predicate != 0);
  unsigned ballot = 0;
  for (unsigned i = 0; i < 32; i++)
    ballot |= (mask >> i & 1 && values[i] != 0 ? 1u : 0u) << i;
  return ballot;
}

inline int __any_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) != 0;
}

inline float __int_as_float(int bits) {
  return emulated_unpack<float>(emulated_pack(bits));
}

inline int __ffs(int word) {
  return __builtin_ffs(word);
}

inline float rsqrtf(float x) {
  return 1.0f / sqrtf(x);
}

template <typename A, typename B> std::common_type_t<A, B> min(A a, B b) {
  return a < b ? a : b;
}
template <typename A, typename B> std::common_type_t<A, B> max(A a, B b) {
  return a > b ? a : b;
}

/* Enqueues a launch: every thread of every block calls `run` on a copy of these bytes. cudaGetLastError reports a
 * launch that a GPU would refuse. */
void emulated_launch(const char *name, const void *function, dim3 grid, dim3 block, size_t shared_bytes,
                     cudaStream_t stream, void (*run)(const void *), const void *data, size_t bytes);

/* A kernel's name, with the parameters of a macro that launches it filled in. */
#define EMULATED_TEXT(...) EMULATED_TEXT_(__VA_ARGS__)
#define EMULATED_TEXT_(...) #__VA_ARGS__

class EmulatedLaunch {
public:
  EmulatedLaunch(dim3 grid, dim3 block, size_t shared_bytes = 0, cudaStream_t stream = nullptr)
      : grid(grid), block(block), shared_bytes(shared_bytes), stream(stream) {
  }
  /* Arguments are copied bytewise at launch, as on a GPU. A std::function here would mean five functions to compile
   * for every launch. */
  template <typename Kernel, typename... Arguments>
  void call(const char *name, const void *function, Kernel kernel, Arguments... arguments) {
    const auto thread = [=] { kernel(arguments...); };
    using Thread = decltype(thread);
    static_assert(std::is_trivially_copyable_v<Thread>, "a kernel's arguments are copied as bytes");
    emulated_launch(
        name, function, grid, block, shared_bytes, stream, [](const void *data) { (*(Thread *)data)(); }, &thread,
        sizeof thread);
  }

private:
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
};
