/* Kernels with one mistake each, of kinds that a GPU may not report. */
#include "wrong_kernels.h"

#include "cuda_element.cuh"

namespace {

constexpr int N = 256;

/* The sum of [N] values, each written by a thread of its own; `waits`: for all of them. */
__global__ void sum(float *to, bool waits) {
  __shared__ float values[N];
  values[threadIdx.x] = 1.0f;
  if (waits)
    __syncthreads();
  if (threadIdx.x == N / 2) {
    float total = 0.0f;
    for (int i = 0; i < N; i++)
      total += values[i];
    *to = total;
  }
  if (!waits)
    __syncthreads();
}

__global__ void read_pack(const float *from, float *to) {
  *to = ((const Pack<float, 4> *)from)->v[0];
}

__global__ void read_outside(float *to, int i) {
  __shared__ float values[32];
  values[threadIdx.x] = 1.0f;
  __syncthreads();
  *to = values[i];
}

/* The first n threads of the block come to the barrier. */
__global__ void wait_for_all(int n) {
  if ((int)threadIdx.x < n)
    __syncthreads();
}

/* A lane has left when the others exchange with it. */
__global__ void exchange_with_all(float *to) {
  if (threadIdx.x == 3)
    return;
  *to = __shfl_xor_sync(ALL_LANES, 1.0f, 1);
}

} // namespace

void wrong_sum(float *to, bool waits, cudaStream_t stream) {
  sum<<<1, N, 0, stream>>>(to, waits);
}

void wrong_pack(const float *from, float *to, cudaStream_t stream) {
  read_pack<<<1, 1, 0, stream>>>(from, to);
}

void wrong_index(float *to, int i, cudaStream_t stream) {
  read_outside<<<1, 32, 0, stream>>>(to, i);
}

void wrong_barrier(cudaStream_t stream) {
  wait_for_all<<<1, 64, 0, stream>>>(32);
}

void wrong_exchange(float *to, cudaStream_t stream) {
  exchange_with_all<<<1, 32, 0, stream>>>(to);
}
