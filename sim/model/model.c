/* Model on its own: plausibility of its sizes, cutting its depth, copying, its parameters. model_read.c reads it. */
#include "model.h"

#include <string.h>

#include "error.h"

static const double most_parameters = 1e16; /* keeps its products with bytes and ranks below 2^63 */

static const char *const activation_names[N_ACTIVATIONS] = {[ACTIVATION_USUAL] = "the usual one",
                                                            [ACTIVATION_SILU] = "SiLU",
                                                            [ACTIVATION_GELU] = "GELU",
                                                            [ACTIVATION_RELU] = "ReLU",
                                                            [ACTIVATION_SQUARED_RELU] = "squared ReLU",
                                                            [ACTIVATION_BOUNDED_GELU] = "a bounded GELU",
                                                            [ACTIVATION_OTHER] = "another"};

gboolean model_check(const Model *model, const char *where, GError **error) {
  if (model->n_heads % model->n_kv_heads != 0)
    return fail_input(error,
                      "%s: found %" G_GINT64_FORMAT " attention heads and %" G_GINT64_FORMAT
                      " key-value heads, expected the second to divide the first",
                      where, model->n_heads, model->n_kv_heads);
  double width = (double)(model->n_heads + model->n_kv_heads) * (double)model->head_dim + (double)model->ffn_hidden;
  const ModelExperts *experts = &model->experts;
  width += (double)(experts->n + 1) * (double)experts->ffn_hidden + (double)experts->shared_ffn_hidden;
  double matrices = 3.0 * (double)model->hidden * width * (double)model->n_layers;
  double tables = 2.0 * (double)model->hidden * (double)(model->vocab + model->max_positions);
  if (matrices + tables > most_parameters)
    return fail_input(error, "%s: found sizes that make about %.0e parameters, expected at most %.0e", where,
                      matrices + tables, most_parameters);
  return TRUE;
}

gint64 model_dense_layers(const Model *model, gint64 first, gint64 n) {
  const ModelExperts *experts = &model->experts;
  gint64 n_dense = 0;
  for (gint64 layer = first; layer < first + n && experts->n > 0; layer++)
    n_dense += layer < experts->n_leading || (layer + experts->phase) % experts->every != 0;
  return n_dense;
}

void model_cut_depth(Model *model, gint64 n_layers) {
  gint64 leading = model->experts.n_leading;
  if (leading > 0 && n_layers < model->n_layers) {
    leading = (leading * n_layers + model->n_layers / 2) / model->n_layers;
    model->experts.n_leading = MAX(1, leading);
  }
  model->n_layers = n_layers;
}

Model *model_copy(const Model *model) {
  Model *copy = g_memdup2(model, sizeof *model);
  copy->name = g_strdup(model->name);
  copy->file = g_strdup(model->file);
  copy->windowed_layers = g_strdup(model->windowed_layers);
  copy->unrotated_layers = g_strdup(model->unrotated_layers);
  return copy;
}

void model_free(Model *model) {
  if (model == NULL)
    return;
  g_free(model->name);
  g_free(model->file);
  g_free(model->windowed_layers);
  g_free(model->unrotated_layers);
  g_free(model);
}

Activation model_activation(const Model *model) {
  if (model->activation != ACTIVATION_USUAL)
    return model->activation;
  return model->gated ? ACTIVATION_SILU : ACTIVATION_GELU;
}

const char *model_activation_name(Activation activation) {
  return activation_names[activation];
}

/* --- parameters -------------------------------------------------------------------------------------------------- */

/* One block, h = hidden, a = heads, k = kv heads, d = head_dim, f = ffn_hidden:
 *
 *     norm   h or 2h                          RMSNorm: scale; LayerNorm: scale and shift; 0 where it has no weights
 *     QKV    h·(a + 2k)·d   [+ (a + 2k)·d]    in brackets: biases; norms of q and k: 2·d or (a + k)·d, as many vectors;
 *                                             sinks: a
 *     out    a·d·h          [+ h]
 *     norm
 *     up     h·f            [+ f]             twice when gated
 *     down   f·h            [+ h]
 *
 * and two more norms if each branch's output passes one. With experts, in place of up and down: a gate h·E (and E
 * biases of its scores, of its products, or both), E experts and a shared one, each with an up and a down of its own
 * width. Latent attention, in place of QKV: with ranks r of Q and c of K and V, rotated part o,
 *
 *     Q      h·r + r + r·a·d     (the rank's norm between; without a rank h·a·d)
 *     K, V   h·(c + o) + c + c·a·(d − o + v) */

/* Vectors per norm: scale, and bias. */
static gint64 norm_vectors(const Model *model, gboolean is_bare) {
  if (model->fixed_norms)
    return 0;
  return model->norm == NORM_LAYERNORM && !is_bare ? 2 : 1;
}

gint64 model_norm_parameters(const Model *model) {
  return norm_vectors(model, model->bare_norms) * model->hidden;
}

