/* Two queues between the threads and their one owner: ranges to try, batches tried. A thread ends at a range of
 * nothing. */
#include "sweep_pool.h"

#include <stdlib.h>

struct SweepPool {
  const SweepProblem *problem;
  const SweepPositions *positions;
  GAsyncQueue *ranges, *batches; /* of SweepRange *, of SweepBatch * */
  GPtrArray *threads;            /* of GThread * */
  int n_under_way;               /* the owner's */
  gint stopped;                  /* atomic */
};

static int compare_indices(const void *a, const void *b) {
  const gint64 x = *(const gint64 *)a, y = *(const gint64 *)b;
  return (x > y) - (x < y);
}

static gboolean is_done(const SweepPositions *positions, gint64 index) {
  return positions->done->len > 0 &&
         bsearch(&index, positions->done->data, positions->done->len, sizeof index, compare_indices) != NULL;
}

static SweepBatch *try_range(SweepPool *pool, SweepWorker *worker, SweepRange range) {
  const SweepPositions *positions = pool->positions;
  SweepBatch *batch = g_new0(SweepBatch, 1);
  batch->range = range;
  batch->rows = g_new(SweepRow, range.n);
  for (gint64 i = 0; i < range.n && !g_atomic_int_get(&pool->stopped); i++) {
    const gint64 position = range.first + i;
    const gint64 index = positions->shuffled ? shuffle_at(&positions->shuffle, position) : position;
    if (!is_done(positions, index))
      sweep_worker_try(worker, index, &batch->rows[batch->n_rows++]);
  }
  return batch;
}

static gpointer run_thread(gpointer data) {
  SweepPool *pool = data;
  g_autoptr(SweepWorker) worker = sweep_worker_new(pool->problem);
  for (;;) {
    g_autofree SweepRange *range = g_async_queue_pop(pool->ranges);
    if (range->n == 0)
      return NULL;
    g_async_queue_push(pool->batches, try_range(pool, worker, *range));
  }
}

SweepPool *sweep_pool_new(const SweepProblem *problem, const SweepPositions *positions, int n_threads) {
  SweepPool *pool = g_new0(SweepPool, 1);
  pool->problem = problem;
  pool->positions = positions;
  pool->ranges = g_async_queue_new_full(g_free);
  pool->batches = g_async_queue_new();
  pool->threads = g_ptr_array_new();
  for (int i = 0; i < n_threads; i++)
    g_ptr_array_add(pool->threads, g_thread_new("sweep", run_thread, pool));
  return pool;
}

void sweep_pool_push(SweepPool *pool, SweepRange range) {
  pool->n_under_way++;
  g_async_queue_push(pool->ranges, g_memdup2(&range, sizeof range));
}

int sweep_pool_n_under_way(const SweepPool *pool) {
  return pool->n_under_way;
}

SweepBatch *sweep_pool_pop(SweepPool *pool, gint64 wait_us) {
  SweepBatch *batch =
      wait_us > 0 ? g_async_queue_timeout_pop(pool->batches, (guint64)wait_us) : g_async_queue_try_pop(pool->batches);
  pool->n_under_way -= batch != NULL;
  return batch;
}

void sweep_pool_stop(SweepPool *pool) {
  g_atomic_int_set(&pool->stopped, TRUE);
}

void sweep_batch_free(SweepBatch *batch, const SweepTable *table) {
  if (batch == NULL)
    return;
  for (int i = 0; i < batch->n_rows; i++)
    sweep_row_clear(&batch->rows[i], table);
  g_free(batch->rows);
  g_free(batch);
}

void sweep_pool_free(SweepPool *pool) {
  if (pool == NULL)
    return;
  sweep_pool_stop(pool);
  for (guint i = 0; i < pool->threads->len; i++)
    g_async_queue_push(pool->ranges, g_new0(SweepRange, 1));
  for (guint i = 0; i < pool->threads->len; i++)
    g_thread_join(g_ptr_array_index(pool->threads, i));
  for (SweepBatch *batch; (batch = g_async_queue_try_pop(pool->batches)) != NULL;)
    sweep_batch_free(batch, pool->problem->table);
  g_ptr_array_unref(pool->threads);
  g_async_queue_unref(pool->ranges);
  g_async_queue_unref(pool->batches);
  g_free(pool);
}
