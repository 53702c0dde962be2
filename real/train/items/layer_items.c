/* The items of a layer outside attention, and the tp collectives around its linears.
 *
 *     x → norm1 → qkv … attention → attn_out → partial ─Σtp→ reduced → + x → x2
 *     x2 → norm2 → mlp_up → up → activation → mlp_down → partial ─Σtp→ reduced → + x2 → next x
 *
 * A branch may be followed by a norm, in place where its sum over tp is: reduced → post_norm → + x. If there are no
 * norms before the branches, norm1 is x and norm2 is x2.
 *
 * A parallel block has one residual for both branches; x is the input of its two norms, or of the one that both
 * branches read. The branches' biases are added once: attn_out's together with the branches' sum, by tp rank 0.
 *
 *     x → norm1 → qkv … attn_out → branch.partial ─┐
 *     x → norm2 → mlp_up … mlp_down → partial ─────┴ + ─Σtp→ reduced → + x → next x
 *
 * Under sequence parallelism the input of a column-parallel linear is gathered first (into `gathered`), and so is the
 * output gradient of a row-parallel one (into d_out, d_down). Backward runs the same way from the end; dy is the
 * gradient of the layer's output. */
#include "carve.h"
#include "item_parts.h"

/* As items are named. */
typedef enum { QKV, ATTN_OUT, MLP_UP, MLP_DOWN, LOGITS } LinearName;

static const struct {
  BlockKind block;
  Role weight, bias;  /* N_ROLES: none */
  gboolean is_column; /* its product adds the bias; otherwise the residual does */
} linears[] = {
    [QKV] = {BLOCK_LAYER, ROLE_Q, ROLE_Q_BIAS, TRUE},
    [ATTN_OUT] = {BLOCK_LAYER, ROLE_ATTN_OUT, ROLE_ATTN_OUT_BIAS, FALSE},
    [MLP_UP] = {BLOCK_LAYER, ROLE_GATE, ROLE_GATE_BIAS, TRUE},
    [MLP_DOWN] = {BLOCK_LAYER, ROLE_MLP_DOWN, ROLE_MLP_DOWN_BIAS, FALSE},
    [LOGITS] = {BLOCK_OUTPUT, ROLE_TABLE, ROLE_TABLE_BIAS, TRUE},
};

static gboolean is_split(const ItemCall *call) {
  return item_local_sizes(call)->sequence_parallel;
}

static gboolean is_parallel(const ItemCall *call) {
  return item_local_sizes(call)->model->parallel_block;
}

/* --- linears ------------------------------------------------------------------------------------------------------ */

/* The saved input, before it is gathered. */
static char *linear_input(const ItemCall *call, LinearName name) {
  switch (name) {
  case QKV:
    return item_saved(call).norm1;
  case ATTN_OUT:
    return item_saved(call).attention;
  case MLP_UP:
    return item_local_sizes(call)->shared_norm ? item_saved(call).norm1 : item_saved(call).norm2;
  case MLP_DOWN:
    return item_saved(call).activation;
  default:
    return activations_head(item_memory(call), call->slot, call->mtp).norm;
  }
}

static char *linear_output(const ItemCall *call, LinearName name) {
  switch (name) {
  case QKV:
    return item_saved(call).qkv;
  case MLP_UP:
    return item_saved(call).up;
  case LOGITS: /* read by the loss, in the same piece */
    return activations_head(item_memory(call), call->slot, call->mtp).logits;
  case ATTN_OUT:
    return is_parallel(call) ? item_memory(call)->branch.partial : item_memory(call)->partial;
  default:
    break;
  }
  char *kept = item_kept_down(call);
  return kept != NULL ? kept : item_memory(call)->partial;
}

/* The output gradient before it is gathered. */
static char *output_gradient(const ItemCall *call, LinearName name) {
  switch (name) {
  case QKV:
    return item_gradients(call).d_qkv;
  case ATTN_OUT:
    if (is_parallel(call))
      return item_branch_gradient(call);
    return carve_has_branch_gradients(item_local_sizes(call)) ? item_gradients(call).d_attention_branch
                                                              : item_gradients(call).d_x2;
  case MLP_UP:
    return item_gradients(call).d_up;
  case MLP_DOWN:
    return item_branch_gradient(call);
  default:
    return activations_head(item_memory(call), call->slot, call->mtp).d_logits;
  }
}

/* The output gradient of all tokens. */
static char *whole_output_gradient(const ItemCall *call, LinearName name) {
  if (!is_split(call) || linears[name].is_column)
    return output_gradient(call, name);
  return name == ATTN_OUT && !is_parallel(call) ? item_gradients(call).d_out : item_gradients(call).d_down;
}

