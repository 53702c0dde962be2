/* Causal attention through cuDNN's graph API, loaded at run time: a program built with cuDNN's header starts where the
 * library is missing. Without the header cuda_cudnn_none.c stands in. */
#pragma once
#include "kernel.h"

#include <cuda_runtime_api.h>

typedef struct Cudnn Cudnn;

/* NULL with the reason in *why_not (owned by the caller). */
Cudnn *cudnn_new(char **why_not);
void cudnn_free(Cudnn *cudnn);
char *cudnn_describe(const Cudnn *cudnn); /* "cuDNN 9.19.0" */
/* FALSE with the reason in *why_not: the shape is not supported, or something went wrong before anything was put on the
 * stream. Plans are kept; a shape that was declined once is declined at once. */
gboolean cudnn_attention(Cudnn *cudnn, const FlashKernel *kernel, gboolean is_backward, cudaStream_t stream,
                         char **why_not);
