/* Where the model state of a rank is held: on its GPU, in its node's memory, or on the node's drives
 * (plan/offload.h). Sources: ZeRO-Offload, arXiv 2101.06840 §3 (gradients, master copy and moments on the
 * host: 14 of 16 bytes a parameter); ZeRO-Infinity, arXiv 2104.07857 §5. */
#pragma once
#include "workload.h"

/* Whether reduced gradients (those of experts, or all others) are copied out after every micro-batch and summed in
 * host memory: from ZeRO-2 on, unless several data parallel ranks each hold all gradients whole (one shard).
 * Otherwise the GPU sums them and copies them out once per step. */
gboolean workload_gradients_leave(const Workload *workload, gboolean of_experts);

/* The state of a stage on one rank, each part in whole bytes: what the GPU (workload_stage_state() if nothing is
 * offloaded), its node's memory and the drives hold. Gradients are where method_gradient_tier() says, and also on the
 * GPU if they are still summed there. Excludes the buffers that pieces pass through. */
void workload_stage_tiers(const Workload *workload, int stage, StateBytes tiers[N_TIERS]);
