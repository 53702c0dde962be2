/* Four in-order streams in one list. Only the edges between streams are stored, and of these the latest suffices,
 * since everything before it on its stream has ended by then.
 *
 *     compute   norm ──┐        ┌─ qkv ── attention ── attn_out ──┐            ┌─ residual
 *     tp               └ gather ┘                                 └ all_reduce ┘
 *     cp, ep                              (context.c, experts.c) */
#include "pieces.h"

enum { ROOM = 160 }; /* for all lists of most models */

void item_list_init(ItemList *list, const LocalSizes *local, Piece piece, WorkItems *all) {
  *list = (ItemList){
      .local = local,
      .piece = piece,
      .all = all,
      .first = all->n,
      .last_compute = NO_ITEM,
      .awaited = NO_ITEM,
  };
}

/* Its index. */
static gint32 append(ItemList *list, const WorkItem *item) {
  WorkItems *all = list->all;
  if (all->n == all->room) {
    all->room = MAX(ROOM, 2 * all->room);
    all->items = g_renew(WorkItem, all->items, all->room);
  }
  WorkItem *own = &all->items[all->n++];
  *own = *item;
  own->recompute = list->recompute != 0;
  own->mtp = (guint8)list->mtp;
  return all->n - 1 - list->first;
}

static void append_compute(ItemList *list, const WorkItem *item) {
  list->last_compute = append(list, item);
  WorkItem *own = item_list_nth(list, list->last_compute);
  own->after = list->awaited;
  own->host_waits = list->host_waits != FALSE;
  list->host_waits = FALSE;
  list->awaited = NO_ITEM;
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
  const WorkItem item = matmul(name, number, layout, shape, bytes);
  append_compute(list, &item);
}

void item_list_weight_gradient(ItemList *list, const char *name, Number number, MatmulShape shape,
                               double operand_bytes) {
  const LocalSizes *local = list->local;
  const double elements = (double)shape.batch * shape.m * shape.n;
  const gboolean apart = local->method->time.gradient_sums == GRADIENT_SUMS_APART;
  const double result_bytes = (apart ? local->element_bytes : 2 * local->gradient_bytes) * elements;
  WorkItem item = matmul(name, number, LAYOUT_NT, shape, operand_bytes + result_bytes);
  item.accumulate = !apart;
  item.result_bytes = apart ? 0 : result_bytes;
  item.behind_bytes = apart ? local_added_bytes(local) * elements : 0;
  append_compute(list, &item);
}

/* Each pair of query and key costs 2·d FLOPs for Q·Kᵀ and 2·v for P·V (v columns of V in a head); backward recomputes
 * Q·Kᵀ, and computes dQ, dK (d columns) and dP, dV (v columns). Forward reads Q, K, V and writes O; backward reads Q,
 * K, V, O, dO and writes dQ, dK, dV. Both move a log-sum-exp in fp32 for each row of each head. */
void item_list_attention(ItemList *list, gboolean backward, const AttentionBlock *block) {
  const LocalSizes *local = list->local;
  const gint64 sequences = block->sequences > 0 ? block->sequences : local->sequences;
  const double heads = (double)sequences * block->heads;
  const double d = (double)local->model->head_dim, v = (double)model_v_head_dim(local->model);
  const double q_rows = (double)block->queries * block->heads, kv_rows = (double)block->keys * block->kv_heads;
  const double read = (d + v) * (q_rows + kv_rows);
  append_compute(list,
                 &(WorkItem){
                     .name = backward ? "attention.backward" : "attention",
                     .kind = ITEM_ATTENTION,
                     .number = precision_info(local->method->precision)->element,
                     .backward = backward != 0,
                     .v_dim = d == v ? 0 : (gint32)v,
                     .windowed = block->windowed != 0,
                     .batch = sequences * block->heads,
                     .m = block->queries,
                     .n = block->keys,
                     .k = local->model->head_dim,
                     .flops = heads * block->pairs * (backward ? 6 * d + 4 * v : 2 * (d + v)),
                     .bytes = local->element_bytes * sequences * (backward ? 2 : 1) * read + 4 * heads * block->queries,
                 });
}

void item_list_memory(ItemList *list, const char *name, double bytes) {
  append_compute(list, &(WorkItem){.name = name, .kind = ITEM_MEMORY, .bytes = bytes});
}

void item_list_operations(ItemList *list, const char *name, int n_launches, double bytes) {
  append_compute(list, &(WorkItem){.name = name, .kind = ITEM_MEMORY, .n_launches = n_launches, .bytes = bytes});
}

