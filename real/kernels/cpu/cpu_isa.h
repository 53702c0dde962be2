/* Private to the CPU kernels. Files that include this are compiled once per instruction set, with CPU_ISA naming it.
 * Names they share get that name as a suffix, so that the copies can be linked together:
 *
 *      cpu_rows.c ──┬─ (x86-64)     cpu_norm_forward_plain  ──┐
 *                   ├─ -march=…-v3  cpu_norm_forward_avx2   ──┼─ one table each ── picked by the processor
 *                   └─ -march=…-v4  cpu_norm_forward_avx512 ──┘
 *
 * Used instead of the compiler's function clones, whose resolvers run before sanitizers are set up and which do not
 * reach into inlined helpers on every compiler. */
#pragma once
#include "cpu_kernels.h"

typedef void (*CpuKernelFunction)(const Kernel *kernel, CpuScratch *scratch);

typedef struct {
  const char *name;
  CpuKernelFunction run[N_KERNELS];
} CpuIsa;

struct CpuScratch {
  const CpuIsa *isa;
  float *memory; /* 64-byte aligned */
  gsize n_floats;
  /* cosine and sine of every (position, pair) of the last RoPE: [seq_len][cosines, sines][head_dim / 2] */
  float *angles;
  gint64 angles_seq_len, angles_head_dim;
  SequencePieces angles_pieces;
  double angles_base;
};

/* At least n floats, 64-byte aligned, not cleared. Invalidates what an earlier call returned. */
float *cpu_scratch_floats(CpuScratch *scratch, gint64 n);

#ifdef CPU_ISA
#define CPU_JOIN_(name, isa) name##_##isa
#define CPU_JOIN(name, isa) CPU_JOIN_(name, isa)
#define CPU_NAME(name) CPU_JOIN(name, CPU_ISA)

#define numbers_widen CPU_NAME(numbers_widen)
#define numbers_round CPU_NAME(numbers_round)
#define fp8_widen CPU_NAME(fp8_widen)
#define fp8_round CPU_NAME(fp8_round)
#define row_in CPU_NAME(row_in)
#define row_out CPU_NAME(row_out)
#define row_open CPU_NAME(row_open)
#define row_close CPU_NAME(row_close)
#define row_add CPU_NAME(row_add)
#define cpu_matmul CPU_NAME(cpu_matmul)
#define cpu_narrow CPU_NAME(cpu_narrow)
#define cpu_norm_forward CPU_NAME(cpu_norm_forward)
#define cpu_norm_backward CPU_NAME(cpu_norm_backward)
#define cpu_norm_sums CPU_NAME(cpu_norm_sums)
#define cpu_norm_sums_backward CPU_NAME(cpu_norm_sums_backward)
#define cpu_rope CPU_NAME(cpu_rope)
#define cpu_latent_join CPU_NAME(cpu_latent_join)
#define cpu_latent_split CPU_NAME(cpu_latent_split)
#define cpu_softmax_forward CPU_NAME(cpu_softmax_forward)
#define cpu_softmax_backward CPU_NAME(cpu_softmax_backward)
#define cpu_drop_scores CPU_NAME(cpu_drop_scores)
#define cpu_drop_add CPU_NAME(cpu_drop_add)
#define cpu_flash_forward CPU_NAME(cpu_flash_forward)
#define cpu_flash_backward CPU_NAME(cpu_flash_backward)
#define cpu_merge CPU_NAME(cpu_merge)
#define cpu_activation_forward CPU_NAME(cpu_activation_forward)
#define cpu_activation_backward CPU_NAME(cpu_activation_backward)
#define cpu_add CPU_NAME(cpu_add)
#define cpu_move CPU_NAME(cpu_move)
#define cpu_bias_gradient CPU_NAME(cpu_bias_gradient)
#define cpu_embedding_forward CPU_NAME(cpu_embedding_forward)
#define cpu_embedding_backward CPU_NAME(cpu_embedding_backward)
#define cpu_positions_forward CPU_NAME(cpu_positions_forward)
#define cpu_positions_backward CPU_NAME(cpu_positions_backward)
#define cpu_route_forward CPU_NAME(cpu_route_forward)
#define cpu_route_backward CPU_NAME(cpu_route_backward)
#define cpu_spread CPU_NAME(cpu_spread)
#define cpu_pick CPU_NAME(cpu_pick)
#define cpu_put CPU_NAME(cpu_put)
#define cpu_collect CPU_NAME(cpu_collect)
#define cpu_permute CPU_NAME(cpu_permute)
#define cpu_unpermute CPU_NAME(cpu_unpermute)
#define cpu_swap_blocks CPU_NAME(cpu_swap_blocks)
#define cpu_gate_forward CPU_NAME(cpu_gate_forward)
#define cpu_gate_backward CPU_NAME(cpu_gate_backward)
#define cpu_cap_forward CPU_NAME(cpu_cap_forward)
#define cpu_cap_backward CPU_NAME(cpu_cap_backward)
#define cpu_loss_max CPU_NAME(cpu_loss_max)
#define cpu_loss_exp CPU_NAME(cpu_loss_exp)
#define cpu_loss_softmax CPU_NAME(cpu_loss_softmax)
#define cpu_loss_backward CPU_NAME(cpu_loss_backward)
#define cpu_sum_squares CPU_NAME(cpu_sum_squares)
#define cpu_adam CPU_NAME(cpu_adam)
#define cpu_loss_scale CPU_NAME(cpu_loss_scale)
#define cpu_convert CPU_NAME(cpu_convert)
#define cpu_fill CPU_NAME(cpu_fill)
#define cpu_init CPU_NAME(cpu_init)
#define cpu_isa CPU_NAME(cpu_isa)

