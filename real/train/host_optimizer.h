/* The optimizer step of a rank on its machine's processors (--offload-optimizer host): master copy, moments, reduced
 * gradients and the weights as they are updated lie in host memory. The rank's share of all parameters, block behind
 * block, is cut into as many equal chunks as the Program has updates in a step. */
#pragma once
#include "trainer.h"

/* Elements of a block that a thread updates at once: of four vectors in fp32 4 MiB, a few hundred microseconds. */
enum { HOST_OPTIMIZER_PART = 1 << 18 };

/* AdamW on a chunk, here and now, on `n_threads`; `norm_squared` (NULL: gradients are not clipped) and `scale` (NULL:
 * 1) are the step's, read from the device. */
gboolean host_optimizer_step(const Trainer *trainer, int step, int chunk, const double *norm_squared,
                             const LossScale *scale, int n_threads, GError **error);
/* The chunk's weights to where the device holds them. */
void host_optimizer_weights_back(const Trainer *trainer, int chunk, DeviceStream *stream);
