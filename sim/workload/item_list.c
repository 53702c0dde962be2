/* Two in-order streams in one list. Only the edges that cross from one stream to the other are written down: the
 * latest suffices, since everything before it on its stream has ended by then.
 *
 *     compute   norm ──┐        ┌─ qkv ── attention ── attn_out ──┐            ┌─ residual
 *     tp               └ gather ┘                                 └ all_reduce ┘          */
#include "pieces.h"

void item_list_init(ItemList *list, const Cut *cut) {
  *list = (ItemList){
      .cut = cut,
      .items = g_array_sized_new(FALSE, FALSE, sizeof(WorkItem), 48),
      .last_compute = NO_ITEM,
      .awaited = NO_ITEM,
  };
}

static void append_compute(ItemList *list, WorkItem item) {
  item.after = list->awaited;
  item.recompute = list->recompute != 0;
  list->awaited = NO_ITEM;
  list->last_compute = (gint32)list->items->len;
  g_array_append_val(list->items, item);
}

static WorkItem matmul(const char *name, Number number, MatmulLayout layout, MatmulShape shape, double bytes) {
  return (WorkItem){
      .name = name,
      .kind = ITEM_MATMUL,
      .number = number,
      .layout = layout,
      .batch = shape.batch,
      .m = shape.m,
      .n = shape.n,
      .k = shape.k,
      .flops = 2.0 * shape.batch * shape.m * shape.n * shape.k,
      .bytes = bytes,
  };
}

void item_list_matmul(ItemList *list, const char *name, Number number, MatmulLayout layout, MatmulShape shape,
                      double bytes) {
  append_compute(list, matmul(name, number, layout, shape, bytes));
}

void item_list_weight_gradient(ItemList *list, const char *name, Number number, MatmulShape shape, double bytes) {
  WorkItem item = matmul(name, number, LAYOUT_NT, shape, bytes);
  item.accumulate = TRUE;
  append_compute(list, item);
}

void item_list_flash_attention(ItemList *list, const char *name, gboolean backward, double flops, double bytes) {
  const Cut *cut = list->cut;
  append_compute(list, (WorkItem){
                           .name = name,
                           .kind = ITEM_ATTENTION,
                           .number = precision_info(cut->plan->precision)->element,
                           .backward = backward != 0,
                           .batch = cut->sequences * cut->heads,
                           .m = cut->seq_len,
                           .n = cut->seq_len,
                           .k = cut->model->head_dim,
                           .flops = flops,
                           .bytes = bytes,
                       });
}

void item_list_memory(ItemList *list, const char *name, double bytes) {
  append_compute(list, (WorkItem){.name = name, .kind = ITEM_MEMORY, .bytes = bytes});
}

void item_list_input_gradient(ItemList *list, const char *name, double bytes) {
  if (list->input_gradients)
    item_list_memory(list, name, bytes);
}

gint32 item_list_collective(ItemList *list, Collective collective, const char *operand, double bytes) {
  static const char *const names[N_COLLECTIVES] = {
      [COLLECTIVE_ALL_REDUCE] = "tp.all_reduce",
      [COLLECTIVE_ALL_GATHER] = "tp.all_gather",
      [COLLECTIVE_REDUCE_SCATTER] = "tp.reduce_scatter",
  };
  g_assert(names[collective] != NULL);
  const WorkItem item = {
      .name = names[collective],
      .operand = operand,
      .kind = ITEM_COLLECTIVE,
      .recompute = list->recompute != 0,
      .collective = collective,
      .after = list->last_compute,
      .bytes = bytes,
  };
  g_array_append_val(list->items, item);
  return (gint32)list->items->len - 1;
}

void item_list_wait(ItemList *list, gint32 collective) {
  list->awaited = MAX(list->awaited, collective);
}

static double region_bytes(const Cut *cut) {
  return cut->element_bytes * cut->tokens * cut->model->hidden;
}

gint32 region_gather(ItemList *list, const char *operand) {
  if (!list->cut->sequence_parallel)
    return NO_ITEM;
  return item_list_collective(list, COLLECTIVE_ALL_GATHER, operand, region_bytes(list->cut));
}

gint32 region_reduce(ItemList *list, const char *operand) {
  if (list->cut->tp == 1 || (list->every_other && list->cut->sequence_parallel)) /* reduce-scattered ones were kept */
    return NO_ITEM;
  const Collective collective = list->cut->sequence_parallel ? COLLECTIVE_REDUCE_SCATTER : COLLECTIVE_ALL_REDUCE;
  return item_list_collective(list, collective, operand, region_bytes(list->cut));
}
