/* Fused attention: by cuDNN where it was built in, is found at run time and takes the shape; else by our own kernels.
 * Both keep the same log-sum-exp, so that one can run forward and the other backward. */
#pragma once
#include "kernel.h"

#include <cuda_runtime_api.h>

typedef struct CudaAttention CudaAttention;

CudaAttention *cuda_attention_new(void);
void cuda_attention_free(CudaAttention *attention);
/* TRUE: put on the stream. FALSE: cuDNN declined (not an error), the own kernels have to do it. STEPREAL_CUDNN=0 in the
 * environment makes it decline always. */
gboolean cuda_attention_run(CudaAttention *attention, const FlashKernel *kernel, gboolean is_backward,
                            cudaStream_t stream);
/* What ran last, and why not cuDNN where it did not. */
const char *cuda_attention_describe(const CudaAttention *attention);
