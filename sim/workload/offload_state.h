/* Who holds the model state of a rank: its GPU, its node's memory, the node's drives (describe/plan/offload.h).
 * Sources: ZeRO-Offload, arXiv 2101.06840 §3 (gradients, master copy and moments on the host: 14 of 16 bytes a
 * parameter); ZeRO-Infinity, arXiv 2104.07857 §5. */
#pragma once
#include "workload.h"

/* Whether reduced gradients, those of experts or all others, are copied out after every micro-batch and summed in host
 * memory: from ZeRO-2 on, unless each of several data parallel ranks holds all gradients whole (one shard). Else the
 * GPU sums them and copies them out once a step. */
gboolean workload_gradients_leave(const Workload *workload, gboolean of_experts);

/* State of a stage on one rank, each part in whole bytes: what the GPU holds (workload_stage_state() where nothing is
 * offloaded), its node's memory and the drives. Gradients are where plan_gradient_tier() says; besides, where they are
 * still added up on the GPU, there. Without the buffers that pieces pass through. */
void workload_stage_tiers(const Workload *workload, int stage, StateBytes tiers[N_TIERS]);
