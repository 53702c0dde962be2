/* A product of an item's list, of operands that lie densely. */
#pragma once
#include "kernel.h"

/* Leading dimensions by layout: A is m×k, or stored k×m; B is stored n×k, or k×n. The result is in the item's number
 * and takes the place of C; of one batch; the pointers are left to the caller. */
MatmulKernel dense_product(const WorkItem *item);
