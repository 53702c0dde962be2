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

/* Values that the space has besides: with them, some configurations do the same as others and are screened out. So with
 * has_no_zero, ZeRO on dp 1 is the same as none. */
typedef struct {
  const PlannerRequest *request;
  gboolean has_no_sequence_parallel, has_no_zero, has_1f1b, has_interleaved, has_one_chunk, has_two_chunks,
      has_no_recompute, has_cut_experts, has_auto_layout, has_plain_p2p;
} PlanScreen;
PlanScreen plan_screen_of(const PlannerRequest *request);
/* What is another configuration under its own name, and impossible under this one or not worth a workload: 1f1b of
 * chunks is interleaved, a V of other than two chunks is the one of two; whole experts of a model that has none; layers
 * dealt out to one stage, which sends to no other. */
gboolean plan_screen_is_misnamed(const PlanScreen *screen, const SpacePoint *point);
/* IMPOSSIBLE for chunks of a lone rank, which are layers one after another as one chunk has them: worth a try where the
 * space has nothing else for that rank. Of a plan whose chunks are known. */
gboolean plan_screen_check_chunks(const PlanScreen *screen, const Plan *plan, GError **error);

/* Sets *number by what is returned: of a candidate its least score (plan_bound.h), of one too large the bytes that are
 * lacking at least, of a late one its tokens per second at most. With SCREENED_IMPOSSIBLE the error is set: IMPOSSIBLE,
 * or INPUT for a mistake in the configuration. */
Screened plan_screen(const PlanScreen *screen, SpaceReader *reader, ShortOrder *kept, gint64 index, double *number,
                     GError **error);
