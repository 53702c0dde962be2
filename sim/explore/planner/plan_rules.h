/* What a few options of a configuration rule out, whatever the others are.
 *
 *     tp pp cp ep  chunks  micro-batch  zero  recompute  …      11 million configurations
 *      8  3  1  2     ·         ·         ·       ·               one question: 1152 GPUs are no multiple of 8 × 3 …
 *
 * A rule is one of the checks that plan_complete() makes. It is evaluated once for all configurations that agree on
 * the axes it depends on, using the first value of every other axis. A rule lists the axes it does not depend on;
 * all others count, including any that a space has in addition. */
#pragma once
#include "plan_screen.h"

typedef struct PlanRules PlanRules;

/* For a screen's space; `screen` is borrowed. Any number of threads may query it. */
PlanRules *plan_rules_new(const PlanScreen *screen);
void plan_rules_free(PlanRules *rules);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PlanRules, plan_rules_free)
/* SCREENED_SAME or SCREENED_IMPOSSIBLE only if plan_screen() would say so too; SCREENED_CANDIDATE if no rule
 * applies. Counts what it finds impossible. `reader` belongs to the calling thread and the same space. */
Screened plan_rules_ask(PlanRules *rules, SpaceReader *reader, gint64 index);
/* Add the reasons for everything it found impossible. */
void plan_rules_count(const PlanRules *rules, PlanReasons *reasons);
