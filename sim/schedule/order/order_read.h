/* An order from the CSV that order_csv.h writes, and PyTorch's pipelining schedules. */
#pragma once
#include "order.h"

/* Stage → rank is taken from where each stage's actions stand; two pipes are recognised by the micro-batches that go
 * through each half of the stages. INPUT with row and column of what is no action, doubled, missing, before its input,
 * not received or not sent, or of where every rank is stuck. */
Order *order_read_csv(const char *file, GError **error);
