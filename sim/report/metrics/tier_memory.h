/* What the plan holds in a node's memory and on its NVMe drives, on the fullest node. */
#pragma once
#include "trace.h"

typedef struct {
  gboolean is_used;      /* the plan offloads to this tier, or through it */
  double bytes;          /* on the fullest node: the sum of held[] */
  double held[N_MEMORY]; /* by category; buffers: data passing through host memory to and from drives, and
                            updated weights on their way to the GPU */
  double capacity_bytes; /* per node */
  gboolean fits;
  int node; /* the fullest node; the first on a tie */
} TierUse;

/* Fills [TIER_HOST] and [TIER_NVME]; TIER_GPU is left to MemoryProfile. A node's ranks hold their parts of the model
 * state from start to end, two chunks of whatever passes through, and the offloaded activations, each rank at its
 * own peak. Unused tiers are zeroed and fit. */
void tier_memory_of(const Trace *trace, const Workload *workload, const Cluster *cluster, TierUse uses[N_TIERS]);
