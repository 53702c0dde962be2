/* Threads take the next few indices from a shared counter, so that one long visit delays nobody else. */
#include "parallel.h"

enum { TAKEN_AT_ONCE = 8 };

typedef struct {
  gint64 n, next;
  gint64 at_once;
  GMutex lock; /* of `next` */
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
    loop->next = end;
    g_mutex_unlock(&loop->lock);
    if (first == end)
      return NULL;
    for (gint64 i = first; i < end; i++)
      loop->visit(i, worker->thread, loop->data);
  }
}

void parallel_for(gint64 n, int n_threads, void (*visit)(gint64 index, int thread, gpointer data), gpointer data) {
  Loop loop = {.n = n, .at_once = n > 64 * n_threads ? TAKEN_AT_ONCE : 1, .visit = visit, .data = data};
  g_autofree Worker *workers = g_new0(Worker, n_threads);
  g_autofree GThread **threads = g_new0(GThread *, n_threads);
  g_mutex_init(&loop.lock);
  for (int i = 0; i < n_threads; i++)
    workers[i] = (Worker){&loop, i};
  for (int i = 1; i < n_threads; i++)
    threads[i] = g_thread_new("parallel", work, &workers[i]);
  work(&workers[0]);
  for (int i = 1; i < n_threads; i++)
    g_thread_join(threads[i]);
  g_mutex_clear(&loop.lock);
}

int parallel_threads(void) {
  return (int)g_get_num_processors();
}
