/* FLOPs of the model itself, whatever the plan does: the products of one forward pass, times three for backward. Per
 * token of a sequence of s tokens:
 *
 *     linears     2·(h·(q + 2·kv) + q·h + h·f·(2, gated 3))      each layer
 *     attention   4·q·s in full;  4·q·(s + 1)/2 causal           each layer; with a window the pairs it leaves
 *     logits      2·h·V                                          once, V not padded
 *
 * Latent attention has its own products in place of h·(q + 2·kv), and 2·(d + v) in place of 4·d for each pair of
 * query and key. In place of its MLP a layer with experts has a router, the experts that a token goes to, and the
 * shared expert.
 *
 * Each head that predicts a further token adds a layer of the last kind, logits, and 2·h·2h for its input.
 *
 * Of frozen weights there is no weight gradient, and before the first layer that is trained no input gradient: LoRA
 * counts two of the three passes of the model's products, attention's in full, and three of its adapters'. So the MFU
 * of fine-tuning compares with that of training.
 *
 * For GPT (f = 4h, q = kv = h) with attention in full, three passes give Megatron's 72·B·s·l·h²·(1 + s/(6h) +
 * V/(12·l·h)); its 96·…(1 + s/(6h) + V/(16·l·h)) is that plus the layers' forward again. By `6n` every parameter that
 * a token meets costs 2 FLOPs per token and pass, and attention nothing. */
#include "pieces.h"
#include "trained_parameters.h"

static const double passes = 3; /* forward, input gradient, weight gradient */

double workload_tokens(const Workload *workload) {
  return workload->batch != NULL ? (double)workload->batch->tokens
                                 : (double)workload->method->global_batch * workload->method->seq_len;
}

/* Pairs of query and key, in full or those that the masks leave, of so many tokens. Padding counts for nothing. */
static double pairs_of(const Workload *workload, gboolean in_full, double *tokens) {
  const Batch *batch = workload->batch;
  const double s = (double)workload->method->seq_len;
  double pairs = 0;
  if (batch == NULL) {
    *tokens = in_full ? 1 : s;
    return in_full ? s : attention_layer_pairs(workload->model, workload->method->seq_len);
  }
  for (guint i = 0; i < batch->lengths->len; i++) {
    const gint64 length = g_array_index(batch->lengths, gint64, i);
    pairs += in_full ? (double)length * (double)length : attention_layer_pairs(workload->model, length);
  }
  *tokens = (double)batch->tokens;
  return pairs;
}

/* From the layer's input to Q, K and V. */
static double input_products(const Model *model) {
  const double h = model->hidden, q = model->n_heads * model->head_dim, kv = model->n_kv_heads * model->head_dim;
  const ModelLatent *latent = &model->latent;
  if (latent->kv_rank == 0)
    return h * (q + 2 * kv);
  const double r = latent->q_rank, c = latent->kv_rank;
  const double made = (double)model->n_heads * (model->head_dim - latent->rope_dim + latent->v_head_dim);
  return (r > 0 ? h * r + r * q : h * q) + h * (c + latent->rope_dim) + c * made;
}

static double out_width(const Model *model) {
  return (double)model->n_heads * model_v_head_dim(model);
}

/* The MLP, or what replaces it. */
static double mlp_products(const Model *model, gboolean has_experts) {
  const double h = model->hidden, n_matrices = model->gated ? 3 : 2;
  const ModelExperts *experts = &model->experts;
  if (!has_experts)
    return h * model->ffn_hidden * n_matrices;
  const double widths = (double)experts->per_token * experts->ffn_hidden + experts->shared_ffn_hidden;
  return h * experts->n + h * widths * n_matrices;
}

/* Of so many layers without experts, and with. */
static double linear_flops(const Model *model, double n_without, double n_with) {
  const double block = input_products(model) + out_width(model) * model->hidden;
  return 2 *
         ((n_without + n_with) * block + n_with * mlp_products(model, TRUE) + n_without * mlp_products(model, FALSE));
}

static double layers_linear_flops(const Workload *workload) {
  const Model *model = workload->model;
  const double n_without =
      (double)(model_has_experts(model) ? model_dense_layers(model, 0, model->n_layers) : model->n_layers);
  return linear_flops(model, n_without, (double)model->n_layers - n_without);
}

