/* What tensor and context parallelism leave one GPU: tokens are divided by cp; heads, MLP columns and vocabulary rows
 * are divided by tp, the residual stream is whole, except that sequence parallelism divides its tokens (arXiv
 * 2205.05198 §4.2.2). Where there are fewer K and V heads than ranks, each is held by several of them. */
#include "pieces.h"

#include <math.h>

/* Rows of the vocabulary matrix are padded to a multiple of this times tp, as Megatron-LM's
 * --make-vocab-size-divisible-by does by default, unless a framework has them as they are: products with odd sizes
 * run far below peak. */
enum { VOCAB_MULTIPLE = 128 };

static gint64 vocab_width(const Model *model, const Plan *plan) {
  const gint64 multiple = plan->memory.vocabulary == VOCABULARY_AS_IS ? 1 : VOCAB_MULTIPLE;
  return (model->vocab + multiple * plan->tp - 1) / (multiple * plan->tp) * multiple;
}

/* What a rank sends is what it gets, but for the plan's expert_load: every rank is the fullest one. */
static void cut_experts(Cut *cut) {
  const ModelExperts *experts = &cut->model->experts;
  const gint64 expert_tp = plan_expert_tp(cut->plan);
  if (experts->n == 0)
    return;
  cut->expert_width = experts->ffn_hidden / expert_tp;
  cut->n_experts = experts->n / cut->plan->ep;
  cut->routed_tokens = cut->split_tokens * experts->per_token;
  cut->expert_rows = (gint64)ceil(cut->routed_tokens * expert_tp * cut->plan->expert_load);
  cut->expert_tokens = (cut->expert_rows + cut->n_experts - 1) / cut->n_experts;
}

Cut cut_of(const Model *model, const Plan *plan) {
  const PrecisionInfo *precision = precision_info(plan->precision);
  const gint64 tp = plan->tp, seq_len = plan->seq_len / plan->cp, tokens = plan->micro_batch * seq_len;
  const gboolean sequence_parallel = plan->sequence_parallel && tp > 1;
  Cut cut = {
      .model = model,
      .plan = plan,
      .tp = tp,
      .cp = plan->cp,
      .sequence_parallel = sequence_parallel,
      .sequences = plan->micro_batch,
      .seq_len = seq_len,
      .tokens = tokens,
      .split_tokens = sequence_parallel ? tokens / tp : tokens,
      .heads = model->n_heads / tp,
      .q_width = model->n_heads / tp * model->head_dim,
      .kv_width = MAX(1, model->n_kv_heads / tp) * model->head_dim,
      .v_width = MAX(1, model->n_kv_heads / tp) * model_v_head_dim(model),
      .out_width = model->n_heads / tp * model_v_head_dim(model),
      .ffn_width = model->ffn_hidden / tp,
      .shared_width = model->experts.shared_ffn_hidden / tp,
      .vocab_width = vocab_width(model, plan),
      .n_norms = model->n_norms_per_layer,
      .shared_norm = model->parallel_block && model->n_norms_per_layer == 1,
      .element_bytes = precision->element_bytes,
      .linear_bytes = precision->linear_bytes,
      .casts = precision->linear_bytes < precision->element_bytes,
      .gradient_bytes = plan->recipe.gradients,
  };
  cut.up_width = cut.ffn_width * (model->gated ? 2 : 1);
  cut_experts(&cut);
  cut.scores = (double)cut.sequences * cut.heads * cut.seq_len * cut.seq_len;
  return cut;
}

gint64 cut_vocab_parameters(const Cut *cut) {
  return cut->vocab_width * cut->model->hidden;
}

gint64 cut_norm_parameters(const Model *model) {
  return model->hidden * (model->norm == NORM_LAYERNORM && !model->bare_norms ? 2 : 1);
}

/* One of each product's weights, biases included. */
static gint64 linears_parameters(const Cut *cut, Piece piece, gboolean with_biases) {
  gint64 parameters = 0;
  LinearKind kinds[N_LINEARS];
  const int n = layer_linears(cut, piece, kinds);
  for (int i = 0; i < n; i++) {
    const Linear linear = linear_of(cut, kinds[i]);
    parameters += linear.n * linear.k + (with_biases && linear.has_bias ? linear.n : 0);
  }
  return parameters;
}

