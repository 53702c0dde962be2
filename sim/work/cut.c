/* One GPU's share under tensor and context parallelism: cp divides tokens; tp divides heads, MLP columns and
 * vocabulary rows. The residual stream is whole, except that sequence parallelism divides its tokens (arXiv
 * 2205.05198 §4.2.2). If there are fewer K and V heads than ranks of tp, each is held by several ranks; if fewer than
 * ranks of cp, Ulysses sends copies. */
#include <math.h>

#include "pieces.h"

/* Rows of the vocabulary matrix are padded to a multiple of this times tp, as by the default of Megatron-LM's
 * --make-vocab-size-divisible-by, unless a framework keeps them as they are: products with odd sizes run far below
 * peak. */
enum { VOCAB_MULTIPLE = 128 };

static gint64 vocab_width(const Model *model, const Method *method) {
  const gint64 multiple = method->memory.vocabulary == VOCABULARY_AS_IS ? 1 : VOCAB_MULTIPLE;
  return (model->vocab + multiple * method->tp - 1) / (multiple * method->tp) * multiple;
}

/* A rank receives as many rows as it sends, except for the plan's expert_load: every rank is taken to be the fullest
 * one. */
static void cut_experts(Cut *cut) {
  const ModelExperts *experts = &cut->model->experts;
  const gint64 expert_tp = cut->method->expert_tp;
  if (experts->n == 0)
    return;
  cut->expert_width = experts->ffn_hidden / expert_tp;
  cut->n_experts = experts->n / cut->method->ep;
  cut->routed_tokens = cut->split_tokens * experts->per_token;
  cut->expert_rows = (gint64)ceil(cut->routed_tokens * expert_tp * cut->method->expert_load);
  cut->expert_tokens = (cut->expert_rows + cut->n_experts - 1) / cut->n_experts;
}

static gint64 kv_copies(const Model *model, const Method *method) {
  const gint64 kv_heads = MAX(1, model->n_kv_heads / method->tp);
  return method->cp_comm == CP_ULYSSES ? MAX(1, method->cp / kv_heads) : 1;
}

Cut cut_of(const Model *model, const Method *method) {
  const PrecisionInfo *precision = precision_info(method->precision);
  const gint64 tp = method->tp, seq_len = method->seq_len / method->cp, tokens = method->micro_batch * seq_len;
  const gboolean sequence_parallel = method->sequence_parallel && tp > 1;
  Cut cut = {
      .model = model,
      .method = method,
      .tp = tp,
      .cp = method->cp,
      .sequence_parallel = sequence_parallel,
      .sequences = method->micro_batch,
      .seq_len = seq_len,
      .tokens = tokens,
      .split_tokens = sequence_parallel ? tokens / tp : tokens,
      .heads = model->n_heads / tp,
      .q_width = model->n_heads / tp * model->head_dim,
      .kv_width = MAX(1, model->n_kv_heads / tp) * model->head_dim,
      .v_width = MAX(1, model->n_kv_heads / tp) * model_v_head_dim(model),
      .out_width = model->n_heads / tp * model_v_head_dim(model),
      .kv_copies = kv_copies(model, method),
      .ffn_width = model->ffn_hidden / tp,
      .shared_width = model->experts.shared_ffn_hidden / tp,
      .vocab_width = vocab_width(model, method),
      .n_norms = model->norms_behind ? 0 : model->n_norms_per_layer,
      .n_post_norms = model->norms_behind ? model->n_norms_per_layer
                      : model->post_norms ? 2
                                          : 0,
      .n_inputs = model->n_norms_per_layer,
      .shared_norm = model->parallel_block && model->n_norms_per_layer == 1,
      .element_bytes = precision->element_bytes,
      .linear_bytes = precision->linear_bytes,
      .casts = precision->linear_bytes < precision->element_bytes,
      .gradient_bytes = method->recipe.gradients,
  };
  cut.up_width = cut.ffn_width * (model->gated ? 2 : 1);
  cut_experts(&cut);
  cut.scores = (double)cut.sequences * cut.heads * cut.seq_len * cut.seq_len;
  return cut;
}

double cut_added_bytes(const Cut *cut) {
  const double said_bytes = cut->method->gradient_add_bytes;
  const double share = cut->gradient_bytes > cut->element_bytes ? 1 : 1 - 1.0 / (double)cut->method->n_micro_batches;
  return said_bytes > 0 ? said_bytes : share * (cut->element_bytes + 2 * cut->gradient_bytes);
}

/* --- parameters of one GPU under tensor parallelism --- */

gint64 cut_vocab_parameters(const Cut *cut) {
  return cut->vocab_width * cut->model->hidden;
}

/* Weights, and biases if any, of one expert where it is of experts. */
static gint64 linear_parameters(const Linear *linear) {
  return linear->n * (linear->k + (linear->has_bias ? 1 : 0));
}

static gint64 linears_parameters(const Cut *cut, Piece piece) {
  gint64 parameters = 0;
  LinearKind kinds[N_LINEARS];
  const int n = layer_linears(cut, piece, kinds);
  for (int i = 0; i < n; i++) {
    const Linear linear = linear_of(cut, kinds[i]);
    parameters += linear.group * linear_parameters(&linear);
  }
  return parameters;
}

