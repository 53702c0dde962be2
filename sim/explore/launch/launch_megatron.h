/* What both of Megatron-LM's files go by: what it refuses (launch_megatron_check.c) and what it is told. */
#pragma once
#include "launch_parts.h"

/* The flags that name an MLP's activation, static, "" for its default; NULL: none does. */
const char *launch_megatron_activation(const Model *model);
/* Exchanges of experts overlap where there are chunks, or no pipeline. */
gboolean launch_megatron_overlaps_experts(const Plan *plan);
/* tp-cp-ep-dp-pp; of the others it has tp-cp-ep-pp-dp. */
gboolean launch_megatron_has_default_order(const Plan *plan);
