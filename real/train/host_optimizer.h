/* The optimizer step on a rank's CPU cores (--offload-optimizer host): master copy, moments, reduced gradients and
 * updated weights are in host memory. What the host updates of the rank's share of all parameters (Block.host_n), block
 * after block, is cut into as many equal chunks as the Program has updates per step. */
#pragma once
#include "trainer.h"

/* Elements of a block that a thread updates at once: four fp32 vectors of this length are 4 MiB, a few hundred
 * microseconds of work. */
enum { HOST_OPTIMIZER_PART = 1 << 18 };

/* Runs AdamW on a chunk with `n_threads` and waits. `norm_squared` (NULL: gradients are not clipped) and `scale`
 * (NULL: 1) are the step's, read from the device. */
gboolean host_optimizer_step(const Trainer *trainer, int step, int chunk, const double *norm_squared,
                             const LossScale *scale, int n_threads, GError **error);
/* Copies the chunk's weights to where the device holds them. */
void host_optimizer_weights_back(const Trainer *trainer, int chunk, DeviceStream *stream);

/* Threads that a rank may use for this: 1 if its device is a CPU core, else its share of the cores. */
int host_kernels_threads(const DeviceType *device, const World *world);
/* Runs all of them and waits: each of `n_threads` takes one kernel after the other. FALSE: one failed. */
gboolean host_kernels_run(const Kernel *kernels, int n, int n_threads);
