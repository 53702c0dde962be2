/* The loss scale over the steps of an fp16 run (loss_scale.h); other precisions have none. Every rank keeps it in its
 * own device memory, one LossScale per step plus one for the step after the last:
 *
 *     step s     loss backward  × scales[s] …  norm  …  Adam  ÷ scales[s]  ──▶  scales[s + 1]
 *
 * All ranks compute the same values from the same global norm. The host reads them along with the step's norm. */
#pragma once
#include "trainer.h"

/* Allocates trainer->scales and sets the first. Does nothing and returns TRUE in other precisions. */
gboolean loss_scaling_init(Trainer *trainer, GError **error);
/* The step's scale, in device memory; NULL: none. 0 ≤ step ≤ n_steps. */
const LossScale *loss_scaling_of(const Trainer *trainer, int step);
/* Computes the next step's scale from this step's and its norm. Issued after the step's optimizer. */
void loss_scaling_advance(const Trainer *trainer, int step, DeviceStream *stream);
/* Whether `step` was skipped. `scales` has at least step + 2 entries. */
gboolean loss_scaling_skipped(const LossScale *scales, int step);
