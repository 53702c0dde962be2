/* What a few options of a configuration rule out, whatever the others say.
 *
 *     tp pp cp ep  chunks  micro-batch  zero  recompute  …      11 million configurations
 *      8  3  1  2     ·         ·         ·       ·               one question: 1152 GPUs are no multiple of 8 × 3 …
 *
 * A rule is one of the checks that plan_complete() makes, and is asked of the one configuration that has the same in
 * what counts and the first value of each axis that does not; the answer is that of all. Axes that a rule does not name
 * as none of its business count, so that whatever a space has besides is looked at. */
#pragma once
#include "plan_screen.h"

typedef struct PlanRules PlanRules;

/* Of a screen's space; `screen` is borrowed. To be asked by any number of threads. */
PlanRules *plan_rules_new(const PlanScreen *screen);
void plan_rules_free(PlanRules *rules);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PlanRules, plan_rules_free)
/* SCREENED_SAME or SCREENED_IMPOSSIBLE where plan_screen() says so too; SCREENED_CANDIDATE where no rule knows. Counts
 * what it says is impossible. `reader` is of the thread, and of the same space. */
Screened plan_rules_ask(PlanRules *rules, SpaceReader *reader, gint64 index);
/* Add why, of all that it said is impossible. */
void plan_rules_count(const PlanRules *rules, PlanReasons *reasons);
