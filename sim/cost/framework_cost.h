/* How a framework changes the times of a GPU's kernels and collectives (plan/quirks.c). */
#pragma once
#include "gpu.h"
#include "quirk_values.h"
#include "timing.h"

/* `gpu` at the rates that the framework's libraries reach. Shares the tables of `gpu`: do not clear it. */
Gpu framework_gpu(const FrameworkTime *framework, const Gpu *gpu);

/* Seconds that a tp collective of `time_s` over `n` ranks occupies its stream: the wait for the last rank included,
 * without the part that runs inside the product it belongs to. That wait, from the mean arrival to the last, is the
 * expected largest of n normally distributed numbers, Φ⁻¹((n − 0.375)/(n + 0.25)) times `arrival_spread` (Blom,
 * "Statistical Estimates and Transformed Beta-Variables", 1958); 0 for n < 2. */
double framework_collective_s(const FrameworkTime *framework, double time_s, int n);

/* Host seconds to issue each kind of item of a piece's list; what a graph replays costs none. */
typedef struct {
  double kernel_s, again_s, collective_s; /* again: a recomputed kernel */
  double of_tp_s;                         /* of a collective of tp, in addition */
  double operation_s;                     /* each after the first of the launches that one item stands for, and each
                                             inside another item's module; 0: same as the first */
} LaunchTimes;
/* Host seconds to issue `item`. */
double framework_launch_s(const LaunchTimes *launches, const WorkItem *item);
/* The same for a collective of a layer with experts, under a framework with expert_host. `each_s`: the GPU's host
 * time per kernel. */
double framework_expert_collective_s(const FrameworkTime *framework, double each_s);
/* What the plan's framework spends on a piece, spread evenly over its kernels; where that is unknown, `each_s` per
 * kernel, as the GPU's host takes. What it spends on recomputing a layer is spread over all kernels of `again`, or
 * with NULL over those that `work` recomputes. `is_of_experts`: the piece is a layer with experts. */
LaunchTimes framework_launches(const Method *method, const WorkList *work, const WorkList *again, Piece piece,
                               Phase phase, gboolean is_of_experts, double each_s);
/* Whether CUDA graphs replay item `i` of a list. Router: the router and the choice of experts, by name.
 * Attention: these, and the kernels outside the span from the first to the last of a layer's expert exchanges and
 * products (nothing where there are none). */
gboolean framework_replays(CudaGraphs graphs, const WorkList *work, int i);
