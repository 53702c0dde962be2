/* Slots: taking and returning their parts, and assembling a layer's tensors from a slot and, for what was not saved,
 * scratch. slot_tensors.c has the places within parts. */
#include "activations.h"

#include "kernel.h"
#include "precision.h"
#include "slot_tensors.h"

#include <math.h>
#include <string.h>

static SlotTensors slot_tensors(const Activations *activations, const Slot *slot, int layer) {
  return slot_tensors_of(activations, slot, layer, 0);
}

static gboolean has_head(const Activations *activations) {
  for (int stage = 0; stage < activations->n_stages; stage++)
    if (activations->layers[stage] != NULL && activations->layers[stage]->has_head)
      return TRUE;
  return FALSE;
}

static gint64 carve_scratch(Activations *activations, char *memory) {
  const LocalSizes *local = activations->local;
  const int e = carve_element_bytes(local);
  const double t = local->tokens, stream = carve_stream_elements(local), wide = t * local->model->hidden;
  Carver carver = {.base = memory};
  for (int i = 0; i < activations_group(local); i++) {
    activations->scratch_layers[i] = carve_layer(local, carve_any_kind(local), 0, &carver, &carver);
    activations->group_inputs[i] = i > 0 ? carve(&carver, stream, e) : NULL;
  }
  activations->scratch_layer_bytes = carver.bytes;
  activations->scratch_gradients = carve_gradients(local, carve_any_kind(local), FALSE, &carver);
  activations->scratch_y = carve(&carver, stream, e);
  activations->gathered = carve(&carver, wide, e);
  activations->partial = carve(&carver, wide, e);
  activations->reduced = carve(&carver, wide, e);
  activations->d_stream[0] = carve(&carver, stream, e);
  activations->d_stream[1] = carve(&carver, stream, e);
  activations->d_norm = carve(&carver, stream, e);
  activations->d_activation = carve(&carver, t * carve_any_kind(local).ffn_width, e);
  activations->d_scores = carve_is_flash(local) ? NULL : carve(&carver, local->scores, e);
  activations->d_attention = carve(&carver, t * local->out_width, e);
  activations->d_embedding = carve(&carver, wide, e);
  activations->adapted = carve_adapted(local, &carver);
  const gboolean has_sums = local->model->qk_norms == QK_NORMS_WHOLE && local->tp > 1;
  activations->qk_sums = has_sums ? carve(&carver, t * local_n_qk_sums(local), 4) : NULL;
  activations->branch = carve_branch_scratch(local, &carver);
  activations->latent = carve_latent_scratch(local, &carver);
  activations->mtp = carve_mtp_scratch(local, &carver);
  if (local->method->mtp_layers > 0)
    activations->mtp_gradients = carve_mtp_gradients(local, &carver);
  activations->experts = carve_expert_scratch(local, &carver);
  activations->narrow = carve_narrow_scratch(local, zero_shards_weights(local->method->zero), &carver);
  activations->context = carve_context_scratch(local, &carver);
  const double logits = has_head(activations) ? t * local->vocab_width : 0;
  activations->logits = carve(&carver, logits, e);
  activations->d_logits = carve(&carver, logits, e);
  return carver.bytes;
}

static void init_pools(Activations *activations, int stage) {
  SlotTensors tensors = {.layer = -1};
  Carver carvers[N_SLOT_PARTS] = {{0}};
  if (activations->layers[stage] == NULL)
    return;
  slot_walk(activations, stage, carvers, &tensors);
  for (int part = 0; part < N_SLOT_PARTS; part++)
    pool_init(&activations->pools[stage * N_SLOT_PARTS + part], activations->device, carvers[part].bytes);
}

gboolean activations_init(Activations *activations, const LocalSizes *local, Device *device, const ActivationsUse *use,
                          GError **error) {
  *activations = (Activations){
      .local = local,
      .device = device,
      .n_stages = use->n_stages,
      .n_micro_batches = use->n_micro_batches,
      .has_w = use->has_w,
      .every_other = local->method->keeps_every_other_product,
      .dropped = local->method->recompute_modules,
      .scratch_layers = g_new0(SavedLayer, activations_group(local)),
      .group_inputs = g_new0(char *, activations_group(local)),
      .pools = g_new0(Pool, (gsize)use->n_stages * N_SLOT_PARTS),
      .open = g_new0(Slot, (gsize)use->n_stages * use->n_micro_batches),
      .layers = g_memdup2(use->layers, sizeof *use->layers * (gsize)use->n_stages),
  };
  for (int stage = 0; stage < use->n_stages; stage++) {
    init_pools(activations, stage);
    for (int m = 0; m < use->n_micro_batches; m++)
      activations->open[stage * use->n_micro_batches + m] = (Slot){.stage = stage, .micro_batch = m};
  }
  pool_init(&activations->boundary, device, (gint64)carve_stream_elements(local) * carve_element_bytes(local));
  for (int i = 0; i < (use->takes_turns ? 2 : 1); i++) {
    activations->arenas[i] = device->type->allocate(device, carve_scratch(activations, NULL), error);
    if (activations->arenas[i] == NULL)
      return FALSE;
  }
  carve_scratch(activations, activations->arenas[0]);
  return TRUE;
}

