#include "cuda_cudnn.h"

Cudnn *cudnn_new(char **why_not) {
  *why_not = g_strdup("not built in");
  return NULL;
}

void cudnn_free(Cudnn *cudnn) {
}

char *cudnn_describe(const Cudnn *cudnn) {
  return g_strdup("no cuDNN");
}

const char *cudnn_attention_outside(const FlashKernel *kernel, gboolean is_backward) {
  return NULL;
}

gboolean cudnn_attention(Cudnn *cudnn, const FlashKernel *kernel, gboolean is_backward, cudaStream_t stream,
                         char **why_not) {
  *why_not = g_strdup("not built in");
  return FALSE;
}
