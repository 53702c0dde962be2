#include "cuda_attention.h"

#include "cuda_cudnn.h"

struct CudaAttention {
  gboolean is_looked_for;
  Cudnn *cudnn;   /* NULL: not loaded yet, or unusable */
  char *by_cudnn; /* descriptions of the two backends */
  char *by_own;
  const char *last; /* one of them; NULL before the first */
};

static void set_reason(CudaAttention *attention, const char *why_not) {
  g_free(attention->by_own);
  attention->by_own = g_strdup_printf("own kernels (cuDNN: %s)", why_not);
  attention->last = attention->by_own;
}

CudaAttention *cuda_attention_new(void) {
  return g_new0(CudaAttention, 1);
}

/* Loads cuDNN on first use, since its libraries take seconds to load and GPU memory. */
static void look_for(CudaAttention *attention) {
  g_autofree char *why_not = NULL;
  attention->is_looked_for = TRUE;
  if (g_strcmp0(g_getenv("STEPREAL_CUDNN"), "0") == 0)
    why_not = g_strdup("switched off");
  else
    attention->cudnn = cudnn_new(&why_not);
  if (attention->cudnn == NULL)
    set_reason(attention, why_not);
  else
    attention->by_cudnn = cudnn_describe(attention->cudnn);
}

void cuda_attention_free(CudaAttention *attention) {
  if (attention == NULL)
    return;
  cudnn_free(attention->cudnn);
  g_free(attention->by_cudnn);
  g_free(attention->by_own);
  g_free(attention);
}

gboolean cuda_attention_run(CudaAttention *attention, const FlashKernel *kernel, gboolean is_backward,
                            cudaStream_t stream) {
  const char *outside = cudnn_attention_outside(kernel, is_backward);
  if (outside != NULL) {
    set_reason(attention, outside);
    return FALSE;
  }
  if (!attention->is_looked_for)
    look_for(attention);
  if (attention->cudnn == NULL)
    return FALSE;
  g_autofree char *why_not = NULL;
  const gboolean is_done = cudnn_attention(attention->cudnn, kernel, is_backward, stream, &why_not);
  if (is_done)
    attention->last = attention->by_cudnn;
  else
    set_reason(attention, why_not);
  return is_done;
}

const char *cuda_attention_describe(const CudaAttention *attention) {
  return attention->last == NULL ? "" : attention->last;
}
