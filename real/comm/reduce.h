/* The arithmetic of reductions in host memory. 2-byte formats are summed in fp32 and rounded once, to nearest even. */
#pragma once
#include "comm.h"
#include "cpu_kernels.h"

typedef enum { ELEMENT_FP32, ELEMENT_BF16, ELEMENT_FP16, ELEMENT_FP64, N_ELEMENTS } Element;

Element element_of(Number number); /* FP32, BF16, FP16 */
gint64 element_bytes(Element element);
/* out[i] = parts[0][i] ∘ parts[1][i] ∘ …, in this order; `out` may be one of the parts. `scratch`: the calling
 * thread's. */
void reduce_parts(Element element, ReduceKind kind, const void *const *parts, int n_parts, void *out, gint64 n,
                  CpuScratch *scratch);