static double layer_attention_flops(const Workload *workload) {
  const Model *model = workload->model;
  const FlopsConvention flops = workload->method->flops;
  const double q = model->n_heads * model->head_dim, widths = 2 * (q + out_width(model));
  double tokens;
  if (flops == FLOPS_6N)
    return 0;
  const double pairs = pairs_of(workload, flops == FLOPS_MEGATRON, &tokens);
  return widths * pairs / tokens;
}

/* Products in the layer of a head that predicts a further token. */
static double mtp_layer_products(const Model *model) {
  return input_products(model) + out_width(model) * model->hidden + mlp_products(model, model_has_experts(model));
}

/* All such heads, per token and pass. */
static double mtp_flops(const Workload *workload) {
  const Model *model = workload->model;
  const double h = model->hidden;
  return workload->method->mtp_layers *
         (2 * (mtp_layer_products(model) + h * 2 * h + h * model->vocab) + layer_attention_flops(workload));
}

/* Per token and pass. */
static double model_flops(const Workload *workload) {
  const Model *model = workload->model;
  if (workload->method->flops == FLOPS_6N)
    return 2.0 * model_active_parameters(model) + mtp_flops(workload);
  return mtp_flops(workload) + layers_linear_flops(workload) + model->n_layers * layer_attention_flops(workload) +
         2.0 * model->hidden * model->vocab;
}

/* Multiplied and added in the adapters of a layer, per token. */
static double adapter_products(const Model *model, const TrainedParts *training, gboolean with_experts) {
  return training->rank * adapter_widths(model, training, with_experts ? model->experts.per_token : 0);
}

/* Layers of a pipe, by their pieces. */
static void count_all_layers(const Workload *workload, double counts[N_PIECES]) {
  for (Piece piece = 0; piece < N_PIECES; piece++)
    counts[piece] = 0;
  for (int stage = 0; stage < workload->n_stages; stage++) {
    const StageLayers *layers = &workload->stages[stage].layers;
    int of_stage[N_PIECES];
    count_layers(layers->n_layers, layers->n_dense, &layers->others, of_stage);
    for (Piece piece = PIECE_EMBEDDING + 1; piece < PIECE_HEAD; piece++)
      counts[piece] += (double)of_stage[piece] / workload->placement->n_pipes;
  }
}

/* Where not all is trained, per token: a forward of everything, input gradients down to the first layer that is
 * trained, and weight gradients of what is. */
static double trained_flops(const Workload *workload) {
  const Model *model = workload->model;
  const Method *method = workload->method;
  const TrainedParts *training = &method->training;
  const double attention = layer_attention_flops(workload);
  double flops = 2.0 * model->hidden * model->vocab * (2 + workload_trains_table(workload, PIECE_HEAD)),
         counts[N_PIECES];
  count_all_layers(workload, counts);
  for (Piece piece = PIECE_EMBEDDING + 1; piece < PIECE_HEAD; piece++) {
    const gboolean with_experts = model_has_experts(model) && !piece_is_dense(piece),
                   is_back = piece_passes_back(method, piece), is_trained = piece_trains(method, piece);
    const double linears = linear_flops(model, !with_experts, with_experts);
    flops +=
        counts[piece] * (linears * (1 + is_back + (is_trained && training->rank == 0)) + attention * (1 + 2 * is_back) +
                         (is_trained ? passes * 2 * adapter_products(model, training, with_experts) : 0));
  }
  return flops;
}

double workload_model_flops(const Workload *workload) {
  if (!training_is_of_all(&workload->method->training))
    return workload_tokens(workload) * trained_flops(workload);
  return passes * workload_tokens(workload) * model_flops(workload);
}

/* The products recomputed when every other one is kept: K's, attn_out, up; without a gate mlp_down. */
static double other_products_flops(const Model *model) {
  const double h = model->hidden, q = model->n_heads * model->head_dim, kv = model->n_kv_heads * model->head_dim;
  return 2 * (h * kv + q * h + h * model->ffn_hidden);
}

