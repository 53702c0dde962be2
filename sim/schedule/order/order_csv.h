/* An order as text. */
#pragma once
#include "order.h"

/* CSV as PyTorch's pipelining schedules write it, compute only or with communication: a row per rank, a cell per action
 * or overlapped pair, empty cells where the rank idles. What was read is written back byte for byte, where it ended its
 * rows alike and had no blanks around its cells. */
char *order_to_csv(const Order *order);
char *order_to_compute_csv(const Order *order); /* without its communication */
/* Column in that CSV, from 1, of a rank's action. */
int order_column(const Order *order, int rank, guint index);
