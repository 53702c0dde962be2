/* Time of one kernel on one GPU.
 *
 * Matrix products. An output tile (tm × tn) is the work of one SM; `batch·⌈m/tm⌉·⌈n/tn⌉` tiles take ⌈tiles / SMs⌉ waves
 * (wave quantisation). A wave lasts
 *
 *     2·tm·tn·(k + k_ramp) / (peak·sustained·under_load/SMs · tile efficiency)
 *
 * (k_ramp: prologue and epilogue, as elements of k; they take the same time in formats of fewer than 16 bits, so as
 * many more elements there as the peak is higher). Few tiles and a long k are split over k, at the price of one more
 * pass over C in fp32. The kernel takes the best tile and split, as the library's heuristic would, but never less than
 * its HBM traffic, plus the device's kernel latency. Rows of A, B or C that do not start at multiples of 16 bytes
 * (odd vocabularies, heads of 108 elements) leave a share of the rate, unaligned of gpu.h. Attention: causal FLOPs
 * over the fused kernel's rate, of heads as wide as the kernel is made for, and of that keys / (keys + ramp) for the
 * keys that a query meets on average: half of them if causal, a window's at most. Everything else: bytes over the HBM
 * curve.
 *
 * That is the model. A GPU whose file has tables of measured times is costed by them where they reach, as
 * measured_cost.h says. */
#pragma once
#include "measured_cost.h"

/* Of a memory-bound kernel, by the model alone. */
double kernel_cost_memory_s(const Gpu *gpu, double bytes);
/* Any item but a COLLECTIVE, by the model alone. */
double kernel_cost_model_s(const Gpu *gpu, const WorkItem *item);
/* The same, by measured times where there are any; `source` may be NULL. */
double kernel_cost_s(const Gpu *gpu, const WorkItem *item, CostSource *source);
