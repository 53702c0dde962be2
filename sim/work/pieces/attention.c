/* Attention between the QKV product and the output product, over this rank's heads; b sequences of s tokens, head
 * dimension d.
 *
 * Flash (arXiv 2205.14135): one kernel forward, one backward; scores never reach HBM. A causal mask leaves s(s+1)/2
 * pairs of query and key, a sliding window of w keys w(w+1)/2 + (s−w)·w: fully masked blocks are not computed (arXiv
 * 2307.08691; its library's window_size). Dropout regenerates its mask from the seed.
 *
 * Copies that a framework's own code makes around that kernel (attention_copies of quirks.c) are passes over
 * tensors as wide as this rank's queries. Only their bytes are counted, with one launch.
 *
 * Unfused: each product is a batched one over all s² pairs (masked ones too, including those before a window), with
 * passes over the scores in between:
 *
 *     forward    S = Q·Kᵀ → softmax (scale and mask in it) → dropout → O = P·V
 *     backward   dV = Pᵀ·dO, dP = dO·Vᵀ → dropout → softmax → dQ = dS·K, dK = dSᵀ·Q
 *
 * The softmax is one fused kernel where possible: it takes up to 4,096 keys, and groups of four matrices
 * (Megatron-LM, fused_softmax.py, 2021-24). Otherwise it is single operations in fp32: to fp32 (read e, write 4),
 * scale (4, 4), mask (4, 4 and a byte of mask), softmax (4, 4), back (4, e); backward the same without reading the
 * mask. The host issues each of the five.
 *
 * ALiBi: a head's slopes are broadcast over S, and Q·Kᵀ is added to them (torch.baddbmm: BigScience's
 * Megatron-DeepSpeed, megatron/model/transformer.py, and Hugging Face's BLOOM, 2022), which writes and reads S once
 * more. Counted with the softmax.
 *
 * Also counted with the softmax is what surrounds the products: O is brought from heads into rows of tokens (permute
 * and contiguous); dQ and dK are multiplied by the scale of Q·Kᵀ (baddbmm's alpha, PyTorch's derivatives.yaml); dQ,
 * dK and dV, the gradients of parts of one tensor, are joined (Megatron-LM, transformer.py, 2020-24). Only their
 * bytes are counted, not their four launches.
 *
 * Flash attention over a sequence cut by cp is described in context.c.
 *
 * Selective recompute of core_attn repeats the unfused forward before its backward. With flash there is nothing to
 * drop, as the kernel recomputes its scores anyway; its forward is still repeated under frameworks that checkpoint
 * it. */
#include "pieces.h"

static void copies_round_flash(ItemList *list, gboolean backward) {
  const LocalSizes *local = list->local;
  const FrameworkPasses *copies = &local->method->time.attention_copies;
  const double width_bytes = local->element_bytes * local->tokens * local->q_width;
  if (backward && copies->backward > 0)
    item_list_input_gradient(list, "attention_copies.backward", copies->backward * width_bytes);
  if (!backward && copies->forward > 0)
    item_list_memory(list, "attention_copies", copies->forward * width_bytes);
}

static void flash(ItemList *list, gboolean backward) {
  const LocalSizes *local = list->local;
  copies_round_flash(list, backward);
  const AttentionBlock row = {.heads = local->heads,
                              .kv_heads = local->kv_width / local->model->head_dim,
                              .queries = local->seq_len,
                              .keys = local->seq_len,
                              .pairs = attention_layer_pairs(local->model, local->seq_len),
                              .windowed = model_window(local->model, local->seq_len) > 0};
  const AttentionBlock whole = attention_of_documents(local, row, 1, attention_document_pairs);
  if (local->cp == 1)
    item_list_attention(list, backward, &whole);
  else
    context_attention(list, backward);
}

/* Batched products over the heads. One operand or the result is the s × s scores; the two others are Q and K (s × d)
 * or their gradients, or with `of_values` V and attention's output, whose heads may be narrower. */
