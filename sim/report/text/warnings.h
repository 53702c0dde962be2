/* Warnings about a predicted step, worded the same by every verb. */
#pragma once
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
