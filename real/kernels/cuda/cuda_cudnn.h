/* Fused attention through cuDNN's graph API, loaded at run time, so a program built with cuDNN's header also starts
 * where the library is missing. Without the header, cuda_cudnn_none.c is compiled instead. */
#pragma once
#include "kernel.h"

#include <cuda_runtime_api.h>

typedef struct Cudnn Cudnn;

/* NULL with the reason in *why_not (owned by the caller). */
Cudnn *cudnn_new(char **why_not);
/* For a GPU given as cuDNN's JSON description, which need not be present: plans can be made but not run. Reference:
 * cuDNN 9 documentation, deviceless ahead-of-time compilation. */
Cudnn *cudnn_new_described(const char *gpu, char **why_not);
void cudnn_free(Cudnn *cudnn);
char *cudnn_describe(const Cudnn *cudnn); /* "cuDNN 9.19.0" */
/* Workspace of the kernel's plan; −1 with the reason in *why_not if there is no plan. */
gint64 cudnn_workspace_bytes(Cudnn *cudnn, const FlashKernel *kernel, gboolean is_backward, char **why_not);
/* Why cuDNN, in any version and on any GPU, cannot run this kernel; NULL: it may. */
const char *cudnn_attention_outside(const FlashKernel *kernel, gboolean is_backward);
/* FALSE with the reason in *why_not: the shape is not supported, or something failed before anything was enqueued.
 * Plans are cached, and so is the fact that a shape was declined. */
gboolean cudnn_attention(Cudnn *cudnn, const FlashKernel *kernel, gboolean is_backward, cudaStream_t stream,
                         char **why_not);
