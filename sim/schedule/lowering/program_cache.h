/* Programs of one structure differ in their tables alone: how many FLOPs a work has, how many bytes a transfer. So the
 * op lists of a schedule, lowered and proved once, are lent to every plan that lowers to the same ones.
 *
 * A cache is for one thread. What it lends outlives it, and may be freed by another. */
#pragma once
#include "plan_order.h"
#include "program.h"

typedef struct ProgramCache ProgramCache;
/* Keeps up to so many ops, of about 140 bytes each with what follows from them, in two halves (recent_table.h). */
ProgramCache *program_cache_new(gsize most_ops);
void program_cache_free(ProgramCache *cache);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ProgramCache, program_cache_free)

/* The Program of a plan whose schedule is one of the table (choice->info): what lower() makes of it, with every op's
 * work, transfer and effect of the same values under other numbers, and with shared ops. Verified; errors as
 * plan_order_make() and lower(). One like it of n_fewer micro-batches that is kept may be made longer (more_groups.h);
 * as many as the plan has: none is. */
Program *program_cache_lower(ProgramCache *cache, PlanOrder *choice, const Workload *workload, gint64 n_fewer,
                             GError **error);

typedef struct {
  guint64 n_lowered; /* structures lowered and proved */
  guint64 n_longer;  /* structures made of one of fewer micro-batches */
  guint64 n_lent;    /* programs made of one that was there already */
} ProgramCacheStats;
ProgramCacheStats program_cache_stats(const ProgramCache *cache);
