/* Chooses the CUDA kernel for a Kernel, and provides its scratch memory. */
#include "cuda_kernels.h"

#include "cuda_call.h"
#include "cuda_lane.h"

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

static gboolean run_flash(CudaLane *lane, const Kernel *kernel, GError **error) {
  const gboolean is_backward = kernel->kind == KERNEL_FLASH_BACKWARD;
  if (lane->attention == NULL)
    lane->attention = cuda_attention_new();
  if (cuda_attention_run(lane->attention, &kernel->flash, is_backward, lane->stream))
    return TRUE;
  if (!is_backward)
    return CUDA_CALL(cuda_flash_forward(&kernel->flash, lane->stream), error);
  float *scratch = cuda_scratch_get(&lane->scratch, cuda_kernel_scratch_bytes(kernel), error);
  return scratch != NULL && CUDA_CALL(cuda_flash_backward(&kernel->flash, scratch, lane->stream), error);
}

static cudaError_t run_of_experts(const Kernel *kernel, cudaStream_t stream) {
  switch (kernel->kind) {
  case KERNEL_ROUTE_FORWARD:
    return cuda_route_forward(&kernel->route, stream);
  case KERNEL_ROUTE_BACKWARD:
    return cuda_route_backward(&kernel->route, stream);
  case KERNEL_PERMUTE:
    return cuda_permute(&kernel->permute, stream);
  case KERNEL_UNPERMUTE:
    return cuda_unpermute(&kernel->permute, stream);
  case KERNEL_SWAP_BLOCKS:
    return cuda_swap_blocks(&kernel->swap_blocks, stream);
  case KERNEL_SPREAD:
    return cuda_spread(&kernel->gathered, stream);
  case KERNEL_PICK:
    return cuda_pick(&kernel->gathered, stream);
  case KERNEL_PUT:
    return cuda_put(&kernel->gathered, stream);
  case KERNEL_COLLECT:
    return cuda_collect(&kernel->gathered, stream);
  case KERNEL_GATE_FORWARD:
    return cuda_gate_forward(&kernel->gate, stream);
  case KERNEL_GATE_BACKWARD:
    return cuda_gate_backward(&kernel->gate, stream);
  default:
    g_assert_not_reached();
  }
}

/* Kernels before the first layer and after the last, and those of experts. */
static cudaError_t run_of_ends(const Kernel *kernel, cudaStream_t stream) {
  switch (kernel->kind) {
  case KERNEL_EMBEDDING_FORWARD:
    return cuda_embedding_forward(&kernel->embedding, stream);
  case KERNEL_POSITIONS_FORWARD:
    return cuda_positions_forward(&kernel->positions, stream);
  case KERNEL_POSITIONS_BACKWARD:
    return cuda_positions_backward(&kernel->positions, stream);
  case KERNEL_CAP_FORWARD:
    return cuda_cap_forward(&kernel->cap, stream);
  case KERNEL_CAP_BACKWARD:
    return cuda_cap_backward(&kernel->cap, stream);
  case KERNEL_LOSS_MAX:
    return cuda_loss_max(&kernel->loss, stream);
  case KERNEL_LOSS_EXP:
    return cuda_loss_exp(&kernel->loss, stream);
  case KERNEL_LOSS_SOFTMAX:
    return cuda_loss_softmax(&kernel->loss, stream);
  case KERNEL_LOSS_BACKWARD:
    return cuda_loss_backward(&kernel->loss, stream);
  default:
    return run_of_experts(kernel, stream);
  }
}

/* Kernels that need only the stream. */
static cudaError_t run_simple(const Kernel *kernel, cudaStream_t stream) {
  switch (kernel->kind) {
  case KERNEL_NORM_FORWARD:
    return cuda_norm_forward(&kernel->norm, stream);
  case KERNEL_NORM_SUMS:
    return cuda_norm_sums(&kernel->norm, stream);
  case KERNEL_NORM_SUMS_BACKWARD:
    return cuda_norm_sums_backward(&kernel->norm, stream);
  case KERNEL_ROPE:
    return cuda_rope(&kernel->rope, stream);
  case KERNEL_LATENT_JOIN:
    return cuda_latent_join(&kernel->latent, stream);
  case KERNEL_LATENT_SPLIT:
    return cuda_latent_split(&kernel->latent, stream);
  case KERNEL_SOFTMAX_FORWARD:
    return cuda_softmax_forward(&kernel->softmax, stream);
  case KERNEL_SOFTMAX_BACKWARD:
    return cuda_softmax_backward(&kernel->softmax, stream);
  case KERNEL_DROP_SCORES:
    return cuda_drop_scores(&kernel->drop_scores, stream);
  case KERNEL_ACTIVATION_FORWARD:
    return cuda_activation_forward(&kernel->activation, stream);
  case KERNEL_ACTIVATION_BACKWARD:
    return cuda_activation_backward(&kernel->activation, stream);
  case KERNEL_ADD:
    return cuda_add(&kernel->add, stream);
  case KERNEL_DROP_ADD:
    return cuda_drop_add(&kernel->drop_add, stream);
  case KERNEL_MERGE:
    return cuda_merge(&kernel->merge, stream);
  case KERNEL_MOVE:
    return cuda_move(&kernel->move, stream);
  case KERNEL_ADAM:
    return cuda_adam(&kernel->adam, stream);
  case KERNEL_LOSS_SCALE:
    return cuda_loss_scale(&kernel->loss_scale, stream);
  case KERNEL_CONVERT:
    return cuda_convert(&kernel->convert, stream);
  case KERNEL_FILL:
    return cudaMemsetAsync(kernel->fill.to, 0, (gsize)kernel->fill.bytes, stream);
  case KERNEL_INIT:
    return cuda_init(&kernel->init, stream);
  default:
    return run_of_ends(kernel, stream);
  }
}

static gboolean run(CudaLane *lane, const Kernel *kernel, GError **error) {
  void *scratch = NULL;
  switch (kernel->kind) {
  case KERNEL_MATMUL:
    return run_matmul(lane, kernel, error);
  case KERNEL_FLASH_FORWARD:
  case KERNEL_FLASH_BACKWARD:
    return run_flash(lane, kernel, error);
  case KERNEL_NARROW:
  case KERNEL_NORM_BACKWARD:
  case KERNEL_BIAS_GRADIENT:
  case KERNEL_EMBEDDING_BACKWARD:
  case KERNEL_SUM_SQUARES:
    scratch = cuda_scratch_get(&lane->scratch, cuda_kernel_scratch_bytes(kernel), error);
    break;
  default:
    return CUDA_CALL(run_simple(kernel, lane->stream), error);
  }
  if (scratch == NULL)
    return FALSE;
  if (kernel->kind == KERNEL_NARROW)
    return CUDA_CALL(cuda_narrow(&kernel->narrow, scratch, lane->stream), error);
  if (kernel->kind == KERNEL_NORM_BACKWARD)
    return CUDA_CALL(cuda_norm_backward(&kernel->norm, scratch, lane->stream), error);
  if (kernel->kind == KERNEL_BIAS_GRADIENT)
    return CUDA_CALL(cuda_bias_gradient(&kernel->bias_gradient, scratch, lane->stream), error);
  if (kernel->kind == KERNEL_EMBEDDING_BACKWARD)
    return CUDA_CALL(cuda_embedding_backward(&kernel->embedding, scratch, lane->stream), error);
  return CUDA_CALL(cuda_sum_squares(&kernel->sum_squares, scratch, lane->stream), error);
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
