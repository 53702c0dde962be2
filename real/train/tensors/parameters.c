/* First the layout (which tensors, where: block_layout.c), then memory, then values: each tensor is filled from its
 * seed into an fp32 scratch vector, which is rounded to the weights and copied to this rank's shard of the master
 * copy. So a weight is the same whichever rank makes it. */
#include "parameters.h"

#include "carve.h"
#include "error.h"
#include "kernel.h"

#include <string.h>

/* --- blocks ------------------------------------------------------------------------------------------------------- */

/* Whether embedding and head are on one rank and share a tied matrix, which is then the embedding's. */
static gboolean shares_table(const Workload *workload) {
  return workload->shared_parameters > 0;
}

/* What of a shard the host updates, in whole cache lines of every kernel's vectors. */
static gint64 host_part(const Parameters *parameters, gint64 shard_n) {
  enum { MULTIPLE = 64 };
  const double share = offload_share(&parameters->workload->method->offload);
  return share == 1 ? shard_n : MIN(shard_n, (gint64)(share * (double)shard_n / MULTIPLE + 0.5) * MULTIPLE);
}

static void add_block(const Parameters *parameters, GArray *blocks, BlockKind kind, int stage, int layer,
                      guint64 seed) {
  const gboolean of_experts = kind == BLOCK_EXPERTS;
  Block block = {.kind = kind, .stage = stage, .layer = layer};
  block.n_shards = of_experts ? parameters->n_expert_shards : parameters->n_shards;
  block.zero = block.n_shards > 1 ? parameters->zero_of_shards : 0;
  block_lay_out(parameters, &block, seed);
  block.shard_n = block.n / block.n_shards;
  block.shard_first = (of_experts ? parameters->expert_shard : parameters->shard) * block.shard_n;
  block.host_n = host_part(parameters, block.shard_n);
  g_array_append_val(blocks, block);
}

static void add_layer(const Parameters *parameters, GArray *blocks, int stage, int layer_in_stage, guint64 seed) {
  const StageLayers *layers = &parameters->workload->stages[stage].layers;
  const int layer = layers->first_layer + layer_in_stage;
  add_block(parameters, blocks, BLOCK_LAYER, stage, layer, seed);
  if (block_has_experts(parameters, &g_array_index(blocks, Block, blocks->len - 1)))
    add_block(parameters, blocks, BLOCK_EXPERTS, stage, layer, seed);
  if (parameters->workload->method->training.rank > 0)
    add_block(parameters, blocks, BLOCK_ADAPTERS, stage, layer, seed);
}

/* Whether MTP heads need their own copy of the word table, because no rank has both them and the embedding. */
static gboolean has_table_copy(const Workload *workload) {
  return workload->method->mtp_layers > 0 && !workload->model->tied && workload->tied_parameters > 0;
}

static void add_further_heads(const Parameters *parameters, GArray *blocks, int stage, guint64 seed) {
  const Workload *workload = parameters->workload;
  const StageLayers *layers = &workload->stages[stage].layers;
  if (has_table_copy(workload))
    add_block(parameters, blocks, BLOCK_TABLE, stage, -1, seed);
  for (int k = 1; k <= workload->method->mtp_layers; k++) {
    const int layer = layers->n_layers + 2 * k - 1;
    add_layer(parameters, blocks, stage, layer, seed);
    add_block(parameters, blocks, BLOCK_MTP, stage, layers->first_layer + layer, seed);
  }
}

static void add_stage(Parameters *parameters, GArray *blocks, int stage, guint64 seed) {
  const StageLayers *layers = &parameters->workload->stages[stage].layers;
  parameters->first_of_stage[stage] = (int)blocks->len;
  if (layers->has_embedding) {
    add_block(parameters, blocks, BLOCK_TABLE, stage, -1, seed);
    add_block(parameters, blocks, BLOCK_POSITIONS, stage, -1, seed);
  }
  for (int i = 0; i < layers->n_layers; i++)
    add_layer(parameters, blocks, stage, i, seed);
  if (layers->has_head) {
    add_block(parameters, blocks, BLOCK_FINAL_NORM, stage, -1, seed);
    if (!shares_table(parameters->workload))
      add_block(parameters, blocks, BLOCK_OUTPUT, stage, -1, seed);
    add_further_heads(parameters, blocks, stage, seed);
  }
}

