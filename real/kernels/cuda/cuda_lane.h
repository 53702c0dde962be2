/* Inside the CUDA kernels: what a lane holds. */
#pragma once
#include "cuda_attention.h"
#include "cuda_kernels.h"
#include "cuda_matmul.h"
#include "cuda_scratch.h"

struct CudaLane {
  cudaStream_t stream;
  CudaScratch scratch;      /* for the kernel that runs, of cuda_kernel_scratch_bytes */
  CudaMatmuls *matmuls;     /* NULL until the first product */
  CudaAttention *attention; /* NULL until the first fused attention */
};
