/* What data parallelism and the optimizer do to parameters, on a stream. */
#pragma once
#include "trainer.h"

/* ZeRO-3 with weights on the host: this rank's shards to where `gather`, of `transfer`, gathers them in place. */
void state_fetch(Trainer *trainer, const Op *gather, const Transfer *transfer, DeviceStream *stream, char *buffer);
/* `is_last`: no further collective reduces the same bucket. */
void state_unshard(Trainer *trainer, const Op *op, const Transfer *transfer, CommGroup *group, DeviceStream *stream,
                   char *buffer);
void state_reduce(Trainer *trainer, const Op *op, const Transfer *transfer, CommGroup *group, DeviceStream *stream,
                  gboolean is_last);
void state_tied_gradient(Trainer *trainer, CommGroup *group, DeviceStream *stream);
/* Two pipes: the gradient of a stage, which another rank has a copy of. */
void state_copied_gradient(Trainer *trainer, int stage, CommGroup *group, DeviceStream *stream);
void state_whole_gradients(Trainer *trainer, CommGroup *group, DeviceStream *stream);
/* Σ g² of this rank's share into norms[step][0] and [1]; `group` sums [1] over ranks (NULL: alone). */
void state_norm(Trainer *trainer, int step, CommGroup *group, DeviceStream *stream);
void state_optimizer(Trainer *trainer, int step, DeviceStream *stream);
/* The step of a block, where its state and its gradient are now. */
AdamKernel state_adam(const Trainer *trainer, const Block *block, int step);
/* With the optimizer on the host (host_optimizer.h): this rank's share of the blocks' gradients, as they are summed so
 * far, to where it reads them; what `sum`, a later sum of gradients, has changed (of a stage, where it is of one). */
void state_gradients_out(const Trainer *trainer, const GPtrArray *blocks, DeviceStream *stream);
void state_late_gradients_out(const Trainer *trainer, ActionKind sum, int stage, DeviceStream *stream);
void state_zero_gradients(const Trainer *trainer, DeviceStream *stream);
/* ZeRO-2, 3: gradients go from now on to the bucket that the reduce `transfer` of `op` will move, which is zeroed when
 * it is new; which: of the buckets. */
void state_open_bucket(Trainer *trainer, const Op *op, const Transfer *transfer, int which, gboolean is_new,
                       DeviceStream *stream);
/* ZeRO-2, 3: what the I `op` makes of weight gradients, those of norms, waits where the next buckets will take it. */
void state_use_early(Trainer *trainer, const Op *op);
/* ZeRO-3: blocks of a gather lie in `buffer` from now on (in issue order). */
void state_use_gathered(Trainer *trainer, const Op *op, const Transfer *transfer, char *buffer);
gint64 state_moved_bytes(const Trainer *trainer, const Op *op, const Transfer *transfer, int element_bytes);
