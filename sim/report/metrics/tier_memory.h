/* What the plan holds of a node's memory and of its NVMe drives, on the node that holds most. */
#pragma once
#include "trace.h"

typedef struct {
  gboolean is_used;      /* the plan offloads to it, or through it */
  double bytes;          /* of the fullest node: the sum of the following */
  double held[N_MEMORY]; /* by category; buffers: what passes through host memory on its way to and from drives, and
                            updated weights on theirs to the GPU */
  double capacity_bytes; /* of a node */
  gboolean fits;
  int node; /* the fullest, the first of these */
} TierUse;

/* Entries [TIER_HOST] and [TIER_NVME]; of TIER_GPU, which is the MemoryProfile's, nothing. A node's ranks hold their
 * parts of the model state from start to end, two chunks of whatever passes through, and the activations that are out,
 * each rank at its own peak. Unused tiers are zeroed, and fit. */
void tier_memory_of(const Trace *trace, const Workload *workload, const Cluster *cluster, TierUse uses[N_TIERS]);
