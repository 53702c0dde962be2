/* Threads that try configurations: ranges go in, rows come out. The caller limits the ranges in flight, so neither
 * queue grows. */
#pragma once
#include "sample.h"
#include "sweep_try.h"

/* Consecutive positions in the order in which a sweep visits its space. */
typedef struct {
  gint64 first, n;
} SweepRange;

/* Which index is at a position (the same number, or one drawn at random), and which indices need not be tried. */
typedef struct {
  Shuffle shuffle;
  gboolean shuffled;
  const GArray *done; /* of gint64, ascending; borrowed */
} SweepPositions;

typedef struct {
  SweepRange range; /* that it was made for */
  SweepRow *rows;   /* [n_rows]; owned */
  int n_rows;       /* fewer than the range has if some were done before, or the pool was told to stop */
} SweepBatch;
void sweep_batch_free(SweepBatch *batch, const SweepTable *table);

typedef struct SweepPool SweepPool;
/* Everything is borrowed. */
SweepPool *sweep_pool_new(const SweepProblem *problem, const SweepPositions *positions, int n_threads);
/* Waits for what is running; finished batches not yet taken are lost. */
void sweep_pool_free(SweepPool *pool);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SweepPool, sweep_pool_free)

void sweep_pool_push(SweepPool *pool, SweepRange range);
/* Ranges pushed but not yet returned as batches. */
int sweep_pool_n_under_way(const SweepPool *pool);
/* The next finished range; waits at most `wait_us`. NULL: none yet. */
SweepBatch *sweep_pool_pop(SweepPool *pool, gint64 wait_us);
/* Start no further configurations: every range in flight comes out soon, shortened. */
void sweep_pool_stop(SweepPool *pool);
