/* Which phase lists what. B lists both halves in one backward walk over the piece, so it has exactly the kernels of I
 * and of W, with each weight gradient next to the input gradient it can overlap. Full recompute walks the layer
 * forward once more before its input gradient; selective recompute by products skips what was kept; W finds
 * everything kept by I. Under a framework whose full recompute stops once everything needed is there (PyTorch's
 * early-stopping checkpoint: the operands of a layer's last product are needed, its result is not), that product and
 * everything after it is omitted.
 *
 * A piece of which nothing is trained lists no weight gradients, and no backward at all if nothing before it is
 * trained.
 *
 * Under ZeRO-3 with copied buffers (zero3_buffers), F, I and B copy what was gathered for them, with their first
 * kernel; W and B copy what will be reduced, with their last. With 2 bytes gathered and 4 reduced that is 4 + 4 + 6
 * bytes for each parameter and micro-batch; where only gradients are copied, 6. */
#include "pieces.h"

static const struct {
  void (*forward)(ItemList *list);
  void (*backward)(ItemList *list);
} pieces[N_PIECES] = {
    [PIECE_EMBEDDING] = {embedding_forward, embedding_backward},
    [PIECE_DENSE_LAYER] = {layer_forward, layer_backward},
    [PIECE_LAYER] = {layer_forward, layer_backward}, /* and the other layers, by their family */
    [PIECE_HEAD] = {head_forward, head_backward},
};

gboolean recompute_stops_early(const Model *model, const Method *method) {
  const gboolean reads_output = model->post_norms || model->norms_behind || model->dropout_rate.hidden > 0;
  return method->recompute == RECOMPUTE_FULL && method->time.recompute_end == RECOMPUTE_END_NEEDED && !reads_output;
}

static void list_backward(ItemList *list, Piece piece) {
  const Method *method = list->local->method;
  const gboolean every_other = method->keeps_every_other_product;
  const gboolean is_dense = list->piece == PIECE_DENSE_LAYER || list->local->n_experts == 0;
  if (list->input_gradients && (piece_recomputes(method, piece) || (piece_is_layer(piece) && every_other))) {
    list->recompute = TRUE;
    list->every_other = every_other;
    /* of layers made again together only the last can */
    list->stops_early = is_dense && !piece_is_apart(piece) && recompute_stops_early(list->local->model, method);
    pieces[list->piece].forward(list);
    list->recompute = list->every_other = list->stops_early = FALSE;
  }
  pieces[list->piece].backward(list);
}

static WorkList finish(ItemList *list) {
  WorkList work = {.n_items = list->all->n - list->first};
  for (int i = 0; i < work.n_items; i++) {
    const WorkItem *item = item_list_nth(list, i);
    work.flops += item->flops;
    work.recompute_flops += item->recompute ? item->flops : 0;
  }
  return work;
}

static gint32 first_compute(const ItemList *list) {
  gint32 i = 0;
  while (item_list_nth(list, i)->kind == ITEM_COLLECTIVE)
    i++;
  return i;
}

/* Gathered parameters are read and written in the format they are gathered in; gradients are read as products write
 * them, and written as they are reduced. */
static void add_copies(ItemList *list, Phase phase, const CopiedParameters *copied) {
  const LocalSizes *local = list->local;
  if (list->last_compute == NO_ITEM)
    return;
  if (phase != PHASE_W && local->method->time.zero3.buffers == ZERO3_BUFFERS_COPIED)
    item_list_nth(list, first_compute(list))->behind_bytes += 2 * copied->weight_bytes;
  if (list->weight_gradients)
    item_list_nth(list, list->last_compute)->behind_bytes +=
        (local->element_bytes + local->method->gradient_sum_bytes) * copied->trained;
}

WorkList piece_list(const LocalSizes *local, Piece piece, Phase phase, const CopiedParameters *copied, WorkItems *all) {
  ItemList list;
  item_list_init(&list, local, piece_family(piece), all);
  list.input_gradients = (phase == PHASE_I || phase == PHASE_B) && piece_passes_back(local->method, piece);
  list.weight_gradients = (phase == PHASE_W || phase == PHASE_B) && piece_trains(local->method, piece);
  list.is_adapted = local->method->training.rank > 0 && piece_is_layer(piece) && !piece_is_frozen(piece);
  list.is_frozen = piece_is_layer(piece) && (list.is_adapted || piece_is_frozen(piece));
  if (phase == PHASE_F)
    pieces[list.piece].forward(&list);
  else if (list.input_gradients || list.weight_gradients)
    list_backward(&list, piece);
  add_copies(&list, phase, copied);
  return finish(&list);
}
