/* Causal attention through cuDNN's graph API, loaded at run time: a program built with cuDNN's header starts where the
 * library is missing. Without the header cuda_cudnn_none.c stands in. */
#pragma once
#include "kernel.h"

#include <cuda_runtime_api.h>

typedef struct Cudnn Cudnn;

/* NULL with the reason in *why_not (owned by the caller). */
Cudnn *cudnn_new(char **why_not);
/* For a GPU that is described as cuDNN writes one down (JSON), and need not be there: its plans can be made, not run.
 * Reference: cuDNN 9 documentation, deviceless ahead-of-time compilation. */
Cudnn *cudnn_new_described(const char *gpu, char **why_not);
void cudnn_free(Cudnn *cudnn);
char *cudnn_describe(const Cudnn *cudnn); /* "cuDNN 9.19.0" */
/* What the kernel's plan takes beside its tensors; −1 with the reason in *why_not: there is none. */
gint64 cudnn_workspace_bytes(Cudnn *cudnn, const FlashKernel *kernel, gboolean is_backward, char **why_not);
/* Why cuDNN is not to be asked, whichever it is and for any GPU; NULL: it is. */
const char *cudnn_attention_outside(const FlashKernel *kernel, gboolean is_backward);
/* FALSE with the reason in *why_not: the shape is not supported, or something went wrong before anything was put on the
 * stream. Plans are kept; a shape that was declined once is declined at once. */
gboolean cudnn_attention(Cudnn *cudnn, const FlashKernel *kernel, gboolean is_backward, cudaStream_t stream,
                         char **why_not);
