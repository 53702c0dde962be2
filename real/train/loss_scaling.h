/* The loss's scale over the steps of a run in fp16 (loss_scale.h); other precisions have none. Every rank keeps it in
 * its own device memory, one LossScale for each step and one for the step that would follow:
 *
 *     step s     loss backward  × scales[s] …  norm  …  Adam  ÷ scales[s]  ──▶  scales[s + 1]
 *
 * All make the same of the same global norm, and the host learns of it where it reads the step's norm anyway. */
#pragma once
#include "trainer.h"

/* Allocates trainer->scales and sets the first. TRUE without doing anything where there is none. */
gboolean loss_scaling_init(Trainer *trainer, GError **error);
/* The step's, in device memory; NULL: none. 0 ≤ step ≤ n_steps. */
const LossScale *loss_scaling_of(const Trainer *trainer, int step);
/* Behind the step's optimizer: makes the next step's of it and of the step's norm. */
void loss_scaling_advance(const Trainer *trainer, int step, DeviceStream *stream);
/* Whether the i-th of `scales` [i + 2] was of a step that was skipped. */
gboolean loss_scaling_skipped(const LossScale *scales, int step);
