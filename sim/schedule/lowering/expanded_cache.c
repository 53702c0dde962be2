#include "expanded_cache.h"

#include "number_key.h"
#include "recent_table.h"
#include "segments.h"

typedef struct {
  Program *program; /* shared ops; its tables are those of the plan it was expanded for */
  GArray *made;     /* sources of its entries (expand_entries.h); owned */
} Kept;

struct ExpandedCache {
  RecentTable *kept; /* of Kept */
  ExpandedCacheStats stats;
};

static void kept_free(gpointer data) {
  Kept *kept = data;
  program_free(kept->program);
  g_array_unref(kept->made);
  g_free(kept);
}

ExpandedCache *expanded_cache_new(gsize most_ops) {
  ExpandedCache *cache = g_new0(ExpandedCache, 1);
  cache->kept = recent_table_new(most_ops, kept_free);
  return cache;
}

void expanded_cache_free(ExpandedCache *cache) {
  if (cache == NULL)
    return;
  recent_table_free(cache->kept);
  g_free(cache);
}

ExpandedCacheStats expanded_cache_stats(const ExpandedCache *cache) {
  return cache->stats;
}

/* --- the key: all that decides the ops --- */

static void add_beside(GArray *key, const OpList *list, const gboolean *is_beside) {
  guint64 bits = 0;
  for (gint32 i = 0; i < list->n_ops; i++) {
    bits = bits << 1 | (is_beside[i] ? 1 : 0);
    if (i % 64 == 63 || i == list->n_ops - 1) {
      number_key_add(key, (gint64)bits);
      bits = 0;
    }
  }
}

static void add_segment(GArray *key, const Segment *segment, const WorkList *list) {
  const WorkItem *item = &list->items[segment->first_item];
  number_key_add(key, (segment->is_collective ? 1 : 0) | (segment->is_awaited ? 2 : 0) | (gint64)segment->axis << 8 |
                          (gint64)(segment->waits_for + 1) << 16);
  if (segment->is_collective) /* its group */
    number_key_add(key, (gint64)work_item_axes(item) << 1 | (item->spans_tp ? 1 : 0));
}

static void add_segments(GArray *key, const Workload *workload) {
  Segments segments;
  segments_init(&segments, workload);
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < PHASE_OPTIMIZER; phase++) {
      const SegmentList *list = &segments.of[piece][phase];
      number_key_add(key, list->n_segments);
      for (int i = 0; i < list->n_segments; i++)
        add_segment(key, &list->segments[i], &workload->work[piece][phase]);
    }
  segments_clear(&segments);
}

static GArray *key_of(const Program *program, const Workload *workload, const OpsBeside *beside) {
  GArray *key = number_key_new();
  number_key_add(key, (gint64)program->shared->number);
  number_key_add(key, beside != NULL);
  for (int rank = 0; rank < program->n_ranks && beside != NULL; rank++)
    add_beside(key, &program->ranks[rank], beside->is_beside[rank]);
  add_segments(key, workload);
  return key;
}

/* --- the cache --- */

static gsize count_ops(const Program *program) {
  gsize n_ops = 0;
  for (int rank = 0; rank < program->n_ranks; rank++)
    n_ops += (gsize)program->ranks[rank].n_ops;
  return n_ops;
}

/* A ProgramCache counts its numbers up from 1; these count down from the largest. */
static void share(ExpandedCache *cache, Program *program) {
  gint32 **match;
  g_autoptr(GError) error = NULL;
  if (!program_match(program, &match, &error))
    g_error("expand: unverified program: %s", error->message);
  program_share_uncharted(program, match);
  program->shared->number = G_MAXUINT64 - cache->stats.n_expanded++;
}

Program *expanded_cache_expand(ExpandedCache *cache, const Program *program, const Workload *workload,
                               const OpsBeside *beside) {
  if (program->shared == NULL || program->shared->number == 0)
    return program_expand_noting(program, workload, beside, NULL);
  g_autoptr(GArray) key = key_of(program, workload, beside);
  const Kept *kept = recent_table_find(cache->kept, key);
  Program *lent = kept != NULL ? program_expand_like(program, workload, kept->program, kept->made) : NULL;
  if (lent != NULL) {
    cache->stats.n_lent++;
    return lent;
  }
  Kept *made = g_new0(Kept, 1);
  made->program = program_expand_noting(program, workload, beside, &made->made);
  share(cache, made->program);
  lent = program_expand_like(program, workload, made->program, made->made);
  g_assert(lent != NULL); /* same program, so the same entries */
  recent_table_add(cache->kept, g_steal_pointer(&key), made, count_ops(made->program));
  return lent;
}
