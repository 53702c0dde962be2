/* `--schedule auto`: the order made for a plan's own predicted times and the memory its GPUs have. */
#pragma once
#include "cluster.h"
#include "schedules.h"
#include "workload.h"

/* IMPOSSIBLE when not one micro-batch fits beside weights, gradients and optimizer (rank, least and given bytes), or as
 * auto_order_new(). Owned by the caller. */
Order *auto_plan_order(const Workload *workload, const Cluster *cluster, GError **error);
