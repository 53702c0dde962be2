/* Where in a slot's parts each tensor is (activations.h): one walk over all of them, which adds up sizes or hands out
 * pointers, as its carvers do. Not for others than activations.c. */
#pragma once
#include "activations.h"
#include "carve.h"

/* What one walk over a slot finds. */
typedef struct {
  int layer, mtp; /* wanted: a layer, or a place of the stream; a head */
  char *input, *stream_gradient, *embedding_gradient;
  SavedLayer saved, again; /* again: made by I of what was not saved, NULL the rest */
  SavedRegion saved_at[N_SAVED_REGIONS];
  LayerGradients gradients;
  SavedNorm embedding;
  SavedHead head;
  SavedMtp saved_mtp;
  MtpGradients mtp_gradients;
} SlotTensors;

/* `carvers`: [N_SLOT_PARTS]. */
void slot_walk(const Activations *activations, int stage, Carver *carvers, SlotTensors *tensors);
/* Of a layer (−1: none) or a place of the stream, and of a head. NULL in parts that are not there. */
SlotTensors slot_tensors_of(const Activations *activations, const Slot *slot, int layer, int mtp);
/* What comes into the stage stays for W. Of an embedding alone it is gathered in I, behind the last kernel of I where
 * there is one (dropout, a norm): then it is given back with W. */
gboolean slot_keeps_gradient_in(const Activations *activations, const Slot *slot);
