/* The kernels on one CPU core: the reference that the others are checked against, yet meant to be fast in fp32
 * (OpenBLAS for products, vectorised loops for the rest). bf16 and fp16 are widened block by block, computed in fp32
 * and rounded to nearest even when stored.
 *
 * The loops are compiled once per instruction set and the best one for this processor is used, so programs stay
 * portable. Same input on the same processor, same bytes out. */
#pragma once
#include "kernel.h"

/* Kernels' scratch memory: fp32 copies, tiles, tables of angles. One per thread; grows to the largest kernel run
 * (tens of MiB at most in fp32). */
typedef struct CpuScratch CpuScratch;

CpuScratch *cpu_scratch_new(void);
void cpu_scratch_free(CpuScratch *scratch);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CpuScratch, cpu_scratch_free)

/* Runs one kernel and waits. INPUT if its number formats are not FP32, BF16 or FP16. Non-finite results are not an
 * error. Adam with a *norm_squared that is not finite changes nothing. */
gboolean cpu_kernel_run(const Kernel *kernel, CpuScratch *scratch, GError **error);

/* to[i] = from[i], each FP32, BF16 or FP16; the two do not overlap. */
void cpu_convert(const void *from, Number from_number, gint64 n, void *to, Number to_number);

/* Sets how many threads matrix products may use, for the whole process. A rank that owns one core wants 1. */
void cpu_kernels_set_threads(int n);

/* NULL-terminated: the compiled-in instruction sets that this processor has, plainest first: "plain", "avx2",
 * "avx512". */
const char *const *cpu_kernels_isa_names(void);
/* Selects another than the best, for tests and benchmarks; FALSE if it is not among them. */
gboolean cpu_scratch_use_isa(CpuScratch *scratch, const char *name);
