/* `--schedule auto`: an order made for the plan's own predicted times and its GPUs' memory. */
#pragma once
#include "cluster.h"
#include "schedules.h"
#include "workload.h"

/* The order is the caller's. IMPOSSIBLE when not even one micro-batch fits beside weights, gradients and optimizer
 * (the message gives the rank, the least it needs and what it has), or as auto_order_new(). */
Order *auto_plan_order(const Workload *workload, const Cluster *cluster, GError **error);