void activations_use_scratch(Activations *activations, gboolean is_backward) {
  const int wanted = is_backward && activations->arenas[1] != NULL ? 1 : 0;
  if (wanted != activations->in_use)
    carve_scratch(activations, activations->arenas[wanted]);
  activations->in_use = wanted;
}

void activations_clear(Activations *activations) {
  for (int pool = 0; pool < activations->n_stages * N_SLOT_PARTS; pool++)
    pool_clear(&activations->pools[pool]);
  pool_clear(&activations->boundary);
  for (gsize i = 0; i < G_N_ELEMENTS(activations->arenas); i++)
    activations->device->type->release(activations->device, activations->arenas[i]);
  g_free(activations->scratch_layers);
  g_free(activations->group_inputs);
  g_free(activations->pools);
  g_free(activations->open);
  g_free(activations->layers);
  memset(activations, 0, sizeof *activations);
}

Slot *activations_slot(Activations *activations, int stage, int micro_batch) {
  return &activations->open[stage * activations->n_micro_batches + micro_batch];
}

/* Whether the slot's W runs after its I. A B, which is both, needs only scratch. */
static gboolean is_apart(const Slot *slot) {
  return slot->parts[PART_MADE_BY_I] != NULL;
}

static Pool *pool_of_part(const Activations *activations, const Slot *slot, SlotPart part) {
  return &activations->pools[slot->stage * N_SLOT_PARTS + part];
}

/* Whether the first layer's W reads the input directly. */
static gboolean keeps_input(const Activations *activations, const Slot *slot) {
  return carve_w_reads_input(activations->local) && activations->layers[slot->stage]->n_layers > 0;
}

/* Bytes counted when a part is taken. An input that was received early does not yet count as held by a forward: it
 * counts together with the part that I, or W, reads with it. */
static gint64 bytes_with(const Activations *activations, const Slot *slot, SlotPart part) {
  const gint64 bytes = pool_of_part(activations, slot, part)->piece_bytes;
  if (part == (keeps_input(activations, slot) ? PART_FOR_W : PART_FOR_I))
    return bytes + pool_of_part(activations, slot, PART_INPUT)->piece_bytes;
  return part == PART_INPUT ? 0 : bytes;
}

static void hold(Activations *activations, gint64 bytes) {
  activations->held_bytes += bytes;
  activations->most_bytes = MAX(activations->most_bytes, activations->held_bytes);
}

static gboolean take_part(Activations *activations, Slot *slot, SlotPart part, DeviceStream *stream, GError **error) {
  Pool *pool = pool_of_part(activations, slot, part);
  if (slot->parts[part] != NULL)
    return TRUE;
  slot->parts[part] = pool_take(pool, stream, error);
  if (slot->parts[part] == NULL)
    return FALSE;
  hold(activations, bytes_with(activations, slot, part));
  return TRUE;
}

static void give_part(Activations *activations, Slot *slot, SlotPart part, DeviceEvent *last) {
  Pool *pool = pool_of_part(activations, slot, part);
  if (slot->parts[part] == NULL)
    return;
  pool_piece_used(slot->parts[part], last);
  pool_release(pool, slot->parts[part]);
  slot->parts[part] = NULL;
  activations->held_bytes -= bytes_with(activations, slot, part);
}

static void give_gradient_in(Activations *activations, Slot *slot, DeviceEvent *last) {
  pool_piece_used(slot->gradient_in, last);
  pool_release(&activations->boundary, slot->gradient_in);
  slot->gradient_in = NULL;
}

gboolean activations_open_input(Activations *activations, Slot *slot, DeviceStream *stream, GError **error) {
  return take_part(activations, slot, PART_INPUT, stream, error);
}

