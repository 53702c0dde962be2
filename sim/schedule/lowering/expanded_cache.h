/* Expanded programs of one structure also differ only in their tables. So the op lists of one expansion are lent to
 * all programs that expand the same way:
 *
 *     alike        the source's ops (by SharedOps.number), which of them are cut, and into what segments (segments.h)
 *     separate     works, transfers, effects: built from each plan's own
 *
 * Equal entries of a table share one number, and sizes that are equal under one plan may differ under the next. So
 * the entries are built again in the original order; if one gets a different number, the program is expanded anew.
 *
 * A cache is for one thread. What it lends outlives it, and may be freed by another thread. */
#pragma once
#include "ops_beside.h"
#include "passes.h"

typedef struct ExpandedCache ExpandedCache;
/* Keeps up to `most_ops` ops, of about 110 bytes each, in two halves (recent_table.h). */
ExpandedCache *expanded_cache_new(gsize most_ops);
void expanded_cache_free(ExpandedCache *cache);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ExpandedCache, expanded_cache_free)

/* Result of program_expand_noting(), or of program_expand() if `beside` is NULL. A program lent by a ProgramCache
 * gets shared ops without a course. Use one ProgramCache with each ExpandedCache. */
Program *expanded_cache_expand(ExpandedCache *cache, const Program *program, const Workload *workload,
                               const OpsBeside *beside);

typedef struct {
  guint64 n_expanded; /* structures expanded */
  guint64 n_lent;     /* programs made from a kept one */
} ExpandedCacheStats;
ExpandedCacheStats expanded_cache_stats(const ExpandedCache *cache);
