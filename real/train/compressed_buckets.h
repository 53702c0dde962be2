/* The sums of compressed gradients that a rank takes part in, one bucket for each reduction of a step: its blocks, one
 * behind the other, in fp32 on the host, and what compresses them (grad_compressor.h). */
#pragma once
#include "trainer.h"

/* Of all reductions of this rank's ops. IMPOSSIBLE on a device that does not compute in host memory. Does nothing where
 * gradients are not compressed, or nothing is computed. */
gboolean compressed_buckets_init(Trainer *trainer, const TrainerPlace *place, GError **error);
/* Sums the blocks' gradients over the group, and what they lost if that is kept. */
void compressed_buckets_sum(Trainer *trainer, const Op *op, const GPtrArray *blocks, CommGroup *group,
                            DeviceStream *stream);
/* Swaps gradients and what they lost, so that a further sum does to the latter what it has done to the former. */
void compressed_buckets_swap_lost(Trainer *trainer);
