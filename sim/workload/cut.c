/* What tensor and context parallelism leave one GPU: tokens are divided by cp; heads, MLP columns and vocabulary rows
 * are divided by tp, the residual stream is whole, except that sequence parallelism divides its tokens (arXiv
 * 2205.05198 §4.2.2). Where there are fewer K and V heads than ranks, each is held by several of them. */
#include "pieces.h"

/* Rows of the vocabulary matrix are padded to a multiple of this times tp, as Megatron-LM's
 * --make-vocab-size-divisible-by does by default: products with odd sizes run far below peak. */
enum { VOCAB_MULTIPLE = 128 };

static gint64 round_up(gint64 value, gint64 multiple) {
  return (value + multiple - 1) / multiple * multiple;
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
      .ffn_width = model->ffn_hidden / tp,
      .vocab_width = round_up(model->vocab, VOCAB_MULTIPLE * tp) / tp,
      .n_norms = model->n_norms_per_layer,
      .shared_norm = model->parallel_block && model->n_norms_per_layer == 1,
      .element_bytes = precision->element_bytes,
      .linear_bytes = precision->linear_bytes,
      .casts = precision->linear_bytes < precision->element_bytes,
      .gradient_bytes = plan->recipe.gradients,
  };
  cut.up_width = cut.ffn_width * (model->gated ? 2 : 1);
  cut.scores = (double)cut.sequences * cut.heads * cut.seq_len * cut.seq_len;
  return cut;
}

gint64 cut_vocab_parameters(const Cut *cut) {
  return cut->vocab_width * cut->model->hidden;
}

static gint64 norm_parameters(const Model *model) {
  return model->hidden * (model->norm == NORM_LAYERNORM && !model->bare_norms ? 2 : 1);
}

static gint64 layer_parameters(const Cut *cut) {
  gint64 parameters = cut->n_norms * norm_parameters(cut->model) + cut->model->other_layer_parameters;
  for (LinearKind kind = 0; kind < LINEAR_LOGITS; kind++) {
    const Linear linear = linear_of(cut, kind);
    parameters += linear.n * linear.k + (linear.has_bias ? linear.n : 0);
  }
  return parameters;
}

/* Of the embedding, without the word table. */
static gint64 position_parameters(const Model *model) {
  const gint64 positions = model->positions == POSITIONS_LEARNED ? model->max_positions : 0;
  return positions * model->hidden + model->other_embedding_parameters;
}

gint64 cut_piece_parameters(const Cut *cut, Piece piece) {
  switch (piece) {
  case PIECE_EMBEDDING:
    return cut_vocab_parameters(cut) + position_parameters(cut->model);
  case PIECE_LAYER:
    return layer_parameters(cut);
  default:
    return norm_parameters(cut->model) + cut_vocab_parameters(cut);
  }
}

gint64 cut_layer_matrices(const Cut *cut) {
  gint64 elements = 0;
  for (LinearKind kind = 0; kind < LINEAR_LOGITS; kind++) {
    const Linear linear = linear_of(cut, kind);
    elements += linear.n * linear.k;
  }
  return elements;
}

gint64 cut_whole_parameters(const Cut *cut, Piece piece) {
  const Model *model = cut->model;
  switch (piece) {
  case PIECE_EMBEDDING:
    return position_parameters(model);
  case PIECE_LAYER: /* attn_out and mlp_down are cut by rows: their biases are whole */
    return cut->n_norms * norm_parameters(model) + model->other_layer_parameters +
           (model->linear_bias ? 2 * model->hidden : 0);
  default:
    return norm_parameters(model);
  }
}
