#include "kernel.h"

static const char *const names[N_KERNELS] = {
    [KERNEL_MATMUL] = "matmul",
    [KERNEL_NARROW] = "narrow",
    [KERNEL_NORM_FORWARD] = "norm",
    [KERNEL_NORM_BACKWARD] = "norm.backward",
    [KERNEL_NORM_SUMS] = "norm.sums",
    [KERNEL_NORM_SUMS_BACKWARD] = "norm.sums.backward",
    [KERNEL_ROPE] = "rope",
    [KERNEL_LATENT_JOIN] = "latent.join",
    [KERNEL_LATENT_SPLIT] = "latent.split",
    [KERNEL_SOFTMAX_FORWARD] = "softmax",
    [KERNEL_SOFTMAX_BACKWARD] = "softmax.backward",
    [KERNEL_DROP_SCORES] = "dropout.scores",
    [KERNEL_FLASH_FORWARD] = "flash",
    [KERNEL_FLASH_BACKWARD] = "flash.backward",
    [KERNEL_MERGE] = "merge",
    [KERNEL_ACTIVATION_FORWARD] = "activation",
    [KERNEL_ACTIVATION_BACKWARD] = "activation.backward",
    [KERNEL_ADD] = "add",
    [KERNEL_DROP_ADD] = "dropout.add",
    [KERNEL_MOVE] = "move",
    [KERNEL_BIAS_GRADIENT] = "bias_gradient",
    [KERNEL_EMBEDDING_FORWARD] = "embedding",
    [KERNEL_EMBEDDING_BACKWARD] = "embedding.backward",
    [KERNEL_POSITIONS_FORWARD] = "positions",
    [KERNEL_POSITIONS_BACKWARD] = "positions.backward",
    [KERNEL_ROUTE_FORWARD] = "route",
    [KERNEL_ROUTE_BACKWARD] = "route.backward",
    [KERNEL_PERMUTE] = "permute",
    [KERNEL_UNPERMUTE] = "unpermute",
    [KERNEL_SWAP_BLOCKS] = "swap_blocks",
    [KERNEL_SPREAD] = "spread",
    [KERNEL_PICK] = "pick",
    [KERNEL_PUT] = "put",
    [KERNEL_COLLECT] = "collect",
    [KERNEL_GATE_FORWARD] = "gate",
    [KERNEL_GATE_BACKWARD] = "gate.backward",
    [KERNEL_CAP_FORWARD] = "cap",
    [KERNEL_CAP_BACKWARD] = "cap.backward",
    [KERNEL_LOSS_MAX] = "loss.max",
    [KERNEL_LOSS_EXP] = "loss.exp",
    [KERNEL_LOSS_SOFTMAX] = "loss.softmax",
    [KERNEL_LOSS_BACKWARD] = "loss.backward",
    [KERNEL_SUM_SQUARES] = "sum_squares",
    [KERNEL_ADAM] = "adam",
    [KERNEL_LOSS_SCALE] = "loss_scale",
    [KERNEL_CONVERT] = "convert",
    [KERNEL_FILL] = "fill",
    [KERNEL_INIT] = "init",
};

const char *kernel_name(KernelKind kind) {
  g_assert((guint)kind < N_KERNELS);
  return names[kind];
}

int kernel_element_bytes(Number number) {
  g_assert(number == NUMBER_FP32 || number == NUMBER_BF16 || number == NUMBER_FP16 || number == NUMBER_FP8);
  return number == NUMBER_FP32 ? 4 : number == NUMBER_FP8 ? 1 : 2;
}