/* --- memory and numbers ------------------------------------------------------------------------------------------- */

static gboolean allocate_in(const Parameters *parameters, gboolean on_host, gint64 bytes, gpointer target,
                            GError **error) {
  const DeviceType *type = parameters->device->type;
  void **memory = target;
  if (bytes == 0)
    return TRUE;
  *memory = (on_host ? type->allocate_host : type->allocate)(parameters->device, bytes, error);
  return *memory != NULL;
}

static gboolean allocate(const Parameters *parameters, gint64 bytes, gpointer target, GError **error) {
  return allocate_in(parameters, FALSE, bytes, target, error);
}

static gboolean allocate_state(const Parameters *parameters, gboolean on_host, gint64 n, OptimizerState *state,
                               GError **error) {
  const gint64 master = parameters->workload->method->recipe.master > 0 ? 4 * n : 0;
  return allocate_in(parameters, on_host, master, &state->master, error) &&
         allocate_in(parameters, on_host, 4 * n, &state->m, error) &&
         allocate_in(parameters, on_host, 4 * n, &state->v, error);
}

static gboolean allocate_optimizer(const Parameters *parameters, Block *block, GError **error) {
  const gint64 n = block->host_n;
  return allocate_state(parameters, FALSE, block->shard_n - n, &block->kept, error) &&
         allocate_state(parameters, TRUE, n, &block->on_host, error) &&
         allocate_in(parameters, TRUE, n * kernel_element_bytes(parameters->gradient_number), &block->host_gradient,
                     error) &&
         allocate_in(parameters, TRUE, n * kernel_element_bytes(parameters->number), &block->host_weight, error);
}

static gboolean allocate_outer(const Parameters *parameters, Block *block, GError **error) {
  const gint64 bytes = parameters->workload->method->islands > 1 ? 4 * block->shard_n : 0;
  return allocate(parameters, bytes, &block->anchor, error) && allocate(parameters, bytes, &block->outer_m, error) &&
         allocate(parameters, bytes, &block->outer_sum, error);
}

/* Whether ZeRO-3's shards are on the host, to be fetched before each gather. */
static gboolean has_weights_on_host(const Parameters *parameters) {
  return parameters->workload->method->offload.weights == TIER_HOST;
}

/* Bytes of the block's copies in fp8. */
static gint64 place_narrow(const Parameters *parameters, Block *block) {
  const LocalSizes *local = &parameters->local;
  const StageLayers *layers = &parameters->workload->stages[block->stage].layers;
  const gboolean of_experts = block->kind == BLOCK_EXPERTS;
  gint64 bytes = 0;
  for (int linear = 0; linear < N_NARROW_LINEARS; linear++)
    block->narrow_step[linear] = -1;
  if (!local->casts || zero_shards_weights(block->zero) || (block->kind != BLOCK_LAYER && !of_experts))
    return 0;
  const LayerKind kind = carve_kind_of(local, layers, block->layer - layers->first_layer);
  for (int linear = 0; linear < N_NARROW_LINEARS; linear++) {
    const NarrowSize size = narrow_weight_size(carve_narrow_shape(local, kind, (NarrowLinear)linear));
    if (narrow_is_of_experts((NarrowLinear)linear) != of_experts)
      continue;
    block->narrow_at[linear][0] = bytes;
    block->narrow_at[linear][1] = bytes + narrow_bytes(local, size, TRUE);
    bytes = block->narrow_at[linear][1] + narrow_bytes(local, narrow_turned(size), TRUE);
  }
  return bytes;
}

