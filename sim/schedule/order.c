#include "order.h"

Order *order_new_empty(Placement *placement, int n_micro_batches) {
  Order *order = g_new(Order, 1);
  *order = (Order){1, placement, n_micro_batches, .actions = g_new(GArray *, placement->n_ranks)};
  guint n_chunks = (guint)(placement->n_stages / placement->n_ranks);
  for (int rank = 0; rank < placement->n_ranks; rank++)
    order->actions[rank] = g_array_sized_new(FALSE, FALSE, sizeof(Action), 3 * n_chunks * (guint)n_micro_batches);
  return order;
}

void order_add(Order *order, int rank, ActionKind kind, int stage, int micro_batch) {
  Action action = {.stage = stage, .micro_batch = micro_batch, .kind = (guint8)kind};
  g_array_append_val(order->actions[rank], action);
}

Order *order_ref(Order *order) {
  g_atomic_int_inc(&order->n_refs);
  return order;
}

void order_free(Order *order) {
  if (order == NULL || !g_atomic_int_dec_and_test(&order->n_refs))
    return;
  for (int rank = 0; rank < order->placement->n_ranks; rank++) {
    g_array_unref(order->actions[rank]);
    if (order->idle != NULL)
      g_array_unref(order->idle[rank]);
  }
  g_free(order->actions);
  g_free(order->idle);
  placement_free(order->placement);
  g_free(order);
}
