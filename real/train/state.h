/* What data parallelism and the optimizer do to parameters, issued on a stream. */
#pragma once
#include "trainer.h"

/* ZeRO-3 with weights on the host: copies this rank's shards into `buffer`, where `gather` will later gather in
 * place. */
void state_fetch(Trainer *trainer, const Op *gather, const Transfer *transfer, DeviceStream *stream, char *buffer);
/* Gathers weights: into `buffer` under ZeRO-3, in place under ZeRO-1 and 2. */
void state_unshard(Trainer *trainer, const Op *op, const Transfer *transfer, CommGroup *group, DeviceStream *stream,
                   char *buffer);
/* Sums gradients over the group. `is_last`: no further collective reduces the same bucket. */
void state_reduce(Trainer *trainer, const Op *op, const Transfer *transfer, CommGroup *group, DeviceStream *stream,
                  gboolean is_last);
/* Sums the gradient of the tied matrix that the first and last stage both hold. */
void state_tied_gradient(Trainer *trainer, CommGroup *group, DeviceStream *stream);
/* Bidirectional pipelines: sums the gradients of a stage with those of its copy on another rank. */
void state_copied_gradient(Trainer *trainer, int stage, CommGroup *group, DeviceStream *stream);
/* Sums over tp the gradients of parameters that every tp rank holds whole but has only computed a partial gradient
 * of. */
void state_whole_gradients(Trainer *trainer, CommGroup *group, DeviceStream *stream);
/* Writes Σ g² of this rank's share to norms[step][0] and [1]; `group` sums [1] over ranks (NULL: no other ranks). */
void state_norm(Trainer *trainer, int step, CommGroup *group, DeviceStream *stream);
/* Updates what the device keeps the optimizer of. */
void state_optimizer(Trainer *trainer, int step, DeviceStream *stream);
/* Whether gradients are scaled down by the norm of all: servers do not know it. */
static inline gboolean state_clips(const Method *method) {
  return method->grad_norm_barrier && !servers_are_used(&method->servers);
}
/* The Adam kernel for what the device updates of a block. */
AdamKernel state_adam(const Trainer *trainer, const Block *block, int step);
/* With the optimizer on the host (host_optimizer.h): copies this rank's share of gradients to host memory. First for
 * `blocks`, with what is summed so far; then again what a later sum `sum` changed (of `stage`, if it belongs to a
 * stage). */
void state_gradients_out(const Trainer *trainer, const GPtrArray *blocks, DeviceStream *stream);
void state_late_gradients_out(const Trainer *trainer, ActionKind sum, int stage, DeviceStream *stream);
/* Parameter servers, each rank that of its shard: sums the gradients that the op's transfer moves where their server
 * is; updates these shards; and gathers them. */
void state_push(Trainer *trainer, const Op *op, const Transfer *transfer, CommGroup *group, DeviceStream *stream);
void state_serve(Trainer *trainer, const Op *op, const Transfer *transfer, DeviceStream *stream);
void state_pull(Trainer *trainer, const Op *op, const Transfer *transfer, CommGroup *group, DeviceStream *stream);
/* An outer step of islands: sums over them what each has moved since the last one; then takes the step. */
void state_outer_sum(Trainer *trainer, CommGroup *group, DeviceStream *stream);
void state_outer_step(Trainer *trainer, DeviceStream *stream);
void state_zero_gradients(const Trainer *trainer, DeviceStream *stream);
/* ZeRO-2, 3: from now on gradients are added to bucket `which`, which `transfer` of the reduce `op` will move. A new
 * bucket is zeroed first. */
void state_open_bucket(Trainer *trainer, const Op *op, const Transfer *transfer, int which, gboolean is_new,
                       DeviceStream *stream);
/* ZeRO-2, 3 with separate I and W: the weight gradients that the I `op` computes, those of norms, are accumulated
 * outside the buckets until the next bucket of their block includes them. */
void state_use_early(Trainer *trainer, const Op *op);
/* ZeRO-3: ops issued from now on use the blocks gathered into `buffer`. */
void state_use_gathered(Trainer *trainer, const Op *op, const Transfer *transfer, char *buffer);
gint64 state_moved_bytes(const Trainer *trainer, const Op *op, const Transfer *transfer, int element_bytes);

/* The loss scale over the steps of an fp16 run (loss_scale.h); other precisions have none. Every rank keeps it in its
 * own device memory, one LossScale per step plus one for the step after the last:
 *
 *     step s     loss backward  × scales[s] …  norm  …  Adam  ÷ scales[s]  ──▶  scales[s + 1]
 *
 * All ranks compute the same values from the same global norm. The host reads them along with the step's norm. */

/* Allocates trainer->scales and sets the first. Does nothing and returns TRUE in other precisions. */
gboolean loss_scaling_init(Trainer *trainer, GError **error);
/* The step's scale, in device memory; NULL: none. 0 ≤ step ≤ n_steps. */
const LossScale *loss_scaling_of(const Trainer *trainer, int step);
/* Computes the next step's scale from this step's and its norm. Issued after the step's optimizer. */
void loss_scaling_advance(const Trainer *trainer, int step, DeviceStream *stream);
/* Whether `step` was skipped. `scales` has at least step + 2 entries. */
gboolean loss_scaling_skipped(const LossScale *scales, int step);