/* The products that modules recompute, over all layers. */
static double module_flops(const Workload *workload) {
  const Model *model = workload->model;
  const ModelLatent *latent = &model->latent;
  const guint modules = workload->method->recompute_modules;
  const double n_matrices = model->gated ? 3 : 2, h = model->hidden;
  const gint64 n_dense = model_has_experts(model) ? model_dense_layers(model, 0, model->n_layers) : model->n_layers;
  const int n_mtp = workload->method->mtp_layers;
  const gint64 n_experts = model_has_experts(model) ? model->n_layers - n_dense + n_mtp : 0;
  double products = 0;
  if (modules & MODULE_BIT(MODULE_MLA_UP_PROJ))
    products +=
        (model->n_layers + n_mtp) * (input_products(model) - h * (latent->q_rank + latent->kv_rank + latent->rope_dim));
  if (modules & MODULE_BIT(MODULE_MLP))
    products += (n_dense + (model_has_experts(model) ? 0 : n_mtp)) * mlp_products(model, FALSE);
  if (modules & MODULE_BIT(MODULE_MOE))
    products += n_experts * mlp_products(model, TRUE);
  if (modules & MODULE_BIT(MODULE_SHARED_EXPERTS))
    products += n_experts * h * model->experts.shared_ffn_hidden * n_matrices;
  return 2 * products;
}

/* Layers of a pipe that full recompute makes again, with experts or without; of layers made again together all, or the
 * last ones alone. */
static double layers_again(const Workload *workload, gboolean with_experts, gboolean last_ones) {
  const gboolean has_experts = model_has_experts(workload->model);
  double n = 0, counts[N_PIECES];
  count_all_layers(workload, counts);
  for (Piece piece = PIECE_EMBEDDING + 1; piece < PIECE_HEAD; piece++)
    if (piece_recomputes(workload->method, piece) && (has_experts && !piece_is_dense(piece)) == with_experts &&
        !(last_ones && piece_is_apart(piece)))
      n += counts[piece];
  return n;
}

/* The product of each dense layer that full recompute omits. */
static double left_out_flops(const Workload *workload) {
  const Model *model = workload->model;
  if (!recompute_stops_early(model, workload->method))
    return 0;
  return 2.0 * layers_again(workload, FALSE, TRUE) * model->hidden * model->ffn_hidden;
}

static double recomputed_linears(const Workload *workload) {
  const Model *model = workload->model;
  const TrainedParts *training = &workload->method->training;
  const double n_without = layers_again(workload, FALSE, FALSE), n_with = layers_again(workload, TRUE, FALSE);
  if (workload->method->flops != FLOPS_6N || !head_recomputes(workload->method) || !training_is_of_all(training))
    return linear_flops(model, n_without, n_with) + 2 * n_without * adapter_products(model, training, FALSE) +
           (n_with > 0 ? 2 * n_with * adapter_products(model, training, TRUE) : 0);
  return 2.0 * (model_active_parameters(model) - model_embedding_parameters(model) - model_head_parameters(model));
}

/* One more forward of what is recomputed. Flash attention's own recomputation in backward is not counted: it is part
 * of the kernel and has no forward kernel of its own. */
static double recompute_flops(const Workload *workload) {
  const double attention = layer_attention_flops(workload);
  const int n_mtp = workload->method->mtp_layers;
  double layer = 0, linears = 0, n_layers = (double)(workload->model->n_layers + n_mtp);
  if (workload->method->recompute == RECOMPUTE_FULL) {
    const int n_heads = head_recomputes(workload->method) ? n_mtp : 0;
    linears =
        recomputed_linears(workload) + 2 * n_heads * mtp_layer_products(workload->model) - left_out_flops(workload);
    layer = attention;
    n_layers = layers_again(workload, FALSE, FALSE) + layers_again(workload, TRUE, FALSE) + n_heads;
  } else if (workload->method->repeats_attention)
    layer = attention;
  if (workload->method->keeps_every_other_product)
    layer += other_products_flops(workload->model);
  else
    linears += module_flops(workload);
  return workload_tokens(workload) * (n_layers * layer + linears);
}

double workload_hardware_flops(const Workload *workload) {
  return workload_model_flops(workload) + recompute_flops(workload);
}
