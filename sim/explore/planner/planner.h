/* The best plan of a space, found by trying everything that could be it.
 *
 *     every configuration ── impossible? ── too large for memory at least? ── its bound ──→ candidates
 *     candidates, least bound first ── simulated, until the next bound is no better than the last plan kept
 *
 * Bounds (plan_bound.h, memory_bound.h) never exceed what a simulation gives, so the plans kept are those an
 * exhaustive sweep would keep, in the same order; ties go to the lower index. Of a family (plan_family.h) only the best
 * is kept, and what cannot beat it is not simulated. The result does not depend on the
 * number of threads. */
#pragma once
#include "interrupt.h"
#include "launch.h"
#include "plan_outcome.h"
#include "reasons.h"
#include "space.h"

enum { PLANNER_ANY_FRAMEWORK = -1, PLANNER_MOST_CONFIGURATIONS = 20000000 };

typedef struct {
  const Space *space; /* finished; borrowed */
  PlanScoring scoring;
  int n_kept;                  /* plans to keep: the best and its runners-up; ≥ 1 */
  const char *const *compared; /* keep the best of each family, which these axes set apart, too (plan_family.h);
                                  NULL: keep the best plans, whatever they have in common */
  int framework;               /* LaunchFramework that must be able to run the plan, or PLANNER_ANY_FRAMEWORK */
  gboolean zero_is_given;      /* also try plans that the framework's own tests do not cover */
  gboolean seeks_shards;       /* also try ZeRO over part of the ranks where they are waited for */
  double least_tokens_per_s;   /* 0: none. Plans with a lower throughput, failures included if their rate is known,
                                  are late */
  int n_threads;               /* ≥ 1 */
} PlannerRequest;

typedef struct {
  gint64 n_configurations;
  gint64 n_same; /* equivalent to another one in the space: sequence parallelism without tp, ZeRO without dp,
                    interleaving without chunks and 1f1b with chunks, experts cut over tp 1, selective
                    recomputation of what flash attention does not keep, a layout that distributes layers as auto
                    does */
  gint64 n_impossible, n_out_of_memory, n_late, n_beaten_by_bound, n_slower; /* with n_same and the kept: all of them */
  gint64 n_too_large; /* of n_out_of_memory: by the bound, without simulation */
  gint64 n_simulated;
  double least_excess_bytes;       /* smallest shortfall of those out of memory (INFINITY: none) */
  double most_late_tokens_per_s;   /* highest rate of those too slow (0: none) */
  gint64 n_slower_by[N_BREAKDOWN]; /* of n_slower: the part of the step in which the best plan gained most */
  GArray *reasons;                 /* of Reason, most frequent first: why configurations are impossible */
  GPtrArray *kept;                 /* of PlanOutcome, best first; at least one */
  GPtrArray *neighbours;           /* of PlanOutcome: simulated, and slower than a kept one of their family; counted
                                      among n_slower */
  double wall_s;
  int signal; /* signal that ended the search early: the best may be missing and kept may be empty; 0: none */
} PlannerResult;

/* Reports progress and the best plan so far on standard error, and ends early on a signal reported by `interrupt`
 * (initialised; NULL: neither). IMPOSSIBLE if no configuration is possible, fits and is in time: the message has the
 * counts and the nearest miss. INPUT for a space of more than PLANNER_MOST_CONFIGURATIONS or a mistake in a
 * configuration. */
PlannerResult *planner_search(const PlannerRequest *request, Interrupt *interrupt, GError **error);
void planner_result_free(PlannerResult *result);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PlannerResult, planner_result_free)
