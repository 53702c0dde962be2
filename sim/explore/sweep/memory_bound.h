/* How much memory a plan needs at least, known before anything is simulated. */
#pragma once
#include "cluster.h"
#include "plan_order.h"
#include "workload.h"

typedef struct {
  double least_bytes;      /* held at some moment by `rank`; the simulation's peak is at least as much */
  double room_bytes;       /* what a GPU has for the model */
  double state_bytes;      /* of least_bytes: weights, gradients and optimizer */
  double activation_bytes; /* the rest */
  int rank;                /* pipeline rank that holds it */
} MemoryBound;

/* The pipeline order that the last plan was bounded with, kept because the next configuration often has the same one.
 * For one thread. */
typedef struct ShortOrder ShortOrder;
ShortOrder *short_order_new(void);
void short_order_free(ShortOrder *kept);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ShortOrder, short_order_free)

/* Of a workload made by plan_order_workload(); `choice` as that left it. FALSE when least_bytes are more than
 * room_bytes: simulate says of such a plan that it does not fit. */
gboolean memory_bound_fits(const Workload *workload, const PlanOrder *choice, const Cluster *cluster, ShortOrder *kept,
                           MemoryBound *bound);
