/* Reads an order from the CSV that order_csv.h and PyTorch's pipelining schedules write. */
#pragma once
#include "order.h"

/* Each stage's rank is the row that holds its actions; two pipes are recognised by which micro-batches pass each half
 * of the stages. INPUT with row and column of whatever is not an action, duplicate, missing, ahead of its input, not
 * received or not sent, or of where every rank is stuck. */
Order *order_read_csv(const char *file, GError **error);

/* order_check.c, for the reader alone. Checks: every (stage, micro-batch) has its F and its B, or I and W, on the
 * stage's rank; every action comes after its inputs; an untimed run reaches the end. If the file names communication:
 * every transfer between ranks is sent and received once, every stage is gathered while it computes, every gradient is
 * reduced once, after it is complete. INPUT naming row and column in `file`, and where each rank is stuck. */
gboolean order_check(const Order *order, const char *file, GError **error);
