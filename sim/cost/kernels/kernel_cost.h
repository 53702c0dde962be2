/* Time of one kernel on one GPU.
 *
 * Matrix products. An output tile (tm × tn) is the work of one SM; `batch·⌈m/tm⌉·⌈n/tn⌉` tiles take ⌈tiles / SMs⌉
 * waves (wave quantisation). A wave lasts
 *
 *     2·tm·tn·(k + k_ramp) / (peak·sustained·under_load/SMs · tile efficiency)
 *
 * (k_ramp: prologue and epilogue, as elements of k; they take the same time in formats of fewer than 16 bits, and so
 * more elements there, in proportion to the peak). Few tiles with a long k are split over k, at the price of one more
 * pass over C in fp32. The kernel uses the best tile and split, as the library's heuristic would, but takes at least
 * the time of its HBM traffic, plus the device's kernel latency. If rows of A, B or C do not start at multiples of 16
 * bytes (odd vocabularies, heads of 108 elements), only a share of the rate is reached (`unaligned` of gpu.h).
 *
 * Attention. Causal FLOPs over the fused kernel's rate, with heads padded to the width that the kernel is made for.
 * The rate is multiplied by keys / (keys + ramp), with the keys that a query meets on average: half of them if
 * causal, at most a window's.
 *
 * Everything else: bytes over the HBM curve.
 *
 * That is the model. Where a GPU's file has tables of measured times, these are used instead (measured_cost.h). */
#pragma once
#include "measured_cost.h"

/* A memory-bound kernel, by the model alone. */
double kernel_cost_memory_s(const Gpu *gpu, double bytes);
/* Any item but a COLLECTIVE, by the model alone. */
double kernel_cost_model_s(const Gpu *gpu, const WorkItem *item);
/* The same, by measured times where there are any; `source` may be NULL. */
double kernel_cost_s(const Gpu *gpu, const WorkItem *item, CostSource *source);
