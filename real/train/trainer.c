/* Tokens are drawn from a seed by position: sequence of the global batch, position in it. So every plan trains on the
 * same tokens. u² of a uniform u makes low word numbers common, so there is something to learn. */
#include "trainer.h"

#include "compressed_buckets.h"
#include "error.h"
#include "gather_buffers.h"
#include "items.h"
#include "staging.h"
#include "state.h"
#include "trainable.h"

#include <string.h>

Training training_default(void) {
  return (Training){.lr = 3e-4,
                    .beta1 = 0.9,
                    .beta2 = 0.95,
                    .epsilon = 1e-8,
                    .decay = 0.1,
                    .max_norm = 1.0,
                    .loss_scale = 65536, /* initial scale of PyTorch's GradScaler and DeepSpeed */
                    .loss_scale_window = 1000,
                    .seed = 1};
}

static gint32 token_at(const Trainer *trainer, guint64 sequence, guint64 position) {
  const Method *method = trainer->workload->method;
  const double u = kernel_random(trainer->training.seed ^ G_GUINT64_CONSTANT(0x746F6B656E73),
                                 sequence * (guint64)(method->seq_len + 1 + method->mtp_layers) + position) /
                   4294967296.0;
  return (gint32)(u * u * (double)trainer->workload->model->vocab);
}

/* Where a rank's tokens of one micro-batch are drawn into: of one position behind. */
typedef struct {
  const Trainer *trainer;
  int n_behind;
  gint32 *tokens;
} Drawing;

/* A sequence of a row, which begins with the rank's row `first`. A cp rank has its pieces. */
static void draw_sequence(const Drawing *drawing, const LocalSizes *local, guint64 sequence, gint64 first, gint64 rows,
                          gint64 length) {
  const SequencePieces pieces = parameters_pieces_of(local, drawing->trainer->parameters->at.at[AXIS_CP]);
  for (gint64 row = 0; row < rows; row++) {
    const gint64 position = sequence_position(pieces, row, local->seq_len);
    if (position < length)
      drawing->tokens[first + row] =
          token_at(drawing->trainer, sequence, (guint64)position + (guint64)drawing->n_behind);
  }
}

/* Where lengths are drawn: what is behind a sequence is padding, which is word 0 and has no target. */
static void draw_lengths(const Drawing *drawing, const LocalSizes *local, const MicroBatch *own, gint64 step) {
  const Batch *batch = local->batch;
  const guint64 first =
      (guint64)(step * batch->n_sequences) + (guint64)(own->lengths - &g_array_index(batch->lengths, gint64, 0));
  for (gint64 i = 0; i < local->tokens; i++)
    drawing->tokens[i] = drawing->n_behind == 0 ? 0 : -1;
  gint32 sequence = 0;
  for (gint64 row = 0; row < local->sequences; row++)
    for (gint64 at = 0; sequence < own->row_ends[row]; sequence++) {
      const gint64 length = own->lengths[sequence],
                   rows = batch->is_packed ? length : local->seq_len; /* packed: without cp */
      draw_sequence(drawing, local, first + (guint64)sequence, row * local->seq_len + at, rows, length);
      at += batch_padded(batch, length);
    }
}

/* The tokens `n_behind` positions later. The micro-batches of a dp rank are consecutive sequences of the global
 * batch. */
static void draw_tokens(const Trainer *trainer, int n_behind, gint32 *tokens) {
  const Workload *workload = trainer->workload;
  const Method *method = workload->method;
  const gint64 n = method->n_micro_batches, dp = trainer->parameters->at.at[AXIS_DP];
  for (gint64 step = 0; step < trainer->program->n_steps; step++)
    for (gint64 m = 0; m < n; m++) {
      const LocalSizes *local = &trainer->shapes[m].local;
      const Drawing drawing = {trainer, n_behind, tokens + (step * n + m) * trainer->parameters->local.tokens};
      const gint64 part = step * MAX(trainer->training.n_islands, 1) + trainer->training.island;
      const guint64 first = (guint64)(part * (gint64)method->global_batch + (dp * n + m) * method->micro_batch);
      if (workload->batch != NULL)
        draw_lengths(&drawing, local, batch_at(workload->batch, (int)dp, (int)m), step);
      for (gint64 i = 0; i < local->sequences && workload->batch == NULL; i++)
        draw_sequence(&drawing, local, first + (guint64)i, i * local->seq_len, local->seq_len, method->seq_len);
    }
}

