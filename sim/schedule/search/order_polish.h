/* Private to auto_order: an order made shorter by moving single actions, as long as that helps. */
#pragma once
#include "order_search.h"

typedef struct OrderPolish OrderPolish;
OrderPolish *order_polish_new(const FlatProblem *flat);
void order_polish_free(OrderPolish *polish);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(OrderPolish, order_polish_free)

/* Change `order`, which must run, hold no more than the cap and have its cost filled in: never longer, still within the
 * cap, cost kept current. Ends when no move helps, at `bound_ns`, or once *n_steps, to which the cost is added in
 * actions looked at, is beyond `most_steps`. TRUE when the order has changed. */
gboolean order_polish_run(OrderPolish *polish, FlatTimer *timer, gint64 bound_ns, gint64 most_steps, FlatOrder *order,
                          gint64 *n_steps);
