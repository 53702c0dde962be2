/* Orders as PyTorch's pipelining schedules write them: a row per pipeline rank, a cell per time slot, an empty cell
 * where the rank idles, parentheses around two actions that run as one.
 *
 *     0F0,0F1,,,0B0,0B1                         compute only
 *     ,1F0,1B0,1F1,1B1
 *
 *     0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0, …     with communication */
#include "order_csv.h"

static const Action *action_at(const Order *order, int rank, guint i) {
  return i < order->actions[rank]->len ? &g_array_index(order->actions[rank], Action, i) : NULL;
}

/* Idle slots before action i; *next is the first entry of `idle` to consider, and is advanced past it. */
static guint idle_before(const GArray *idle, guint i, guint *next) {
  if (idle == NULL || *next >= idle->len || g_array_index(idle, IdleSlots, *next).before != i)
    return 0;
  return g_array_index(idle, IdleSlots, (*next)++).n;
}

static void append_row(const Order *order, int rank, gboolean compute_only, GString *csv) {
  const GArray *idle = order->idle != NULL ? order->idle[rank] : NULL;
  guint next_idle = 0, n_cells = 0;
  for (guint i = 0; i <= order->actions[rank]->len;) {
    for (guint n = idle_before(idle, i, &next_idle); n > 0; n--)
      if (n_cells++ > 0)
        g_string_append_c(csv, ',');
    const Action *action = action_at(order, rank, i);
    if (action == NULL)
      break;
    if (compute_only && !action_info(action->kind)->is_compute) {
      i++;
      continue;
    }
    if (n_cells++ > 0)
      g_string_append_c(csv, ',');
    i += (guint)action_print_cell(action, action_at(order, rank, i + 1), csv);
  }
  g_string_append(csv, order->ends_in_crlf ? "\r\n" : "\n");
}

static char *write_csv(const Order *order, gboolean compute_only) {
  GString *csv = g_string_new(NULL);
  for (int rank = 0; rank < order->placement->n_ranks; rank++)
    append_row(order, rank, compute_only, csv);
  return g_string_free(csv, FALSE);
}

char *order_to_csv(const Order *order) {
  return write_csv(order, FALSE);
}

char *order_to_compute_csv(const Order *order) {
  return write_csv(order, TRUE);
}

int order_column(const Order *order, int rank, guint index) {
  const GArray *idle = order->idle != NULL ? order->idle[rank] : NULL;
  guint next_idle = 0, column = 1;
  for (guint i = 0;; i++) {
    column += idle_before(idle, i, &next_idle);
    if (i == index)
      return (int)column;
    column += !action_at(order, rank, i)->overlaps_next;
  }
}
