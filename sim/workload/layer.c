/* One transformer layer as kernels; backward is the same story from the end.
 *
 *     x → norm → qkv → rope → attention → attn_out → +x → norm → mlp_up → activation → mlp_down → + → y
 *
 * A parallel block (GPT-NeoX, Falcon) sends x through both branches at once and adds them to it in one residual; the
 * branches' partial sums are added before the one tp reduction.
 *
 * Memory-bound kernels count each tensor they read and write once. Weight gradients of norms are made by the kernel
 * that makes the norm's input gradient, so they belong to I. */
#include "pieces.h"

static double stream_bytes(const Cut *cut) {
  return cut->element_bytes * cut->split_tokens * cut->model->hidden;
}

void norm_forward(ItemList *list, const char *name) {
  item_list_memory(list, name, 2 * stream_bytes(list->cut));
}

/* Reads the output's gradient and the input, writes the input's gradient. */
void norm_backward(ItemList *list, const char *name) {
  item_list_input_gradient(list, name, 3 * stream_bytes(list->cut));
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
    item_list_memory(list, name, 2 * cut->element_bytes * cut->tokens * (cut->q_width + cut->kv_width));
}

static void attention_branch_forward(ItemList *list) {
  linear_column_forward(list, LINEAR_QKV);
  rope(list, "rope");
  attention_forward(list);
  linear_row_forward(list, LINEAR_ATTN_OUT);
}

static void attention_branch_backward(ItemList *list) {
  linear_row_backward(list, LINEAR_ATTN_OUT);
  attention_backward(list);
  if (list->input_gradients)
    rope(list, "rope.backward");
  linear_column_backward(list, LINEAR_QKV);
}

static void mlp_branch_forward(ItemList *list) {
  const Cut *cut = list->cut;
  linear_column_forward(list, LINEAR_MLP_UP);
  item_list_memory(list, cut->model->gated ? "silu_mul" : "gelu",
                   cut->element_bytes * cut->tokens * (cut->up_width + cut->ffn_width));
  linear_row_forward(list, LINEAR_MLP_DOWN);
}

static void mlp_branch_backward(ItemList *list) {
  const Cut *cut = list->cut;
  linear_row_backward(list, LINEAR_MLP_DOWN);
  /* reads the input and the output's gradient, writes the input's gradient */
  item_list_input_gradient(list, cut->model->gated ? "silu_mul.backward" : "gelu.backward",
                           cut->element_bytes * cut->tokens * (2 * cut->up_width + cut->ffn_width));
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
  mlp_branch_forward(list);
  residual_forward(list);
}

void layer_backward(ItemList *list) {
  if (list->cut->model->parallel_block) {
    parallel_block_backward(list);
    return;
  }
  dropout_backward(list);
  mlp_branch_backward(list);
  branch_backward_end(list);
  dropout_backward(list);
  attention_branch_backward(list);
  branch_backward_end(list);
}