/* The documents of packed rows. */
static void list_documents(const LocalSizes *local, GArray *documents) {
  const MicroBatch *own = local->documents;
  gint32 i = 0;
  for (gint64 row = 0; row < local->sequences; row++) {
    Document document = {.first = row * local->seq_len, .sequences = 1};
    const gint64 end = document.first + local->seq_len;
    for (; i < own->row_ends[row]; i++, document.first += document.length) {
      document.length = batch_padded(local->batch, own->lengths[i]);
      g_array_append_val(documents, document);
    }
    document.length = end - document.first;
    if (document.length > 0)
      g_array_append_val(documents, document);
  }
}

static void make_shapes(Trainer *trainer) {
  const Workload *workload = trainer->workload;
  const int n = (int)workload->method->n_micro_batches;
  trainer->shapes = g_new0(MicroBatchShape, n);
  for (int m = 0; m < n; m++) {
    MicroBatchShape *shape = &trainer->shapes[m];
    shape->local = trainer->parameters->local;
    if (workload->batch != NULL) {
      shape->local = local_sizes_of_micro_batch(workload->model, workload->method, workload->batch,
                                                batch_at(workload->batch, workload->dp, m));
      shape->local.casts = trainer->parameters->local.casts;
    }
    shape->documents = g_array_new(FALSE, FALSE, sizeof(Document));
    const Document whole = {0, shape->local.seq_len, shape->local.sequences};
    if (shape->local.documents != NULL)
      list_documents(&shape->local, shape->documents);
    else
      g_array_append_val(shape->documents, whole);
  }
}

static gboolean upload_tokens(Trainer *trainer, GError **error) {
  const Method *method = trainer->workload->method;
  const gint64 n = trainer->program->n_steps * method->n_micro_batches * trainer->parameters->local.tokens;
  const int n_behind = 2 + method->mtp_layers;
  g_autofree gint32 *tokens = g_new(gint32, (gsize)n * (gsize)n_behind);
  for (int i = 0; i < n_behind; i++)
    draw_tokens(trainer, i, tokens + i * n);
  trainer->n_tokens = n;
  return staging_upload(trainer->device, trainer->streams[STREAM_COMPUTE], tokens,
                        n_behind * n * (gint64)sizeof *tokens, (void **)&trainer->tokens, error);
}

/* Bytes of the largest bucket and the largest gather among this rank's ops. */
static void measure_buffers(Trainer *trainer, const OpList *list) {
  const Parameters *parameters = trainer->parameters;
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    if (op->action != ACTION_UNSHARD && op->action != ACTION_REDUCE_GRAD)
      continue;
    const Transfer *transfer = &g_array_index(trainer->program->transfers, Transfer, op->work);
    const gboolean reduces = op->action == ACTION_REDUCE_GRAD;
    const Number number = reduces ? parameters->gradient_number : parameters->number;
    const gint64 bytes = state_moved_bytes(trainer, op, transfer, kernel_element_bytes(number));
    gint64 *most = reduces ? &trainer->bucket_bytes : &trainer->gather_bytes;
    *most = MAX(*most, bytes);
  }
}

/* Whether each stage needs its own bucket. If the order itself places the reductions, several backward passes fill a
 * bucket before it is reduced, with those of other stages in between. */
static gboolean needs_stage_buckets(const Trainer *trainer, const OpList *list) {
  g_autofree gint32 *next = g_new(gint32, trainer->workload->n_stages); /* next reduction after an op, by stage */
  g_autofree const Op **filler = g_new0(const Op *, list->n_ops + 1);   /* op that fills the bucket of a reduction */
  for (int stage = 0; stage < trainer->workload->n_stages; stage++)
    next[stage] = -1;
  for (int i = list->n_ops - 1; i >= 0; i--) {
    const Op *op = &list->ops[i];
    if (op->action == ACTION_REDUCE_GRAD)
      next[op->stage] = i;
    if (op->kind != OP_COMPUTE || (op->action != ACTION_B && op->action != ACTION_W) || next[op->stage] < 0)
      continue;
    const Op **other = &filler[next[op->stage]];
    if (*other != NULL && !op_same_action(*other, op))
      return TRUE;
    *other = op;
  }
  return FALSE;
}

