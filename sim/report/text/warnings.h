/* What to beware of in a predicted step, as every verb says it. */
#pragma once
#include "step_report.h"

/* Share of a GPU's memory above which a plan is warned of: predicted peaks are some per cent from measured ones (see
 * docs/validation.md), and what an allocator cannot join is not in them. */
#define MEMORY_WARNED_ABOVE 0.95

/* Sentences on a complete plan whose fullest GPU has `used_share` of its memory taken (0: not known; above 1 it does
 * not fit, which is not a warning): next to no memory is left; and far_gathers_warning(), of nodes of `gpus_per_node`
 * GPUs (0: not known). Empty where there is nothing to say. Strings owned by the array. */
GPtrArray *warnings_new(const Plan *plan, int gpus_per_node, double used_share);
/* Of these what is about memory alone: a sentence, or NULL; owned by the caller. */
char *warning_of_memory(double used_share);
/* All, of a step's. */
GPtrArray *warnings_of_step(const StepReport *report);
