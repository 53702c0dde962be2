#include "activations.h"
#include "kernel.h"

#include <math.h>

/* Fills in rows of 256 bytes, to which tensors are rounded up. An fp32 NaN read as two 16-bit numbers is a NaN, or a
 * NaN and a zero. */
static void fill_with_nan(DeviceStream *stream, char *from, const char *to) {
  enum { ROW_BYTES = 256, COLUMNS = ROW_BYTES / 4 };
  const Kernel kernel = {.kind = KERNEL_INIT,
                         .init = {.number = NUMBER_FP32,
                                  .rows = (to - from) / ROW_BYTES,
                                  .columns = COLUMNS,
                                  .ld = COLUMNS,
                                  .whole_rows = (to - from) / ROW_BYTES,
                                  .whole_width = COLUMNS,
                                  .mean = NAN,
                                  .to = from}};
  if (to > from)
    stream->device->type->launch(stream, &kernel);
}

void activations_forget(const Activations *activations, DeviceStream *stream) {
  const SavedExperts *experts = &activations->scratch_layer.experts;
  char *arena = activations->arenas[activations->in_use], *end = arena + activations->scratch_layer_bytes;
  fill_with_nan(stream, arena, experts->place != NULL ? (char *)experts->place : end);
  if (experts->place != NULL)
    fill_with_nan(stream, (char *)experts->weights, end);
}

void activations_forget_saved(const SavedRegion regions[N_SAVED_REGIONS], DeviceStream *stream) {
  for (int i = 0; i < N_SAVED_REGIONS; i++)
    if (regions[i].bytes > 0)
      fill_with_nan(stream, regions[i].memory, regions[i].memory + regions[i].bytes);
}