void item_list_strided_operations(ItemList *list, const char *name, int n_launches, double bytes,
                                  double strided_bytes) {
  append_compute(
      list,
      &(WorkItem){
          .name = name, .kind = ITEM_MEMORY, .n_launches = n_launches, .bytes = bytes, .strided_bytes = strided_bytes});
}

void item_list_host_wait(ItemList *list) {
  list->host_waits = TRUE;
}

void item_list_plain_norm(ItemList *list, const char *name, double bytes) {
  append_compute(list, &(WorkItem){.name = name, .kind = ITEM_MEMORY, .is_plain = TRUE, .bytes = bytes});
}

void item_list_input_gradient(ItemList *list, const char *name, double bytes) {
  if (list->input_gradients)
    item_list_memory(list, name, bytes);
}

gboolean item_list_recomputes(const ItemList *list, RecomputeModule module) {
  return list->input_gradients && (list->local->method->recompute_modules & MODULE_BIT(module)) != 0;
}

void item_list_recompute(ItemList *list, void (*forward)(ItemList *list)) {
  list->recompute = TRUE;
  forward(list);
  list->recompute = FALSE;
}

gint32 item_list_collective(ItemList *list, Axis axis, Collective collective, const char *operand, double bytes) {
  static const char *const names[N_ITEM_AXES][N_COLLECTIVES] = {
      [AXIS_TP] = {[COLLECTIVE_ALL_REDUCE] = "tp.all_reduce",
                   [COLLECTIVE_ALL_GATHER] = "tp.all_gather",
                   [COLLECTIVE_REDUCE_SCATTER] = "tp.reduce_scatter"},
      [AXIS_CP] = {[COLLECTIVE_ALL_REDUCE] = "cp.all_reduce",
                   [COLLECTIVE_ALL_GATHER] = "cp.all_gather",
                   [COLLECTIVE_REDUCE_SCATTER] = "cp.reduce_scatter",
                   [COLLECTIVE_ALL_TO_ALL] = "cp.all_to_all",
                   [COLLECTIVE_SEND_RECV] = "cp.send_recv"},
      [AXIS_EP] = {[COLLECTIVE_ALL_TO_ALL] = "ep.all_to_all",
                   [COLLECTIVE_ALL_GATHER] = "ep.all_gather",
                   [COLLECTIVE_REDUCE_SCATTER] = "ep.reduce_scatter"},
  };
  g_assert((int)axis < N_ITEM_AXES && names[axis][collective] != NULL);
  const gboolean follows = list->awaited > list->last_compute && item_list_nth(list, list->awaited)->axis != axis;
  const WorkItem item = {
      .name = names[axis][collective],
      .operand = operand,
      .kind = ITEM_COLLECTIVE,
      .collective = collective,
      .axis = axis,
      .after = follows ? list->awaited : list->last_compute,
      .bytes = bytes,
  };
  if (follows) /* what waits for this one thereby waits for that one too */
    list->awaited = NO_ITEM;
  return append(list, &item);
}

void item_list_wait(ItemList *list, gint32 collective) {
  if (collective != NO_ITEM && list->awaited != NO_ITEM)
    g_assert(item_list_nth(list, collective)->axis == item_list_nth(list, list->awaited)->axis);
  list->awaited = MAX(list->awaited, collective);
}

gint32 region_gather_columns(ItemList *list, const char *operand, gint64 width, double element_bytes) {
  const LocalSizes *local = list->local;
  if (!local->sequence_parallel)
    return NO_ITEM;
  return item_list_collective(list, AXIS_TP, COLLECTIVE_ALL_GATHER, operand, element_bytes * local->tokens * width);
}

gint32 region_reduce_columns(ItemList *list, const char *operand, gint64 width) {
  const LocalSizes *local = list->local;
  if (local->tp == 1 || (list->every_other && local->sequence_parallel)) /* reduce-scattered ones were kept */
    return NO_ITEM;
  const Collective collective = local->sequence_parallel ? COLLECTIVE_REDUCE_SCATTER : COLLECTIVE_ALL_REDUCE;
  return item_list_collective(list, AXIS_TP, collective, operand, local->element_bytes * local->tokens * width);
}

gint32 region_gather(ItemList *list, const char *operand) {
  return region_gather_columns(list, operand, list->local->model->hidden, list->local->element_bytes);
}

gint32 region_reduce(ItemList *list, const char *operand) {
  return region_reduce_columns(list, operand, list->local->model->hidden);
}