gint64 model_qk_norm_parameters(const Model *model) {
  const gint64 all = model->n_heads + model->n_kv_heads;
  if (model->fixed_qk_norms)
    return 0;
  const gint64 heads[] = {[QK_NORMS_NONE] = 0, [QK_NORMS_HEADS] = 2, [QK_NORMS_OWN] = all, [QK_NORMS_WHOLE] = all};
  return norm_vectors(model, model->bare_norms || model->bare_qk_norms) * heads[model->qk_norms] * model->head_dim;
}

static gint64 latent_parameters(const Model *model) {
  const ModelLatent *latent = &model->latent;
  gint64 h = model->hidden, q_width = model->n_heads * model->head_dim;
  gint64 kv_width = model->n_heads * (model->head_dim - latent->rope_dim + latent->v_head_dim);
  gint64 q = latent->q_rank > 0 ? latent->q_rank * (h + 1 + q_width) : h * q_width;
  gint64 kv = h * (latent->kv_rank + latent->rope_dim) + latent->kv_rank * (1 + kv_width);
  return q + kv + model->n_heads * latent->v_head_dim * h;
}

static gint64 attention_parameters(const Model *model) {
  if (model->latent.kv_rank > 0)
    return latent_parameters(model);
  gint64 qkv_width = (model->n_heads + 2 * model->n_kv_heads) * model->head_dim;
  gint64 biases = (model->qkv_bias ? qkv_width : 0) + (model_has_out_bias(model) ? model->hidden : 0);
  return model->hidden * qkv_width + model->n_heads * model->head_dim * model->hidden + biases +
         (model->has_sinks ? model->n_heads : 0);
}

static gint64 mlp_parameters(const Model *model, gint64 ffn_hidden, gboolean has_biases) {
  gint64 n_ups = model->gated ? 2 : 1;
  return (n_ups + 1) * model->hidden * ffn_hidden + (has_biases ? n_ups * ffn_hidden + model->hidden : 0);
}

static gint64 expert_parameters(const Model *model) {
  return mlp_parameters(model, model->experts.ffn_hidden, model_has_expert_biases(model));
}

/* Gate, shared expert and `n` of the routed experts. */
static gint64 experts_parameters(const Model *model, gint64 n) {
  const ModelExperts *experts = &model->experts;
  gint64 gate = experts->n * (model->hidden + (experts->biased_scores ? 1 : 0) + (experts->has_biases ? 1 : 0));
  gint64 shared =
      experts->shared_ffn_hidden > 0 ? mlp_parameters(model, experts->shared_ffn_hidden, model_has_mlp_bias(model)) : 0;
  return gate + n * expert_parameters(model) + shared + (experts->shared_gate ? model->hidden : 0);
}

/* A block without its MLP or experts. */
static gint64 block_parameters(const Model *model) {
  const gint64 n_norms = model->n_norms_per_layer + (model->post_norms ? 2 : 0);
  return attention_parameters(model) + n_norms * model_norm_parameters(model) + model_qk_norm_parameters(model);
}

/* A block with an MLP instead of experts. */
static gint64 dense_layer_parameters(const Model *model) {
  return block_parameters(model) + mlp_parameters(model, model->ffn_hidden, model_has_mlp_bias(model));
}

gint64 model_layer_parameters(const Model *model) {
  if (!model_has_experts(model))
    return dense_layer_parameters(model);
  return block_parameters(model) + experts_parameters(model, model->experts.n);
}

gint64 model_embedding_parameters(const Model *model) {
  gint64 rows = model->vocab + (model->positions == POSITIONS_LEARNED ? model->max_positions : 0);
  return rows * model->hidden + (model->embedding_norm ? model_norm_parameters(model) : 0) +
         model->other_embedding_parameters;
}

gint64 model_head_parameters(const Model *model) {
  return model_norm_parameters(model) + (model->tied ? 0 : model->vocab * model->hidden) +
         (model->head_bias ? model->vocab : 0);
}

static gint64 layers_parameters(const Model *model, gint64 layer_parameters) {
  gint64 n_dense = model_dense_layers(model, 0, model->n_layers);
  return (model->n_layers - n_dense) * layer_parameters + n_dense * dense_layer_parameters(model);
}

gint64 model_parameters(const Model *model) {
  return model_embedding_parameters(model) + layers_parameters(model, model_layer_parameters(model)) +
         model_head_parameters(model);
}

gint64 model_expert_parameters(const Model *model) {
  const gint64 n_layers = model->n_layers - model_dense_layers(model, 0, model->n_layers);
  return model_has_experts(model) ? n_layers * model->experts.n * expert_parameters(model) : 0;
}

gint64 model_active_parameters(const Model *model) {
  if (!model_has_experts(model))
    return model_parameters(model);
  gint64 layer = block_parameters(model) + experts_parameters(model, model->experts.per_token);
  return model_embedding_parameters(model) + layers_parameters(model, layer) + model_head_parameters(model);
}
