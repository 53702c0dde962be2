/* The best plan of a space, by trying all that could be it.
 *
 *     every configuration ── impossible? ── too large for memory at least? ── its bound ──→ candidates
 *     candidates, least bound first ── simulated, until the next bound is no better than the last plan kept
 *
 * Bounds (plan_bound.h, memory_bound.h) are never above what a simulation gives, so the plans kept are those an
 * exhaustive sweep would keep, in its order; ties go to the lower index. Nothing depends on the number of threads. */
#pragma once
#include "interrupt.h"
#include "launch.h"
#include "plan_outcome.h"
#include "plan_reasons.h"
#include "space.h"

enum { PLANNER_ANY_FRAMEWORK = -1, PLANNER_MOST_CONFIGURATIONS = 20000000 };

typedef struct {
  const Space *space; /* finished; borrowed */
  PlanScoring scoring;
  int n_kept;                /* plans kept, the best and its runners-up; ≥ 1 */
  int framework;             /* LaunchFramework that must be able to run it, or PLANNER_ANY_FRAMEWORK */
  gboolean zero_is_given;    /* then plans that the framework's own tests do not have are tried, too */
  gboolean seeks_shards;     /* ZeRO's are tried over part of the ranks, too (plan_shards.h) */
  double least_tokens_per_s; /* 0: none. Plans that keep less, failures counted in where they are known, are late */
  int n_threads;             /* ≥ 1 */
} PlannerRequest;

typedef struct {
  gint64 n_configurations;
  gint64 n_same; /* do what another one does that the space has too: sequence parallelism without tp, ZeRO without dp,
                    interleaving without chunks and 1f1b of some, experts cut by the one rank of tp, selective
                    recomputation of what flash attention does not keep, a layout that deals layers out as auto does */
  gint64 n_impossible, n_out_of_memory, n_late, n_beaten_by_bound, n_slower; /* with n_same and the kept: all of them */
  gint64 n_too_large; /* of n_out_of_memory: by the bound, without simulation */
  gint64 n_simulated;
  double least_excess_bytes;       /* of those out of memory, at least (INFINITY: none) */
  double most_late_tokens_per_s;   /* of those too slow, at most (0: none) */
  gint64 n_slower_by[N_BREAKDOWN]; /* of n_slower: the part of the step in which the best gained most */
  GArray *reasons;                 /* of PlannerReason, most frequent first: why configurations are impossible */
  GPtrArray *kept;                 /* of PlanOutcome, best first; at least one */
  double wall_s;
  int signal; /* that ended the search early, so that the best may be missing and kept may be empty; 0: none */
} PlannerResult;

/* Says on standard error how far it is, and ends early with a signal that `interrupt` (initialised; NULL: neither)
 * tells. IMPOSSIBLE when no configuration is possible, fits and is in time: with the counts, and what is nearest. INPUT
 * for a space of more than PLANNER_MOST_CONFIGURATIONS and for a mistake in a configuration. */
PlannerResult *planner_search(const PlannerRequest *request, Interrupt *interrupt, GError **error);
void planner_result_free(PlannerResult *result);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PlannerResult, planner_result_free)
