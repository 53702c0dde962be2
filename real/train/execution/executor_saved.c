/* What layers save for backward, on the host in between.
 *
 *     compute   | F of a layer |                          | its B, or I |
 *     copy_out                 | SAVED_OUT |
 *     copy                                   | SAVED_IN |
 *
 * Its place on the device stays its own: no memory is won here, as that of a stage's layers is one piece. What has left
 * is NaN there where numbers are compared, so that a backward which reads what has not come back is seen. */
#include "error.h"
#include "executor_private.h"

static gint64 saved_bytes(const SavedRegion regions[N_SAVED_REGIONS]) {
  gint64 bytes = 0;
  for (int i = 0; i < N_SAVED_REGIONS; i++)
    bytes += regions[i].bytes;
  return bytes;
}

/* Of all layers that this rank has. */
static int size_of_all(const Activations *activations, gint64 *most_bytes) {
  int most_layers = 0;
  *most_bytes = 0;
  for (int stage = 0; stage < activations->n_stages; stage++)
    for (int layer = 0; activations->layers[stage] != NULL && layer < activations->layers[stage]->n_layers; layer++) {
      const Slot slot = {.stage = stage};
      SavedRegion regions[N_SAVED_REGIONS];
      activations_saved(activations, &slot, layer, regions);
      *most_bytes = MAX(*most_bytes, saved_bytes(regions));
      most_layers = MAX(most_layers, layer + 1);
    }
  return most_layers;
}

void executor_saved_init(Executor *executor) {
  const Activations *activations = &executor->trainer->activations;
  if (executor->execution->workload->plan->offload.activations == TIER_GPU)
    return;
  gint64 most_bytes;
  executor->n_saved_layers = size_of_all(activations, &most_bytes);
  pool_init_on_host(&executor->saved_pool, executor->device, most_bytes);
  const gsize n = (gsize)activations->n_stages * (gsize)activations->n_micro_batches * (gsize)executor->n_saved_layers;
  executor->saved = g_new(SavedPlace, n + 1);
  for (gsize i = 0; i < n; i++)
    executor->saved[i] = (SavedPlace){NULL, -1, -1};
}

void executor_saved_clear(Executor *executor) {
  pool_clear(&executor->saved_pool);
  g_clear_pointer(&executor->saved, g_free);
}

/* NULL: of an op that is no layer's, or where nothing leaves. */
static SavedPlace *place_of(const Executor *executor, const Op *op) {
  const gsize slot = (gsize)op->stage * (gsize)executor->program->n_micro_batches + (gsize)op->micro_batch;
  return executor->saved == NULL || op->unit >= executor->n_saved_layers
             ? NULL
             : &executor->saved[slot * (gsize)executor->n_saved_layers + (gsize)op->unit];
}

static gboolean waits_for(const Op *op, gint32 index) {
  for (int i = 0; i < OP_MAX_AFTER && op->after[i] >= 0; i++)
    if (op->after[i] == index)
      return TRUE;
  return FALSE;
}

static gboolean waits_for_forward(const Executor *executor, const Op *op) {
  for (int i = 0; i < OP_MAX_AFTER && op->after[i] >= 0; i++) {
    const Op *before = &executor->list->ops[op->after[i]];
    if (before->action == ACTION_F && before->stage == op->stage && before->micro_batch == op->micro_batch &&
        before->unit == op->unit)
      return TRUE;
  }
  return FALSE;
}

gboolean executor_saved_is_back(Executor *executor, int index, GError **error) {
  const Op *op = &executor->list->ops[index];
  SavedPlace *place = place_of(executor, op);
  if (place == NULL)
    return TRUE;
  if (place->host != NULL)
    return fail_impossible(error, "what its layer has saved is on the host: no SAVED_IN is in front");
  if (place->back >= 0 && !waits_for(op, place->back))
    return fail_impossible(error, "it does not wait for the SAVED_IN of what its layer has saved");
  place->back = -1;
  return TRUE;
}

static gboolean may_move(const Executor *executor, const Op *op, const SavedPlace *place, GError **error) {
  const gboolean is_out = op->action == ACTION_SAVED_OUT;
  const Slot *slot = activations_slot(&executor->trainer->activations, op->stage, op->micro_batch);
  if (slot->parts[PART_FOR_I] == NULL)
    return fail_impossible(error, "nothing is saved: its forward has not run, or its backward has");
  if (is_out != (place->host == NULL))
    return fail_impossible(error, is_out ? "it has left before" : "it has not left: no SAVED_OUT is in front");
  return (is_out ? waits_for_forward(executor, op) : waits_for(op, place->left)) ||
         fail_impossible(error, "it does not wait for its %s", is_out ? "forward" : "SAVED_OUT");
}

static void copy_regions(const Executor *executor, const Op *op, const SavedRegion regions[N_SAVED_REGIONS],
                         char *host) {
  const gboolean is_out = op->action == ACTION_SAVED_OUT;
  for (int i = 0; i < N_SAVED_REGIONS; i++) {
    char *device = regions[i].memory;
    if (regions[i].bytes > 0)
      executor->device->type->copy(executor->streams[op->stream], is_out ? host : device, is_out ? device : host,
                                   regions[i].bytes);
    host += regions[i].bytes;
  }
}

static gboolean put_out(Executor *executor, int index, SavedPlace *place, const SavedRegion regions[N_SAVED_REGIONS],
                        GError **error) {
  const Op *op = &executor->list->ops[index];
  DeviceStream *stream = executor->streams[op->stream];
  place->host = pool_take(&executor->saved_pool, stream, error);
  if (place->host == NULL)
    return FALSE;
  place->left = index;
  copy_regions(executor, op, regions, place->host->memory);
  if (executor->execution->hook != NULL)
    activations_forget_saved(regions, stream);
  return TRUE;
}

static void bring_back(Executor *executor, int index, SavedPlace *place, const SavedRegion regions[N_SAVED_REGIONS]) {
  copy_regions(executor, &executor->list->ops[index], regions, place->host->memory);
  pool_piece_used(place->host, executor->end[index]);
  pool_release(&executor->saved_pool, place->host);
  *place = (SavedPlace){NULL, -1, index};
}

gboolean executor_saved_copy(Executor *executor, int index, GError **error) {
  const Op *op = &executor->list->ops[index];
  Activations *activations = &executor->trainer->activations;
  SavedPlace *place = place_of(executor, op);
  SavedRegion regions[N_SAVED_REGIONS];
  if (!may_move(executor, op, place, error))
    return FALSE;
  activations_saved(activations, activations_slot(activations, op->stage, op->micro_batch), op->unit, regions);
  if (op->action == ACTION_SAVED_OUT)
    return put_out(executor, index, place, regions, error);
  bring_back(executor, index, place, regions);
  return TRUE;
}
