/* Offloading what layers save for backward to the host.
 *
 *     compute   | F of a layer |                          | its B, or I |
 *     copy_out                 | SAVED_OUT |
 *     copy                                   | SAVED_IN |
 *
 * That each of these waits for the previous one has been verified (accesses.c). A layer keeps its place on the
 * device: this saves no memory here, since a stage's layers are allocated as one piece. When numerics are checked,
 * the place is filled with NaN after the copy out, so that a backward that reads too early is noticed. */
#include "error.h"
#include "executor_private.h"

static gint64 saved_bytes(const SavedRegion regions[N_SAVED_REGIONS]) {
  gint64 bytes = 0;
  for (int i = 0; i < N_SAVED_REGIONS; i++)
    bytes += regions[i].bytes;
  return bytes;
}

/* Over all layers of this rank. */
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
  if (executor->execution->workload->method->offload.activations == TIER_GPU)
    return;
  gint64 most_bytes;
  executor->n_saved_layers = size_of_all(activations, &most_bytes);
  pool_init_on_host(&executor->saved_pool, executor->device, most_bytes);
  const gsize n = (gsize)activations->n_stages * (gsize)activations->n_micro_batches * (gsize)executor->n_saved_layers;
  executor->saved = g_new0(PoolPiece *, n + 1);
}

void executor_saved_clear(Executor *executor) {
  pool_clear(&executor->saved_pool);
  g_clear_pointer(&executor->saved, g_free);
}

static PoolPiece **host_of(const Executor *executor, const Op *op) {
  const gsize slot = (gsize)op->stage * (gsize)executor->program->n_micro_batches + (gsize)op->micro_batch;
  g_assert(executor->saved != NULL && op->unit >= 0 && op->unit < executor->n_saved_layers);
  return &executor->saved[slot * (gsize)executor->n_saved_layers + (gsize)op->unit];
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

static gboolean put_out(Executor *executor, const Op *op, const SavedRegion regions[N_SAVED_REGIONS], GError **error) {
  DeviceStream *stream = executor->streams[op->stream];
  PoolPiece *host = *host_of(executor, op) = pool_take(&executor->saved_pool, stream, error);
  if (host == NULL)
    return FALSE;
  copy_regions(executor, op, regions, host->memory);
  if (executor->execution->hook != NULL)
    activations_spoil_saved(regions, stream);
  return TRUE;
}

static void bring_back(Executor *executor, int index, const SavedRegion regions[N_SAVED_REGIONS]) {
  const Op *op = &executor->list->ops[index];
  PoolPiece *host = g_steal_pointer(host_of(executor, op));
  copy_regions(executor, op, regions, host->memory);
  pool_piece_used(host, executor->end[index]);
  pool_release(&executor->saved_pool, host);
}

gboolean executor_saved_copy(Executor *executor, int index, GError **error) {
  const Op *op = &executor->list->ops[index];
  Activations *activations = &executor->trainer->activations;
  SavedRegion regions[N_SAVED_REGIONS];
  activations_saved(activations, activations_slot(activations, op->stage, op->micro_batch), op->unit, regions);
  if (op->action == ACTION_SAVED_OUT)
    return put_out(executor, op, regions, error);
  bring_back(executor, index, regions);
  return TRUE;
}
