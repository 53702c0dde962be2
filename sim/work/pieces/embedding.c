/* What comes before the first layer, cut by vocabulary (arXiv 1909.08053 §3): a row of the word table per token
 * (zeros for words of other ranks, so that the sum over tp is the lookup), plus the position's row, BLOOM's norm,
 * dropout. It has no input gradient. Its weight gradient is, as in frameworks, a dense matrix of the table's size:
 * zeroed, scattered into, and added to the main gradient. */
#include "pieces.h"

void embedding_forward(ItemList *list) {
  const Cut *cut = list->cut;
  const double e = cut->element_bytes, h = cut->model->hidden;
  item_list_memory(list, "embedding", 2 * e * cut->tokens * h);
  item_list_wait(list, region_reduce(list, "embedding"));
  if (cut->model->embedding_norm)
    norm_forward(list, "embedding_norm");
  if (cut->model->positions == POSITIONS_LEARNED)
    item_list_memory(list, "positions", 3 * e * cut->split_tokens * h);
  if (cut->model->dropout_rate.embedding > 0)
    item_list_memory(list, "dropout", (2 * e + 1) * cut->split_tokens * h);
}

void embedding_backward(ItemList *list) {
  const Cut *cut = list->cut;
  const double e = cut->element_bytes, g = cut->gradient_bytes, h = cut->model->hidden;
  if (cut->model->dropout_rate.embedding > 0)
    item_list_input_gradient(list, "dropout.backward", (2 * e + 1) * cut->split_tokens * h);
  if (cut->model->embedding_norm)
    norm_backward(list, "embedding_norm.backward");
  if (list->input_gradients)
    item_list_wait(list, region_gather(list, "embedding.wgrad"));
  if (!list->weight_gradients)
    return;
  item_list_memory(list, "embedding.wgrad", 3 * e * cut->tokens * h + (2 * e + 2 * g) * cut_vocab_parameters(cut));
  if (cut->model->positions == POSITIONS_LEARNED) /* summed over sequences */
    item_list_memory(list, "positions.wgrad", h * (e * cut->split_tokens + 2 * g * cut->split_tokens / cut->sequences));
}
