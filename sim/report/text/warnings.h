/* Warnings about a predicted step, worded the same by every verb. */
#pragma once
#include "plan.h"
#include "step_report.h"

/* Share of a GPU's memory above which a plan gets a warning: predicted peaks are off by some per cent (see
 * docs/validation.md) and do not include allocator fragmentation. */
#define MEMORY_WARNED_ABOVE 0.95

/* Warnings about a complete plan whose fullest GPU uses `used_share` of its memory (0: not known; above 1 it does
 * not fit, which is not a warning): almost no memory is left; and far_gathers_warning(), for nodes of
 * `gpus_per_node` GPUs (0: not known). May be empty. The array owns the strings. */
GPtrArray *warnings_new(const Plan *plan, int gpus_per_node, double used_share);
/* Only the warning about memory: a sentence, or NULL; owned by the caller. */
char *warning_of_memory(double used_share);
/* All warnings for a step. */
GPtrArray *warnings_of_step(const StepReport *report);

/* ZeRO-3 over more ranks than predictions have been compared with. */

/* The most ranks that gather each other's weight shards in any published run whose prediction was compared
 * (measurements/published.csv, llm-foundry/c1: 2.7 % too long). */
enum { GATHERING_RANKS_COMPARED = 512 };

/* The warning for a complete plan whose weights are gathered by more ranks than that; NULL: none. Owned by the
 * caller.
 *
 * Llama-2-7B under FSDP with 2 sequences of 4,096 tokens per GPU lost 37.2 % of its tokens per second per GPU from
 * 128 to 2,048 H100 (arXiv 2411.13055, 2024), where `simulate` predicts a few per cent; no published numbers explain
 * why, so no term could be fitted. The advice names the most ranks, up to those compared, that plan_complete()
 * accepts in place of the plan's and whose GPUs make up whole nodes of `gpus_per_node` (0: not known); if there are
 * none, the most it accepts. Whether the larger shards fit in memory is not checked. */
char *far_gathers_warning(const Plan *plan, int gpus_per_node);

/* GPUs spanned by a set of shards over `ranks` of the plan (a multiple of cp), including those in between, if ranks
 * follow each other on GPUs. */
gint64 far_gathers_span(const Plan *plan, gint64 ranks);
