/* Layout first (which tensors, where: block_layout.c), then memory, then numbers: each tensor is filled from its seed
 * into a scratch vector of fp32, from which the weights are rounded and this rank's shard of the master copy is taken.
 * So a weight is the same whichever rank makes it. */
#include "parameters.h"

#include "block_layout.h"
#include "error.h"
#include "kernel.h"

#include <string.h>

/* --- what can be trained --------------------------------------------------------------------------------------------
 */

typedef struct {
  gboolean is_missing;
  const char *what;
} Missing;

static gboolean check_model(const Workload *workload, GError **error) {
  const Model *model = workload->model;
  const Missing missing[] = {
      {workload->plan->expert_load > 1, "experts that get more than others (stepsim simulate predicts them)"},
      {workload->plan->mtp_layers > 0 && (model->dropout || model->embedding_norm),
       "heads that predict a token further, with dropout or a norm behind the word table"},
      {workload->plan->mtp_layers > 0 && model->positions == POSITIONS_LEARNED,
       "heads that predict a token further, with learned positions"},
      {model->post_norms, "norms behind the branches of a layer"},
      {model->capped_logits, "logits that are capped"},
      {model->head_bias && model->tied, "a bias on logits of a matrix that is the embedding's"},
      {model->other_embedding_parameters > 0, "two positions more than it says (OPT)"},
      {model->qk_norms == QK_NORMS_WHOLE && workload->plan->tp > 1, "norms of all heads' q and k that tp cuts"},
      {model->n_kv_heads < workload->plan->tp, "fewer key heads than tp ranks"},
      {model->head_dim % 2 != 0 || model->latent.rope_dim % 2 != 0, "an odd head size"},
      {model_has_experts(model) && (!model->gated || model_has_mlp_bias(model)),
       "experts without a gate, or with biases"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(missing); i++)
    if (missing[i].is_missing)
      return fail_impossible(error, "the model %s cannot be trained here: no kernels for %s", model->name,
                             missing[i].what);
  return TRUE;
}

static const guint trained_modules =
    MODULE_BIT(MODULE_CORE_ATTN) | MODULE_BIT(MODULE_LAYERNORM) | MODULE_BIT(MODULE_MLP);

static gboolean check_plan(const Workload *workload, GError **error) {
  const Plan *plan = workload->plan;
  const PrecisionInfo *precision = precision_info(plan->precision);
  if (offload_is_any(&plan->offload))
    return fail_impossible(error, "--offload-optimizer, -weights and -activations: what a GPU does not hold cannot be "
                                  "trained with here (stepsim simulate predicts it)");
  if (plan->cuda_graphs != CUDA_GRAPHS_NONE)
    return fail_impossible(error, "--cuda-graphs %s cannot be run here (stepsim simulate predicts it); expected none",
                           cuda_graphs_names()[plan->cuda_graphs]);
  if (plan->precision != PRECISION_FP32 && plan->precision != PRECISION_BF16 && plan->precision != PRECISION_FP16)
    return fail_impossible(error, "--precision %s cannot be trained here: expected fp32, bf16 or fp16",
                           precision->name);
  if (plan->precision == PRECISION_FP16 && !plan->grad_norm_barrier)
    return fail_impossible(error,
                           "--precision fp16 and --grad-norm-barrier off clash: whether a step is skipped follows from "
                           "the norm of all ranks; use --grad-norm-barrier on");
  if (plan->recipe.weights != precision->element_bytes)
    return fail_impossible(error,
                           "--precision %s and --recipe %s clash: weights of %g bytes where products read %g; "
                           "use %s",
                           precision->name, plan->recipe.name, plan->recipe.weights, precision->element_bytes,
                           plan->precision == PRECISION_FP32 ? "--recipe fp32" : "--recipe bf16+master or megatron");
  if (plan->recompute == RECOMPUTE_SELECTIVE && plan->memory.selective == SELECTIVE_PRODUCTS)
    return fail_impossible(error,
                           "--recompute selective as framework %s has it, product by product, cannot be trained here; "
                           "leave --framework out, or use --recompute none or full",
                           plan->framework);
  g_autofree char *modules = recompute_modules_text(plan_recompute_modules(plan), "+");
  if ((plan_recompute_modules(plan) & ~trained_modules) != 0)
    return fail_impossible(error,
                           "--recompute-modules %s cannot be trained here, expected core_attn, layernorm or mlp "
                           "(stepsim simulate predicts it); or use --recompute none or full",
                           modules);
  const double sum_bytes = plan_gradient_sum_bytes(plan);
  if (plan_data_ranks(plan) > 1 && sum_bytes != 2 && sum_bytes != 4)
    return fail_impossible(error,
                           "gradients as framework %s sums them over dp, in %g bytes, cannot be summed here: expected "
                           "2 or 4; leave --framework out",
                           plan->framework, sum_bytes);
  if (plan_has_plain_norm(plan) && workload->model->norm == NORM_RMSNORM)
    return fail_impossible(error, "--norm-kernel plain%s%s: RMSNorm is one kernel here, expected fused",
                           plan->time.kernels == FRAMEWORK_KERNELS_PLAIN ? ", as framework " : "",
                           plan->time.kernels == FRAMEWORK_KERNELS_PLAIN ? plan->framework : "");
  const Recipe *recipe = &plan->recipe;
  if ((recipe->gradients != 4 && recipe->gradients != 2) || (recipe->master != 4 && recipe->master != 0) ||
      recipe->moments != 8 || (plan->precision == PRECISION_FP32 && recipe->gradients != 4))
    return fail_impossible(error,
                           "--recipe %s cannot be trained here: gradients of 4 bytes (or 2 beside bf16 or fp16), a "
                           "master copy of 4 or none, moments of 4 + 4",
                           recipe->name);
  return TRUE;
}

/* Tokens are dealt out to experts by place: every rank's to all of them alike. */
static gboolean check_experts(const Workload *workload, GError **error) {
  const Model *model = workload->model;
  const Plan *plan = workload->plan;
  const Cut cut = cut_of(model, plan);
  if (!model_has_experts(model))
    return TRUE;
  if (cut.routed_tokens % model->experts.n != 0)
    return fail_impossible(error,
                           "%" G_GINT64_FORMAT " tokens of a rank, each to %" G_GINT64_FORMAT
                           " experts, cannot be dealt out evenly to the %" G_GINT64_FORMAT
                           " of model %s: expected a sequence length, or a micro-batch, with which they divide",
                           cut.split_tokens, model->experts.per_token, model->experts.n, model->name);
  if (model_dense_layers(model, 0, model->n_layers) > 0 && model->ffn_hidden % plan->tp != 0)
    return fail_impossible(error,
                           "tp %d does not divide the MLP hidden size %" G_GINT64_FORMAT
                           " of the layers without experts of model %s",
                           plan->tp, model->ffn_hidden, model->name);
  if (plan->cp > 1 && cut.seq_len / 2 * model->experts.per_token % model->experts.n != 0)
    return fail_impossible(error,
                           "the %" G_GINT64_FORMAT " tokens of half a rank's part of a sequence under cp %d, each to "
                           "%" G_GINT64_FORMAT " experts, cannot be dealt out evenly to the %" G_GINT64_FORMAT
                           " of model %s: expected a sequence length with which they divide",
                           cut.seq_len / 2, plan->cp, model->experts.per_token, model->experts.n, model->name);
  if ((plan_recompute_modules(plan) & MODULE_BIT(MODULE_MLP)) != 0)
    return fail_impossible(
        error, "--recompute-modules mlp with experts (model %s) cannot be trained here; leave mlp out", model->name);
  if (model->experts.every > 1 && workload->n_stages > 1)
    return fail_impossible(error,
                           "model %s has experts in one of %" G_GINT64_FORMAT
                           " layers, and cut into %d stages it would be another: dense layers come first in each; "
                           "expected --pp 1",
                           model->name, model->experts.every, workload->n_stages);
  if (plan_dispatches_once(plan))
    return fail_impossible(error, "--expert-dispatch deepep cannot be run here (stepsim simulate predicts it); "
                                  "give --expert-dispatch all_to_all");
  return TRUE;
}

/* In shards, the model's own word table is there while its stage runs, and its gradient is summed with that stage's. */
static gboolean check_further_heads(const Workload *workload, GError **error) {
  const Plan *plan = workload->plan;
  if (!workload_heads_read_embedding(workload) || plan->zero < 2 || workload->n_stages == 1)
    return TRUE;
  return fail_impossible(error,
                         "--mtp-layers %d with --zero %d cannot be trained here where one rank has the model's first "
                         "stage and its last, as with --pp %d --schedule %s: expected --zero 0 or 1",
                         plan->mtp_layers, plan->zero, plan->pp, plan->schedule);
}

/* Copies of a stage are summed between two ranks. */
static gboolean check_placement(const Workload *workload, GError **error) {
  const Placement *placement = workload->placement;
  const int length = placement->n_stages / placement->n_pipes;
  for (int stage = 0; stage < length && placement->n_pipes > 1; stage++)
    if (placement->stage_rank[stage] == placement->stage_rank[stage + length])
      return fail_impossible(error,
                             "pipeline rank %d would hold both copies of stage %d: two pipes need an even number "
                             "of pipeline ranks, found %d",
                             placement->stage_rank[stage], stage, placement->n_ranks);
  return TRUE;
}

gboolean parameters_check(const Workload *workload, GError **error) {
  return check_model(workload, error) && check_plan(workload, error) && check_experts(workload, error) &&
         check_further_heads(workload, error) && check_placement(workload, error);
}

/* --- blocks ---------------------------------------------------------------------------------------------------------
 */

/* Embedding and head on one rank share a tied matrix: it lies with the embedding. */
static gboolean shares_table(const Workload *workload) {
  return workload->shared_parameters > 0;
}

static void add_block(const Parameters *parameters, GArray *blocks, BlockKind kind, int stage, int layer,
                      guint64 seed) {
  const gboolean of_experts = kind == BLOCK_EXPERTS;
  Block block = {.kind = kind, .stage = stage, .layer = layer};
  block.n_shards = of_experts ? parameters->n_expert_shards : parameters->n_shards;
  block.zero = block.n_shards > 1 ? parameters->workload->plan->zero : 0;
  block_lay_out(parameters, &block, seed);
  block.shard_n = block.n / block.n_shards;
  block.shard_first = (of_experts ? parameters->expert_shard : parameters->shard) * block.shard_n;
  g_array_append_val(blocks, block);
}

static void add_layer(const Parameters *parameters, GArray *blocks, int stage, int layer_in_stage, guint64 seed) {
  const StageLayers *layers = &parameters->workload->stages[stage].layers;
  const int layer = layers->first_layer + layer_in_stage;
  add_block(parameters, blocks, BLOCK_LAYER, stage, layer, seed);
  if (block_has_experts(parameters, &g_array_index(blocks, Block, blocks->len - 1)))
    add_block(parameters, blocks, BLOCK_EXPERTS, stage, layer, seed);
}

/* The copy of the word table that they need where no rank's embedding is theirs. */
static gboolean has_table_copy(const Workload *workload) {
  return workload->plan->mtp_layers > 0 && !workload->model->tied && workload->tied_parameters > 0;
}

static void add_further_heads(const Parameters *parameters, GArray *blocks, int stage, guint64 seed) {
  const Workload *workload = parameters->workload;
  const StageLayers *layers = &workload->stages[stage].layers;
  if (has_table_copy(workload))
    add_block(parameters, blocks, BLOCK_TABLE, stage, -1, seed);
  for (int k = 1; k <= workload->plan->mtp_layers; k++) {
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

/* --- memory and numbers ---------------------------------------------------------------------------------------------
 */

static gboolean allocate(const Parameters *parameters, gint64 bytes, gpointer target, GError **error) {
  void **memory = target;
  if (bytes == 0)
    return TRUE;
  *memory = parameters->device->type->allocate(parameters->device, bytes, error);
  return *memory != NULL;
}

static gboolean allocate_block(const Parameters *parameters, Block *block, GError **error) {
  const gint64 weights = block->zero == 3 ? block->shard_n : block->n;
  const gint64 gradients = block->zero >= 2 ? block->shard_n : block->n;
  const gint64 state = 4 * block->shard_n;
  return allocate(parameters, weights * kernel_element_bytes(parameters->number), &block->weight, error) &&
         allocate(parameters, gradients * kernel_element_bytes(parameters->gradient_number), &block->gradient, error) &&
         allocate(parameters, parameters->workload->plan->recipe.master > 0 ? state : 0, &block->master, error) &&
         allocate(parameters, state, &block->m, error) && allocate(parameters, state, &block->v, error);
}

static void launch_convert(DeviceStream *stream, const float *from, Number number, void *to, gint64 n) {
  Kernel kernel = {
      .kind = KERNEL_CONVERT,
      .convert = {.from_number = NUMBER_FP32, .to_number = (guint8)number, .n = n, .from = from, .to = to}};
  stream->device->type->launch(stream, &kernel);
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
  const gboolean is_sharded = block->zero == 3;
  launch_convert(stream, scratch + (is_sharded ? block->shard_first : 0), parameters->number, block->weight,
                 is_sharded ? block->shard_n : block->n);
  if (block->master != NULL)
    launch_convert(stream, scratch + block->shard_first, NUMBER_FP32, block->master, block->shard_n);
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
  if (filled == NULL || !allocate(parameters, 4 * most, &scratch, error))
    return FALSE;
  for (int i = 0; i < parameters->n_blocks; i++)
    if (parameters->blocks[i].n > 0)
      fill_block(parameters, &parameters->blocks[i], scratch, stream);
  device->type->record(stream, filled);
  gboolean done = FALSE;
  while (!done && device->type->check(device, error))
    done = device->type->sleep_until(filled, G_USEC_PER_SEC * G_GINT64_CONSTANT(1000));
  device->type->release(device, scratch);
  device->type->event_free(filled);
  return done;
}

static void place_experts(Parameters *parameters, int rank) {
  const Layout *layout = &parameters->workload->layout;
  parameters->n_expert_shards = parameters->workload->plan->zero > 0 ? layout->n_expert_shards : 1;
  parameters->expert_shard =
      parameters->n_expert_shards > 1 ? layout_group_place(layout, AXIS_BIT_EXPERT_SHARD, rank) : 0;
  parameters->first_expert = layout_group_place(layout, AXIS_BIT(AXIS_EP), rank) * parameters->cut.n_experts;
}

Parameters *parameters_new(const Workload *workload, const gboolean *is_local, int rank, guint64 seed,
                           DeviceStream *stream, GError **error) {
  const Plan *plan = workload->plan;
  g_autoptr(Parameters) parameters = g_new0(Parameters, 1);
  parameters->workload = workload;
  parameters->device = stream->device;
  parameters->cut = cut_of(workload->model, plan);
  parameters->at = layout_coordinates(&workload->layout, rank);
  parameters->n_shards = plan->zero > 0 ? workload->layout.n_shards : 1;
  parameters->shard =
      layout_group_place(&workload->layout, AXIS_BIT(AXIS_CP) | AXIS_BIT_DP_SHARD, rank) % parameters->n_shards;
  place_experts(parameters, rank);
  parameters->zero = MAX(parameters->n_shards, parameters->n_expert_shards) > 1 ? plan->zero : 0;
  parameters->number = precision_info(plan->precision)->element;
  parameters->gradient_number = plan->recipe.gradients == 4 ? NUMBER_FP32 : parameters->number;
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
    void *const memory[] = {block->weight, block->gradient, block->master, block->m, block->v};
    for (gsize k = 0; k < G_N_ELEMENTS(memory); k++)
      device->release(parameters->device, memory[k]);
    for (int t = 0; t < block->n_tensors; t++)
      g_free(block->tensors[t].name);
    g_free(block->tensors);
  }
  g_free(parameters->blocks);
  g_free(parameters->first_of_stage);
  g_free(parameters);
}

/* --- finding --------------------------------------------------------------------------------------------------------
 */

/* The stage of this rank that begins a pipe; −1: none does. */
static int first_stage(const Parameters *parameters) {
  for (int stage = 0; stage < parameters->workload->n_stages; stage++)
    if (parameters->first_of_stage[stage] >= 0 && parameters->workload->stages[stage].layers.has_embedding)
      return stage;
  return -1;
}

/* Where heads that predict further find the word table: the model's, a copy, or one that is both. */
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
  const gboolean of_layer = kind == BLOCK_LAYER || kind == BLOCK_EXPERTS || kind == BLOCK_MTP;
  const int layer = of_layer ? workload->stages[stage].layers.first_layer + layer_in_stage : -1;
  for (int i = first; i >= 0 && i < parameters->n_blocks && parameters->blocks[i].stage == stage; i++)
    if (parameters->blocks[i].kind == kind && parameters->blocks[i].layer == layer)
      return &parameters->blocks[i];
  return NULL;
}

static void add_moved(const Parameters *parameters, GPtrArray *blocks, int stage, BlockKind kind, int layer) {
  Block *block = parameters_block(parameters, stage, kind, layer);
  if (block != NULL && block->n > 0)
    g_ptr_array_add(blocks, block);
}

/* The layer of the k-th head that predicts further. */
static int further_layer(const Parameters *parameters, const Op *op, int k) {
  return parameters->workload->stages[op->stage].layers.n_layers + 2 * k - 1;
}

static void add_others(const Parameters *parameters, const Op *op, const Transfer *transfer, GPtrArray *blocks) {
  /* of two that share one matrix, the one moved is found as either */
  gboolean with_table = transfer->n_embedding > 0 && transfer->n_tables > 0;
  gboolean with_output = transfer->n_head > 0 && transfer->n_tables > (with_table ? 1 : 0);
  if (with_table)
    add_moved(parameters, blocks, op->stage, BLOCK_TABLE, -1);
  if (transfer->n_embedding > 0)
    add_moved(parameters, blocks, op->stage, BLOCK_POSITIONS, -1);
  for (int i = 0; i < transfer->n_layers; i++)
    add_moved(parameters, blocks, op->stage, BLOCK_LAYER, op->unit + i);
  if (transfer->n_head > 0)
    add_moved(parameters, blocks, op->stage, BLOCK_FINAL_NORM, -1);
  if (with_output)
    add_moved(parameters, blocks, op->stage, BLOCK_OUTPUT, -1);
  if (transfer->n_head > 0 && has_table_copy(parameters->workload))
    add_moved(parameters, blocks, op->stage, BLOCK_TABLE, -1);
  for (int k = 1; k <= parameters->workload->plan->mtp_layers && transfer->n_head > 0; k++) {
    add_moved(parameters, blocks, op->stage, BLOCK_LAYER, further_layer(parameters, op, k));
    add_moved(parameters, blocks, op->stage, BLOCK_MTP, further_layer(parameters, op, k));
  }
}

static void add_experts(const Parameters *parameters, const Op *op, const Transfer *transfer, GPtrArray *blocks) {
  for (int i = 0; i < transfer->n_layers; i++)
    add_moved(parameters, blocks, op->stage, BLOCK_EXPERTS, op->unit + i);
  for (int k = 1; k <= parameters->workload->plan->mtp_layers && transfer->n_head > 0; k++)
    add_moved(parameters, blocks, op->stage, BLOCK_EXPERTS, further_layer(parameters, op, k));
}

void parameters_moved(const Parameters *parameters, const Op *op, const Transfer *transfer, GPtrArray *blocks) {
  (transfer->of_experts ? add_experts : add_others)(parameters, op, transfer, blocks);
}

void parameters_bucket(const Parameters *parameters, const Op *op, const Transfer *transfer, GPtrArray *blocks) {
  add_others(parameters, op, transfer, blocks);
  add_experts(parameters, op, transfer, blocks);
  for (guint i = blocks->len; i-- > 0;)
    if (((const Block *)g_ptr_array_index(blocks, i))->zero < 2)
      g_ptr_array_remove_index(blocks, i);
}

Block *parameters_shared_table(const Parameters *parameters) {
  const gboolean is_shared = shares_table(parameters->workload) || workload_heads_read_embedding(parameters->workload);
  const int stage = is_shared ? first_stage(parameters) : -1;
  return stage >= 0 ? parameters_block(parameters, stage, BLOCK_TABLE, -1) : NULL;
}

/* Ranks of ep sum the norm together, though they may be ranks of dp; so do those of tp. */
static gboolean is_counted_elsewhere(const Parameters *parameters, const Block *block) {
  const Workload *workload = parameters->workload;
  const int *in_ep = workload->layout.in_ep, *at = parameters->at.at;
  if (block->n_shards > 1)
    return FALSE;
  if (block->kind == BLOCK_EXPERTS)
    return workload->layout.takes_tp && at[AXIS_TP] >= in_ep[AXIS_TP];
  return workload->plan->ep > 1 && (at[AXIS_CP] % in_ep[AXIS_CP] > 0 || at[AXIS_DP] % in_ep[AXIS_DP] > 0);
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
  const char *base = block->zero == 3 ? block->gathered : block->weight;
  g_assert(base != NULL);
  return base + block->offset_of[role] * kernel_element_bytes(parameters->number);
}

void *block_gradient(const Parameters *parameters, const Block *block, Role role) {
  if (block->offset_of[role] < 0)
    return NULL;
  char *base = block->zero >= 2 ? block->bucket : block->gradient;
  g_assert(base != NULL);
  return base + block->offset_of[role] * kernel_element_bytes(parameters->gradient_number);
}
