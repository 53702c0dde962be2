/* Matrix products through cuBLASLt. The plan of a shape (descriptors, the heuristic's first algorithm) is cached. */
#pragma once
#include "kernel.h"

#include <cuda_runtime_api.h>

typedef struct CudaMatmuls CudaMatmuls;

/* Has its own workspace: make one per stream. */
CudaMatmuls *cuda_matmuls_new(GError **error);
void cuda_matmuls_free(CudaMatmuls *matmuls);
gboolean cuda_matmul_run(CudaMatmuls *matmuls, const MatmulKernel *kernel, cudaStream_t stream, GError **error);
