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

/* ---- families; `scratch` holds at least cuda_kernel_scratch_bytes(kernel) ---- */
gint64 cuda_kernel_scratch_bytes(const Kernel *kernel);

gint64 cuda_narrow_scratch_bytes(const NarrowKernel *kernel);
cudaError_t cuda_narrow(const NarrowKernel *kernel, float *scratch, cudaStream_t stream);

cudaError_t cuda_norm_forward(const NormKernel *kernel, cudaStream_t stream);
cudaError_t cuda_norm_backward(const NormKernel *kernel, float *scratch, cudaStream_t stream);
cudaError_t cuda_norm_sums(const NormKernel *kernel, cudaStream_t stream);
cudaError_t cuda_norm_sums_backward(const NormKernel *kernel, cudaStream_t stream);
cudaError_t cuda_bias_gradient(const BiasGradientKernel *kernel, float *scratch, cudaStream_t stream);
gint64 cuda_column_sum_scratch_bytes(gint64 rows, gint64 width, int n_sums);

cudaError_t cuda_rope(const RopeKernel *kernel, cudaStream_t stream);
cudaError_t cuda_latent_join(const LatentKernel *kernel, cudaStream_t stream);
cudaError_t cuda_latent_split(const LatentKernel *kernel, cudaStream_t stream);

cudaError_t cuda_activation_forward(const ActivationKernel *kernel, cudaStream_t stream);
cudaError_t cuda_activation_backward(const ActivationKernel *kernel, cudaStream_t stream);
cudaError_t cuda_add(const AddKernel *kernel, cudaStream_t stream);
cudaError_t cuda_drop_add(const DropAddKernel *kernel, cudaStream_t stream);
/* Adds bias [n] of `number` to every row of m × n elements of `result`. */
cudaError_t cuda_add_bias(int number, int result, void *to, const void *bias, gint64 m, gint64 n, gint64 ld,
                          cudaStream_t stream);
cudaError_t cuda_convert(const ConvertKernel *kernel, cudaStream_t stream);
cudaError_t cuda_init(const InitKernel *kernel, cudaStream_t stream);

cudaError_t cuda_route_forward(const RouteKernel *kernel, cudaStream_t stream);
cudaError_t cuda_route_backward(const RouteKernel *kernel, cudaStream_t stream);
cudaError_t cuda_spread(const GatheredKernel *kernel, cudaStream_t stream);
cudaError_t cuda_pick(const GatheredKernel *kernel, cudaStream_t stream);
cudaError_t cuda_put(const GatheredKernel *kernel, cudaStream_t stream);
cudaError_t cuda_collect(const GatheredKernel *kernel, cudaStream_t stream);
cudaError_t cuda_permute(const PermuteKernel *kernel, cudaStream_t stream);
cudaError_t cuda_unpermute(const PermuteKernel *kernel, cudaStream_t stream);
cudaError_t cuda_swap_blocks(const SwapBlocksKernel *kernel, cudaStream_t stream);
cudaError_t cuda_gate_forward(const GateKernel *kernel, cudaStream_t stream);
cudaError_t cuda_gate_backward(const GateKernel *kernel, cudaStream_t stream);
cudaError_t cuda_cap_forward(const CapKernel *kernel, cudaStream_t stream);
cudaError_t cuda_cap_backward(const CapKernel *kernel, cudaStream_t stream);

cudaError_t cuda_embedding_forward(const EmbeddingKernel *kernel, cudaStream_t stream);
cudaError_t cuda_embedding_backward(const EmbeddingKernel *kernel, gint32 *scratch, cudaStream_t stream);
cudaError_t cuda_positions_forward(const PositionsKernel *kernel, cudaStream_t stream);
cudaError_t cuda_positions_backward(const PositionsKernel *kernel, cudaStream_t stream);

cudaError_t cuda_softmax_forward(const SoftmaxKernel *kernel, cudaStream_t stream);
cudaError_t cuda_softmax_backward(const SoftmaxKernel *kernel, cudaStream_t stream);
cudaError_t cuda_drop_scores(const DropScoresKernel *kernel, cudaStream_t stream);
cudaError_t cuda_loss_max(const LossKernel *kernel, cudaStream_t stream);
cudaError_t cuda_loss_exp(const LossKernel *kernel, cudaStream_t stream);
cudaError_t cuda_loss_softmax(const LossKernel *kernel, cudaStream_t stream);
cudaError_t cuda_loss_backward(const LossKernel *kernel, cudaStream_t stream);

cudaError_t cuda_sum_squares(const SumSquaresKernel *kernel, double *scratch, cudaStream_t stream);
cudaError_t cuda_adam(const AdamKernel *kernel, cudaStream_t stream);
cudaError_t cuda_loss_scale(const LossScaleKernel *kernel, cudaStream_t stream);
enum { CUDA_SUM_SQUARES_BLOCKS = 1024 };

cudaError_t cuda_flash_forward(const FlashKernel *kernel, cudaStream_t stream);
cudaError_t cuda_flash_backward(const FlashKernel *kernel, float *scratch, cudaStream_t stream);
cudaError_t cuda_merge(const MergeKernel *kernel, cudaStream_t stream);
cudaError_t cuda_move(const MoveKernel *kernel, cudaStream_t stream);

/* `word` is mapped host memory, given by its device address. */
cudaError_t cuda_write_word(guint32 *word, guint32 value, cudaStream_t stream);
cudaError_t cuda_await_word(const guint32 *word, guint32 value, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
