/* Programs of one structure differ only in their tables: how many FLOPs a work has, how many bytes a transfer. So the
 * op lists of a schedule, lowered and verified once, are lent to every plan that lowers to the same ones.
 *
 * A cache is for one thread. What it lends outlives it, and may be freed by another thread. */
#pragma once
#include "plan_order.h"
#include "program.h"

typedef struct ProgramCache ProgramCache;
/* Keeps up to `most_ops` ops, of about 140 bytes each including derived data, in two halves (recent_table.h). */
ProgramCache *program_cache_new(gsize most_ops);
void program_cache_free(ProgramCache *cache);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ProgramCache, program_cache_free)

/* The Program of a plan whose schedule is one of the table (choice->info): the result of lower(), but with shared
 * ops, and with equal works, transfers and effects under other numbers. Verified; errors as plan_order_make() and
 * lower(). May extend a kept program of the same structure with n_fewer micro-batches (more_groups.h); n_fewer = the
 * plan's own number disables this. */
Program *program_cache_lower(ProgramCache *cache, PlanOrder *choice, const Workload *workload, gint64 n_fewer,
                             GError **error);

typedef struct {
  guint64 n_lowered; /* structures lowered and verified */
  guint64 n_longer;  /* structures derived from one with fewer micro-batches */
  guint64 n_lent;    /* programs made from a kept one */
} ProgramCacheStats;
ProgramCacheStats program_cache_stats(const ProgramCache *cache);
