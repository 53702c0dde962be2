/* Plans that predictions cannot tell apart, and which of them to take.
 *
 *     best ── 1. ── 2. ── 3. ──┆── 4.       by score; ┆ is as far behind the best as ratios of predictions are off
 *                   └ simplest               tied: best to 3.; 2. is recommended: ahead of it by chance are the best
 *                                            and 1., and 3. is behind it by chance
 */
#pragma once
#include "plan_outcome.h"

/* A share: two plans' times, or costs, that differ by less may as well be in the other order, with a chance above one
 * in ten either way. On one machine with one framework errors have most in common. */
double plan_tie_width(const PlanOutcome *a, const PlanOutcome *b);

/* Which of two plans is simpler to run: < 0 if a is. The first of these that differs decides: how many warnings there
 * are (warnings.h); how many of tp, pp, cp and ep are in use; pp, tp, cp and ep themselves; chunks; a
 * schedule other than 1f1b and interleaved; what is offloaded, recomputed and sharded. */
int plan_compare_simplicity(const PlanOutcome *a, const PlanOutcome *b);

typedef struct {
  GArray *tied;            /* of guint, ascending: the best, and the plans tied with it; owned */
  guint recommended;       /* index of the simplest of these, or of the one whose neighbour is */
  const PlanOutcome *plan; /* the simplest: that one, or its neighbour; borrowed */
  double width; /* that of the best and the last of these, or of the next plan if there are no others; NAN: nor is
                   there a next */
} PlanTie;

/* Of plans sorted by score: GPtrArray of PlanOutcome, at least one. What does the same as a tied plan and recomputes
 * more is not tied: it cannot be faster. `neighbours` (NULL: none) are plans of the same families (plan_family.h), told
 * apart as `compared` says: one that is tied and simpler stands for its family. */
PlanTie plan_tie_of(const GPtrArray *kept, const GPtrArray *neighbours, const char *const *compared);
void plan_tie_clear(PlanTie *tie);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(PlanTie, plan_tie_clear)
