/* Sizes are counted and pointers handed out by one walk over each struct, with a Carver that either adds up bytes (no
 * memory yet) or cuts them off a piece: so the two cannot disagree.
 *
 *     slot   | x₀ … xₙ₋₁ | saved 0 … n−1 | head's | with W apart: gradients 0 … n−1, stream gradients, embedding's | */
#include "activations.h"

#include "kernel.h"
#include "precision.h"

#include <string.h>

enum { ALIGN_BYTES = 256 };

typedef struct {
  char *base; /* NULL: only counts */
  gint64 bytes;
} Carver;

static void *carve(Carver *carver, double n, int element_bytes) {
  gint64 bytes = ((gint64)n * element_bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
  char *at = carver->base != NULL ? carver->base + carver->bytes : NULL;
  carver->bytes += bytes;
  return at;
}

static double stream_elements(const Cut *cut) {
  return (double)cut->split_tokens * cut->model->hidden;
}

static int element(const Cut *cut) {
  return (int)cut->element_bytes;
}

static gboolean is_flash(const Cut *cut) {
  return cut->plan->attention == ATTENTION_FLASH;
}

static SavedLayer carve_layer(const Cut *cut, Carver *carver, gboolean with_scores) {
  const int e = element(cut);
  const double t = cut->tokens;
  SavedLayer saved = {.norm1 = carve(carver, stream_elements(cut), e), .norm2 = carve(carver, stream_elements(cut), e)};
  saved.mean1 = carve(carver, cut->split_tokens, 4);
  saved.rstd1 = carve(carver, cut->split_tokens, 4);
  saved.mean2 = carve(carver, cut->split_tokens, 4);
  saved.rstd2 = carve(carver, cut->split_tokens, 4);
  saved.qkv = carve(carver, t * (cut->q_width + 2 * cut->kv_width), e);
  saved.scores = !is_flash(cut) && with_scores ? carve(carver, cut->scores, e) : NULL;
  saved.lse = is_flash(cut) ? carve(carver, (double)cut->sequences * cut->heads * cut->seq_len, 4) : NULL;
  saved.attention = carve(carver, t * cut->q_width, e);
  saved.x2 = carve(carver, stream_elements(cut), e);
  saved.up = carve(carver, t * cut->up_width, e);
  saved.activation = carve(carver, t * cut->ffn_width, e);
  return saved;
}

static LayerGradients carve_gradients(const Cut *cut, Carver *carver) {
  const int e = element(cut);
  const double t = cut->tokens, h = cut->model->hidden;
  LayerGradients gradients = {.d_x2 = carve(carver, stream_elements(cut), e)};
  gradients.d_down = cut->sequence_parallel ? carve(carver, t * h, e) : NULL;
  gradients.d_out = cut->sequence_parallel ? carve(carver, t * h, e) : NULL;
  gradients.d_up = carve(carver, t * cut->up_width, e);
  gradients.d_qkv = carve(carver, t * (cut->q_width + 2 * cut->kv_width), e);
  return gradients;
}

static SavedHead carve_head(const Cut *cut, Carver *carver) {
  const int e = element(cut);
  const double t = cut->tokens, logits = t * cut->vocab_width;
  return (SavedHead){
      .x = carve(carver, stream_elements(cut), e),
      .norm = carve(carver, stream_elements(cut), e),
      .mean = carve(carver, cut->split_tokens, 4),
      .rstd = carve(carver, cut->split_tokens, 4),
      .probabilities = carve(carver, logits, 4),
      .row_max = carve(carver, t, 4),
      .row_sum = carve(carver, t, 4),
      .row_target = carve(carver, t, 4),
      .d_logits = carve(carver, logits, e),
  };
}

/* What one walk over a slot finds. */
typedef struct {
  int layer; /* wanted */
  char *input, *stream_gradient, *embedding_gradient;
  SavedLayer saved;
  LayerGradients gradients;
  SavedHead head;
} SlotParts;

static gint64 walk_slot(const Activations *activations, int stage, char *memory, SlotParts *parts) {
  const Cut *cut = activations->cut;
  const StageLayers *layers = activations->layers[stage];
  Carver carver = {.base = memory};
  for (int i = 0; i < layers->n_layers; i++) {
    char *x = carve(&carver, stream_elements(cut), element(cut));
    if (i == parts->layer)
      parts->input = x;
  }
  for (int i = 0; i < layers->n_layers && activations->saves_all; i++) {
    SavedLayer saved = carve_layer(cut, &carver, activations->saves_scores);
    if (i == parts->layer)
      parts->saved = saved;
  }
  if (layers->has_head)
    parts->head = carve_head(cut, &carver);
  for (int i = 0; i < layers->n_layers && activations->has_w; i++) {
    LayerGradients gradients = carve_gradients(cut, &carver);
    if (i == parts->layer)
      parts->gradients = gradients;
  }
  for (int i = 0; i <= layers->n_layers && activations->has_w; i++) {
    char *gradient = carve(&carver, stream_elements(cut), element(cut));
    if (i == parts->layer)
      parts->stream_gradient = gradient;
  }
  if (activations->has_w && layers->has_embedding)
    parts->embedding_gradient = carve(&carver, (double)cut->tokens * cut->model->hidden, element(cut));
  return carver.bytes;
}

static SlotParts slot_parts(const Activations *activations, const Slot *slot, int layer) {
  SlotParts parts = {.layer = layer};
  g_assert(slot->is_open);
  walk_slot(activations, slot->stage, slot->piece->memory, &parts);
  return parts;
}

static gint64 carve_scratch(Activations *activations, char *memory) {
  const Cut *cut = activations->cut;
  const int e = element(cut);
  const double t = cut->tokens, stream = stream_elements(cut), wide = t * cut->model->hidden;
  Carver carver = {.base = memory};
  activations->scratch_layer = carve_layer(cut, &carver, TRUE);
  activations->scratch_gradients = carve_gradients(cut, &carver);
  activations->scratch_y = carve(&carver, stream, e);
  activations->gathered = carve(&carver, wide, e);
  activations->partial = carve(&carver, wide, e);
  activations->reduced = carve(&carver, wide, e);
  activations->d_stream[0] = carve(&carver, stream, e);
  activations->d_stream[1] = carve(&carver, stream, e);
  activations->d_norm = carve(&carver, stream, e);
  activations->d_activation = carve(&carver, t * cut->ffn_width, e);
  activations->d_scores = is_flash(cut) ? NULL : carve(&carver, cut->scores, e);
  activations->d_attention = carve(&carver, t * cut->q_width, e);
  activations->d_embedding = carve(&carver, wide, e);
  return carver.bytes;
}

gboolean activations_init(Activations *activations, const Cut *cut, Device *device, const StageLayers *const *layers,
                          int n_stages, int n_micro_batches, gboolean has_w, GError **error) {
  const Recompute recompute = cut->plan->recompute;
  *activations = (Activations){
      .cut = cut,
      .device = device,
      .n_stages = n_stages,
      .n_micro_batches = n_micro_batches,
      .has_w = has_w,
      .saves_all = recompute != RECOMPUTE_FULL || has_w,
      .saves_scores = recompute != RECOMPUTE_SELECTIVE,
      .slots = g_new0(Pool, n_stages),
      .open = g_new0(Slot, (gsize)n_stages * n_micro_batches),
      .layers = g_memdup2(layers, sizeof *layers * (gsize)n_stages),
  };
  for (int stage = 0; stage < n_stages; stage++) {
    SlotParts parts = {.layer = -1};
    if (layers[stage] != NULL)
      pool_init(&activations->slots[stage], device, walk_slot(activations, stage, NULL, &parts));
    for (int m = 0; m < n_micro_batches; m++)
      activations->open[stage * n_micro_batches + m] = (Slot){.stage = stage, .micro_batch = m};
  }
  pool_init(&activations->boundary, device, (gint64)stream_elements(cut) * element(cut));
  activations->arena = device->type->allocate(device, carve_scratch(activations, NULL), error);
  if (activations->arena == NULL)
    return FALSE;
  carve_scratch(activations, activations->arena);
  return TRUE;
}

void activations_clear(Activations *activations) {
  for (int stage = 0; stage < activations->n_stages; stage++)
    pool_clear(&activations->slots[stage]);
  pool_clear(&activations->boundary);
  if (activations->arena != NULL)
    activations->device->type->release(activations->device, activations->arena);
  g_free(activations->slots);
  g_free(activations->open);
  g_free(activations->layers);
  memset(activations, 0, sizeof *activations);
}

Slot *activations_slot(Activations *activations, int stage, int micro_batch) {
  return &activations->open[stage * activations->n_micro_batches + micro_batch];
}

gboolean activations_open(Activations *activations, Slot *slot, DeviceStream *stream, GError **error) {
  if (slot->is_open)
    return TRUE;
  slot->piece = pool_take(&activations->slots[slot->stage], stream, error);
  slot->is_open = slot->piece != NULL;
  return slot->is_open;
}

void activations_close(Activations *activations, Slot *slot, DeviceEvent *last) {
  pool_piece_used(slot->piece, last);
  pool_release(&activations->slots[slot->stage], slot->piece);
  if (slot->gradient_in != NULL) {
    pool_piece_used(slot->gradient_in, last);
    pool_release(&activations->boundary, slot->gradient_in);
  }
  slot->piece = slot->gradient_in = NULL;
  slot->is_open = FALSE;
}

SavedLayer activations_layer(const Activations *activations, const Slot *slot, int layer) {
  if (!activations->saves_all)
    return activations->scratch_layer;
  SavedLayer saved = slot_parts(activations, slot, layer).saved;
  if (!activations->saves_scores)
    saved.scores = activations->scratch_layer.scores;
  return saved;
}

LayerGradients activations_gradients(const Activations *activations, const Slot *slot, int layer) {
  return activations->has_w ? slot_parts(activations, slot, layer).gradients : activations->scratch_gradients;
}

SavedHead activations_head(const Activations *activations, const Slot *slot) {
  return slot_parts(activations, slot, -1).head;
}

char *activations_input(const Activations *activations, const Slot *slot, int layer) {
  const StageLayers *layers = activations->layers[slot->stage];
  return layer < layers->n_layers ? slot_parts(activations, slot, layer).input
                                  : slot_parts(activations, slot, -1).head.x;
}

char *activations_stream_gradient(const Activations *activations, const Slot *slot, int layer) {
  return activations->has_w ? slot_parts(activations, slot, layer).stream_gradient : activations->d_stream[layer & 1];
}

char *activations_embedding_gradient(const Activations *activations, const Slot *slot) {
  return activations->has_w ? slot_parts(activations, slot, -1).embedding_gradient : activations->d_embedding;
}