static char *whole_input(const ItemCall *call, LinearName name) {
  return is_split(call) && linears[name].is_column ? item_memory(call)->gathered : linear_input(call, name);
}

static char *input_gradient(const ItemCall *call, LinearName name) {
  switch (name) {
  case ATTN_OUT:
    return item_memory(call)->d_attention;
  case MLP_DOWN:
    return item_memory(call)->d_activation;
  case MLP_UP:
    return is_parallel(call) ? item_memory(call)->branch.partial : item_memory(call)->partial;
  default:
    return item_memory(call)->partial;
  }
}

static void run_linear(const ItemCall *call) {
  const LinearName name = (LinearName)call->argument;
  const gboolean is_column = linears[name].is_column;
  const ModelFactors *factors = &item_local_sizes(call)->model->factors;
  Linear linear = {.block = linears[name].block,
                   .weight = linears[name].weight,
                   .factor = name == LOGITS ? factors->logits
                             : is_column    ? 0
                                            : factors->branches,
                   .input = whole_input(call, name)};
  if (item_reads_gradient(call))
    linear.output_gradient = whole_output_gradient(call, name);
  if (call->is_backward) {
    linear.input_gradient = input_gradient(call, name);
  } else {
    linear.output = linear_output(call, name);
    linear.bias = is_column ? item_weight(call, linears[name].block, linears[name].bias) : NULL;
  }
  if ((name == QKV || name == MLP_UP) && !call->is_backward && call->item->kind == ITEM_MATMUL)
    item_keeping_linear(call, name == QKV, &linear);
  else
    item_linear(call, &linear);
}

static LinearName linear_with(Adapted adapted) {
  return adapted < ADAPTED_O ? QKV : adapted == ADAPTED_O ? ATTN_OUT : adapted < ADAPTED_DOWN ? MLP_UP : MLP_DOWN;
}

AdaptedLinear item_adapted_linear(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  const Adapted adapted = (Adapted)call->argument;
  const LinearName name = linear_with(adapted);
  const gint64 h = local->model->hidden, q = local->q_width, kv = local->kv_width, f = local->ffn_width;
  const gint64 first[N_ADAPTED] = {0, q, q + kv, 0, 0, local->model->gated ? f : 0, 0},
               n[N_ADAPTED] = {q, kv, kv, h, f, f, h}, e = (gint64)local->element_bytes;
  return (AdaptedLinear){.input = whole_input(call, name),
                         .output_gradient =
                             call->is_backward ? whole_output_gradient(call, name) + first[adapted] * e : NULL,
                         .output = linear_output(call, name) + first[adapted] * e,
                         .input_gradient = input_gradient(call, name),
                         .k = adapted == ADAPTED_O      ? local->out_width
                              : adapted == ADAPTED_DOWN ? f
                                                        : h,
                         .n = n[adapted],
                         .ld = name == QKV      ? local_qkv_width(local)
                               : name == MLP_UP ? local->up_width
                                                : h};
}

/* The output gradient of this rank's tokens, or of all if nothing is gathered. */
static const char *stream_gradient(const ItemCall *call, LinearName name) {
  const LocalSizes *local = item_local_sizes(call);
  const gint64 first = is_split(call) ? call->trainer->parameters->at.at[AXIS_TP] * local->split_tokens : 0;
  return whole_output_gradient(call, name) + first * local->model->hidden * (gint64)local->element_bytes;
}

/* A column-parallel bias gets the gradients of all tokens, a row-parallel one those of this rank's stream. */
static void run_bias_gradient(const ItemCall *call) {
  const LinearName name = (LinearName)call->argument;
  const LocalSizes *local = item_local_sizes(call);
  const gint64 width = name == QKV      ? local->q_width + 2 * local->kv_width
                       : name == MLP_UP ? local->up_width
                       : name == LOGITS ? local->vocab_width
                                        : local->model->hidden;
  Kernel kernel = {
      .kind = KERNEL_BIAS_GRADIENT,
      .bias_gradient = {
          .number = (guint8)call->trainer->parameters->number,
          .gradient = (guint8)call->trainer->parameters->gradient_number,
          .rows = linears[name].is_column ? local->tokens : local->split_tokens,
          .width = width,
          .dy = linears[name].is_column ? output_gradient(call, name) : stream_gradient(call, name),
          .out = block_gradient(call->trainer->parameters, item_block(call, linears[name].block), linears[name].bias)}};
  item_launch(call, &kernel);
}

/* --- tp collectives ----------------------------------------------------------------------------------------------- */

