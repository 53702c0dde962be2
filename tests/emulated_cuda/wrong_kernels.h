/* The faulty kernels of wrong_kernels.cu, and the same kernels without the faults. All memory is device memory. */
#pragma once
#include <cuda_runtime_api.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One thread adds 256 ones to *to; `waits` FALSE: it does not wait for the threads that supply them. */
void wrong_sum(float *to, bool waits, cudaStream_t stream);
/* *to = the first of four floats loaded at once. */
void wrong_pack(const float *from, float *to, cudaStream_t stream);
/* *to = element i of 32 in shared memory. */
void wrong_index(float *to, int i, cudaStream_t stream);
void wrong_barrier(cudaStream_t stream);
void wrong_exchange(float *to, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
