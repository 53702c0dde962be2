/* Fused attention: by cuDNN if it was built in, is found at run time and supports the shape; else by our own kernels.
 * Both store the same log-sum-exp, so one can run forward and the other backward. */
#pragma once
#include "kernel.h"

#include <cuda_runtime_api.h>

typedef struct CudaAttention CudaAttention;

CudaAttention *cuda_attention_new(void);
void cuda_attention_free(CudaAttention *attention);
/* TRUE: enqueued on the stream. FALSE: cuDNN declined (not an error); the caller must use our own kernels. With
 * STEPREAL_CUDNN=0 in the environment it always declines. */
gboolean cuda_attention_run(CudaAttention *attention, const FlashKernel *kernel, gboolean is_backward,
                            cudaStream_t stream);
/* What has run, and the latest reason where it was not cuDNN: "cuDNN 9.19.0", "own kernels (cuDNN: switched off)",
 * "cuDNN 9.19.0 and own kernels (cuDNN: not for a sliding window)"; "" before the first. Valid until the next call.
 * `*fell_back`: our own kernels ran in 16 bits, for which cuDNN was not switched off. */
const char *cuda_attention_describe(CudaAttention *attention, gboolean *fell_back);
