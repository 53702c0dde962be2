/* What a slot's parts hold, in the order in which they are carved (carve.h):
 *
 *     input       | x₀, or the head's |
 *     for I       | x₁ … xₙ₋₁, of groups that of the first | of layers 0 … n−1 | embedding's | head's |
 *     for W       | of layers 0 … n−1 | head's |              preceded by x₁ … xₙ₋₁ if the linears read them
 *     made by I   | recomputed for W, gradients 0 … n−1 | stream gradients | logits' | embedding's |
 *
 * and in each of the last three parts the same again for each MTP head and its layer. */
#include "slot_tensors.h"

gboolean activations_saves_all(const Activations *activations, const StageLayers *layers, int layer) {
  const Method *method = activations->local->method;
  if (layer >= layers->n_layers)
    return !head_recomputes(method);
  const Piece piece = stage_piece(layers, layer);
  return !piece_recomputes(method, piece) && piece_passes_back(method, piece);
}

static SavedLayer walk_saved_layer(const Activations *activations, LayerKind kind, Carver *carvers) {
  const LocalSizes *local = activations->local;
  Carver *for_i = &carvers[PART_FOR_I], *for_w = &carvers[PART_FOR_W];
  return activations->every_other ? carve_every_other(local, kind, for_i, for_w)
                                  : carve_layer(local, kind, activations->dropped, for_i, for_w);
}

/* What the k-th MTP head and its layer save. */
static void walk_saved_mtp(const Activations *activations, const StageLayers *layers, int k, Carver *carvers,
                           SlotTensors *tensors) {
  const LocalSizes *local = activations->local;
  const int layer = layers->n_layers + 2 * k - 1;
  Carver *for_i = &carvers[PART_FOR_I], *for_w = &carvers[PART_FOR_W];
  char *x = carve(carve_w_reads_input(local) ? for_w : for_i, carve_stream_elements(local), carve_element_bytes(local));
  SavedLayer saved = {0};
  if (activations_saves_all(activations, layers, layer))
    saved = walk_saved_layer(activations, carve_kind_of(local, layers, layer), carvers);
  const SavedMtp mtp = carve_mtp(local, for_i, for_w);
  const SavedHead head = carve_head(local, for_i, for_i, for_w);
  if (tensors->layer == layer) {
    tensors->input = x;
    tensors->saved = saved;
  }
  if (tensors->layer == layer + 1)
    tensors->input = head.x;
  if (tensors->mtp == k) {
    tensors->head = head;
    tensors->saved_mtp = mtp;
  }
}

static SavedRegion carved_since(const Carver *before, const Carver *now) {
  return (SavedRegion){before->base != NULL ? before->base + before->bytes : NULL, now->bytes - before->bytes};
}

static void walk_saved(const Activations *activations, const StageLayers *layers, Carver *carvers,
                       SlotTensors *tensors) {
  const LocalSizes *local = activations->local;
  Carver *input = &carvers[PART_INPUT], *for_i = &carvers[PART_FOR_I], *for_w = &carvers[PART_FOR_W];
  for (int i = 0; i < layers->n_layers; i++) {
    if (i % activations_group(local) != 0)
      continue;
    Carver *behind = carve_w_reads_input(local) ? for_w : for_i;
    Carver *in = i == 0 ? input : behind;
    const Carver before = *in;
    char *x = carve(in, carve_stream_elements(local), carve_element_bytes(local));
    if (i == tensors->layer) {
      tensors->input = x;
      tensors->saved_at[0] = carved_since(&before, in);
    }
  }
  for (int i = 0; i < layers->n_layers; i++) {
    if (!activations_saves_all(activations, layers, i))
      continue;
    const Carver before_i = *for_i, before_w = *for_w;
    const SavedLayer saved = walk_saved_layer(activations, carve_kind_of(local, layers, i), carvers);
    if (i == tensors->layer) {
      tensors->saved = saved;
      tensors->saved_at[1] = carved_since(&before_i, for_i);
      tensors->saved_at[2] = carved_since(&before_w, for_w);
    }
  }
  if (layers->has_embedding)
    tensors->embedding = carve_embedding(local, for_i);
  if (!layers->has_head)
    return;
  const SavedHead head = carve_head(local, layers->n_layers == 0 ? input : for_i, for_i, for_w);
  if (tensors->mtp == 0)
    tensors->head = head;
  if (tensors->layer == layers->n_layers)
    tensors->input = head.x;
  for (int k = 1; k <= local->method->mtp_layers; k++)
    walk_saved_mtp(activations, layers, k, carvers, tensors);
}

/* Whether the layer's W reads the gradient of the layer's output. */
static gboolean needs_output_gradient(const LocalSizes *local, const StageLayers *layers, int layer) {
  return carve_w_reads_stream(local) && carve_kind_of(local, layers, layer).ffn_width > 0;
}

/* The gradient of the first layer's input is kept only for an embedding before it; otherwise it leaves the stage,
 * just as that of the last layer's output enters it. The others are kept if W reads them. */
