/* The kernels on one core of a CPU: the plain executor's, and the one others are checked against. fp32 is meant to be
 * fast (OpenBLAS for products, loops the compiler vectorises for the rest); bf16 and fp16 are widened block by block,
 * computed in fp32 and rounded to nearest even on the way out.
 *
 * The loops are built once per instruction set and the best one that this processor has is used: programs stay
 * portable. Same input on the same processor, same bytes out. */
#pragma once
#include "kernel.h"

/* What kernels need beside their operands: fp32 copies, tiles, tables of angles. One per thread; grows to the largest
 * kernel run (tens of MiB at most in fp32). */
typedef struct CpuScratch CpuScratch;

CpuScratch *cpu_scratch_new(void);
void cpu_scratch_free(CpuScratch *scratch);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CpuScratch, cpu_scratch_free)

/* Run one kernel to its end, here. INPUT when its numbers are not FP32, BF16 or FP16. Results that are not finite are
 * no error. Adam given a *norm_squared that is not finite changes nothing. */
gboolean cpu_kernel_run(const Kernel *kernel, CpuScratch *scratch, GError **error);

/* to[i] = from[i], each FP32, BF16 or FP16; the two do not overlap. */
void cpu_convert(const void *from, Number from_number, gint64 n, void *to, Number to_number);

/* Threads that a matrix product may use, of the whole process. A rank that owns one core wants 1. */
void cpu_kernels_set_threads(int n);

/* NULL-terminated: the instruction sets built in that this processor has, plainest first: "plain", "avx2", "avx512". */
const char *const *cpu_kernels_isa_names(void);
/* Another than the best, for tests and benchmarks; FALSE when it is not among them. */
gboolean cpu_scratch_use_isa(CpuScratch *scratch, const char *name);
