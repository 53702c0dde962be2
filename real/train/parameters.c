/* Layout first (which tensors, where), then memory, then numbers: each tensor is filled from its seed into a scratch
 * vector of fp32, from which the weights are rounded and this rank's shard of the master copy is taken. So a weight is
 * the same whichever rank makes it. */
#include "parameters.h"

#include "error.h"
#include "kernel.h"

#include <math.h>
#include <string.h>

enum { ALIGN = 8 }; /* elements: 16 bytes of the narrowest format */

static const float weight_deviation = 0.02f; /* GPT-2's initializer_range; 1/√(2·layers) of it where layers add up */

/* --- what can be trained --------------------------------------------------------------------------------------------
 */

typedef struct {
  gboolean is_missing;
  const char *what;
} Missing;

static gboolean check_model(const Workload *workload, GError **error) {
  const Model *model = workload->model;
  const Missing missing[] = {
      {model_has_experts(model), "experts (stepsim simulate predicts them)"},
      {workload->plan->expert_load > 1, "experts that get more than others (stepsim simulate predicts them)"},
      {model->latent.kv_rank > 0, "latent attention (stepsim simulate predicts it)"},
      {workload->plan->mtp_layers > 0, "heads that predict a token further (stepsim simulate predicts them)"},
      {model->parallel_block, "attention and MLP side by side"},
      {model->dropout, "dropout (set the config's dropout rates to 0)"},
      {model->positions == POSITIONS_ALIBI, "ALiBi positions"},
      {model->window > 0, "sliding-window attention"},
      {model->other_layer_parameters > 0 || model->other_embedding_parameters > 0, "its extra norms"},
      {model->n_kv_heads < workload->plan->tp, "fewer key heads than tp ranks"},
      {model->head_dim % 2 != 0, "an odd head size"},
      {model->n_norms_per_layer != 2, "other than two norms per layer"},
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
  if (plan->cp > 1)
    return fail_impossible(error, "cp %d: sequences cannot be cut here, expected 1 (stepsim simulate predicts it)",
                           plan->cp);
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
  return check_model(workload, error) && check_plan(workload, error) && check_placement(workload, error);
}

/* --- layout ---------------------------------------------------------------------------------------------------------
 */

typedef struct {
  const Parameters *parameters;
  Block *block;
  GArray *tensors; /* of Tensor */
  const char *prefix;
  guint64 seed;
} Layouter;

static gint64 round_up(gint64 n, gint64 multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/* `cut_rows`, `cut_columns`: tp cuts that dimension. */
static void add_tensor(Layouter *layouter, Role role, const char *name, gint64 rows, gint64 columns, gboolean cut_rows,
                       gboolean cut_columns, float deviation) {
  const int tp = layouter->parameters->at.at[AXIS_TP], n_tp = (int)layouter->parameters->cut.tp;
  gint64 end = 0;
  if (layouter->tensors->len > 0) {
    const Tensor *last = &g_array_index(layouter->tensors, Tensor, layouter->tensors->len - 1);
    end = last->offset + last->rows * last->columns;
  }
  /* parts of one product's matrix follow each other without a gap */
  gboolean follows = role == ROLE_K || role == ROLE_V || role == ROLE_UP || role == ROLE_K_BIAS ||
                     role == ROLE_V_BIAS || role == ROLE_UP_BIAS;
  Tensor tensor = {
      .name = g_strdup_printf("%s%s", layouter->prefix, name),
      .role = (guint8)role,
      .is_whole = !cut_rows && !cut_columns,
      .offset = follows ? end : round_up(end, ALIGN),
      .rows = cut_rows ? rows / n_tp : rows,
      .columns = cut_columns ? columns / n_tp : columns,
      .whole_rows = rows,
      .whole_columns = columns,
      .mean = role <= ROLE_NORM2 && role != ROLE_NORM1_SHIFT ? 1.0f : 0.0f,
      .deviation = deviation,
      .seed = layouter->seed + (guint64)role * 0x9E3779B9u,
  };
  tensor.first_row = cut_rows ? tp * tensor.rows : 0;
  tensor.first_column = cut_columns ? tp * tensor.columns : 0;
  layouter->block->offset_of[role] = tensor.offset;
  if (role <= ROLE_NORM2_SHIFT)
    layouter->block->n_norms = tensor.offset + tensor.columns;
  if (tensor.is_whole)
    layouter->block->n_whole = tensor.offset + tensor.rows * tensor.columns;
  g_array_append_val(layouter->tensors, tensor);
}

static void add_vector(Layouter *layouter, Role role, const char *name, gint64 n, gboolean is_cut) {
  add_tensor(layouter, role, name, 1, n, FALSE, is_cut, weight_deviation);
}

static void add_norm(Layouter *layouter, Role role, const char *name) {
  const Model *model = layouter->parameters->workload->model;
  g_autofree char *weight = g_strdup_printf("%s.weight", name), *shift = g_strdup_printf("%s.bias", name);
  add_vector(layouter, role, weight, model->hidden, FALSE);
  if (model->norm == NORM_LAYERNORM && !model->bare_norms)
    add_vector(layouter, role + 1, shift, model->hidden, FALSE);
}

static void lay_out_layer(Layouter *layouter) {
  const Model *model = layouter->parameters->workload->model;
  const gint64 h = model->hidden, q = model->n_heads * model->head_dim, kv = model->n_kv_heads * model->head_dim;
  const gint64 f = model->ffn_hidden;
  const float narrow = weight_deviation / sqrtf(2.0f * model->n_layers);
  add_norm(layouter, ROLE_NORM1, "attn_norm");
  add_norm(layouter, ROLE_NORM2, "mlp_norm");
  if (model->linear_bias) {
    add_vector(layouter, ROLE_ATTN_OUT_BIAS, "attn_out.bias", h, FALSE);
    add_vector(layouter, ROLE_MLP_DOWN_BIAS, "mlp_down.bias", h, FALSE);
  }
  add_tensor(layouter, ROLE_Q, "q.weight", q, h, TRUE, FALSE, weight_deviation);
  add_tensor(layouter, ROLE_K, "k.weight", kv, h, TRUE, FALSE, weight_deviation);
  add_tensor(layouter, ROLE_V, "v.weight", kv, h, TRUE, FALSE, weight_deviation);
  if (model->qkv_bias) {
    add_vector(layouter, ROLE_Q_BIAS, "q.bias", q, TRUE);
    add_vector(layouter, ROLE_K_BIAS, "k.bias", kv, TRUE);
    add_vector(layouter, ROLE_V_BIAS, "v.bias", kv, TRUE);
  }
  add_tensor(layouter, ROLE_ATTN_OUT, "attn_out.weight", h, q, FALSE, TRUE, narrow);
  add_tensor(layouter, ROLE_GATE, model->gated ? "gate.weight" : "mlp_up.weight", f, h, TRUE, FALSE, weight_deviation);
  if (model->gated)
    add_tensor(layouter, ROLE_UP, "mlp_up.weight", f, h, TRUE, FALSE, weight_deviation);
  if (model->linear_bias) {
    add_vector(layouter, ROLE_GATE_BIAS, model->gated ? "gate.bias" : "mlp_up.bias", f, TRUE);
    if (model->gated)
      add_vector(layouter, ROLE_UP_BIAS, "mlp_up.bias", f, TRUE);
  }
  add_tensor(layouter, ROLE_MLP_DOWN, "mlp_down.weight", h, f, FALSE, TRUE, narrow);
}

static void lay_out_table(Layouter *layouter) {
  const Parameters *parameters = layouter->parameters;
  const Model *model = parameters->workload->model;
  const gint64 padded = parameters->cut.vocab_width * parameters->cut.tp;
  add_tensor(layouter, ROLE_TABLE, "weight", padded, model->hidden, TRUE, FALSE, weight_deviation);
  g_array_index(layouter->tensors, Tensor, 0).whole_rows = model->vocab; /* what is behind them is padding */
}

static void lay_out_positions(Layouter *layouter) {
  const Model *model = layouter->parameters->workload->model;
  if (model->positions == POSITIONS_LEARNED)
    add_tensor(layouter, ROLE_POSITIONS, "weight", model->max_positions, model->hidden, FALSE, FALSE, weight_deviation);
}

static void lay_out_final_norm(Layouter *layouter) {
  add_norm(layouter, ROLE_NORM1, "norm");
}

static void (*const lay_out[])(Layouter *layouter) = {
    [BLOCK_TABLE] = lay_out_table,           [BLOCK_POSITIONS] = lay_out_positions, [BLOCK_LAYER] = lay_out_layer,
    [BLOCK_FINAL_NORM] = lay_out_final_norm, [BLOCK_OUTPUT] = lay_out_table,
};

static char *block_prefix(const Workload *workload, BlockKind kind, int layer) {
  switch (kind) {
  case BLOCK_TABLE:
    return g_strdup("embedding.");
  case BLOCK_POSITIONS:
    return g_strdup("positions.");
  case BLOCK_LAYER:
    return g_strdup_printf("layers.%d.", layer);
  case BLOCK_FINAL_NORM:
    return g_strdup("final_");
  default:
    return g_strdup(workload->model->tied ? "embedding." : "head.");
  }
}

/* Tied matrices start equal, so that they stay equal. */
static guint64 block_seed(const Workload *workload, guint64 seed, BlockKind kind, int layer) {
  guint64 which = kind == BLOCK_LAYER                             ? (guint64)layer + 16
                  : kind == BLOCK_OUTPUT && workload->model->tied ? BLOCK_TABLE
                                                                  : (guint64)kind;
  return seed * G_GUINT64_CONSTANT(0xD1342543DE82EF95) + (which << 40);
}

static void add_block(const Parameters *parameters, GArray *blocks, BlockKind kind, int stage, int layer,
                      guint64 seed) {
  const Workload *workload = parameters->workload;
  Block block = {.kind = kind, .stage = stage, .layer = layer};
  for (int role = 0; role < N_ROLES; role++)
    block.offset_of[role] = -1;
  g_autofree char *prefix = block_prefix(workload, kind, layer);
  Layouter layouter = {parameters, &block, g_array_new(FALSE, FALSE, sizeof(Tensor)), prefix,
                       block_seed(workload, seed, kind, layer)};
  lay_out[kind](&layouter);
  block.n_tensors = (int)layouter.tensors->len;
  if (block.n_tensors > 0) {
    const Tensor *last = &g_array_index(layouter.tensors, Tensor, block.n_tensors - 1);
    block.n = round_up(last->offset + last->rows * last->columns, (gint64)ALIGN * parameters->n_shards);
  }
  block.shard_n = block.n / parameters->n_shards;
  block.shard_first = parameters->shard * block.shard_n;
  block.tensors = (Tensor *)(void *)g_array_free(layouter.tensors, FALSE);
  g_array_append_val(blocks, block);
}

/* Embedding and head on one rank share a tied matrix: it lies with the embedding. */
static gboolean shares_table(const Workload *workload) {
  return workload->shared_parameters > 0;
}

static void add_stage(Parameters *parameters, GArray *blocks, int stage, guint64 seed) {
  const StageLayers *layers = &parameters->workload->stages[stage].layers;
  parameters->first_of_stage[stage] = (int)blocks->len;
  if (layers->has_embedding) {
    add_block(parameters, blocks, BLOCK_TABLE, stage, -1, seed);
    add_block(parameters, blocks, BLOCK_POSITIONS, stage, -1, seed);
  }
  for (int i = 0; i < layers->n_layers; i++)
    add_block(parameters, blocks, BLOCK_LAYER, stage, layers->first_layer + i, seed);
  if (layers->has_head) {
    add_block(parameters, blocks, BLOCK_FINAL_NORM, stage, -1, seed);
    if (!shares_table(parameters->workload))
      add_block(parameters, blocks, BLOCK_OUTPUT, stage, -1, seed);
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
  const gint64 weights = parameters->zero == 3 ? block->shard_n : block->n;
  const gint64 gradients = parameters->zero >= 2 ? block->shard_n : block->n;
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
  const gboolean is_sharded = parameters->zero == 3;
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

Parameters *parameters_new(const Workload *workload, const gboolean *is_local, int rank, guint64 seed,
                           DeviceStream *stream, GError **error) {
  const Plan *plan = workload->plan;
  g_autoptr(Parameters) parameters = g_new0(Parameters, 1);
  parameters->workload = workload;
  parameters->device = stream->device;
  parameters->cut = cut_of(workload->model, plan);
  parameters->at = layout_coordinates(&workload->layout, rank);
  parameters->n_shards = plan->zero > 0 ? workload->layout.dp_shard : 1;
  parameters->shard = parameters->at.at[AXIS_DP] % parameters->n_shards;
  parameters->zero = parameters->n_shards > 1 ? plan->zero : 0;
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

Block *parameters_block(const Parameters *parameters, int stage, BlockKind kind, int layer_in_stage) {
  const Workload *workload = parameters->workload;
  if (kind == BLOCK_OUTPUT && shares_table(workload) && workload->stages[stage].layers.has_head) {
    kind = BLOCK_TABLE;
    stage = first_stage(parameters);
    g_assert(stage >= 0);
  }
  const int first = parameters->first_of_stage[stage];
  const int layer = kind == BLOCK_LAYER ? workload->stages[stage].layers.first_layer + layer_in_stage : -1;
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

void parameters_moved(const Parameters *parameters, const Op *op, const Transfer *transfer, GPtrArray *blocks) {
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
}

Block *parameters_shared_table(const Parameters *parameters) {
  const int stage = shares_table(parameters->workload) ? first_stage(parameters) : -1;
  return stage >= 0 ? parameters_block(parameters, stage, BLOCK_TABLE, -1) : NULL;
}

gboolean parameters_is_copy(const Parameters *parameters, const Block *block) {
  const Workload *workload = parameters->workload;
  return (block->kind == BLOCK_OUTPUT && workload->model->tied) ||
         block->stage >= workload->n_stages / workload->placement->n_pipes;
}

const void *block_weight(const Parameters *parameters, const Block *block, Role role) {
  if (block->offset_of[role] < 0)
    return NULL;
  const char *base = parameters->zero == 3 ? block->gathered : block->weight;
  g_assert(base != NULL);
  return base + block->offset_of[role] * kernel_element_bytes(parameters->number);
}

void *block_gradient(const Parameters *parameters, const Block *block, Role role) {
  if (block->offset_of[role] < 0)
    return NULL;
  char *base = parameters->zero >= 2 ? block->bucket : block->gradient;
  g_assert(base != NULL);
  return base + block->offset_of[role] * kernel_element_bytes(parameters->gradient_number);
}