static void gather_input(const ItemCall *call) {
  item_hidden_collective(call, linear_input(call, (LinearName)call->argument), item_memory(call)->gathered);
}

static void gather_output_gradient(const ItemCall *call) {
  const LinearName name = (LinearName)call->argument;
  item_hidden_collective(call, output_gradient(call, name), whole_output_gradient(call, name));
}

static void reduce_partial(const ItemCall *call) {
  item_hidden_collective(call, item_memory(call)->partial, item_memory(call)->reduced);
}

/* Reduces a branch's output. With a scatter, a kept product is kept after the reduction. */
static void reduce_output(const ItemCall *call) {
  const LinearName name = (LinearName)call->argument;
  const KeptProducts kept = item_kept_products(call);
  char *sum = name == ATTN_OUT ? kept.out : kept.down;
  item_hidden_collective(call, linear_output(call, name),
                         is_split(call) && sum != NULL ? sum : item_memory(call)->reduced);
}

static void reduce_mlp_input_gradient(const ItemCall *call) {
  if (is_parallel(call))
    item_hidden_collective(call, item_memory(call)->branch.partial, item_memory(call)->branch.reduced);
  else
    reduce_partial(call);
}

static void reduce_embedding(const ItemCall *call) {
  item_hidden_collective(call, item_memory(call)->partial, item_embedding_output(call));
}

static void gather_embedding_gradient(const ItemCall *call) {
  item_hidden_collective(call, item_embedding_gradient(call), item_embedding_gathered(call));
}

static void reduce_loss_terms(const ItemCall *call) {
  const SavedHead head = activations_head(item_memory(call), call->slot, call->mtp);
  const gboolean is_max = call->argument;
  float *terms = is_max ? head.row_max : call->occurrence == 0 ? head.row_sum : head.row_target;
  const CollectiveSpec spec = {.collective = COLLECTIVE_ALL_REDUCE,
                               .reduce = is_max ? REDUCE_MAX : REDUCE_SUM,
                               .number = NUMBER_FP32,
                               .in = terms,
                               .out = terms,
                               .n = item_local_sizes(call)->tokens};
  call->trainer->comm->type->collective(call->group, call->stream, &spec);
}

/* One or two sums per row of q and k. */
static void reduce_qk_sums(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  float *sums = item_memory(call)->qk_sums;
  item_collective(call, NUMBER_FP32, sums, sums, local_n_qk_sums(local) * local->tokens);
}

const ItemKernel tp_collectives[] = {
    {"qk_norm.sums", reduce_qk_sums, 0},
    {"qk_norm.sums.backward", reduce_qk_sums, 0},
    {"qkv", gather_input, QKV},
    {"qkv.wgrad", gather_input, QKV},
    {"qkv.dgrad", reduce_partial, 0},
    {"attn_out", reduce_output, ATTN_OUT},
    {"attn_out.dgrad", gather_output_gradient, ATTN_OUT},
    {"mlp_up", gather_input, MLP_UP},
    {"mlp_up.wgrad", gather_input, MLP_UP},
    {"mlp_up.dgrad", reduce_mlp_input_gradient, 0},
    {"mlp_down", reduce_output, MLP_DOWN},
    {"mlp_down.dgrad", gather_output_gradient, MLP_DOWN},
    {"branch_sum", reduce_partial, 0},
    {"shared_up", gather_input, MLP_UP},
    {"shared_up.wgrad", gather_input, MLP_UP},
    {"shared_up.dgrad", reduce_partial, 0},
    {"shared_down", reduce_partial, 0},
    {"shared_down.dgrad", gather_output_gradient, MLP_DOWN},
    {"logits", gather_input, LOGITS},
    {"logits.wgrad", gather_input, LOGITS},
    {"logits.dgrad", reduce_partial, 0},
    {"embedding", reduce_embedding, 0},
    {"embedding.wgrad", gather_embedding_gradient, 0},
    {"loss.max", reduce_loss_terms, TRUE},
    {"loss.exp", reduce_loss_terms, FALSE},
    {NULL, NULL, 0},
};

/* --- norms, activation, residuals --------------------------------------------------------------------------------- */

/* A layer's norm: 0 before attention, 1 before the MLP. */
static NormKernel layer_norm(const ItemCall *call, int which) {
  const SavedLayer layer = item_saved(call);
  NormKernel norm = item_norm(call, item_block(call, BLOCK_LAYER), which == 0 ? ROLE_NORM1 : ROLE_NORM2, NULL);
  norm.x = which == 0 || is_parallel(call) ? item_layer_input(call) : layer.x2;
  norm.y = which == 0 ? layer.norm1 : layer.norm2;
  norm.mean = which == 0 ? layer.mean1 : layer.mean2;
  norm.rstd = which == 0 ? layer.rstd1 : layer.rstd2;
  return norm;
}