gint64 cut_expert_parameters(const Cut *cut, Piece piece) {
  if (piece == PIECE_HEAD)
    return cut->plan->mtp_layers * cut_expert_parameters(cut, PIECE_LAYER);
  if (piece != PIECE_LAYER || cut->n_experts == 0)
    return 0;
  const Linear up = linear_of(cut, LINEAR_EXPERT_UP), down = linear_of(cut, LINEAR_EXPERT_DOWN);
  return cut->n_experts * (up.n * up.k + down.n * down.k);
}

/* Of latent attention: the two norms between its products. */
static gint64 latent_norm_parameters(const Model *model) {
  return model->latent.q_rank + model->latent.kv_rank;
}

/* Of a layer with experts, whole on each rank of tp: what weights the shared expert, and the scores' biases. */
static gint64 router_parameters(const Model *model) {
  return (model->experts.shared_gate ? model->hidden : 0) + (model->experts.biased_scores ? model->experts.n : 0);
}

static gint64 layer_parameters(const Cut *cut, Piece piece) {
  const Model *model = cut->model;
  gint64 parameters = cut->n_norms * cut_norm_parameters(model) + model_qk_norm_parameters(model) +
                      latent_norm_parameters(model) + linears_parameters(cut, piece, TRUE);
  if (piece == PIECE_LAYER && cut->n_experts > 0)
    parameters += router_parameters(model) + cut_expert_parameters(cut, piece) * (cut->n_experts - 1) / cut->n_experts;
  return parameters;
}

/* Of the embedding, without the word table. */
static gint64 embedding_vectors(const Model *model) {
  const gint64 positions = model->positions == POSITIONS_LEARNED ? model->max_positions : 0;
  return positions * model->hidden + (model->embedding_norm ? cut_norm_parameters(model) : 0) +
         model->other_embedding_parameters;
}

gint64 cut_piece_parameters(const Cut *cut, Piece piece) {
  switch (piece) {
  case PIECE_EMBEDDING:
    return cut_vocab_parameters(cut) + embedding_vectors(cut->model);
  case PIECE_DENSE_LAYER:
  case PIECE_LAYER:
    return layer_parameters(cut, piece);
  default:
    return cut_norm_parameters(cut->model) + cut_vocab_parameters(cut) +
           (cut->model->head_bias ? cut->vocab_width : 0) + cut->plan->mtp_layers * mtp_parameters(cut);
  }
}

gint64 cut_layer_matrices(const Cut *cut) {
  return linears_parameters(cut, PIECE_LAYER, FALSE);
}

/* Weights that all ranks of tp hold, whose tokens differ. */
static gint64 whole_linears(const Cut *cut, Piece piece) {
  gint64 parameters = 0;
  LinearKind kinds[N_LINEARS];
  const int n = layer_linears(cut, piece, kinds);
  for (int i = 0; i < n; i++) {
    const Linear linear = linear_of(cut, kinds[i]);
    parameters += linear.is_whole ? linear.n * linear.k : 0;
  }
  return parameters;
}

gint64 cut_whole_parameters(const Cut *cut, Piece piece) {
  const Model *model = cut->model;
  switch (piece) {
  case PIECE_EMBEDDING:
    return embedding_vectors(model);
  case PIECE_DENSE_LAYER:
  case PIECE_LAYER: /* attn_out and mlp_down are cut by rows: their biases are whole */
    return cut->n_norms * cut_norm_parameters(model) + model_qk_norm_parameters(model) + latent_norm_parameters(model) +
           (model_has_out_bias(model) + model_has_mlp_bias(model)) * model->hidden + whole_linears(cut, piece) +
           (piece == PIECE_LAYER ? router_parameters(model) : 0);
  default:
    return cut_norm_parameters(model) + cut->plan->mtp_layers * mtp_whole_parameters(cut);
  }
}

/* Of norms that heads share: a rank of tp has some of the heads. */
static gint64 shared_by_heads(const Cut *cut, Piece piece) {
  const gint64 of_layer = cut->model->qk_norms == QK_NORMS_HEADS ? model_qk_norm_parameters(cut->model) : 0;
  return piece == PIECE_EMBEDDING ? 0 : piece == PIECE_HEAD ? cut->plan->mtp_layers * of_layer : of_layer;
}

gint64 cut_tp_summed_parameters(const Cut *cut, Piece piece) {
  if (cut->tp == 1)
    return 0;
  return cut->sequence_parallel ? cut_whole_parameters(cut, piece) : shared_by_heads(cut, piece);
}
