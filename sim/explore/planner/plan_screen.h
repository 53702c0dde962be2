/* What is known of a configuration before it is simulated. */
#pragma once
#include "costs.h"
#include "memory_bound.h"
#include "planner.h"
#include "reasons.h"

typedef enum {
  SCREENED_CANDIDATE,
  SCREENED_IMPOSSIBLE,
  SCREENED_SAME,      /* equivalent to another configuration of the space */
  SCREENED_TOO_LARGE, /* even its lower bound on memory does not fit (memory_bound.h) */
  SCREENED_LATE       /* even at best */
} Screened;

/* Values that the space contains: with them, some configurations are duplicates of others and are screened out. With
 * has_no_zero, for example, ZeRO on dp 1 is the same as no ZeRO. */
typedef struct {
  const PlannerRequest *request;
  gboolean has_no_sequence_parallel, has_no_zero, has_1f1b, has_interleaved, has_two_chunks, has_no_recompute,
      has_full_recompute, has_cut_experts, has_auto_layout, has_plain_p2p;
} PlanScreen;
PlanScreen plan_screen_of(const PlannerRequest *request);
/* What a thread that screens has for itself; all borrowed. */
typedef struct {
  SpaceReader *reader;
  ShortOrder *order;
  Costs *costs; /* NULL: none are kept */
} PlanScreener;
/* *number depends on the result: a candidate's lower bound on its score (plan_bound.h), the minimum number of bytes
 * that a too large one lacks, the maximum tokens per second of a late one. With SCREENED_IMPOSSIBLE the error is
 * set: IMPOSSIBLE, or INPUT for a mistake in the configuration. Schedule auto is what comes furthest of its candidates
 * (plan_candidates()), with the best number of those. */
Screened plan_screen(const PlanScreen *screen, const PlanScreener *screener, gint64 index, double *number,
                     GError **error);

/* A candidate's lower bound on its score, if it has a tighter one: plan_screen() has one for ZeRO-3 over any of the
 * ranks (plan_shards.h), of which each is looked at here. */
double plan_screen_tighter(const PlanScreen *screen, const PlanScreener *screener, gint64 index, double number);

/* What a few options of a configuration rule out, whatever the others are.
 *
 *     tp pp cp ep  chunks  micro-batch  zero  recompute  …      11 million configurations
 *      8  3  1  2     ·         ·         ·       ·               one question: 1152 GPUs are no multiple of 8 × 3 …
 *
 * A rule is one of the checks that plan_complete() makes. It is evaluated once for all configurations that agree on
 * the axes it depends on, using the first value of every other axis. A rule lists the axes it does not depend on;
 * all others count, including any that a space has in addition. */
typedef struct PlanRules PlanRules;

/* For a screen's space; `screen` is borrowed. Any number of threads may query it. */
PlanRules *plan_rules_new(const PlanScreen *screen);
void plan_rules_free(PlanRules *rules);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PlanRules, plan_rules_free)
/* SCREENED_SAME or SCREENED_IMPOSSIBLE only if plan_screen() would say so too; SCREENED_CANDIDATE if no rule
 * applies. Counts what it finds impossible. `reader` belongs to the calling thread and the same space. */
Screened plan_rules_ask(PlanRules *rules, SpaceReader *reader, gint64 index);
/* Add the reasons for everything it found impossible. */
void plan_rules_count(const PlanRules *rules, GHashTable *reasons);
