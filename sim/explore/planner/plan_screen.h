/* What is known of a configuration before it is simulated. */
#pragma once
#include "memory_bound.h"
#include "plan_reasons.h"
#include "planner.h"

typedef enum {
  SCREENED_CANDIDATE,
  SCREENED_IMPOSSIBLE,
  SCREENED_SAME,      /* does what another configuration of the space does */
  SCREENED_TOO_LARGE, /* for memory at least (memory_bound.h) */
  SCREENED_LATE       /* at best */
} Screened;

/* What the space has, too: where doing without a thing and doing the thing for nothing are the same. */
typedef struct {
  const PlannerRequest *request;
  gboolean has_no_sequence_parallel, has_no_zero, has_1f1b, has_interleaved, has_one_chunk, has_two_chunks,
      has_no_recompute, has_cut_experts, has_auto_layout, has_plain_p2p;
} PlanScreen;
PlanScreen plan_screen_of(const PlannerRequest *request);

/* *number is the least score of a candidate (plan_bound.h), the bytes that one too large has too many at least, the
 * tokens per second of a late one at most. IMPOSSIBLE, or a mistake in the configuration, sets the error with
 * SCREENED_IMPOSSIBLE. */
Screened plan_screen(const PlanScreen *screen, SpaceReader *reader, ShortOrder *kept, gint64 index, double *number,
                     GError **error);
