/* The memory-bound kernels of a layer: norms, dropout and residuals, rotation, the activation of an MLP. Each tensor
 * read or written is counted once. The kernel that makes a norm's input gradient also makes its weight gradient, so
 * the latter belongs to I.
 *
 * Under a framework of plain kernels (quirks.c) RMSNorm, rotation and gate are single operations. Per
 * element, e bytes wide:
 *
 *     RMSNorm   in fp32: convert (e + 4), square (8), mean (4), divide (8), convert back (4 + e), times weight (2e)
 *       back    the weight's two gradients (5e) and a sum (e); convert (e + 4), the division's two (8 + 12) and a sum
 *               (4), the square's (a power, its factor and a product: 28), add (12), convert back (4 + e)
 *     rotation  swap the halves (negate, join: 3 tensors), two products and a sum (7), as many back; all but the sum (3)
 *               move parts of rows or broadcast cosine and sine, and are strided (strided_rate)
 *     gate      SiLU (2) and product (3); back: both factors' gradients (6), SiLU's (3), joined (4)
 *
 * Transformer Engine's kernel does not support a factor on cosine and sine. If a framework uses single operations for
 * that case only (scaled_rotation), they are the above plus a join with the columns that are not rotated, of which
 * there are none (2). Backward: the two products (4), the half negated (1) and joined (2), zeros in place of the
 * columns that are not rotated (1), and two sums of what comes back to q or k (6): _apply_rotary_pos_emb_bshd of
 * Megatron Core's rope_utils.py, since 2025-11. Launches: 6 for each of q and k, cosine and sine (6), 7 back. The
 * products broadcast cosine and sine over heads, and the negated half is a part of rows: 5 of these passes either way
 * are strided. */
#include "pieces.h"

static double stream_bytes(const LocalSizes *local) {
  return local->element_bytes * local->split_tokens * local->model->hidden;
}

static gboolean is_plain(const LocalSizes *local) {
  return local->method->time.kernels == FRAMEWORK_KERNELS_PLAIN;
}

static gboolean has_plain_norm(const LocalSizes *local) {
  return local->method->plain_norm && local->model->norm == NORM_RMSNORM;
}

/* How often a single-kernel norm reads or writes a tensor as large as its input x: forward it reads x and writes y,
 * 2; backward it reads dy and x and writes dx, 3. A framework may state higher numbers for its LayerNorm. */
static double norm_passes(const LocalSizes *local, gboolean backward) {
  const FrameworkPasses *stated = &local->method->time.layer_norm;
  const double passes = backward ? stated->backward : stated->forward;
  if (local->model->norm != NORM_RMSNORM && passes > 0)
    return passes;
  return backward ? 3 : 2;
}

/* A norm of a tensor of `bytes`. */
static void normalise(ItemList *list, const char *name, double bytes) {
  if (has_plain_norm(list->local))
    item_list_plain_norm(list, name, (4 + 28 / list->local->element_bytes) * bytes);
  else
    item_list_memory(list, name, norm_passes(list->local, FALSE) * bytes);
}

static void normalise_backward(ItemList *list, const char *name, double bytes) {
  if (!has_plain_norm(list->local))
    item_list_input_gradient(list, name, norm_passes(list->local, TRUE) * bytes);
  else if (list->input_gradients)
    item_list_plain_norm(list, name, (8 + 72 / list->local->element_bytes) * bytes);
}

void norm_forward(ItemList *list, const char *name) {
  normalise(list, name, stream_bytes(list->local));
}

void norm_backward(ItemList *list, const char *name) {
  normalise_backward(list, name, stream_bytes(list->local));
}

/* One byte of mask per element. */
static double mask_bytes(const LocalSizes *local) {
  return local->model->dropout_rate.hidden > 0 ? (double)local->split_tokens * local->model->hidden : 0;
}

void dropout_backward(ItemList *list) {
  const LocalSizes *local = list->local;
  if (local->model->dropout_rate.hidden > 0)
    item_list_input_gradient(list, "dropout.backward", 2 * stream_bytes(local) + mask_bytes(local));
}

void residual_forward(ItemList *list) {
  item_list_memory(list, "residual", 3 * stream_bytes(list->local) + mask_bytes(list->local));
}

void branch_backward_end(ItemList *list) {
  if (list->local->n_norms > 0)
    norm_backward(list, "norm.backward");
  item_list_input_gradient(list, "residual.grad", 3 * stream_bytes(list->local));
}