static gboolean allocate_early(Trainer *trainer, GError **error) {
  enum { ALIGN = 64 }; /* elements */
  const Parameters *parameters = trainer->parameters;
  const gint64 element_bytes = kernel_element_bytes(parameters->gradient_number);
  gint64 n = 0, offset = 0;
  for (int i = 0; i < parameters->n_blocks; i++)
    n +=
        block_shards_gradient(&parameters->blocks[i]) ? (parameters->blocks[i].n_norms + ALIGN - 1) / ALIGN * ALIGN : 0;
  trainer->early = trainer->device->type->allocate(trainer->device, MAX(n, 1) * element_bytes, error);
  for (int i = 0; i < parameters->n_blocks && trainer->early != NULL; i++) {
    Block *block = &parameters->blocks[i];
    if (!block_shards_gradient(block))
      continue;
    block->early = block->n_norms > 0 ? trainer->early + offset * element_bytes : NULL;
    offset += (block->n_norms + ALIGN - 1) / ALIGN * ALIGN;
  }
  return trainer->early != NULL;
}

static gboolean allocate_buckets(Trainer *trainer, const OpList *list, GError **error) {
  trainer->has_stage_buckets = needs_stage_buckets(trainer, list);
  trainer->n_buckets = trainer->has_stage_buckets ? trainer->workload->n_stages : 2;
  trainer->buckets = g_new0(char *, trainer->n_buckets);
  for (int i = 0; i < trainer->n_buckets; i++) {
    if (trainer->has_stage_buckets && trainer->parameters->first_of_stage[i] < 0)
      continue;
    trainer->buckets[i] = trainer->device->type->allocate(trainer->device, MAX(trainer->bucket_bytes, 1), error);
    if (trainer->buckets[i] == NULL)
      return FALSE;
  }
  return TRUE;
}

/* Reductions run one at a time on one stream, so room for the largest is enough. */
static gboolean allocate_sums(Trainer *trainer, GError **error) {
  const Parameters *parameters = trainer->parameters;
  trainer->sum_number = trainer->workload->method->gradient_sum_bytes == 4 ? NUMBER_FP32 : parameters->number;
  if (trainer->bucket_bytes == 0 || trainer->sum_number == parameters->gradient_number)
    return TRUE;
  const gint64 n = trainer->bucket_bytes / kernel_element_bytes(parameters->gradient_number);
  trainer->sums =
      trainer->device->type->allocate(trainer->device, n * kernel_element_bytes(trainer->sum_number), error);
  return trainer->sums != NULL;
}

static gboolean allocate_buffers(Trainer *trainer, int rank, GError **error) {
  const Parameters *parameters = trainer->parameters;
  const DeviceType *device = trainer->device->type;
  const int steps = trainer->program->n_steps, n_losses = steps * training_n_losses(trainer->workload);
  const OpList *list = &trainer->program->ranks[layout_coordinates(&trainer->workload->layout, rank).at[AXIS_PP]];
  measure_buffers(trainer, list);
  gint64 summed = 0;
  for (int i = 0; i < parameters->n_blocks; i++)
    summed += parameters->blocks[i].n_summed;
  trainer->losses = device->allocate(trainer->device, n_losses * (gint64)sizeof(double), error);
  trainer->norms =
      trainer->losses ? device->allocate(trainer->device, 2 * steps * (gint64)sizeof(double), error) : NULL;
  trainer->pack = trainer->norms ? device->allocate(trainer->device, 4 * MAX(summed, 1), error) : NULL;
  gboolean ok = trainer->pack != NULL && allocate_sums(trainer, error);
  ok = ok && (!zero_shards_gradients(parameters->zero) || allocate_buckets(trainer, list, error));
  const Block *shared = parameters_shared_table(parameters);
  for (int i = 0; i < 2 && ok && shared != NULL && zero_shards_gradients(parameters->zero); i++)
    ok = (trainer->shared_gradients[i] = device->allocate(trainer->device, 4 * shared->n, error)) != NULL;
  if (ok && shared != NULL && zero_shards_weights(parameters->zero))
    ok = (trainer->shared_gathered = device->allocate(trainer->device, 4 * shared->n, error)) != NULL;
  if (ok && zero_shards_gradients(parameters->zero) && trainer->activations.has_w)
    ok = allocate_early(trainer, error);
  const int n_gathers = zero_shards_weights(parameters->zero) ? gather_buffers_needed(list) : 0;
  for (int i = 0; i < n_gathers && ok; i++) {
    char *buffer = device->allocate(trainer->device, MAX(trainer->gather_bytes, 1), error);
    ok = buffer != NULL;
    g_ptr_array_add(trainer->gather_buffers, buffer);
  }
  return ok;
}

/* Stages whose ops are in this rank's list. */
static gboolean *local_stages(const Program *program, int pp) {
  gboolean *is_local = g_new0(gboolean, program->n_stages);
  const OpList *list = &program->ranks[pp];
  for (int i = 0; i < list->n_ops; i++)
    if (list->ops[i].kind == OP_COMPUTE && list->ops[i].stage >= 0)
      is_local[list->ops[i].stage] = TRUE;
  return is_local;
}

