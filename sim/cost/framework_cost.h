/* What a framework makes of a GPU's kernels and collectives (describe/plan/framework_time.h). */
#pragma once
#include "framework_time.h"
#include "gpu.h"
#include "timing.h"

/* `gpu` as the framework's libraries reach it. Shares the tables of `gpu`: not to be cleared. */
Gpu framework_gpu(const FrameworkTime *framework, const Gpu *gpu);

/* Seconds between the mean of when `n` ranks come to a collective and the last of them: the expected largest of n
 * normally distributed numbers, Φ⁻¹((n − 0.375)/(n + 0.25)) standard deviations (Blom, "Statistical Estimates and
 * Transformed Beta-Variables", 1958). 0 for n < 2. */
double framework_lateness_s(const FrameworkTime *framework, int n);

/* Seconds a tp collective of `time_s` and over `n` ranks takes of its stream: the last rank awaited, without the part
 * that runs inside the product it belongs to. */
double framework_collective_s(const FrameworkTime *framework, double time_s, int n);

/* Host seconds to issue each kind of item of a piece's list; of what a graph replays none. */
typedef struct {
  double kernel_s, again_s, collective_s; /* again: a recomputed kernel */
  double operation_s;                     /* each after the first of those that one item stands for; 0: as the first */
} LaunchTimes;
/* Host seconds to issue `item`. */
double framework_launch_s(const LaunchTimes *launches, const WorkItem *item);
/* … a collective of a layer with experts, under a framework with expert_host; `each_s`: a kernel, as the GPU's host. */
double framework_expert_collective_s(const FrameworkTime *framework, double each_s);
/* What the plan's framework spends on a piece, in equal parts for each of its kernels; `each_s` per kernel where that
 * is unknown, as the GPU's host takes. What it spends on a layer that is made again is for all kernels of `again`;
 * NULL: for those that `work` makes again. `has_experts`: the piece is a layer with experts. */
LaunchTimes framework_launches(const Plan *plan, const WorkList *work, const WorkList *again, Piece piece, Phase phase,
                               gboolean has_experts, double each_s);
/* Whether item `i` of a list is replayed by the plan's CUDA graphs. Router: it and the choice of experts, by name.
 * Attention: these, and kernels that do not stand between the first and the last of a layer's exchanges with experts
 * and their products (nothing where there are none). */
gboolean framework_replays(const Plan *plan, const WorkList *work, int i);