static gboolean rotates_in_operations(const LocalSizes *local) {
  return local->model->scaled_rotation && local->method->time.scaled_rotation == ROTATION_SINGLE && !is_plain(local);
}

static void rotate(ItemList *list, gboolean backward) {
  const LocalSizes *local = list->local;
  const char *name = backward ? "rope.backward" : "rope";
  const double pass_bytes = local->element_bytes * local->tokens * (local->q_width + local->kv_width);
  if (local->model->positions != POSITIONS_ROTARY)
    return;
  if (rotates_in_operations(local))
    item_list_strided_operations(list, name, 2 * (backward ? 7 : 12), (backward ? 14 : 12) * pass_bytes,
                                 5 * pass_bytes);
  else if (is_plain(local))
    item_list_strided_operations(list, name, 1, 10 * pass_bytes, 7 * pass_bytes);
  else
    item_list_memory(list, name, 2 * pass_bytes);
}

void rope_forward(ItemList *list) {
  rotate(list, FALSE);
}

void rope_backward(ItemList *list) {
  if (list->input_gradients)
    rotate(list, TRUE);
}

/* `width` columns of this rank's q or k. */
static double head_bytes(const LocalSizes *local, gint64 width) {
  return local->element_bytes * local->tokens * width;
}

/* A norm over all heads includes columns of other ranks: each rank sums its own in fp32, for all tokens' q and k, and
 * tp adds them up. LayerNorm needs two sums (forward x and x², backward g and g·x̂). */
static void sum_over_ranks(ItemList *list, const char *name, int n_read) {
  const LocalSizes *local = list->local;
  if (local->model->qk_norms != QK_NORMS_WHOLE || local->tp == 1)
    return;
  const double sums_bytes = 4.0 * local->tokens * local_n_qk_sums(local);
  item_list_memory(list, name, n_read * head_bytes(local, local->q_width + local->kv_width) + sums_bytes);
  item_list_wait(list, item_list_collective(list, AXIS_TP, COLLECTIVE_ALL_REDUCE, name, sums_bytes));
}

void qk_norms_forward(ItemList *list) {
  const LocalSizes *local = list->local;
  if (local->model->qk_norms == QK_NORMS_NONE)
    return;
  sum_over_ranks(list, "qk_norm.sums", 1);
  normalise(list, "q_norm", head_bytes(local, local->q_width));
  normalise(list, "k_norm", head_bytes(local, local->kv_width));
}

void qk_norms_backward(ItemList *list) {
  const LocalSizes *local = list->local;
  if (local->model->qk_norms == QK_NORMS_NONE)
    return;
  if (list->input_gradients)
    sum_over_ranks(list, "qk_norm.sums.backward", 2);
  normalise_backward(list, "k_norm.backward", head_bytes(local, local->kv_width));
  normalise_backward(list, "q_norm.backward", head_bytes(local, local->q_width));
}

/* Elements per token that the activation of `width` columns reads and writes, backward or forward. */
static double activation_elements(const LocalSizes *local, gint64 width, gboolean backward) {
  const gboolean gated = local->model->gated;
  if (gated && is_plain(local))
    return (backward ? 13.0 : 5.0) * width;
  return (backward ? 2.0 : 1.0) * (gated ? 2 : 1) * width + width;
}

void mlp_activation_forward(ItemList *list, gint64 rows, gint64 width) {
  const LocalSizes *local = list->local;
  item_list_memory(list, local->model->gated ? "silu_mul" : "gelu",
                   local->element_bytes * rows * activation_elements(local, width, FALSE));
}

/* Reads the input and the output's gradient, writes the input's gradient. */
static void activation_backward(ItemList *list, gint64 rows, double elements, int n_launches) {
  const LocalSizes *local = list->local;
  if (list->input_gradients)
    item_list_operations(list, local->model->gated ? "silu_mul.backward" : "gelu.backward", n_launches,
                         local->element_bytes * rows * elements);
}

void mlp_activation_backward(ItemList *list, gint64 rows, gint64 width) {
  activation_backward(list, rows, activation_elements(list->local, width, TRUE), 0);
}

void expert_activation_backward(ItemList *list) {
  const LocalSizes *local = list->local;
  const gint64 width = local->expert_width;
  const double again = local->method->has_expert_operations ? (local->model->gated ? 3.0 : 2.0) * width : 0;
  activation_backward(list, local->expert_rows, activation_elements(local, width, TRUE) + again, again > 0 ? 2 : 0);
}