extern const CpuIsa cpu_isa;

void cpu_matmul(const Kernel *kernel, CpuScratch *scratch);
void cpu_narrow(const Kernel *kernel, CpuScratch *scratch);
void cpu_norm_forward(const Kernel *kernel, CpuScratch *scratch);
void cpu_norm_backward(const Kernel *kernel, CpuScratch *scratch);
void cpu_norm_sums(const Kernel *kernel, CpuScratch *scratch);
void cpu_norm_sums_backward(const Kernel *kernel, CpuScratch *scratch);
void cpu_rope(const Kernel *kernel, CpuScratch *scratch);
void cpu_latent_join(const Kernel *kernel, CpuScratch *scratch);
void cpu_latent_split(const Kernel *kernel, CpuScratch *scratch);
void cpu_softmax_forward(const Kernel *kernel, CpuScratch *scratch);
void cpu_softmax_backward(const Kernel *kernel, CpuScratch *scratch);
void cpu_drop_scores(const Kernel *kernel, CpuScratch *scratch);
void cpu_drop_add(const Kernel *kernel, CpuScratch *scratch);
void cpu_flash_forward(const Kernel *kernel, CpuScratch *scratch);
void cpu_flash_backward(const Kernel *kernel, CpuScratch *scratch);
void cpu_merge(const Kernel *kernel, CpuScratch *scratch);
void cpu_activation_forward(const Kernel *kernel, CpuScratch *scratch);
void cpu_activation_backward(const Kernel *kernel, CpuScratch *scratch);
void cpu_add(const Kernel *kernel, CpuScratch *scratch);
void cpu_move(const Kernel *kernel, CpuScratch *scratch);
void cpu_bias_gradient(const Kernel *kernel, CpuScratch *scratch);
void cpu_embedding_forward(const Kernel *kernel, CpuScratch *scratch);
void cpu_embedding_backward(const Kernel *kernel, CpuScratch *scratch);
void cpu_positions_forward(const Kernel *kernel, CpuScratch *scratch);
void cpu_positions_backward(const Kernel *kernel, CpuScratch *scratch);
void cpu_route_forward(const Kernel *kernel, CpuScratch *scratch);
void cpu_route_backward(const Kernel *kernel, CpuScratch *scratch);
void cpu_spread(const Kernel *kernel, CpuScratch *scratch);
void cpu_pick(const Kernel *kernel, CpuScratch *scratch);
void cpu_put(const Kernel *kernel, CpuScratch *scratch);
void cpu_collect(const Kernel *kernel, CpuScratch *scratch);
void cpu_permute(const Kernel *kernel, CpuScratch *scratch);
void cpu_unpermute(const Kernel *kernel, CpuScratch *scratch);
void cpu_swap_blocks(const Kernel *kernel, CpuScratch *scratch);
void cpu_gate_forward(const Kernel *kernel, CpuScratch *scratch);
void cpu_gate_backward(const Kernel *kernel, CpuScratch *scratch);
void cpu_cap_forward(const Kernel *kernel, CpuScratch *scratch);
void cpu_cap_backward(const Kernel *kernel, CpuScratch *scratch);
void cpu_loss_max(const Kernel *kernel, CpuScratch *scratch);
void cpu_loss_exp(const Kernel *kernel, CpuScratch *scratch);
void cpu_loss_softmax(const Kernel *kernel, CpuScratch *scratch);
void cpu_loss_backward(const Kernel *kernel, CpuScratch *scratch);
void cpu_sum_squares(const Kernel *kernel, CpuScratch *scratch);
void cpu_adam(const Kernel *kernel, CpuScratch *scratch);
void cpu_loss_scale(const Kernel *kernel, CpuScratch *scratch);
void cpu_convert(const Kernel *kernel, CpuScratch *scratch);
void cpu_fill(const Kernel *kernel, CpuScratch *scratch);
void cpu_init(const Kernel *kernel, CpuScratch *scratch);
#endif
