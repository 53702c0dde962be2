/* ZeRO-3 over more ranks than predictions were compared with. */
#pragma once
#include "plan.h"

/* Ranks that gather each other's shards of the weights, the most of a published run that is predicted
 * (measurements/published.csv, llm-foundry/c1: 2.7 % too long). */
enum { GATHERING_RANKS_COMPARED = 512 };

/* What to say of a complete plan whose weights more gather; NULL: nothing. Owned by the caller.
 *
 * Llama-2-7B under FSDP with 2 sequences of 4,096 tokens a GPU lost 37.2 % of its tokens per second and GPU from 128 to
 * 2,048 H100 (arXiv 2411.13055, 2024), where `simulate` says a few per cent: why is not published in numbers that a
 * term could be fitted to. The advice is the most ranks up to those compared that plan_complete() takes in place of the
 * plan's and whose GPUs are whole nodes of `gpus_per_node` (0: not known), or where no such are, the most that it
 * takes; whether their larger shards fit is not asked. */
char *far_gathers_warning(const Plan *plan, int gpus_per_node);

/* GPUs that a set of shards over `ranks` of the plan, a multiple of cp, spans with what lies between them, where ranks
 * follow each other on GPUs. */
gint64 far_gathers_span(const Plan *plan, gint64 ranks);
