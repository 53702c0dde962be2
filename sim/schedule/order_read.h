/* Reads an order from the CSV that order_csv.h and PyTorch's pipelining schedules write. */
#pragma once
#include "order.h"

/* Each stage's rank is the row that holds its actions; two pipes are recognised by which micro-batches pass each half
 * of the stages. INPUT with row and column of whatever is not an action, duplicate, missing, ahead of its input, not
 * received or not sent, or of where every rank is stuck. */
Order *order_read_csv(const char *file, GError **error);
