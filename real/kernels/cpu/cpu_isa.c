/* One instruction set's table. */
#include "cpu_isa.h"

#define CPU_TEXT_(name) #name
#define CPU_TEXT(name) CPU_TEXT_(name)

const CpuIsa cpu_isa = {
    .name = CPU_TEXT(CPU_ISA),
    .run =
        {
            [KERNEL_MATMUL] = cpu_matmul,
            [KERNEL_NORM_FORWARD] = cpu_norm_forward,
            [KERNEL_NORM_BACKWARD] = cpu_norm_backward,
            [KERNEL_ROPE] = cpu_rope,
            [KERNEL_LATENT_JOIN] = cpu_latent_join,
            [KERNEL_LATENT_SPLIT] = cpu_latent_split,
            [KERNEL_SOFTMAX_FORWARD] = cpu_softmax_forward,
            [KERNEL_SOFTMAX_BACKWARD] = cpu_softmax_backward,
            [KERNEL_DROP_SCORES] = cpu_drop_scores,
            [KERNEL_FLASH_FORWARD] = cpu_flash_forward,
            [KERNEL_FLASH_BACKWARD] = cpu_flash_backward,
            [KERNEL_MERGE] = cpu_merge,
            [KERNEL_ACTIVATION_FORWARD] = cpu_activation_forward,
            [KERNEL_ACTIVATION_BACKWARD] = cpu_activation_backward,
            [KERNEL_ADD] = cpu_add,
            [KERNEL_DROP_ADD] = cpu_drop_add,
            [KERNEL_MOVE] = cpu_move,
            [KERNEL_BIAS_GRADIENT] = cpu_bias_gradient,
            [KERNEL_EMBEDDING_FORWARD] = cpu_embedding_forward,
            [KERNEL_EMBEDDING_BACKWARD] = cpu_embedding_backward,
            [KERNEL_POSITIONS_FORWARD] = cpu_positions_forward,
            [KERNEL_POSITIONS_BACKWARD] = cpu_positions_backward,
            [KERNEL_ROUTE_FORWARD] = cpu_route_forward,
            [KERNEL_ROUTE_BACKWARD] = cpu_route_backward,
            [KERNEL_PERMUTE] = cpu_permute,
            [KERNEL_UNPERMUTE] = cpu_unpermute,
            [KERNEL_SWAP_BLOCKS] = cpu_swap_blocks,
            [KERNEL_GATE_FORWARD] = cpu_gate_forward,
            [KERNEL_GATE_BACKWARD] = cpu_gate_backward,
            [KERNEL_CAP_FORWARD] = cpu_cap_forward,
            [KERNEL_CAP_BACKWARD] = cpu_cap_backward,
            [KERNEL_LOSS_MAX] = cpu_loss_max,
            [KERNEL_LOSS_EXP] = cpu_loss_exp,
            [KERNEL_LOSS_SOFTMAX] = cpu_loss_softmax,
            [KERNEL_LOSS_BACKWARD] = cpu_loss_backward,
            [KERNEL_SUM_SQUARES] = cpu_sum_squares,
            [KERNEL_ADAM] = cpu_adam,
            [KERNEL_LOSS_SCALE] = cpu_loss_scale,
            [KERNEL_CONVERT] = cpu_convert,
            [KERNEL_FILL] = cpu_fill,
            [KERNEL_INIT] = cpu_init,
        },
};
