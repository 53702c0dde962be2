/* The kernels of kernel.h on an NVIDIA GPU. Above the line: what the cuda device calls. Below: the families of CUDA
 * kernels, each in its own .cu file, among which cuda_kernels.c chooses.
 *
 * Results do not depend on timing: sums over rows go through partial sums in scratch memory, added in a fixed order,
 * without atomics. Only cuDNN's attention backward (cuda_attention.h) may add in another order. */
#pragma once
#include "kernel.h"

#include <cuda_runtime_api.h>

/* What kernels on one stream need besides their operands: scratch memory, plans of matrix products and of attention.
 * Belongs to its stream's device, which must be current. Memory is allocated at first use and freed with the lane: a
 * kernel that has run once with a shape allocates nothing when it runs again. */
typedef struct CudaLane CudaLane;

#ifdef __cplusplus
extern "C" {
#endif

CudaLane *cuda_lane_new(cudaStream_t stream);
void cuda_lane_free(CudaLane *lane); /* the stream must be idle */
/* Enqueues the kernel on the lane's stream. FALSE: it could not be launched (IMPOSSIBLE, naming kernel and call). */
gboolean cuda_kernel_run(CudaLane *lane, const Kernel *kernel, GError **error);
/* Of the lane's fused attention: see cuda_attention_describe(). */
const char *cuda_attention_backend(const CudaLane *lane, gboolean *fell_back);

/* ---- kernels; `scratch` holds at least cuda_kernel_scratch_bytes(kernel), and may be NULL where that is 0 ---- */
gint64 cuda_kernel_scratch_bytes(const Kernel *kernel);
gint64 cuda_narrow_scratch_bytes(const NarrowKernel *kernel);
gint64 cuda_column_sum_scratch_bytes(gint64 rows, gint64 width, int n_sums);
enum { CUDA_SUM_SQUARES_BLOCKS = 1024 };
#define ROW(KIND, name, text, task, ...)                                                                               \
  cudaError_t cuda_##name(const __typeof__(((Kernel *)0)->task) *kernel, void *scratch, cudaStream_t stream);
KERNELS_BUT_PRODUCTS(ROW)
#undef ROW
/* Adds bias [n] of `number` to every row of m × n elements of `result`. */
cudaError_t cuda_add_bias(int number, int result, void *to, const void *bias, gint64 m, gint64 n, gint64 ld,
                          cudaStream_t stream);

#ifdef __cplusplus
}
#endif