static gboolean allocate_block(const Parameters *parameters, Block *block, GError **error) {
  const gint64 weights = has_weights_on_host(parameters)    ? 0
                         : zero_shards_weights(block->zero) ? block->shard_n
                                                            : block->n;
  return allocate(parameters, weights * kernel_element_bytes(parameters->number), &block->weight, error) &&
         allocate(parameters, block_gradient_n(block) * kernel_element_bytes(parameters->gradient_number),
                  &block->gradient, error) &&
         allocate(parameters, place_narrow(parameters, block), &block->narrow, error) &&
         allocate_optimizer(parameters, block, error) && allocate_outer(parameters, block, error);
}

static void launch_convert(DeviceStream *stream, const float *from, Number number, void *to, gint64 n) {
  Kernel kernel = {
      .kind = KERNEL_CONVERT,
      .convert = {.from_number = NUMBER_FP32, .to_number = (guint8)number, .n = n, .from = from, .to = to}};
  stream->device->type->launch(stream, &kernel);
}

/* The anchor is where training begins: the master copy, or the weight as it is rounded. The momentum is zero. */
static void fill_outer(const Block *block, float *scratch, Number number, DeviceStream *stream) {
  const float *first = scratch + block->shard_first;
  if (block->kept.master == NULL) {
    launch_convert(stream, first, number, block->outer_sum, block->shard_n);
    const Kernel back = {.kind = KERNEL_CONVERT,
                         .convert = {.from_number = (guint8)number,
                                     .to_number = NUMBER_FP32,
                                     .n = block->shard_n,
                                     .from = block->outer_sum,
                                     .to = block->anchor}};
    stream->device->type->launch(stream, &back);
  } else {
    stream->device->type->copy(stream, block->anchor, first, 4 * block->shard_n);
  }
  const Kernel zero = {.kind = KERNEL_FILL, .fill = {.bytes = 4 * block->shard_n, .to = block->outer_m}};
  stream->device->type->launch(stream, &zero);
}

static void fill_block(const Parameters *parameters, const Block *block, float *scratch, DeviceStream *stream) {
  const DeviceType *device = stream->device->type;
  Kernel zero = {.kind = KERNEL_FILL, .fill = {.bytes = 4 * block->n, .to = scratch}};
  device->launch(stream, &zero);
  for (int i = 0; i < block->n_tensors; i++) {
    const Tensor *tensor = &block->tensors[i];
    Kernel init = {.kind = KERNEL_INIT,
                   .init = {.number = NUMBER_FP32,
                            .rows = tensor->rows,
                            .columns = tensor->columns,
                            .ld = tensor->columns,
                            .first_row = tensor->first_row,
                            .first_column = tensor->first_column,
                            .whole_rows = tensor->whole_rows,
                            .whole_width = tensor->whole_columns,
                            .seed = tensor->seed,
                            .mean = tensor->mean,
                            .deviation = tensor->deviation,
                            .to = scratch + tensor->offset}};
    device->launch(stream, &init);
  }
  const gboolean is_sharded = zero_shards_weights(block->zero);
  char *weight = block->weight != NULL ? block->weight : (char *)(scratch + block->n);
  launch_convert(stream, scratch + (is_sharded ? block->shard_first : 0), parameters->number, weight,
                 is_sharded ? block->shard_n : block->n);
  const int element_bytes = kernel_element_bytes(parameters->number);
  if (block->host_weight != NULL)
    device->copy(stream, block->host_weight, weight + (is_sharded ? 0 : block->shard_first * element_bytes),
                 block->host_n * element_bytes);
  const float *own = scratch + block->shard_first;
  if (block->on_host.master != NULL)
    device->copy(stream, block->on_host.master, own, 4 * block->host_n);
  if (block->kept.master != NULL)
    device->copy(stream, block->kept.master, own + block->host_n, 4 * (block->shard_n - block->host_n));
  if (block->anchor != NULL)
    fill_outer(block, scratch, parameters->number, stream);
}

