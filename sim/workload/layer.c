/* One transformer layer as kernels; backward is the same story from the end.
 *
 *     x → norm → qkv → rope → attention → attn_out → +x → norm → mlp_up → activation → mlp_down → + → y
 *
 * Where q and k are normalised (Qwen3 by heads, MPT's qk_ln whole), each passes a norm of its own between qkv and rope.
 *
 * A parallel block (GPT-NeoX, Falcon) sends x through both branches at once and adds them to it in one residual; the
 * branches' partial sums are added before the one tp reduction.
 *
 * Memory-bound kernels count each tensor they read and write once. Weight gradients of norms are made by the kernel
 * that makes the norm's input gradient, so they belong to I.
 *
 * Selective recompute lists a module's forward again in front of the backward of what reads it (recompute_modules.h).
 *
 * Under a framework of plain kernels (framework_time.h) RMSNorm, rotation and gate are single operations. Per
 * element, e bytes wide:
 *
 *     RMSNorm   in fp32: convert (e + 4), square (8), mean (4), divide (8), convert back (4 + e), times the weight (2e)
 *       back    the weight's two gradients (5e) and a sum (e); convert (e + 4), the division's two (8 + 12) and a sum
 *               (4), the square's (a power, its factor and a product: 28), add (12), convert back (4 + e)
 *     rotation  swap the halves (negate, join: 3 tensors), two products and a sum (7), as far back
 *     gate      SiLU (2) and product (3); back: both factors' gradients (6), SiLU's (3), joined (4) */
#include "pieces.h"

static double stream_bytes(const Cut *cut) {
  return cut->element_bytes * cut->split_tokens * cut->model->hidden;
}

static gboolean is_plain(const Cut *cut) {
  return cut->plan->time.kernels == FRAMEWORK_KERNELS_PLAIN;
}

static gboolean has_plain_norm(const Cut *cut) {
  return plan_has_plain_norm(cut->plan) && cut->model->norm == NORM_RMSNORM;
}

/* Reads and writes a tensor of so many bytes. */
static void normalise(ItemList *list, const char *name, double bytes) {
  if (has_plain_norm(list->cut))
    item_list_plain_norm(list, name, (4 + 28 / list->cut->element_bytes) * bytes);
  else
    item_list_memory(list, name, 2 * bytes);
}

/* Reads the output's gradient and the input, writes the input's gradient. */
static void normalise_backward(ItemList *list, const char *name, double bytes) {
  if (!has_plain_norm(list->cut))
    item_list_input_gradient(list, name, 3 * bytes);
  else if (list->input_gradients)
    item_list_plain_norm(list, name, (8 + 72 / list->cut->element_bytes) * bytes);
}

void norm_forward(ItemList *list, const char *name) {
  normalise(list, name, stream_bytes(list->cut));
}

void norm_backward(ItemList *list, const char *name) {
  normalise_backward(list, name, stream_bytes(list->cut));
}

/* One byte of mask per element. */
static double mask_bytes(const Cut *cut) {
  return cut->model->dropout ? (double)cut->split_tokens * cut->model->hidden : 0;
}

void dropout_backward(ItemList *list) {
  const Cut *cut = list->cut;
  if (cut->model->dropout)
    item_list_input_gradient(list, "dropout.backward", 2 * stream_bytes(cut) + mask_bytes(cut));
}

/* Bias, dropout and addition in one kernel: reads the branch and the stream, writes the stream and the mask. */
static void residual_forward(ItemList *list) {
  item_list_memory(list, "residual", 3 * stream_bytes(list->cut) + mask_bytes(list->cut));
}

/* The gradients of the branch and of the way around it are added. */
static void branch_backward_end(ItemList *list) {
  norm_backward(list, "norm.backward");
  item_list_input_gradient(list, "residual.grad", 3 * stream_bytes(list->cut));
}

static void rope(ItemList *list, const char *name) {
  const Cut *cut = list->cut;
  if (cut->model->positions == POSITIONS_ROTARY)
    item_list_memory(list, name,
                     (is_plain(cut) ? 10 : 2) * cut->element_bytes * cut->tokens * (cut->q_width + cut->kv_width));
}

/* Of `width` columns of this rank's q or k. */
static double head_bytes(const Cut *cut, gint64 width) {
  return cut->element_bytes * cut->tokens * width;
}

static void qk_norms_forward(ItemList *list) {
  const Cut *cut = list->cut;
  if (cut->model->qk_norms == QK_NORMS_NONE)
    return;
  normalise(list, "q_norm", head_bytes(cut, cut->q_width));
  normalise(list, "k_norm", head_bytes(cut, cut->kv_width));
}

static void qk_norms_backward(ItemList *list) {
  const Cut *cut = list->cut;
  if (cut->model->qk_norms == QK_NORMS_NONE)
    return;
  normalise_backward(list, "k_norm.backward", head_bytes(cut, cut->kv_width));
  normalise_backward(list, "q_norm.backward", head_bytes(cut, cut->q_width));
}

static void attention_branch_forward(ItemList *list) {
  if (list->cut->model->latent.kv_rank > 0) {
    latent_forward(list);
  } else {
    linear_column_forward(list, LINEAR_QKV);
    qk_norms_forward(list);
    rope(list, "rope");
  }
  attention_forward(list);
  linear_row_forward(list, LINEAR_ATTN_OUT);
}

