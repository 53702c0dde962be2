/* The matrix product of a work item with dense operands. */
#pragma once
#include "kernel.h"

/* Leading dimensions follow from the layout: A is m×k, or stored as k×m; B is stored as n×k, or as k×n. The result
 * has the item's number format and is C. Batch 1. The caller sets the pointers. */
MatmulKernel dense_product(const WorkItem *item);