static gboolean fill_blocks(const Parameters *parameters, DeviceStream *stream, GError **error) {
  Device *device = parameters->device;
  gint64 most = 0;
  for (int i = 0; i < parameters->n_blocks; i++) {
    most = MAX(most, parameters->blocks[i].n);
    if (!allocate_block(parameters, &parameters->blocks[i], error))
      return FALSE;
  }
  float *scratch = NULL;
  DeviceEvent *filled = device->type->event_new(device, error);
  const int element_bytes = 4 + (has_weights_on_host(parameters) ? kernel_element_bytes(parameters->number) : 0);
  if (filled == NULL || !allocate(parameters, element_bytes * most, &scratch, error))
    return FALSE;
  for (int i = 0; i < parameters->n_blocks; i++)
    if (parameters->blocks[i].n > 0)
      fill_block(parameters, &parameters->blocks[i], scratch, stream);
  device->type->record(stream, filled);
  const gboolean done = device_wait(filled, error);
  device->type->release(device, scratch);
  device->type->event_free(filled);
  return done;
}

static void place_experts(Parameters *parameters, int rank) {
  const Layout *layout = &parameters->workload->layout;
  parameters->n_expert_shards = zero_shards_optimizer(parameters->workload->method->zero) ? layout->n_expert_shards : 1;
  parameters->expert_shard =
      parameters->n_expert_shards > 1 ? layout_group_place(layout, AXIS_BIT_EXPERT_SHARD, rank) : 0;
  if (servers_are_used(&parameters->workload->method->servers)) {
    parameters->n_expert_shards = parameters->n_shards;
    parameters->expert_shard = parameters->shard;
  }
  parameters->first_expert = layout_group_place(layout, AXIS_BIT(AXIS_EP), rank) * parameters->local.n_experts;
}

Parameters *parameters_new(const Workload *workload, const gboolean *is_local, int rank, guint64 seed,
                           DeviceStream *stream, GError **error) {
  const Method *method = workload->method;
  g_autoptr(Parameters) parameters = g_new0(Parameters, 1);
  parameters->workload = workload;
  parameters->device = stream->device;
  parameters->local = local_sizes_of(workload->model, method);
  parameters->local.casts = narrow_is_used(workload); /* in fp32 too, where a Program in fp8 is checked so */
  parameters->at = layout_coordinates(&workload->layout, rank);
  parameters->n_shards = zero_shards_optimizer(method->zero) ? workload->layout.n_shards : 1;
  parameters->shard =
      layout_group_place(&workload->layout, AXIS_BIT(AXIS_CP) | AXIS_BIT_DP_SHARD, rank) % parameters->n_shards;
  parameters->zero_of_shards = method->zero;
  if (servers_are_used(&method->servers)) { /* each rank is a server too, of its part, as under ZeRO-1 */
    parameters->n_shards = method->data_ranks;
    parameters->shard = layout_group_place(&workload->layout, AXIS_BIT(AXIS_DP), rank);
    parameters->zero_of_shards = 1;
  }
  place_experts(parameters, rank);
  parameters->zero = MAX(parameters->n_shards, parameters->n_expert_shards) > 1 ? parameters->zero_of_shards : 0;
  parameters->number = precision_info(method->precision)->element;
  parameters->gradient_number = method->recipe.gradients == 4 ? NUMBER_FP32 : parameters->number;
  parameters->first_of_stage = g_new(int, workload->n_stages);
  GArray *blocks = g_array_new(FALSE, FALSE, sizeof(Block));
  for (int stage = 0; stage < workload->n_stages; stage++) {
    parameters->first_of_stage[stage] = -1;
    if (is_local[stage])
      add_stage(parameters, blocks, stage, seed);
  }
  parameters->n_blocks = (int)blocks->len;
  parameters->blocks = (Block *)(void *)g_array_free(blocks, FALSE);
  return fill_blocks(parameters, stream, error) ? g_steal_pointer(&parameters) : NULL;
}

