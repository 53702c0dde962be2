/* Chooses the CUDA kernel for a Kernel, and provides its scratch memory. */
#include "cuda_kernels.h"

#include "cuda_attention.h"
#include "cuda_call.h"
#include "cuda_matmul.h"
#include "cuda_scratch.h"

struct CudaLane {
  cudaStream_t stream;
  CudaScratch scratch;      /* for the running kernel, cuda_kernel_scratch_bytes() or more */
  CudaMatmuls *matmuls;     /* NULL until the first product */
  CudaAttention *attention; /* NULL until the first fused attention */
};

CudaLane *cuda_lane_new(cudaStream_t stream) {
  CudaLane *lane = g_new0(CudaLane, 1);
  lane->stream = stream;
  return lane;
}

void cuda_lane_free(CudaLane *lane) {
  if (lane == NULL)
    return;
  cuda_matmuls_free(lane->matmuls);
  cuda_attention_free(lane->attention);
  cuda_scratch_clear(&lane->scratch);
  g_free(lane);
}

gint64 cuda_kernel_scratch_bytes(const Kernel *kernel) {
  switch (kernel->kind) {
  case KERNEL_NARROW:
    return cuda_narrow_scratch_bytes(&kernel->narrow);
  case KERNEL_NORM_BACKWARD:
    return cuda_column_sum_scratch_bytes(kernel->norm.rows, kernel->norm.width, 2);
  case KERNEL_BIAS_GRADIENT:
    return cuda_column_sum_scratch_bytes(kernel->bias_gradient.rows, kernel->bias_gradient.width, 1);
  case KERNEL_EMBEDDING_BACKWARD:
    return kernel->embedding.tokens * 2 * (gint64)sizeof(gint32);
  case KERNEL_SUM_SQUARES:
    return CUDA_SUM_SQUARES_BLOCKS * (gint64)sizeof(double);
  case KERNEL_FLASH_BACKWARD:
    return kernel->flash.sequences * kernel->flash.n_heads * kernel->flash.seq_len * (gint64)sizeof(float);
  default:
    return 0;
  }
}

static gboolean run_matmul(CudaLane *lane, const Kernel *kernel, GError **error) {
  if (lane->matmuls == NULL)
    lane->matmuls = cuda_matmuls_new(error);
  return lane->matmuls != NULL && cuda_matmul_run(lane->matmuls, &kernel->matmul, lane->stream, error);
}

/* By cuDNN, if it takes the task. */
static gboolean run_fused(CudaLane *lane, const Kernel *kernel) {
  if (kernel->kind != KERNEL_FLASH_FORWARD && kernel->kind != KERNEL_FLASH_BACKWARD)
    return FALSE;
  if (lane->attention == NULL)
    lane->attention = cuda_attention_new();
  return cuda_attention_run(lane->attention, &kernel->flash, kernel->kind == KERNEL_FLASH_BACKWARD, lane->stream);
}

cudaError_t cuda_fill(const FillKernel *kernel, void *scratch, cudaStream_t stream) {
  return cudaMemsetAsync(kernel->to, 0, (gsize)kernel->bytes, stream);
}

static cudaError_t launch(const Kernel *kernel, void *scratch, cudaStream_t stream) {
  switch ((KernelKind)kernel->kind) {
#define ROW(KIND, name, text, task, ...)                                                                               \
  case KERNEL_##KIND:                                                                                                  \
    return cuda_##name(&kernel->task, scratch, stream);
    KERNELS_BUT_PRODUCTS(ROW)
#undef ROW
  default:
    g_assert_not_reached();
  }
}

static gboolean run(CudaLane *lane, const Kernel *kernel, GError **error) {
  if (kernel->kind == KERNEL_MATMUL)
    return run_matmul(lane, kernel, error);
  if (run_fused(lane, kernel))
    return TRUE;
  const gint64 bytes = cuda_kernel_scratch_bytes(kernel);
  void *scratch = bytes > 0 ? cuda_scratch_get(&lane->scratch, bytes, error) : NULL;
  return (bytes == 0 || scratch != NULL) && CUDA_CALL(launch(kernel, scratch, lane->stream), error);
}

gboolean cuda_kernel_run(CudaLane *lane, const Kernel *kernel, GError **error) {
  if (run(lane, kernel, error))
    return TRUE;
  g_prefix_error(error, "kernel %s: ", kernel_name(kernel->kind));
  return FALSE;
}

const char *cuda_attention_backend(const CudaLane *lane, gboolean *fell_back) {
  *fell_back = FALSE;
  return lane->attention == NULL ? "" : cuda_attention_describe(lane->attention, fell_back);
}
