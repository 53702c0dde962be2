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
#define cpu_isa CPU_NAME(cpu_isa)

extern const CpuIsa cpu_isa;

/* The function of a kernel: CPU_KERNEL(matmul) { … } */
#define CPU_KERNEL(name) void CPU_NAME(cpu_##name)(const Kernel *kernel, CpuScratch *scratch)
#define ROW(KIND, name, ...) CPU_KERNEL(name);
KERNELS(ROW)
#undef ROW
#endif
