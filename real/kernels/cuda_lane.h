/* Inside the CUDA kernels: what a lane holds. */
#pragma once
#include "cuda_attention.h"
#include "cuda_kernels.h"
#include "cuda_matmul.h"

struct CudaLane {
  cudaStream_t stream;
  void *scratch; /* device memory; grows, and what was outgrown stays until the lane goes: see lane_scratch */
  gint64 scratch_bytes;
  GPtrArray *outgrown;
  CudaMatmuls *matmuls;     /* NULL until the first product */
  CudaAttention *attention; /* NULL until the first fused attention */
};

/* At least `bytes` of device memory for the kernel that is launched next; NULL with the error. */
void *cuda_lane_scratch(CudaLane *lane, gint64 bytes, GError **error);
