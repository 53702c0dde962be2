/* One peak of memory as three programs show it: PyTorch's two counters, and the driver. */
#pragma once
#include "gpu.h"
#include "plan.h"

typedef enum { SHOWN_ALLOCATED, SHOWN_RESERVED, SHOWN_DEVICE, N_SHOWN } ShownMemory;

/* Of the fullest GPU:
 *
 *     allocated   bytes of tensors: torch.cuda.max_memory_allocated()
 *     reserved    and of the blocks that the allocator keeps: torch.cuda.max_memory_reserved()
 *     device      and of context, libraries and communicators: nvidia-smi, at most all that the GPU has
 *
 * The last two are what a run is seen to take, not what it needs: an allocator that is refused memory gives back what
 * it only keeps. `plan` is completed. */
void shown_memory(double peak_bytes, const Plan *plan, const Gpu *gpu, double bytes[N_SHOWN]);
/* "allocated", "reserved", "device"; NULL-terminated. */
const char *const *shown_memory_names(void);
