/* What comes after the last layer, cut by vocabulary (arXiv 1909.08053 §3): final norm, logits = X·E, cross-entropy
 * in fp32 over the cut vocabulary. The loss needs three numbers per token from all of tp (the maximum, the target's
 * logit, the sum of exponentials), so it is three separate kernels:
 *
 *     loss.max       fp32 ← logits (read e, write 4), maximum (read 4)
 *     loss.exp       subtract the maximum (read 4, write 4), exponential (read 4, write 4), sum (read 4)
 *     loss.softmax   divide by the sum (read 4, write 4): saved for backward
 *     loss.backward  times the loss's gradient (read 4, write 4), to the element format (read 4, write e)
 *
 * in bytes per logit. If a framework fuses it (Transformer Engine's cross_entropy.py, 2024-26), a logit is read
 * twice, once for maximum and sum and once for its gradient, which overwrites it and which backward multiplies: e, e,
 * e and 2e. Logits capped at ±c (Gemma 2, arXiv 2408.00118 §2) take one more kernel each way, c·tanh(x/c): 2e, and 3e
 * back. Under cp the micro-batch's loss and its count of tokens are summed over the ranks that have its other tokens
 * (Megatron-LM's loss function). With fp32 activations there are no conversions.
 *
 * Heads that predict further tokens come after the model's own (mtp.c). */
#include "pieces.h"

static const double loss_bytes = 4; /* cross-entropy runs in fp32 */

/* Numbers per token that the ranks of tp must agree on. */
static void loss_all_reduce(ItemList *list, const char *operand, int n) {
  for (int i = 0; i < n && list->local->tp > 1; i++)
    item_list_wait(
        list, item_list_collective(list, AXIS_TP, COLLECTIVE_ALL_REDUCE, operand, loss_bytes * list->local->tokens));
}

/* Bytes per logit to convert between the element format and fp32. */
static double loss_cast_bytes(const LocalSizes *local) {
  return local->element_bytes < loss_bytes ? local->element_bytes + loss_bytes : 0;
}

/* Bytes per logit of the kernels above. */
typedef struct {
  double max, exp, softmax, backward;
} LossBytes;

static LossBytes loss_kernels(const LocalSizes *local) {
  const double e = local->element_bytes, cast = loss_cast_bytes(local);
  if (local->method->time.loss == LOSS_FUSED)
    return (LossBytes){e, e, e, 2 * e};
  return (LossBytes){cast + loss_bytes, 5 * loss_bytes, 2 * loss_bytes, 2 * loss_bytes + cast};
}

/* From the last layer's output to a loss. */
static void loss_forward(ItemList *list) {
  const LocalSizes *local = list->local;
  const double logits = (double)local->tokens * local->vocab_width;
  const LossBytes bytes = loss_kernels(local);
  norm_forward(list, "final_norm");
  linear_column_forward(list, LINEAR_LOGITS);
  if (local->model->capped_logits)
    item_list_memory(list, "logit_cap", 2 * local->element_bytes * logits);
  item_list_memory(list, "loss.max", bytes.max * logits);
  loss_all_reduce(list, "loss.max", 1);
  item_list_memory(list, "loss.exp", bytes.exp * logits);
  loss_all_reduce(list, "loss.exp", 2);
  item_list_memory(list, "loss.softmax", bytes.softmax * logits);
  if (local->cp > 1)
    item_list_collective(list, AXIS_CP, COLLECTIVE_ALL_REDUCE, "loss.softmax", 2 * loss_bytes);
}

static void loss_backward(ItemList *list) {
  const LocalSizes *local = list->local;
  const double logits = (double)local->tokens * local->vocab_width;
  item_list_input_gradient(list, "loss.backward", loss_kernels(local).backward * logits);
  if (local->model->capped_logits)
    item_list_input_gradient(list, "logit_cap.backward", 3 * local->element_bytes * logits);
  linear_column_backward(list, LINEAR_LOGITS);
  norm_backward(list, "final_norm.backward");
}

void head_forward(ItemList *list) {
  loss_forward(list);
  for (list->mtp = 1; list->mtp <= list->local->method->mtp_layers; list->mtp++) {
    mtp_forward(list);
    loss_forward(list);
  }
}

void head_backward(ItemList *list) {
  const LocalSizes *local = list->local;
  const int last = local->method->mtp_layers;
  for (list->mtp = last; list->mtp >= 0; list->mtp--) {
    loss_backward(list);
    if (list->mtp < last)
      item_list_input_gradient(list, "mtp.grad_sum",
                               3 * local->element_bytes * local->split_tokens * local->model->hidden);
    if (list->mtp > 0)
      mtp_backward(list);
  }
}
