/* Private to the reader of orders: whether an order from a file can run. */
#pragma once
#include "order.h"

/* Checks: every (stage, micro-batch) has its F and its B, or I and W, on the stage's rank; every action comes after
 * its inputs; an untimed run reaches the end. If the file names communication: every transfer between ranks is sent
 * and received once, every stage is gathered while it computes, every gradient is reduced once, after it is complete.
 * INPUT naming row and column in `file`, and where each rank is stuck. */
gboolean order_check(const Order *order, const char *file, GError **error);