/* When recomputed on their own (layernorm among the modules), the MLP's norm comes first, as in backward. */
static void run_norm(const ItemCall *call) {
  const Activations *activations = item_memory(call);
  const gboolean is_whole =
      activations->every_other ||
      !activations_saves_all(activations, &call->trainer->workload->stages[call->stage].layers, call->layer);
  const gboolean is_reversed = call->item->recompute && !is_whole;
  Kernel kernel = {.kind = KERNEL_NORM_FORWARD,
                   .norm = layer_norm(call, is_reversed ? 1 - call->occurrence : call->occurrence)};
  item_launch(call, &kernel);
}

/* The gradient of a norm's output, summed over tp. */
static const char *norm_output_gradient(const ItemCall *call, int which) {
  const Activations *activations = item_memory(call);
  if (!is_parallel(call) || which == 0)
    return item_reduced(call);
  return activations->local->tp > 1 ? activations->branch.reduced : activations->branch.partial;
}

/* Backward runs the MLP's norm first. */
static void run_norm_backward(const ItemCall *call) {
  const int which = (int)item_local_sizes(call)->n_norms - 1 - call->occurrence;
  Kernel kernel = {.kind = KERNEL_NORM_BACKWARD, .norm = layer_norm(call, which)};
  kernel.norm.dy = norm_output_gradient(call, which);
  kernel.norm.dx = item_memory(call)->d_norm;
  item_launch(call, &kernel);
}

/* In place; the branch's output is kept separately. */
static void run_post_norm(const ItemCall *call) {
  const Role weight = call->occurrence == 0 ? ROLE_POST_NORM1 : ROLE_POST_NORM2;
  const SavedNorm kept = item_saved(call).post_norms[call->occurrence];
  Kernel kernel = {.kind = KERNEL_NORM_FORWARD, .norm = item_norm(call, item_block(call, BLOCK_LAYER), weight, &kept)};
  kernel.norm.y = (char *)item_reduced(call);
  kernel.norm.x = kernel.norm.y;
  item_launch(call, &kernel);
}

/* Backward runs the MLP's first. It reads the output's gradient, after dropout's backward if there is dropout. */
static void run_post_norm_backward(const ItemCall *call) {
  const gboolean of_attention = call->occurrence == 1;
  const Role weight = of_attention ? ROLE_POST_NORM1 : ROLE_POST_NORM2;
  const SavedNorm kept = item_saved(call).post_norms[1 - call->occurrence];
  const LayerGradients d = item_gradients(call);
  const char *of_sum = of_attention ? d.d_x2 : item_output_gradient(call);
  Kernel kernel = {.kind = KERNEL_NORM_BACKWARD, .norm = item_norm(call, item_block(call, BLOCK_LAYER), weight, &kept)};
  kernel.norm.dx = of_attention ? d.d_attention_branch : d.d_mlp_branch;
  kernel.norm.dy = item_local_sizes(call)->model->dropout_rate.hidden > 0 ? kernel.norm.dx : of_sum;
  item_launch(call, &kernel);
}

/* Sums both branches before the reduction over tp: their outputs, or their gradients of the norm that both read. */
static void run_branch_sum(const ItemCall *call) {
  const gboolean adds_bias = !call->is_backward && call->trainer->parameters->at.at[AXIS_TP] == 0;
  item_add_rows(call, item_local_sizes(call)->tokens, item_memory(call)->partial, item_memory(call)->branch.partial,
                adds_bias ? item_weight(call, BLOCK_LAYER, ROLE_ATTN_OUT_BIAS) : NULL, item_memory(call)->partial);
}

/* Where the layer's output goes: the slot of what follows in this stage, or the output given to the op. */
static char *layer_output(const ItemCall *call) {
  const StageLayers *layers = &call->trainer->workload->stages[call->stage].layers;
  const gboolean is_inside =
      (call->layer + 1) % activations_group(item_local_sizes(call)) != 0 && call->layer + 1 < layers->n_layers;
  if (call->item->recompute && !is_inside)
    return item_memory(call)->scratch_y;
  if (call->layer + 1 < layers->n_layers || layers->has_head)
    return activations_input(item_memory(call), call->slot, call->layer + 1);
  return call->output;
}

static const char *branch_output(const ItemCall *call, gboolean of_attention) {
  const KeptProducts kept = item_kept_products(call);
  const char *output = of_attention ? kept.out : kept.down;
  return output != NULL && (is_split(call) || item_local_sizes(call)->tp == 1) ? output : item_reduced(call);
}

