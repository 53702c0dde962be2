/* Private to the reader of orders: whether an order as a file has it can run. */
#pragma once
#include "order.h"

/* Every action after its inputs; where the file names communication, every transfer between ranks sent and received
 * once, every stage gathered while it computes, every gradient reduced once it is whole; and a run without time reaches
 * the end. Every (stage, micro-batch) must have its F and its B, or I and W, on the stage's rank.
 * INPUT naming row and column in `file`, and what each rank is stuck at. */
gboolean order_check(const Order *order, const char *file, GError **error);
