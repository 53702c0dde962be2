/* Threads that try configurations: ranges go in, rows come out. The caller bounds how many ranges are under way, so
 * that neither queue grows. */
#pragma once
#include "sample.h"
#include "sweep_try.h"

/* SweepPositions in the order in which a sweep goes through its space: indices themselves, or drawn at random. */
typedef struct {
  gint64 first, n;
} SweepRange;

/* Which indices those are, and which need no trying. */
typedef struct {
  Shuffle shuffle;
  gboolean shuffled;
  const GArray *done; /* of gint64, ascending; borrowed */
} SweepPositions;

typedef struct {
  SweepRange range; /* that it was made for */
  SweepRow *rows;   /* [n_rows]; owned */
  int n_rows;       /* fewer than the range has where some were done before, or the pool was told to stop */
} SweepBatch;
void sweep_batch_free(SweepBatch *batch, const SweepTable *table);

typedef struct SweepPool SweepPool;
/* Everything is borrowed. */
SweepPool *sweep_pool_new(const SweepProblem *problem, const SweepPositions *positions, int n_threads);
/* Waits for what runs; what came out and was not taken is lost. */
void sweep_pool_free(SweepPool *pool);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SweepPool, sweep_pool_free)

void sweep_pool_push(SweepPool *pool, SweepRange range);
/* Ranges pushed and not come out as batches. */
int sweep_pool_n_under_way(const SweepPool *pool);
/* The next finished range, for which it waits `wait_us` at most; NULL: none yet. */
SweepBatch *sweep_pool_pop(SweepPool *pool, gint64 wait_us);
/* Configurations not begun are left out: every range under way comes out soon, shortened. */
void sweep_pool_stop(SweepPool *pool);
