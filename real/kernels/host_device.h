/* A small function that kernels of the CPU and of GPUs share. */
#pragma once

#ifdef __CUDACC__
#define HOST_DEVICE __host__ __device__ static inline
#else
#define HOST_DEVICE static inline
#endif
