/* Heads that predict a token further (multi-token prediction, arXiv 2412.19437 §2.2), each behind the one before. T
 * tokens, h hidden; x is what the last layer made, or the head before:
 *
 *     x ─────────────────────────── norm ┐
 *                                        ├ (T, 2h) ── mtp_proj (T, h) ── layer ── norm ── logits ── loss
 *     next tokens ── embedding ──── norm ┘                              (of the last kind)  as the head's
 *
 * The tables of the embedding and of the logits are the model's own; where the embedding's lies on another rank, a copy
 * of it is held and its gradient summed with that one's, as a tied matrix's is (workload.c). Backward is the same from
 * the end; both norms' gradients are made side by side. They stand in the head's lists, so that a stage has them with
 * its head. */
#include "pieces.h"

static void as_layer(ItemList *list, void (*walk)(ItemList *list)) {
  const Piece piece = list->piece;
  list->piece = PIECE_LAYER;
  walk(list);
  list->piece = piece;
}

void mtp_forward(ItemList *list) {
  embedding_forward(list);
  norm_forward(list, "norm");
  norm_forward(list, "norm");
  linear_column_forward(list, LINEAR_MTP_PROJ);
  as_layer(list, layer_forward);
}

static void layer_again(ItemList *list) {
  item_list_again(list, layer_forward);
}

void mtp_backward(ItemList *list) {
  if (list->input_gradients && list->cut->plan->recompute == RECOMPUTE_FULL)
    as_layer(list, layer_again);
  as_layer(list, layer_backward);
  linear_column_backward(list, LINEAR_MTP_PROJ);
  norm_backward(list, "norm.backward");
  norm_backward(list, "norm.backward");
  embedding_backward(list);
}

/* Of the layer, experts included, the product and three norms. */
gint64 mtp_parameters(const Cut *cut) {
  const Linear proj = linear_of(cut, LINEAR_MTP_PROJ);
  return cut_piece_parameters(cut, PIECE_LAYER) + proj.n * proj.k + 3 * cut_norm_parameters(cut->model);
}

gint64 mtp_whole_parameters(const Cut *cut) {
  const Linear proj = linear_of(cut, LINEAR_MTP_PROJ);
  return cut_whole_parameters(cut, PIECE_LAYER) + proj.n * proj.k + 3 * cut_norm_parameters(cut->model);
}

/* The norms' inputs, of which x is kept already, and the product's, besides the layer's own; W of the product needs the
 * gradient of what it made. */
PieceMemory mtp_memory(const Cut *cut, PieceMemory layer) {
  const double stream = (double)cut->split_tokens * cut->model->hidden;
  const PieceMemory embedding = piece_memory(cut, PIECE_EMBEDDING);
  layer.saved_bytes += cut->element_bytes * stream + 2 * cut->linear_bytes * stream + embedding.saved_bytes;
  layer.released_by_I += cut->element_bytes * stream + embedding.released_by_I;
  layer.held_for_W += cut->linear_bytes * stream + embedding.held_for_W;
  return layer;
}
