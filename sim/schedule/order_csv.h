/* An order as text. */
#pragma once
#include "order.h"

/* CSV as written by PyTorch's pipelining schedules, compute only or with communication: a row per rank, a cell per
 * action or overlapped pair, empty cells where the rank idles. An order read from a file is written back byte for
 * byte, provided its line ends were uniform and its cells had no surrounding blanks. */
char *order_to_csv(const Order *order);
char *order_to_compute_csv(const Order *order); /* without its communication */
/* Column of a rank's action in that CSV, from 1. */
int order_column(const Order *order, int rank, guint index);
