/* Private to auto_order: shortens an order by moving single actions, as long as that helps. */
#pragma once
#include "order_search.h"

typedef struct OrderPolish OrderPolish;
OrderPolish *order_polish_new(const FlatProblem *flat);
void order_polish_free(OrderPolish *polish);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(OrderPolish, order_polish_free)

/* Changes `order`, which must be able to run, hold no more than the cap and have its cost filled in. It never gets
 * longer, stays within the cap, and its cost is kept current. Ends when no move helps, at `bound_ns`, or when
 * *n_steps, to which the cost is added in actions looked at, exceeds `most_steps`. TRUE if the order has changed. */
gboolean order_polish_run(OrderPolish *polish, FlatTimer *timer, gint64 bound_ns, gint64 most_steps, FlatOrder *order,
                          gint64 *n_steps);