static gboolean has_experts(const ItemList *list) {
  return list->piece == PIECE_LAYER && list->cut->n_experts > 0;
}

/* A norm, and what the products behind it read of it. */
static void attention_norm_again(ItemList *list) {
  const ModelLatent *latent = &list->cut->model->latent;
  norm_forward(list, "norm");
  if (latent->kv_rank == 0)
    linear_cast(list, LINEAR_QKV);
  if (latent->kv_rank > 0)
    linear_cast(list, LINEAR_KV_DOWN);
  if (latent->q_rank > 0)
    linear_cast(list, LINEAR_Q_DOWN);
  else if (latent->kv_rank > 0 && !item_list_repeats(list, MODULE_MLA_UP_PROJ))
    linear_cast(list, LINEAR_Q_UP);
}

/* Experts read rows that were sent, and are kept; modules that are made again whole convert for themselves. */
static void mlp_norm_again(ItemList *list) {
  norm_forward(list, "norm");
  if (!has_experts(list) && !item_list_repeats(list, MODULE_MLP))
    linear_cast(list, LINEAR_MLP_UP);
  if (has_experts(list) && list->cut->shared_width > 0 && !item_list_repeats(list, MODULE_MOE) &&
      !item_list_repeats(list, MODULE_SHARED_EXPERTS))
    linear_cast(list, LINEAR_SHARED_UP);
}

static void attention_branch_backward(ItemList *list) {
  if (item_list_repeats(list, MODULE_LAYERNORM))
    item_list_again(list, attention_norm_again);
  linear_row_backward(list, LINEAR_ATTN_OUT);
  if (item_list_repeats(list, MODULE_MLA_UP_PROJ))
    item_list_again(list, latent_up_forward);
  attention_backward(list);
  if (list->cut->model->latent.kv_rank > 0) {
    latent_backward(list);
    return;
  }
  if (list->input_gradients)
    rope(list, "rope.backward");
  qk_norms_backward(list);
  linear_column_backward(list, LINEAR_QKV);
}

/* Elements of a token that the activation of `width` columns reads and writes, backward or forward. */
static double activation_elements(const Cut *cut, gint64 width, gboolean backward) {
  const gboolean gated = cut->model->gated;
  if (gated && is_plain(cut))
    return (backward ? 13.0 : 5.0) * width;
  return (backward ? 2.0 : 1.0) * (gated ? 2 : 1) * width + width;
}

void mlp_activation_forward(ItemList *list, gint64 rows, gint64 width) {
  const Cut *cut = list->cut;
  item_list_memory(list, cut->model->gated ? "silu_mul" : "gelu",
                   cut->element_bytes * rows * activation_elements(cut, width, FALSE));
}

/* Reads the input and the output's gradient, writes the input's gradient. */
void mlp_activation_backward(ItemList *list, gint64 rows, gint64 width) {
  const Cut *cut = list->cut;
  item_list_input_gradient(list, cut->model->gated ? "silu_mul.backward" : "gelu.backward",
                           cut->element_bytes * rows * activation_elements(cut, width, TRUE));
}

static void mlp_branch_forward(ItemList *list) {
  linear_column_forward(list, LINEAR_MLP_UP);
  mlp_activation_forward(list, list->cut->tokens, list->cut->ffn_width);
  linear_row_forward(list, LINEAR_MLP_DOWN);
}

static void mlp_branch_backward(ItemList *list) {
  if (item_list_repeats(list, MODULE_MLP))
    item_list_again(list, mlp_branch_forward);
  linear_row_backward(list, LINEAR_MLP_DOWN);
  mlp_activation_backward(list, list->cut->tokens, list->cut->ffn_width);
  linear_column_backward(list, LINEAR_MLP_UP);
}

static void parallel_block_forward(ItemList *list) {
  const Cut *cut = list->cut;
  for (gint64 i = 0; i < cut->n_norms; i++)
    norm_forward(list, "norm");
  attention_branch_forward(list);
  mlp_branch_forward(list);
  item_list_memory(list, "branch_sum", 3 * cut->element_bytes * cut->tokens * cut->model->hidden);
  item_list_wait(list, region_reduce(list, "branch_sum"));
  residual_forward(list);
}

static void parallel_block_backward(ItemList *list) {
  dropout_backward(list);
  if (list->input_gradients)
    item_list_wait(list, region_gather(list, "mlp_down.dgrad"));
  mlp_branch_backward(list);
  attention_branch_backward(list);
  for (gint64 i = 0; i < list->cut->n_norms; i++)
    branch_backward_end(list);
}

void layer_forward(ItemList *list) {
  if (list->cut->model->parallel_block) {
    parallel_block_forward(list);
    return;
  }
  norm_forward(list, "norm");
  attention_branch_forward(list);
  residual_forward(list);
  norm_forward(list, "norm");
  if (has_experts(list))
    experts_forward(list);
  else
    mlp_branch_forward(list);
  residual_forward(list);
}

void layer_backward(ItemList *list) {
  if (list->cut->model->parallel_block) {
    parallel_block_backward(list);
    return;
  }
  dropout_backward(list);
  if (item_list_repeats(list, MODULE_LAYERNORM))
    item_list_again(list, mlp_norm_again);
  if (has_experts(list))
    experts_backward(list);
  else
    mlp_branch_backward(list);
  branch_backward_end(list);
  dropout_backward(list);
  attention_branch_backward(list);
  branch_backward_end(list);
}
