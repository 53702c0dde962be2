/* The allocator rounds requests from 1 MiB on to 2 MiB, takes blocks of 20 MiB for those below 10 MiB, does not split
 * what leaves less than 1 MiB, and keeps what is freed (kLargeBuffer, kMinLargeAlloc, kRoundLarge of PyTorch's
 * c10/cuda/CUDACachingAllocator). Rounding alone is less than 1 % of activations; most of the difference is blocks of
 * the wrong size. */
#include "shown_memory.h"

/* What PyTorch reserved in nanotron's runs without tensor parallelism is 3 to 7 % more than predicted here
 * (docs/validation.md). With other plans it is more: papers on allocators found 5 to 40 % (GMLake, arXiv 2401.08156;
 * STAlloc, arXiv 2507.16274). */
static const double kept_share = 0.05;

/* Of each communicator beyond the first, which `reserved` of the GPU file counts: 24 channels, each with the buffers of
 * all three protocols, 10 MiB, for what comes from a ring's neighbour and from two of a tree (github.com/NVIDIA/nccl
 * issues 986, 1685: 10,485,760 bytes each; 864: 1.6 GB with one communicator of one node, 6 GB with three). */
static const double communicator_bytes = 24.0 * 3 * (10 << 20);

/* Groups of more than one rank, each with a communicator of its own. Experts have two: where their tokens go, and
 * where their gradients are summed. */
static int communicators(const Plan *plan) {
  const gboolean has_groups[] = {plan->tp > 1, plan->pp > 1,
                                 plan->cp > 1, plan_data_ranks(plan) > 1,
                                 plan->ep > 1, plan->ep > 1 && plan_data_ranks(plan) > plan->ep};
  int n = 0;
  for (gsize i = 0; i < G_N_ELEMENTS(has_groups); i++)
    n += has_groups[i];
  return n;
}

void shown_memory(double peak_bytes, const Plan *plan, const Gpu *gpu, double bytes[N_SHOWN]) {
  bytes[SHOWN_ALLOCATED] = peak_bytes;
  bytes[SHOWN_RESERVED] = peak_bytes * (1 + kept_share);
  bytes[SHOWN_DEVICE] =
      bytes[SHOWN_RESERVED] + gpu->reserved_bytes + MAX(communicators(plan) - 1, 0) * communicator_bytes;
  /* what a plan needs is shown even where that is more than there is */
  for (int i = 0; i < N_SHOWN; i++)
    bytes[i] = MAX(MIN(bytes[i], gpu->hbm_bytes), peak_bytes);
}

const char *const *shown_memory_names(void) {
  static const char *const names[] = {"allocated", "reserved", "device", NULL};
  return names;
}