static gboolean keeps_stream_gradient(const LocalSizes *local, const StageLayers *layers, int layer) {
  if (layer == 0)
    return layers->has_embedding && !local->sequence_parallel;
  return (layer < layers->n_layers || layers->has_head) && needs_output_gradient(local, layers, layer - 1);
}

gboolean slot_keeps_gradient_in(const Activations *activations, const Slot *slot) {
  const LocalSizes *local = activations->local;
  const StageLayers *layers = activations->layers[slot->stage];
  if (layers->n_layers > 0)
    return needs_output_gradient(local, layers, layers->n_layers - 1);
  return !local->sequence_parallel || local->model->dropout_rate.embedding > 0 || local->model->embedding_norm;
}

static SavedLayer walk_again(const Activations *activations, LayerKind kind, gboolean saves_all, Carver *made) {
  const LocalSizes *local = activations->local;
  Carver nothing = {0};
  if (activations->every_other)
    return carve_again_every_other(local, kind, made);
  return saves_all ? carve_again(local, kind, activations->dropped, made)
                   : carve_layer(local, kind, MODULE_BIT(MODULE_CORE_ATTN), &nothing, made);
}

static void walk_made_layer(const Activations *activations, const StageLayers *layers, int layer, Carver *made,
                            SlotTensors *tensors) {
  const LocalSizes *local = activations->local;
  const LayerKind kind = carve_kind_of(local, layers, layer);
  const SavedLayer again = walk_again(activations, kind, activations_saves_all(activations, layers, layer), made);
  const LayerGradients gradients = carve_gradients(local, kind, TRUE, made);
  if (layer != tensors->layer)
    return;
  tensors->gradients = gradients;
  tensors->again = again;
}

static void walk_made_stream(const Activations *activations, int place, gboolean is_kept, Carver *made,
                             SlotTensors *tensors) {
  const LocalSizes *local = activations->local;
  char *gradient = is_kept ? carve(made, carve_stream_elements(local), carve_element_bytes(local)) : NULL;
  if (place == tensors->layer)
    tensors->stream_gradient = gradient;
}

static void walk_made_logits(const Activations *activations, int mtp, Carver *made, SlotTensors *tensors) {
  const LocalSizes *local = activations->local;
  char *gradient = carve(made, (double)local->tokens * local->vocab_width, carve_element_bytes(local));
  if (mtp == tensors->mtp)
    tensors->head.d_logits = gradient;
}

/* W reads the gradient of the layer's input if that is also the gradient of the product's output (no tp). */
static void walk_made_mtp(const Activations *activations, const StageLayers *layers, int k, Carver *made,
                          SlotTensors *tensors) {
  const int layer = layers->n_layers + 2 * k - 1;
  walk_made_layer(activations, layers, layer, made, tensors);
  walk_made_stream(activations, layer, activations->local->tp == 1, made, tensors);
  walk_made_stream(activations, layer + 1, needs_output_gradient(activations->local, layers, layer), made, tensors);
  walk_made_logits(activations, k, made, tensors);
  const MtpGradients gradients = carve_mtp_gradients(activations->local, made);
  if (k == tensors->mtp)
    tensors->mtp_gradients = gradients;
}

static void walk_made(const Activations *activations, const StageLayers *layers, Carver *made, SlotTensors *tensors) {
  const LocalSizes *local = activations->local;
  for (int i = 0; i < layers->n_layers; i++)
    walk_made_layer(activations, layers, i, made, tensors);
  for (int i = 0; i <= layers->n_layers; i++)
    walk_made_stream(activations, i, keeps_stream_gradient(local, layers, i), made, tensors);
  if (layers->has_head)
    walk_made_logits(activations, 0, made, tensors);
  if (layers->has_embedding && local->sequence_parallel)
    tensors->embedding_gradient = carve(made, (double)local->tokens * local->model->hidden, carve_element_bytes(local));
  for (int k = 1; k <= local->method->mtp_layers && layers->has_head; k++)
    walk_made_mtp(activations, layers, k, made, tensors);
}

void slot_walk(const Activations *activations, int stage, Carver *carvers, SlotTensors *tensors) {
  const StageLayers *layers = activations->layers[stage];
  walk_saved(activations, layers, carvers, tensors);
  if (activations->has_w)
    walk_made(activations, layers, &carvers[PART_MADE_BY_I], tensors);
}

SlotTensors slot_tensors_of(const Activations *activations, const Slot *slot, int layer, int mtp) {
  SlotTensors tensors = {.layer = layer, .mtp = mtp};
  Carver carvers[N_SLOT_PARTS];
  for (int part = 0; part < N_SLOT_PARTS; part++)
    carvers[part] = (Carver){.base = slot->parts[part] != NULL ? slot->parts[part]->memory : NULL};
  slot_walk(activations, slot->stage, carvers, &tensors);
  return tensors;
}
