#include "loss_scaling.h"

#include "staging.h"

gboolean loss_scaling_init(Trainer *trainer, GError **error) {
  const Training *training = &trainer->training;
  if (trainer->parameters->number != NUMBER_FP16)
    return TRUE;
  const gsize n = (gsize)trainer->program->n_steps + 1;
  g_autofree LossScale *scales = g_new0(LossScale, n);
  scales[0] = (LossScale){.scale = training->loss_scale,
                          .window = training->loss_scale_window,
                          .power1 = training->beta1,
                          .power2 = training->beta2};
  return staging_upload(trainer->device, trainer->streams[STREAM_COMPUTE], scales, (gint64)(n * sizeof *scales),
                        (void **)&trainer->scales, error);
}

const LossScale *loss_scaling_of(const Trainer *trainer, int step) {
  return trainer->scales != NULL ? &trainer->scales[step] : NULL;
}

void loss_scaling_advance(const Trainer *trainer, int step, DeviceStream *stream) {
  if (trainer->scales == NULL)
    return;
  const Kernel kernel = {.kind = KERNEL_LOSS_SCALE,
                         .loss_scale = {.from = &trainer->scales[step],
                                        .norm_squared = &trainer->norms[2 * step + 1],
                                        .beta1 = trainer->training.beta1,
                                        .beta2 = trainer->training.beta2,
                                        .to = &trainer->scales[step + 1]}};
  stream->device->type->launch(stream, &kernel);
}

gboolean loss_scaling_skipped(const LossScale *scales, int step) {
  return scales[step + 1].n_skipped > scales[step].n_skipped;
}