static gboolean has_action(const OpList *list, ActionKind action) {
  for (int i = 0; i < list->n_ops; i++)
    if (list->ops[i].action == action)
      return TRUE;
  return FALSE;
}

/* With experts on other ranks, the two ops of an overlapped pair alternate: one computes while the other's tokens are
 * in transit. */
static gboolean takes_turns(const OpList *list, const Method *method) {
  for (int i = 0; i < list->n_ops && method->ep > 1; i++)
    if (list->ops[i].overlapped)
      return TRUE;
  return FALSE;
}

/* Optimizer updates per step on the host. */
static int count_updates(const OpList *list) {
  int n = 0;
  for (int i = 0; i < list->n_ops; i++)
    if (list->ops[i].kind == OP_HOST && list->ops[i].action == ACTION_OPTIMIZER)
      n = MAX(n, list->ops[i].unit + 1);
  return n;
}

static gboolean init_activations(Trainer *trainer, const gboolean *is_local, int pp, GError **error) {
  const Workload *workload = trainer->workload;
  const OpList *list = &trainer->program->ranks[pp];
  g_autofree const StageLayers **layers = g_new0(const StageLayers *, workload->n_stages);
  for (int stage = 0; stage < workload->n_stages; stage++)
    if (is_local[stage])
      layers[stage] = &workload->stages[stage].layers;
  const ActivationsUse use = {.n_stages = workload->n_stages,
                              .n_micro_batches = trainer->program->n_micro_batches,
                              .layers = layers,
                              .has_w = has_action(list, ACTION_W),
                              .takes_turns = takes_turns(list, workload->method)};
  return activations_init(&trainer->activations, &trainer->parameters->local, trainer->device, &use, error);
}

Trainer *trainer_new(const Workload *workload, const Program *program, const TrainerPlace *place,
                     const Training *training, GError **error) {
  if (!trainable_check(workload, error))
    return NULL;
  const int pp = layout_coordinates(&workload->layout, place->rank).at[AXIS_PP];
  g_autoptr(Trainer) trainer = g_new0(Trainer, 1);
  trainer->workload = workload;
  trainer->program = program;
  trainer->device = place->device;
  trainer->comm = place->comm;
  trainer->streams = place->streams;
  trainer->training = *training;
  trainer->gather_buffers = g_ptr_array_new();
  trainer->n_updates = count_updates(&program->ranks[pp]);
  g_autofree gboolean *is_local = local_stages(program, pp);
  DeviceStream *compute = place->streams[STREAM_COMPUTE];
  trainer->parameters = parameters_new(workload, is_local, place->rank, training->seed, compute, error);
  if (trainer->parameters == NULL)
    return NULL;
  make_shapes(trainer);
  if (!items_bind(trainer, error) || !init_activations(trainer, is_local, pp, error) ||
      !upload_tokens(trainer, error) || !loss_scaling_init(trainer, error) ||
      !allocate_buffers(trainer, place->rank, error) || !compressed_buckets_init(trainer, place, error))
    return NULL;
  return g_steal_pointer(&trainer);
}

void trainer_free(Trainer *trainer) {
  if (trainer == NULL)
    return;
  void *const memory[] = {trainer->tokens,
                          trainer->losses,
                          trainer->norms,
                          trainer->scales,
                          trainer->pack,
                          trainer->early,
                          trainer->sums,
                          trainer->shared_gradients[0],
                          trainer->shared_gradients[1],
                          trainer->shared_gathered};
  for (gsize i = 0; i < G_N_ELEMENTS(memory); i++)
    trainer->device->type->release(trainer->device, memory[i]);
  for (int i = 0; i < trainer->n_buckets; i++)
    trainer->device->type->release(trainer->device, trainer->buckets[i]);
  g_free(trainer->buckets);
  for (guint i = 0; i < trainer->gather_buffers->len; i++)
    trainer->device->type->release(trainer->device, g_ptr_array_index(trainer->gather_buffers, i));
  g_ptr_array_unref(trainer->gather_buffers);
  g_clear_pointer(&trainer->compressed, g_hash_table_unref);
  items_log_clear(trainer);
  items_clear(trainer);
  for (int m = 0; trainer->shapes != NULL && m < trainer->workload->method->n_micro_batches; m++)
    g_array_unref(trainer->shapes[m].documents);
  g_free(trainer->shapes);
  if (trainer->activations.pools != NULL)
    activations_clear(&trainer->activations);
  parameters_free(trainer->parameters);
  g_free(trainer);
}
