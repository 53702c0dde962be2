/* One GPU's share under tensor and context parallelism: cp divides tokens; tp divides heads, MLP columns and
 * vocabulary rows. The residual stream is whole, except that sequence parallelism divides its tokens (arXiv
 * 2205.05198 §4.2.2). If there are fewer K and V heads than ranks of tp, each is held by several ranks; if fewer than
 * ranks of cp, Ulysses sends copies. */
#include "pieces.h"

#include <math.h>

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
static void cut_experts(LocalSizes *local) {
  const ModelExperts *experts = &local->model->experts;
  const gint64 expert_tp = local->method->expert_tp;
  if (experts->n == 0)
    return;
  local->expert_width = experts->ffn_hidden / expert_tp;
  local->n_experts = experts->n / local->method->ep;
  local->routed_tokens = local->split_tokens * experts->per_token;
  local->expert_rows = (gint64)ceil(local->routed_tokens * expert_tp * local->method->expert_load);
  local->expert_tokens = (local->expert_rows + local->n_experts - 1) / local->n_experts;
}

static gint64 kv_copies(const Model *model, const Method *method) {
  const gint64 kv_heads = MAX(1, model->n_kv_heads / method->tp);
  return method->cp_comm == CP_ULYSSES ? MAX(1, method->cp / kv_heads) : 1;
}

/* Of so many sequences, or rows, of so many tokens. */
static LocalSizes sizes_of_rows(const Model *model, const Method *method, gint64 rows, gint64 row_tokens) {
  const PrecisionInfo *precision = precision_info(method->precision);
  const gint64 tp = method->tp, seq_len = row_tokens / method->cp, tokens = rows * seq_len;
  const gboolean sequence_parallel = method->sequence_parallel && tp > 1;
  LocalSizes local = {
      .model = model,
      .method = method,
      .tp = tp,
      .cp = method->cp,
      .sequence_parallel = sequence_parallel,
      .sequences = rows,
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
  local.up_width = local.ffn_width * (model->gated ? 2 : 1);
  cut_experts(&local);
  local.scores = (double)local.sequences * local.heads * local.seq_len * local.seq_len;
  return local;
}

LocalSizes local_sizes_of(const Model *model, const Method *method) {
  return sizes_of_rows(model, method, method->micro_batch, method->seq_len);
}

LocalSizes local_sizes_of_micro_batch(const Model *model, const Method *method, const Batch *batch,
                                      const MicroBatch *micro_batch) {
  LocalSizes local = sizes_of_rows(model, method, micro_batch->rows, micro_batch->row_tokens);
  local.batch = batch;
  local.documents = batch->is_packed ? micro_batch : NULL;
  return local;
}

double local_added_bytes(const LocalSizes *local) {
  const double said_bytes = local->method->gradient_add_bytes;
  const double share =
      local->gradient_bytes > local->element_bytes ? 1 : 1 - 1.0 / (double)local->method->n_micro_batches;
  return said_bytes > 0 ? said_bytes : share * (local->element_bytes + 2 * local->gradient_bytes);
}
