/* Where each tensor is in a slot's parts (activations.h): one walk over all tensors, which adds up sizes or hands out
 * pointers, depending on its carvers. Private to activations.c. */
#pragma once
#include "activations.h"
#include "carve.h"

/* The result of one walk over a slot. */
typedef struct {
  int layer, mtp; /* requested: a layer, or a position in the stream; an MTP head */
  char *input, *stream_gradient, *embedding_gradient;
  SavedLayer saved, again; /* again: what I recomputes of what was not saved; the rest NULL */
  SavedRegion saved_at[N_SAVED_REGIONS];
  LayerGradients gradients;
  SavedNorm embedding;
  SavedHead head;
  SavedMtp saved_mtp;
  MtpGradients mtp_gradients;
} SlotTensors;

/* `carvers`: [N_SLOT_PARTS]. */
void slot_walk(const Activations *activations, int stage, Carver *carvers, SlotTensors *tensors);
/* Tensors of a layer (−1: none) or a position in the stream, and of an MTP head. NULL for parts the slot does not
 * have. */
SlotTensors slot_tensors_of(const Activations *activations, const Slot *slot, int layer, int mtp);
/* Whether the stage's incoming gradient stays until W. In a stage with only an embedding, I gathers it; if that
 * follows another kernel of I (dropout, a norm), it is given back with W. */
gboolean slot_keeps_gradient_in(const Activations *activations, const Slot *slot);