void parameters_free(Parameters *parameters) {
  if (parameters == NULL)
    return;
  const DeviceType *device = parameters->device->type;
  for (int i = 0; i < parameters->n_blocks; i++) {
    Block *block = &parameters->blocks[i];
    void *const memory[] = {block->weight, block->gradient, block->lost,   block->narrow,  block->kept.master,
                            block->kept.m, block->kept.v,   block->anchor, block->outer_m, block->outer_sum};
    void *const host[] = {block->on_host.master, block->on_host.m, block->on_host.v, block->host_gradient,
                          block->host_weight};
    for (gsize k = 0; k < G_N_ELEMENTS(memory); k++)
      device->release(parameters->device, memory[k]);
    for (gsize k = 0; k < G_N_ELEMENTS(host); k++)
      device->release_host(parameters->device, host[k]);
    for (int t = 0; t < block->n_tensors; t++)
      g_free(block->tensors[t].name);
    g_free(block->tensors);
  }
  g_free(parameters->blocks);
  g_free(parameters->first_of_stage);
  g_free(parameters);
}

/* --- finding ------------------------------------------------------------------------------------------------------ */

/* This rank's stage that begins a pipe; −1: none. */
static int first_stage(const Parameters *parameters) {
  for (int stage = 0; stage < parameters->workload->n_stages; stage++)
    if (parameters->first_of_stage[stage] >= 0 && parameters->workload->stages[stage].layers.has_embedding)
      return stage;
  return -1;
}

/* Where MTP heads find the word table: the model's own, a copy, or a tied matrix that is both. */
static void find_table(const Parameters *parameters, int *stage, BlockKind *kind) {
  const Workload *workload = parameters->workload;
  if (workload->stages[*stage].layers.has_embedding || has_table_copy(workload))
    return;
  if (workload->model->tied)
    *kind = BLOCK_OUTPUT;
  else
    *stage = first_stage(parameters);
}

Block *parameters_block(const Parameters *parameters, int stage, BlockKind kind, int layer_in_stage) {
  const Workload *workload = parameters->workload;
  if (kind == BLOCK_TABLE)
    find_table(parameters, &stage, &kind);
  if (kind == BLOCK_OUTPUT && shares_table(workload) && workload->stages[stage].layers.has_head) {
    kind = BLOCK_TABLE;
    stage = first_stage(parameters);
    g_assert(stage >= 0);
  }
  const int first = parameters->first_of_stage[stage];
  const gboolean of_layer = kind == BLOCK_LAYER || kind == BLOCK_EXPERTS || kind == BLOCK_MTP || kind == BLOCK_ADAPTERS;
  const int layer = of_layer ? workload->stages[stage].layers.first_layer + layer_in_stage : -1;
  for (int i = first; i >= 0 && i < parameters->n_blocks && parameters->blocks[i].stage == stage; i++)
    if (parameters->blocks[i].kind == kind && parameters->blocks[i].layer == layer)
      return &parameters->blocks[i];
  return NULL;
}

/* Of what is frozen, ZeRO-3's weights alone are moved. */
static void add_moved(const Parameters *parameters, GPtrArray *blocks, const Op *op, BlockKind kind, int layer) {
  Block *block = parameters_block(parameters, op->stage, kind, layer);
  const gboolean is_moved = block != NULL && block->n > 0 &&
                            (!block->is_frozen || (op->action == ACTION_UNSHARD && zero_shards_weights(block->zero)));
  if (is_moved)
    g_ptr_array_add(blocks, block);
}

/* The layer of the k-th MTP head. */
static int further_layer(const Parameters *parameters, const Op *op, int k) {
  return parameters->workload->stages[op->stage].layers.n_layers + 2 * k - 1;
}

static void add_others(const Parameters *parameters, const Op *op, const Transfer *transfer, GPtrArray *blocks) {
  /* if two share one matrix, the one that is moved is found under either name */
  gboolean with_table = transfer->n_embedding > 0 && transfer->n_tables > 0;
  gboolean with_output = transfer->n_head > 0 && transfer->n_tables > (with_table ? 1 : 0);
  if (with_table)
    add_moved(parameters, blocks, op, BLOCK_TABLE, -1);
  if (transfer->n_embedding > 0)
    add_moved(parameters, blocks, op, BLOCK_POSITIONS, -1);
  for (int i = 0; i < transfer->n_layers; i++) {
    add_moved(parameters, blocks, op, BLOCK_LAYER, op->unit + i);
    add_moved(parameters, blocks, op, BLOCK_ADAPTERS, op->unit + i);
  }
  if (transfer->n_head > 0)
    add_moved(parameters, blocks, op, BLOCK_FINAL_NORM, -1);
  if (with_output)
    add_moved(parameters, blocks, op, BLOCK_OUTPUT, -1);
  if (transfer->n_head > 0 && has_table_copy(parameters->workload))
    add_moved(parameters, blocks, op, BLOCK_TABLE, -1);
  for (int k = 1; k <= parameters->workload->method->mtp_layers && transfer->n_head > 0; k++) {
    add_moved(parameters, blocks, op, BLOCK_LAYER, further_layer(parameters, op, k));
    add_moved(parameters, blocks, op, BLOCK_MTP, further_layer(parameters, op, k));
  }
}

