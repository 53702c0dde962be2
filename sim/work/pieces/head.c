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
 * e and 2e. Under a framework that computes the loss from whole logits (PyTorch's cross_entropy), the ranks of tp
 * gather them, and each converts all to fp32 and makes their log-softmax in three passes (4, 4, 4 + 4); back it makes
 * the loss's gradient (4) and, in two passes, that of the logits (4, 4 + 4 + 4), which is converted. Without
 * conversions that takes as long as 16 and 32 bytes would, by Liger-Kernel's benchmark of cross-entropy: the latter are
 * counted.
 *
 * Chunked, with the output layer (Liger-Kernel's fused_linear_cross_entropy.py, v0.1.0 to v0.6.1, 2024-25): of V words
 * and a stream h wide the T tokens are cut in chunks of T/⌈V/h⌉, rounded up to a power of 2, so that a chunk's logits
 * are about as large as the stream. For each, forward computes logits, loss, their gradient in place and both gradients
 * of the product, so that all chunks but the first read the weights twice more (2e) and read and write their gradient
 * (2e), of which the products hide a fourth: with 3e its benchmark's four times on A100 (benchmark/data of v0.4.2,
 * 4,096 to 32,768 tokens, 128,256 words, stream 4,096: 121, 167, 277 and 511 ms) are 1 to 9 % shorter than predicted.
 * Backward multiplies both gradients by the loss's. The host waits for the number of tokens that count. Products are
 * listed as one, in their own phases: when they run matters only where stages wait for each other. Since v0.6.2
 * gradients of weights are made apart and added through fp32, some 12 bytes more of each weight and chunk, which is not
 * counted.
 *
 * Logits capped at ±c (Gemma 2, arXiv 2408.00118 §2) take one more kernel each way, c·tanh(x/c): 2e, and 3e
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
  if (local->method->time.loss == LOSS_CHUNKED)
    return (LossBytes){e, e, e, 0};
  if (local->method->time.loss == LOSS_FUSED)
    return (LossBytes){e, e, e, 2 * e};
  if (local->method->time.loss == LOSS_PLAIN)
    return (LossBytes){cast + loss_bytes, loss_bytes, 2 * loss_bytes, 8 * loss_bytes + cast};
  return (LossBytes){cast + loss_bytes, 5 * loss_bytes, 2 * loss_bytes, 2 * loss_bytes + cast};
}

/* Logits that the loss is computed from on this rank. */
static double loss_logits(const LocalSizes *local) {
  const gint64 ranks = local->method->time.loss == LOSS_PLAIN ? local->tp : 1;
  return (double)local->tokens * local->vocab_width * ranks;
}

/* The ranks of tp agree on n numbers per token, unless each has all logits. */
static void loss_agree(ItemList *list, const char *operand, int n) {
  if (list->local->method->time.loss != LOSS_PLAIN)
    loss_all_reduce(list, operand, n);
}

static void gather_logits(ItemList *list) {
  const LocalSizes *local = list->local;
  if (local->method->time.loss == LOSS_PLAIN && local->tp > 1)
    item_list_wait(list, item_list_collective(list, AXIS_TP, COLLECTIVE_ALL_GATHER, "logits",
                                              local->element_bytes * loss_logits(local)));
}

/* What the chunks read and write of the weights and their gradients, and what backward does to the latter. */
static void chunked_backward(ItemList *list) {
  const LocalSizes *local = list->local;
  const double e = local->element_bytes, matrix = local_vocab_parameters(local);
  const int n = local_loss_chunks(local);
  item_list_input_gradient(list, "loss.backward", 2 * e * local->tokens * local->model->hidden);
  if (list->weight_gradients && logits_train(local->model, local->method))
    item_list_operations(list, "loss.sums", n, (3 * (n - 1) + 2) * e * matrix);
}

/* From the last layer's output to a loss. */
static void loss_forward(ItemList *list) {
  const LocalSizes *local = list->local;
  const double logits = loss_logits(local);
  const LossBytes bytes = loss_kernels(local);
  norm_forward(list, "final_norm");
  if (local->method->time.loss == LOSS_CHUNKED)
    item_list_host_wait(list);
  linear_column_forward(list, LINEAR_LOGITS);
  if (local->model->capped_logits)
    item_list_memory(list, "logit_cap", 2 * local->element_bytes * local->tokens * local->vocab_width);
  gather_logits(list);
  item_list_memory(list, "loss.max", bytes.max * logits);
  loss_agree(list, "loss.max", 1);
  item_list_memory(list, "loss.exp", bytes.exp * logits);
  loss_agree(list, "loss.exp", 2);
  item_list_memory(list, "loss.softmax", bytes.softmax * logits);
  if (local->cp > 1)
    item_list_collective(list, AXIS_CP, COLLECTIVE_ALL_REDUCE, "loss.softmax", 2 * loss_bytes);
}

static void loss_backward(ItemList *list) {
  const LocalSizes *local = list->local;
  const double logits = (double)local->tokens * local->vocab_width;
  if (local->method->time.loss == LOSS_CHUNKED)
    chunked_backward(list);
  else
    item_list_input_gradient(list, "loss.backward", loss_kernels(local).backward * loss_logits(local));
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
