#include "cuda_attention.h"

#include "cuda_cudnn.h"

struct CudaAttention {
  gboolean is_looked_for, is_switched_off;
  Cudnn *cudnn;       /* NULL: not loaded yet, or unusable */
  char *why_not;      /* the latest reason against it; NULL: none yet */
  gboolean ran_cudnn; /* it has run */
  gboolean ran_own;   /* our own kernels have */
  gboolean fell_back; /* they have where cuDNN was wanted */
  char *text;         /* of cuda_attention_describe() */
};

static void note_own(CudaAttention *attention, const FlashKernel *kernel) {
  attention->ran_own = TRUE;
  attention->fell_back |= !attention->is_switched_off && kernel->number != NUMBER_FP32;
}

static void set_reason(CudaAttention *attention, const char *why_not) {
  g_free(attention->why_not);
  attention->why_not = g_strdup(why_not);
}

CudaAttention *cuda_attention_new(void) {
  CudaAttention *attention = g_new0(CudaAttention, 1);
  attention->is_switched_off = g_strcmp0(g_getenv("STEPREAL_CUDNN"), "0") == 0;
  return attention;
}

/* Loads cuDNN on first use, since its libraries take seconds to load and GPU memory. */
static void look_for(CudaAttention *attention) {
  g_autofree char *why_not = NULL;
  attention->is_looked_for = TRUE;
  if (attention->is_switched_off)
    why_not = g_strdup("switched off");
  else
    attention->cudnn = cudnn_new(&why_not);
  if (attention->cudnn == NULL)
    set_reason(attention, why_not);
}

void cuda_attention_free(CudaAttention *attention) {
  if (attention == NULL)
    return;
  cudnn_free(attention->cudnn);
  g_free(attention->why_not);
  g_free(attention->text);
  g_free(attention);
}

static gboolean run_cudnn(CudaAttention *attention, const FlashKernel *kernel, gboolean is_backward,
                          cudaStream_t stream) {
  const gboolean is_missing = attention->is_looked_for && attention->cudnn == NULL;
  const char *outside = is_missing ? NULL : cudnn_attention_outside(kernel, is_backward);
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
  if (!is_done)
    set_reason(attention, why_not);
  return is_done;
}

gboolean cuda_attention_run(CudaAttention *attention, const FlashKernel *kernel, gboolean is_backward,
                            cudaStream_t stream) {
  const gboolean is_done = run_cudnn(attention, kernel, is_backward, stream);
  attention->ran_cudnn |= is_done;
  if (!is_done)
    note_own(attention, kernel);
  return is_done;
}

const char *cuda_attention_describe(CudaAttention *attention, gboolean *fell_back) {
  g_autofree char *cudnn = attention->ran_cudnn ? cudnn_describe(attention->cudnn) : g_strdup("");
  g_autofree char *own =
      attention->ran_own ? g_strdup_printf("own kernels (cuDNN: %s)", attention->why_not) : g_strdup("");
  g_free(attention->text);
  attention->text = g_strconcat(cudnn, attention->ran_cudnn && attention->ran_own ? " and " : "", own, NULL);
  *fell_back = attention->fell_back;
  return attention->text;
}