gboolean activations_open(Activations *activations, Slot *slot, DeviceStream *stream, GError **error) {
  return activations_open_input(activations, slot, stream, error) &&
         take_part(activations, slot, PART_FOR_I, stream, error) &&
         take_part(activations, slot, PART_FOR_W, stream, error);
}

gboolean activations_open_backward(Activations *activations, Slot *slot, DeviceStream *stream, GError **error) {
  if (!activations->has_w || is_apart(slot))
    return TRUE;
  if (slot->gradient_in != NULL && slot_keeps_gradient_in(activations, slot)) /* kept for W */
    hold(activations, activations->boundary.piece_bytes);
  return take_part(activations, slot, PART_MADE_BY_I, stream, error);
}

void activations_close_input(Activations *activations, Slot *slot, DeviceEvent *last) {
  if (!keeps_input(activations, slot))
    give_part(activations, slot, PART_INPUT, last);
  give_part(activations, slot, PART_FOR_I, last);
  if (slot->gradient_in != NULL && !slot_keeps_gradient_in(activations, slot))
    give_gradient_in(activations, slot, last);
}

void activations_close(Activations *activations, Slot *slot, DeviceEvent *last) {
  const gboolean was_apart = is_apart(slot);
  for (int part = 0; part < N_SLOT_PARTS; part++)
    give_part(activations, slot, part, last);
  if (slot->gradient_in == NULL)
    return;
  give_gradient_in(activations, slot, last);
  activations->held_bytes -= was_apart ? activations->boundary.piece_bytes : 0;
}

static SavedLayer every_other_layer(const Activations *activations, const SlotTensors *tensors) {
  const SavedLayer *kept = &tensors->saved, *again = &tensors->again;
  SavedLayer saved = activations->scratch_layers[0];
  saved.attention = kept->attention;
  saved.lse = kept->lse;
  saved.products = kept->products;
  if (kept->products.gate == NULL)
    saved.up = kept->up;
  if (again->norm1 != NULL) {
    saved.norm1 = again->norm1;
    saved.norm2 = again->norm2;
    saved.activation = again->activation;
  }
  return saved;
}

/* In fp8 only the copies of what linears read may be saved. */
static void find_inputs(const SavedLayer *scratch, const SavedLayer *again, SavedLayer *saved) {
  for (int input = 0; input < N_NARROW_INPUTS; input++)
    saved->narrow[input] = again->narrow[input] != NULL   ? again->narrow[input]
                           : saved->narrow[input] != NULL ? saved->narrow[input]
                                                          : scratch->narrow[input];
  char **const wide[] = {&saved->norm1,     &saved->norm2,      &saved->q_latent,     &saved->kv_latent,
                         &saved->attention, &saved->activation, &saved->experts.rows, &saved->experts.activation};
  char *const in_scratch[] = {
      scratch->norm1,     scratch->norm2,      scratch->q_latent,     scratch->kv_latent,
      scratch->attention, scratch->activation, scratch->experts.rows, scratch->experts.activation};
  for (gsize i = 0; i < G_N_ELEMENTS(wide); i++)
    if (*wide[i] == NULL)
      *wide[i] = in_scratch[i];
}

/* Tensors that are not saved are in scratch, read within the piece; those that W reads are where I has recomputed
 * them. */
SavedLayer activations_layer(const Activations *activations, const Slot *slot, int layer) {
  const SlotTensors tensors = slot_tensors(activations, slot, layer);
  if (activations->every_other)
    return every_other_layer(activations, &tensors);
  const int place = layer % activations_group(activations->local); /* in its group */
  const SavedLayer *scratch = &activations->scratch_layers[place], *again = &tensors.again;
  const gboolean saves_all = activations_saves_all(activations, activations->layers[slot->stage], layer);
  SavedLayer saved = saves_all ? tensors.saved : *scratch;
  const guint dropped = saves_all ? activations->dropped : MODULE_BIT(N_RECOMPUTE_MODULES) - 1;
  if (dropped & MODULE_BIT(MODULE_LAYERNORM)) {
    saved.norm1 = again->norm1 != NULL ? again->norm1 : scratch->norm1;
    saved.norm2 = again->norm2 != NULL ? again->norm2 : scratch->norm2;
  }
  carve_drop_mlp(carve_kind_of(activations->local, activations->layers[slot->stage], layer), dropped, scratch, &saved);
  if (dropped & MODULE_BIT(MODULE_MLA_UP_PROJ)) {
    saved.qkv = scratch->qkv;
    saved.q_latent = scratch->q_latent;
    saved.kv_latent = scratch->kv_latent;
  }
  if (dropped & MODULE_BIT(MODULE_CORE_ATTN)) {
    saved.scores = scratch->scores;
    saved.dropped = scratch->dropped;
  }
  if (carve_reads_stream(activations->local)) {
    saved.x2 = again->x2 != NULL ? again->x2 : saved.x2;
    saved.norm1 = tensors.input;
    saved.norm2 = saved.x2;
  }
  if (again->attention != NULL)
    saved.attention = again->attention;
  if (again->kv_latent != NULL) {
    saved.q_latent = again->q_latent;
    saved.kv_latent = again->kv_latent;
  }
  if (again->activation != NULL)
    saved.activation = again->activation;
  if (again->adapters != NULL)
    saved.adapters = again->adapters;
  if (again->experts.rows != NULL)
    saved.experts.rows = again->experts.rows;
  if (again->experts.activation != NULL)
    saved.experts.activation = again->experts.activation;
  if (activations->local->casts)
    find_inputs(scratch, again, &saved);
  return saved;
}