static void scores_product(ItemList *list, const char *name, MatmulLayout layout, gboolean makes_scores,
                           gboolean of_values) {
  const LocalSizes *local = list->local;
  const gint64 s = local->seq_len, d = of_values ? model_v_head_dim(local->model) : local->model->head_dim;
  const double widths = of_values ? local->v_width + local->out_width : local->kv_width + local->q_width;
  item_list_matmul(list, name, precision_info(local->method->precision)->element, layout,
                   (MatmulShape){local->sequences * local->heads, s, makes_scores ? s : d, makes_scores ? d : s},
                   local->element_bytes * (local->scores + local->tokens * widths));
}

enum { SOFTMAX_MAX_KEYS = 4096, SOFTMAX_MATRICES = 4, SOFTMAX_OPERATIONS = 5 };

static gboolean fuses_softmax(const LocalSizes *local) {
  return local->seq_len <= SOFTMAX_MAX_KEYS && local->sequences * local->heads % SOFTMAX_MATRICES == 0;
}

static gboolean adds_alibi(const LocalSizes *local) {
  return local->model->positions == POSITIONS_ALIBI;
}

/* Reads and writes O. */
static double copied_forward_bytes(const LocalSizes *local) {
  return 2 * local->element_bytes * local->tokens * local->out_width;
}

/* Scales dQ and dK, joins them and dV. */
static double copied_backward_bytes(const LocalSizes *local) {
  const double scaled = local->q_width + local->kv_width, joined = scaled + local->v_width;
  return 2 * local->element_bytes * local->tokens * (scaled + joined);
}

/* Forward, ALiBi's broadcast included. */
static int softmax_launches(const LocalSizes *local) {
  return (fuses_softmax(local) ? 1 : SOFTMAX_OPERATIONS) + (adds_alibi(local) ? 1 : 0);
}

static double softmax_bytes(const LocalSizes *local) {
  const double e = local->element_bytes, alibi_bytes = adds_alibi(local) ? 2 * e : 0;
  return ((fuses_softmax(local) ? 2 * e : 2 * e + 8 * 4 + 1) + alibi_bytes) * local->scores +
         copied_forward_bytes(local);
}

static int softmax_backward_launches(const LocalSizes *local) {
  return fuses_softmax(local) ? 1 : SOFTMAX_OPERATIONS;
}

static double softmax_backward_bytes(const LocalSizes *local) {
  const double e = local->element_bytes;
  return (fuses_softmax(local) ? 3 * e : 2 * e + 9 * 4) * local->scores + copied_backward_bytes(local);
}

static void unfused_forward(ItemList *list) {
  const LocalSizes *local = list->local;
  const double e = local->element_bytes;
  scores_product(list, "scores", LAYOUT_TN, TRUE, FALSE);
  item_list_operations(list, "softmax", softmax_launches(local), softmax_bytes(local));
  if (local->model->dropout_rate.attention > 0)
    item_list_memory(list, "dropout", (2 * e + 1) * local->scores); /* a mask of one byte each */
  scores_product(list, "context", LAYOUT_NN, FALSE, TRUE);
}

static void unfused_backward(ItemList *list) {
  const LocalSizes *local = list->local;
  const double e = local->element_bytes;
  scores_product(list, "context.dv", LAYOUT_NT, FALSE, TRUE);
  scores_product(list, "context.dp", LAYOUT_TN, TRUE, TRUE);
  if (local->model->dropout_rate.attention > 0)
    item_list_memory(list, "dropout.backward", (2 * e + 1) * local->scores);
  item_list_operations(list, "softmax.backward", softmax_backward_launches(local), softmax_backward_bytes(local));
  scores_product(list, "scores.dq", LAYOUT_NN, FALSE, FALSE);
  scores_product(list, "scores.dk", LAYOUT_NT, FALSE, FALSE);
}

void attention_forward(ItemList *list) {
  if (list->every_other)
    return; /* its output was kept */
  if (list->local->method->attention == ATTENTION_FLASH)
    flash(list, FALSE);
  else
    unfused_forward(list);
}

void attention_backward(ItemList *list) {
  if (!list->input_gradients)
    return; /* no weights here */
  const Method *method = list->local->method;
  if (method->repeats_attention)
    item_list_recompute(list, attention_forward);
  if (method->attention == ATTENTION_FLASH)
    flash(list, TRUE);
  else
    unfused_backward(list);
}
