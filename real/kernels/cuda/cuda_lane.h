/* Private to the CUDA kernels: the contents of a lane. */
#pragma once
#include "cuda_attention.h"
#include "cuda_kernels.h"
#include "cuda_matmul.h"
#include "cuda_scratch.h"

struct CudaLane {
  cudaStream_t stream;
  CudaScratch scratch;      /* for the running kernel, cuda_kernel_scratch_bytes() or more */
  CudaMatmuls *matmuls;     /* NULL until the first product */
  CudaAttention *attention; /* NULL until the first fused attention */
};