LayerGradients activations_gradients(const Activations *activations, const Slot *slot, int layer) {
  const LayerGradients *scratch = &activations->scratch_gradients;
  if (!is_apart(slot))
    return *scratch;
  union {
    LayerGradients all;
    char *each[sizeof(LayerGradients) / sizeof(char *)];
  } kept = {slot_tensors(activations, slot, layer).gradients}, other = {*scratch};
  for (gsize i = 0; i < G_N_ELEMENTS(kept.each); i++) /* those that W does not read */
    if (kept.each[i] == NULL)
      kept.each[i] = other.each[i];
  return kept.all;
}

SavedNorm activations_embedding(const Activations *activations, const Slot *slot) {
  return slot_tensors(activations, slot, -1).embedding;
}

SavedHead activations_head(const Activations *activations, const Slot *slot, int mtp) {
  SavedHead head = slot_tensors_of(activations, slot, -1, mtp).head;
  head.logits = activations->logits;
  if (!is_apart(slot))
    head.d_logits = activations->d_logits;
  return head;
}

SavedMtp activations_mtp(const Activations *activations, const Slot *slot, int mtp) {
  return slot_tensors_of(activations, slot, -1, mtp).saved_mtp;
}

MtpGradients activations_mtp_gradients(const Activations *activations, const Slot *slot, int mtp) {
  return is_apart(slot) ? slot_tensors_of(activations, slot, -1, mtp).mtp_gradients : activations->mtp_gradients;
}

char *activations_input(const Activations *activations, const Slot *slot, int layer) {
  char *kept = slot_tensors(activations, slot, layer).input;
  return kept != NULL ? kept : activations->group_inputs[layer % activations_group(activations->local)];
}

char *activations_stream_gradient(const Activations *activations, const Slot *slot, int layer) {
  char *kept = is_apart(slot) ? slot_tensors(activations, slot, layer).stream_gradient : NULL;
  return kept != NULL ? kept : activations->d_stream[layer & 1];
}

char *activations_embedding_gradient(const Activations *activations, const Slot *slot) {
  return is_apart(slot) ? slot_tensors(activations, slot, -1).embedding_gradient : activations->d_embedding;
}

void activations_saved(const Activations *activations, const Slot *slot, int layer,
                       SavedRegion regions[N_SAVED_REGIONS]) {
  const SlotTensors tensors = slot_tensors(activations, slot, layer);
  memcpy(regions, tensors.saved_at, sizeof tensors.saved_at);
}

/* --- NaN in what should not be read --- */

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

void activations_spoil_scratch(const Activations *activations, DeviceStream *stream) {
  const SavedExperts *experts = &activations->scratch_layers[0].experts;
  char *arena = activations->arenas[activations->in_use], *end = arena + activations->scratch_layer_bytes;
  fill_with_nan(stream, arena, experts->place != NULL ? (char *)experts->place : end);
  if (experts->place != NULL)
    fill_with_nan(stream, (char *)experts->weights, end);
}

void activations_spoil_saved(const SavedRegion regions[N_SAVED_REGIONS], DeviceStream *stream) {
  for (int i = 0; i < N_SAVED_REGIONS; i++)
    if (regions[i].bytes > 0)
      fill_with_nan(stream, regions[i].memory, regions[i].memory + regions[i].bytes);
}
