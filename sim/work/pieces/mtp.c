/* Heads that predict a further token (multi-token prediction, arXiv 2412.19437 §2.2), each after the previous one. T
 * tokens, h hidden; x is the output of the last layer, or of the previous head:
 *
 *     x ─────────────────────── mtp_norm ┐
 *                                        ├ (T, 2h) ── mtp_proj (T, h) ── layer ── norm ── logits ── loss
 *     next tokens ── embedding  mtp_norm ┘                              (of the last kind)  as the head's
 *
 * Cut by tp, the product makes columns (Megatron-Core's multi_token_prediction.py, 2025): its input of 2h is gathered
 * under sequence parallelism; its output is gathered by columns (T, h/tp → h) and written side by side, and each rank
 * takes its own tokens. Backward gathers their gradient under sequence parallelism and takes a rank's columns.
 *
 * The tables of the embedding and of the logits are the model's own. If the embedding's is on another rank, a copy of
 * it is held and its gradient is summed with the original's, like that of a tied matrix (workload.c). Backward is the
 * same from the end; both norms' gradients are made side by side, and x's is added to the one from the previous loss.
 * These heads are in the head's lists, so that a stage has them together with its head. */
#include "pieces.h"

static void as_layer(ItemList *list, void (*walk)(ItemList *list)) {
  const Piece piece = list->piece;
  list->piece = PIECE_LAYER;
  walk(list);
  list->piece = piece;
}

static double stream_bytes(const LocalSizes *local) {
  return local->element_bytes * local->tokens * local->model->hidden;
}

static void columns_to_tokens(ItemList *list) {
  const double bytes = stream_bytes(list->local);
  if (list->local->tp == 1)
    return;
  item_list_wait(list, item_list_collective(list, AXIS_TP, COLLECTIVE_ALL_GATHER, "mtp_proj.columns", bytes));
  item_list_memory(list, "mtp_proj.join", 2 * bytes);
}

static void tokens_to_columns(ItemList *list) {
  if (list->local->tp == 1 || !list->input_gradients)
    return;
  item_list_wait(list, region_gather(list, "mtp_proj.tokens"));
  item_list_memory(list, "mtp_proj.split", 2 * stream_bytes(list->local) / list->local->tp);
}

void mtp_forward(ItemList *list) {
  embedding_forward(list);
  norm_forward(list, "mtp_norm");
  norm_forward(list, "mtp_norm");
  linear_column_forward(list, LINEAR_MTP_PROJ);
  columns_to_tokens(list);
  as_layer(list, layer_forward);
}

static void layer_again(ItemList *list) {
  item_list_recompute(list, layer_forward);
}

void mtp_backward(ItemList *list) {
  if (list->input_gradients && head_recomputes(list->local->method))
    as_layer(list, layer_again);
  as_layer(list, layer_backward);
  tokens_to_columns(list);
  linear_column_backward(list, LINEAR_MTP_PROJ);
  norm_backward(list, "mtp_norm.backward");
  norm_backward(list, "mtp_norm.backward");
  embedding_backward(list);
}
