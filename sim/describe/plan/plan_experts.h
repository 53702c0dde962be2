/* What a plan leaves open of layers with experts, as the framework's recipes have it on the machine. */
#pragma once
#include "plan.h"

/* expert_dispatch, overlap_experts and cuda_graphs, where they are not said, of a plan whose ranks and schedule are;
 * `model` and `cluster` may be NULL. */
void plan_complete_experts(Plan *plan, const Model *model, const Cluster *cluster);
