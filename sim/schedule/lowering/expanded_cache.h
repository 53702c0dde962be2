/* Expanded programs of one structure, too, differ in their tables alone. So the ops that one was cut into are lent to
 * all that are cut alike:
 *
 *     the same     ops that are cut, by their number (SharedOps), which of them are, and into what segments (segments.h)
 *     of its own   works, transfers, effects: made anew of the plan's
 *
 * Equal entries of a table are one, and sizes that are equal under one plan need not be under the next. So the entries
 * are made in the order in which they were; where one comes out under another number the program is expanded anew.
 *
 * A cache is for one thread. What it lends outlives it, and may be freed by another. */
#pragma once
#include "ops_beside.h"
#include "passes.h"

typedef struct ExpandedCache ExpandedCache;
/* Keeps up to so many ops, of about 110 bytes each, in two halves (recent_table.h). */
ExpandedCache *expanded_cache_new(gsize most_ops);
void expanded_cache_free(ExpandedCache *cache);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ExpandedCache, expanded_cache_free)

/* What program_expand_beside() makes of the program, or without `beside` program_expand(); of a program that a
 * ProgramCache lent, with shared ops, which have no course: one ProgramCache is used with one of these. */
Program *expanded_cache_expand(ExpandedCache *cache, const Program *program, const Workload *workload,
                               const OpsBeside *beside);

typedef struct {
  guint64 n_expanded; /* structures cut */
  guint64 n_lent;     /* programs made of one that was there already */
} ExpandedCacheStats;
ExpandedCacheStats expanded_cache_stats(const ExpandedCache *cache);
