/* What a plan leaves open about layers with experts, filled in as the framework's recipes do on that machine. */
#pragma once
#include "plan.h"

/* Fill expert_dispatch, overlap_experts and cuda_graphs if not given. The plan's ranks and schedule must be known;
 * `model` and `cluster` may be NULL. */
void plan_complete_experts(Plan *plan, const Model *model, const Cluster *cluster);
