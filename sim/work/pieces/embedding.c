/* What comes before the first layer, cut by vocabulary (arXiv 1909.08053 §3): a row of the word table per token
 * (zeros for words of other ranks, so that the sum over tp is the lookup), plus the position's row, BLOOM's norm,
 * dropout. It has no input gradient. Its weight gradient is, as in frameworks, a dense matrix of the table's size:
 * zeroed, scattered into, and added to the main gradient. */
#include "pieces.h"

void embedding_forward(ItemList *list) {
  const LocalSizes *local = list->local;
  const double e = local->element_bytes, h = local->model->hidden;
  item_list_memory(list, "embedding", 2 * e * local->tokens * h);
  item_list_wait(list, region_reduce(list, "embedding"));
  if (local->model->embedding_norm)
    norm_forward(list, "embedding_norm");
  if (local->model->positions == POSITIONS_LEARNED)
    item_list_memory(list, "positions", 3 * e * local->split_tokens * h);
  if (local->model->dropout_rate.embedding > 0)
    item_list_memory(list, "dropout", (2 * e + 1) * local->split_tokens * h);
}

void embedding_backward(ItemList *list) {
  const LocalSizes *local = list->local;
  const double e = local->element_bytes, g = local->gradient_bytes, h = local->model->hidden;
  if (local->model->dropout_rate.embedding > 0)
    item_list_input_gradient(list, "dropout.backward", (2 * e + 1) * local->split_tokens * h);
  if (local->model->embedding_norm)
    norm_backward(list, "embedding_norm.backward");
  if (list->input_gradients)
    item_list_wait(list, region_gather(list, "embedding.wgrad"));
  if (!list->weight_gradients)
    return;
  item_list_memory(list, "embedding.wgrad",
                   3 * e * local->tokens * h + (2 * e + 2 * g) * local_vocab_parameters(local));
  if (local->model->positions == POSITIONS_LEARNED) /* summed over sequences */
    item_list_memory(list, "positions.wgrad",
                     h * (e * local->split_tokens + 2 * g * local->split_tokens / local->sequences));
}