gint64 cut_expert_parameters(const Cut *cut, Piece piece) {
  if (piece == PIECE_HEAD)
    return cut->method->mtp_layers * cut_expert_parameters(cut, PIECE_LAYER);
  if (piece != PIECE_LAYER || cut->n_experts == 0)
    return 0;
  const Linear up = linear_of(cut, LINEAR_EXPERT_UP), down = linear_of(cut, LINEAR_EXPERT_DOWN);
  return cut->n_experts * (linear_parameters(&up) + linear_parameters(&down));
}

/* Latent attention: the two norms between its products. */
static gint64 latent_norm_parameters(const Model *model) {
  return model->latent.q_rank + model->latent.kv_rank;
}

/* A layer with experts, whole on each rank of tp: the shared expert's gate and the scores' biases. */
static gint64 router_parameters(const Model *model) {
  return (model->experts.shared_gate ? model->hidden : 0) + (model->experts.biased_scores ? model->experts.n : 0);
}

/* All norms of a layer, those after its branches included. */
static gint64 norms_parameters(const Cut *cut) {
  return (cut->n_norms + cut->n_post_norms) * model_norm_parameters(cut->model);
}

static gint64 layer_parameters(const Cut *cut, Piece piece) {
  const Model *model = cut->model;
  return norms_parameters(cut) + model_qk_norm_parameters(model) + latent_norm_parameters(model) +
         (model->has_sinks ? cut->heads : 0) + linears_parameters(cut, piece) +
         (piece == PIECE_LAYER && cut->n_experts > 0 ? router_parameters(model) : 0);
}

/* The embedding without the word table. */
static gint64 embedding_vectors(const Model *model) {
  const gint64 positions = model->positions == POSITIONS_LEARNED ? model->max_positions : 0;
  return positions * model->hidden + (model->embedding_norm ? model_norm_parameters(model) : 0) +
         model->other_embedding_parameters;
}

/* A head that predicts a further token: the layer, experts included, the product and three norms. */
static gint64 mtp_parameters(const Cut *cut) {
  const Linear proj = linear_of(cut, LINEAR_MTP_PROJ);
  return layer_parameters(cut, PIECE_LAYER) + proj.n * proj.k + 3 * model_norm_parameters(cut->model);
}

gint64 cut_piece_parameters(const Cut *cut, Piece piece) {
  switch (piece) {
  case PIECE_EMBEDDING:
    return cut_vocab_parameters(cut) + embedding_vectors(cut->model);
  case PIECE_DENSE_LAYER:
  case PIECE_LAYER:
    return layer_parameters(cut, piece);
  default:
    return model_norm_parameters(cut->model) + cut_vocab_parameters(cut) +
           (cut->model->head_bias ? cut->vocab_width : 0) + cut->method->mtp_layers * mtp_parameters(cut);
  }
}

gint64 cut_layer_matrices(const Cut *cut) {
  gint64 elements = 0;
  LinearKind kinds[N_LINEARS];
  const int n = layer_linears(cut, PIECE_LAYER, kinds);
  for (int i = 0; i < n; i++) {
    const Linear linear = linear_of(cut, kinds[i]);
    elements += linear.n * linear.k;
  }
  return elements;
}

/* Weights that all ranks of tp hold whole, for different tokens. */
static gint64 whole_linears(const Cut *cut, Piece piece) {
  gint64 parameters = 0;
  LinearKind kinds[N_LINEARS];
  const int n = layer_linears(cut, piece, kinds);
  for (int i = 0; i < n; i++) {
    const Linear linear = linear_of(cut, kinds[i]);
    parameters += linear.is_whole ? linear_parameters(&linear) : 0;
  }
  return parameters;
}

/* Parameters that tp does not cut; a head that predicts a further token has a layer and three norms. */
static gint64 whole_parameters(const Cut *cut, Piece piece) {
  const Model *model = cut->model;
  switch (piece) {
  case PIECE_EMBEDDING:
    return embedding_vectors(model);
  case PIECE_DENSE_LAYER:
  case PIECE_LAYER: /* attn_out and mlp_down are cut by rows: their biases are whole */
    return norms_parameters(cut) + model_qk_norm_parameters(model) + latent_norm_parameters(model) +
           (model_has_out_bias(model) + model_has_mlp_bias(model)) * model->hidden + whole_linears(cut, piece) +
           (piece == PIECE_LAYER ? router_parameters(model) : 0);
  default:
    return model_norm_parameters(model) +
           cut->method->mtp_layers * (whole_parameters(cut, PIECE_LAYER) + 3 * model_norm_parameters(model));
  }
}

/* Norms of q and k: a rank of tp has some of the heads and computes the gradients of the norm weights from these. */
static gint64 shared_by_heads(const Cut *cut, Piece piece) {
  const gint64 of_layer = model_qk_norm_parameters(cut->model);
  return piece == PIECE_EMBEDDING ? 0 : piece == PIECE_HEAD ? cut->method->mtp_layers * of_layer : of_layer;
}

gint64 cut_tp_summed_parameters(const Cut *cut, Piece piece) {
  if (cut->tp == 1)
    return 0;
  return cut->sequence_parallel ? whole_parameters(cut, piece) : shared_by_heads(cut, piece);
}
