/* Threads take the next few indices from a shared counter, so that one long visit delays nobody else. The calling
 * thread is one of them, unless it has to look on. */
#include "parallel.h"

enum { TAKEN_AT_ONCE = 8, PLENTY = 4096 /* for a thread */ };
static const gint64 look_every_us = 100000;

typedef struct {
  gint64 n, next;
  gint64 at_once;
  int n_working;
  GMutex lock; /* of `n`, `next`, n_working */
  GCond ended; /* one that worked */
  void (*visit)(gint64 index, int thread, gpointer data);
  gpointer data;
} Loop;

typedef struct {
  Loop *loop;
  int thread;
} Worker;

static gpointer work(gpointer data) {
  const Worker *worker = data;
  Loop *loop = worker->loop;
  for (;;) {
    g_mutex_lock(&loop->lock);
    gint64 first = loop->next, end = MIN(first + loop->at_once, loop->n);
    loop->next = MAX(first, end);
    const gboolean is_over = first >= end;
    if (is_over && --loop->n_working == 0)
      g_cond_signal(&loop->ended);
    g_mutex_unlock(&loop->lock);
    if (is_over)
      return NULL;
    for (gint64 i = first; i < end; i++)
      loop->visit(i, worker->thread, loop->data);
  }
}

/* Until nobody works any more. */
static void look_on(Loop *loop, const ParallelWatch *watch) {
  g_mutex_lock(&loop->lock);
  while (loop->n_working > 0) {
    if (g_cond_wait_until(&loop->ended, &loop->lock, g_get_monotonic_time() + look_every_us))
      continue;
    const gint64 n_done = loop->next;
    g_mutex_unlock(&loop->lock);
    const gboolean goes_on = watch->look(n_done, watch->data);
    g_mutex_lock(&loop->lock);
    loop->n = goes_on ? loop->n : MIN(loop->n, loop->next);
  }
  g_mutex_unlock(&loop->lock);
}

gboolean parallel_for(gint64 n, int most_threads, void (*visit)(gint64 index, int thread, gpointer data), gpointer data,
                      const ParallelWatch *watch) {
  const int n_threads = (int)CLAMP(n, 1, most_threads);
  Loop loop = {.n = n,
               .at_once = n > PLENTY * n_threads ? TAKEN_AT_ONCE : 1,
               .n_working = n_threads,
               .visit = visit,
               .data = data};
  const int n_beside = watch != NULL ? n_threads : n_threads - 1;
  g_autofree Worker *workers = g_new0(Worker, n_threads);
  g_autofree GThread **threads = g_new0(GThread *, n_threads);
  g_mutex_init(&loop.lock);
  g_cond_init(&loop.ended);
  for (int i = 0; i < n_threads; i++)
    workers[i] = (Worker){&loop, i};
  for (int i = 0; i < n_beside; i++)
    threads[i] = g_thread_new("parallel", work, &workers[i]);
  if (watch != NULL)
    look_on(&loop, watch);
  else
    work(&workers[n_beside]);
  for (int i = 0; i < n_beside; i++)
    g_thread_join(threads[i]);
  g_mutex_clear(&loop.lock);
  g_cond_clear(&loop.ended);
  return loop.next == n;
}

int parallel_threads(void) {
  return (int)g_get_num_processors();
}
