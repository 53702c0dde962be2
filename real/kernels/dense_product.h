/* The matrix product of a work item with dense operands, and what fills these. */
#pragma once
#include "kernel.h"

/* Leading dimensions follow from the layout: A is m×k, or stored as k×m; B is stored as n×k, or as k×n. The result
 * has the item's number format and is C. Batch 1. The caller sets the pointers. */
MatmulKernel dense_product(const WorkItem *item);
/* Fills a dense matrix with random numbers of mean 0 and deviation 1. */
Kernel dense_random(Number number, gint64 rows, gint64 columns, guint64 seed, void *to);
