/* The schedule that auto stands for. */
#pragma once
#include "cluster.h"
#include "plan_order.h"

/* A copy of the plan as it is run: auto is replaced by the order made for it, or by a built-in schedule that is faster.
 * Owned by the caller. */
Plan *predict_auto_settle(const Model *model, const Cluster *cluster, const Plan *plan, GError **error);
