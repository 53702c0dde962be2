/* Shared by both of Megatron-LM's files: what it refuses (launch_megatron_check.c) and the arguments it gets. */
#pragma once
#include "launch_parts.h"

/* The flags that select an MLP's activation, static, "" for its default; NULL: there are none. */
const char *launch_megatron_activation(const Model *model);
/* Expert exchanges overlap only with chunks, or without a pipeline. */
gboolean launch_megatron_overlaps_experts(const Plan *plan);
/* tp-cp-ep-dp-pp; the only other order it has is tp-cp-ep-pp-dp. */
gboolean launch_megatron_has_default_order(const Plan *plan);