static void run_residual(const ItemCall *call) {
  const gboolean of_attention = call->occurrence == 0 && !is_parallel(call);
  const void *bias = item_weight(call, BLOCK_LAYER, of_attention ? ROLE_ATTN_OUT_BIAS : ROLE_MLP_DOWN_BIAS);
  const char *way_round = of_attention || is_parallel(call) ? item_layer_input(call) : item_saved(call).x2;
  char *out = of_attention ? item_saved(call).x2 : layer_output(call);
  if (item_local_sizes(call)->model->dropout_rate.hidden > 0)
    item_drop_add(call, of_attention ? DROP_ATTENTION : DROP_MLP, way_round, branch_output(call, of_attention), bias,
                  out);
  else
    item_add_rows(call, item_local_sizes(call)->split_tokens, way_round, branch_output(call, of_attention), bias, out);
}

/* Where the gradient of the layer's input goes: the stage's stream, or the place given to the op. */
static char *layer_input_gradient(const ItemCall *call) {
  const gboolean leaves_stage = call->layer == 0 && call->gradient_out != NULL;
  return leaves_stage ? call->gradient_out : activations_stream_gradient(item_memory(call), call->slot, call->layer);
}

static void run_residual_gradient(const ItemCall *call) {
  char *first = is_parallel(call) ? item_memory(call)->branch.gradient : item_gradients(call).d_x2;
  const LocalSizes *local = item_local_sizes(call);
  const gboolean is_last = call->occurrence + 1 == local->n_inputs;
  item_add(call, local->n_norms > 0 ? item_memory(call)->d_norm : item_reduced(call),
           call->occurrence == 0 ? item_output_gradient(call) : first, is_last ? layer_input_gradient(call) : first);
}

static gboolean has_experts(const ItemCall *call) {
  const StageLayers *layers = &call->trainer->workload->stages[call->stage].layers;
  return item_local_sizes(call)->n_experts > 0 && call->layer >= layers->n_dense;
}

static void run_activation(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  if (has_experts(call)) {
    item_expert_activation(call);
    return;
  }
  const gboolean is_backward = call->argument;
  Kernel kernel = {.kind = is_backward ? KERNEL_ACTIVATION_BACKWARD : KERNEL_ACTIVATION_FORWARD,
                   .activation = {.number = (guint8)call->trainer->parameters->number,
                                  .gated = local->model->gated != 0,
                                  .rows = local->tokens,
                                  .width = local->ffn_width,
                                  .x = item_saved(call).up,
                                  .y = item_saved(call).activation}};
  if (is_backward) {
    kernel.activation.dy = item_memory(call)->d_activation;
    kernel.activation.dx = item_gradients(call).d_up;
  }
  item_launch(call, &kernel);
}

const ItemKernel layer_kernels[] = {
    {"norm", run_norm, 0},
    {"norm.backward", run_norm_backward, 0},
    {"post_norm", run_post_norm, 0},
    {"post_norm.backward", run_post_norm_backward, 0},
    {"branch_sum", run_branch_sum, 0},
    {"residual", run_residual, 0},
    {"residual.grad", run_residual_gradient, 0},
    {"gelu", run_activation, FALSE},
    {"gelu.backward", run_activation, TRUE},
    {"silu_mul", run_activation, FALSE},
    {"silu_mul.backward", run_activation, TRUE},
    LINEAR_KERNELS("qkv", run_linear, QKV),
    LINEAR_KERNELS("attn_out", run_linear, ATTN_OUT),
    LINEAR_KERNELS("mlp_up", run_linear, MLP_UP),
    LINEAR_KERNELS("mlp_down", run_linear, MLP_DOWN),
    {"shared_up", run_linear, MLP_UP}, /* in MoE layers the shared expert takes the MLP's place */
    {"shared_up.cast", run_linear, MLP_UP},
    {"shared_up.grad_cast", run_linear, MLP_UP},
    LINEAR_KERNELS("shared_down", run_linear, MLP_DOWN),
    {"logits", run_linear, LOGITS},
    {"logits.dgrad", run_linear, LOGITS},
    {"logits.wgrad", run_linear, LOGITS},
    {"qkv.bias_grad", run_bias_gradient, QKV},
    {"attn_out.bias_grad", run_bias_gradient, ATTN_OUT},
    {"mlp_up.bias_grad", run_bias_gradient, MLP_UP},
    {"mlp_down.bias_grad", run_bias_gradient, MLP_DOWN},
    {"logits.bias_grad", run_bias_gradient, LOGITS},
    {NULL, NULL, 0},
};
