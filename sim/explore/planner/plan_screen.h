/* What is known of a configuration before it is simulated. */
#pragma once
#include "memory_bound.h"
#include "plan_reasons.h"
#include "planner.h"

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
      has_cut_experts, has_auto_layout, has_plain_p2p;
} PlanScreen;
PlanScreen plan_screen_of(const PlannerRequest *request);
/* Configurations that duplicate another one under a different name, and are impossible under this name or not worth
 * building a workload for: 1f1b with chunks is interleaved; a V schedule with other than two chunks is the one with
 * two; whole experts in a model without experts; a balanced layout, or overlapped sends, with one pipeline rank. */
gboolean plan_screen_is_misnamed(const PlanScreen *screen, const SpacePoint *point);
/* *number depends on the result: a candidate's lower bound on its score (plan_bound.h), the minimum number of bytes
 * that a too large one lacks, the maximum tokens per second of a late one. With SCREENED_IMPOSSIBLE the error is
 * set: IMPOSSIBLE, or INPUT for a mistake in the configuration. Schedule auto is what comes furthest of its candidates
 * (plan_candidates()), with the best number of those. */
Screened plan_screen(const PlanScreen *screen, SpaceReader *reader, ShortOrder *kept, gint64 index, double *number,
                     GError **error);
