/* Matrix products through cuBLASLt: a shape's plan (descriptors, the heuristic's first algorithm) is made once. */
#pragma once
#include "kernel.h"

#include <cuda_runtime_api.h>

typedef struct CudaMatmuls CudaMatmuls;

/* With a workspace of its own: one for each stream. */
CudaMatmuls *cuda_matmuls_new(GError **error);
void cuda_matmuls_free(CudaMatmuls *matmuls);
gboolean cuda_matmul_run(CudaMatmuls *matmuls, const MatmulKernel *kernel, cudaStream_t stream, GError **error);