static void add_experts(const Parameters *parameters, const Op *op, const Transfer *transfer, GPtrArray *blocks) {
  for (int i = 0; i < transfer->n_layers; i++)
    add_moved(parameters, blocks, op, BLOCK_EXPERTS, op->unit + i);
  for (int k = 1; k <= parameters->workload->method->mtp_layers && transfer->n_head > 0; k++)
    add_moved(parameters, blocks, op, BLOCK_EXPERTS, further_layer(parameters, op, k));
}

void parameters_moved(const Parameters *parameters, const Op *op, const Transfer *transfer, GPtrArray *blocks) {
  (transfer->of_experts ? add_experts : add_others)(parameters, op, transfer, blocks);
}

void parameters_bucket(const Parameters *parameters, const Op *op, const Transfer *transfer, GPtrArray *blocks) {
  add_others(parameters, op, transfer, blocks);
  add_experts(parameters, op, transfer, blocks);
  for (guint i = blocks->len; i-- > 0;)
    if (!block_shards_gradient(g_ptr_array_index(blocks, i)))
      g_ptr_array_remove_index(blocks, i);
}

Block *parameters_shared_table(const Parameters *parameters) {
  const gboolean is_shared = shares_table(parameters->workload) || workload_heads_read_embedding(parameters->workload);
  const int stage = is_shared ? first_stage(parameters) : -1;
  return stage >= 0 ? parameters_block(parameters, stage, BLOCK_TABLE, -1) : NULL;
}

/* ep ranks may be dp ranks too, but they sum the norm together, as tp ranks do. So a block that several of them hold
 * counts on one. */
static gboolean is_counted_elsewhere(const Parameters *parameters, const Block *block) {
  const Workload *workload = parameters->workload;
  const int *in_ep = workload->layout.in_ep, *at = parameters->at.at;
  if (block->n_shards > 1)
    return FALSE;
  if (block->kind == BLOCK_EXPERTS)
    return workload->layout.takes_tp && at[AXIS_TP] >= in_ep[AXIS_TP];
  return workload->method->ep > 1 && (at[AXIS_CP] % in_ep[AXIS_CP] > 0 || at[AXIS_DP] % in_ep[AXIS_DP] > 0);
}

gboolean parameters_is_copy(const Parameters *parameters, const Block *block) {
  const Workload *workload = parameters->workload;
  const gboolean is_table_copy = block->kind == BLOCK_TABLE && !workload->stages[block->stage].layers.has_embedding;
  return is_counted_elsewhere(parameters, block) || is_table_copy ||
         (block->kind == BLOCK_OUTPUT && workload->model->tied) ||
         block->stage >= workload->n_stages / workload->placement->n_pipes;
}

const void *block_weight(const Parameters *parameters, const Block *block, Role role) {
  if (block->offset_of[role] < 0)
    return NULL;
  const char *base = zero_shards_weights(block->zero) ? block->gathered : block->weight;
  g_assert(base != NULL);
  return base + block->offset_of[role] * kernel_element_bytes(parameters->number);
}

void *block_gradient(const Parameters *parameters, const Block *block, Role role) {
  if (block->offset_of[role] < 0)
    return NULL;
  char *base = block_shards_gradient(block) ? block->bucket : block->gradient;
  g_assert(base != NULL);
  return base + block->offset_of[role] * kernel_element_bytes(parameters->gradient_number);
}
