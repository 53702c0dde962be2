/* A lower bound on a plan's memory, known before anything is simulated. */
#pragma once
#include "cluster.h"
#include "workload.h"

typedef struct {
  double least_bytes;      /* held by `rank` at some moment; the simulated peak is at least this */
  double room_bytes;       /* available to the model on a GPU */
  double state_bytes;      /* of least_bytes: weights, gradients and optimizer */
  double activation_bytes; /* the rest */
  int rank;                /* pipeline rank that holds it */
} MemoryBound;

/* What the pipeline orders of the last plans hold, whatever the sizes: the next configuration often has the same one.
 * For one thread. */
typedef struct ShortOrder ShortOrder;
ShortOrder *short_order_new(void);
void short_order_free(ShortOrder *kept);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ShortOrder, short_order_free)

/* FALSE if least_bytes exceeds room_bytes: the simulation of such a plan would report that it does not fit. */
gboolean memory_bound_fits(const Workload *workload, const Cluster *cluster, ShortOrder *kept, MemoryBound *bound);
/* FALSE: least_bytes exceeds so many. */
gboolean memory_bound_is_within(const MemoryBound *bound, double bytes);
