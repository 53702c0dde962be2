/* Memory-bound operators of PyTorch and vLLM, from the sizes and types of their inputs: what their kernels read and
 * write, each tensor once. */
#pragma once
#include "profile.h"
#include "work_item.h"

/* A MEMORY item named as the curve of a GPU file that the operator's kernels belong to (measured_kernels.h). `kernel`:
 * one of those it issued, whose name tells the type of lists of tensors. FALSE: another operator, or its sizes or types
 * are unknown. */
gboolean pass_read(const ProfileOperator *op, const char *kernel, WorkItem *item);
