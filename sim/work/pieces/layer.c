/* One transformer layer as kernels; backward is the same from the end.
 *
 *     x → norm → qkv → rope → attention → attn_out → +x → norm → mlp_up → activation → mlp_down → + → y
 *
 * With post_norms (Gemma 2) the outputs of attn_out and mlp_down pass a norm before they are added to x; with
 * norms_behind (OLMo 2) there are no other norms, and qkv and mlp_up read x.
 *
 * If q and k are normalised (Qwen3 per head, OLMo 2 and MPT's qk_ln over all heads), each passes its own norm between
 * qkv and rope; norms over all heads sum their row statistics over tp (OLMo-core's replicated norm weights, 2025).
 *
 * A parallel block (GPT-NeoX, Falcon) sends x through both branches at once and adds them to it in one residual; the
 * branches' partial sums are added before the single tp reduction.
 *
 * Selective recompute lists a module's forward again before the backward of what reads it (recompute_modules.h). */
#include "pieces.h"

static void attention_branch_forward(ItemList *list) {
  if (list->local->model->latent.kv_rank > 0) {
    latent_forward(list);
  } else {
    linear_column_forward(list, LINEAR_QKV);
    qk_norms_forward(list);
    rope_forward(list);
  }
  attention_forward(list);
  linear_row_forward(list, LINEAR_ATTN_OUT);
}

static gboolean has_experts(const ItemList *list) {
  return list->piece == PIECE_LAYER && list->local->n_experts > 0;
}

/* A norm, and the conversions of its output that the products after it read. */
static void recompute_attention_norm(ItemList *list) {
  const ModelLatent *latent = &list->local->model->latent;
  norm_forward(list, "norm");
  if (latent->kv_rank == 0)
    linear_cast(list, LINEAR_QKV);
  if (latent->kv_rank > 0)
    linear_cast(list, LINEAR_KV_DOWN);
  if (latent->q_rank > 0)
    linear_cast(list, LINEAR_Q_DOWN);
  else if (latent->kv_rank > 0 && !item_list_recomputes(list, MODULE_MLA_UP_PROJ))
    linear_cast(list, LINEAR_Q_UP);
}

/* Experts read rows that were sent, which are kept; modules that are recomputed as a whole do their own
 * conversions. */
static void recompute_mlp_norm(ItemList *list) {
  norm_forward(list, "norm");
  if (!has_experts(list) && !item_list_recomputes(list, MODULE_MLP))
    linear_cast(list, LINEAR_MLP_UP);
  if (has_experts(list) && list->local->shared_width > 0 && !item_list_recomputes(list, MODULE_MOE) &&
      !item_list_recomputes(list, MODULE_SHARED_EXPERTS))
    linear_cast(list, LINEAR_SHARED_UP);
}

static void attention_branch_backward(ItemList *list) {
  if (item_list_recomputes(list, MODULE_LAYERNORM))
    item_list_recompute(list, recompute_attention_norm);
  linear_row_backward(list, LINEAR_ATTN_OUT);
  if (item_list_recomputes(list, MODULE_MLA_UP_PROJ))
    item_list_recompute(list, latent_up_forward);
  attention_backward(list);
  if (list->local->model->latent.kv_rank > 0) {
    latent_backward(list);
    return;
  }
  rope_backward(list);
  qk_norms_backward(list);
  linear_column_backward(list, LINEAR_QKV);
}

static void mlp_branch_forward(ItemList *list) {
  linear_column_forward(list, LINEAR_MLP_UP);
  mlp_activation_forward(list, list->local->tokens, list->local->ffn_width);
  if (!list->stops_early)
    linear_row_forward(list, LINEAR_MLP_DOWN);
}

static void mlp_branch_backward(ItemList *list) {
  if (item_list_recomputes(list, MODULE_MLP))
    item_list_recompute(list, mlp_branch_forward);
  linear_row_backward(list, LINEAR_MLP_DOWN);
  mlp_activation_backward(list, list->local->tokens, list->local->ffn_width);
  linear_column_backward(list, LINEAR_MLP_UP);
}

/* Before the next branch. */
static void branch_forward_begin(ItemList *list) {
  if (list->local->n_norms > 0)
    norm_forward(list, "norm");
}

/* A branch's output joins x. */
static void branch_forward_end(ItemList *list) {
  if (list->local->n_post_norms > 0)
    norm_forward(list, "post_norm");
  residual_forward(list);
}

static void branch_backward_begin(ItemList *list) {
  dropout_backward(list);
  if (list->local->n_post_norms > 0)
    norm_backward(list, "post_norm.backward");
}

static void parallel_block_forward(ItemList *list) {
  const LocalSizes *local = list->local;
  for (gint64 i = 0; i < local->n_norms; i++)
    norm_forward(list, "norm");
  attention_branch_forward(list);
  mlp_branch_forward(list);
  if (list->stops_early)
    return;
  item_list_memory(list, "branch_sum", 3 * local->element_bytes * local->tokens * local->model->hidden);
  item_list_wait(list, region_reduce(list, "branch_sum"));
  residual_forward(list);
}

static void parallel_block_backward(ItemList *list) {
  dropout_backward(list);
  if (list->input_gradients)
    item_list_wait(list, region_gather(list, "mlp_down.dgrad"));
  mlp_branch_backward(list);
  attention_branch_backward(list);
  for (gint64 i = 0; i < list->local->n_norms; i++)
    branch_backward_end(list);
}

void layer_forward(ItemList *list) {
  if (list->local->model->parallel_block) {
    parallel_block_forward(list);
    return;
  }
  branch_forward_begin(list);
  attention_branch_forward(list);
  branch_forward_end(list);
  branch_forward_begin(list);
  if (has_experts(list))
    experts_forward(list);
  else
    mlp_branch_forward(list);
  if (!list->stops_early)
    branch_forward_end(list);
}

void layer_backward(ItemList *list) {
  if (list->local->model->parallel_block) {
    parallel_block_backward(list);
    return;
  }
  branch_backward_begin(list);
  if (item_list_recomputes(list, MODULE_LAYERNORM))
    item_list_recompute(list, recompute_mlp_norm);
  if (has_experts(list))
    experts_backward(list);
  else
    mlp_branch_backward(list);
  branch_backward_end(list);
  branch_backward_begin(list);
  attention_branch_backward(list);
  branch_backward_end(list);
}
