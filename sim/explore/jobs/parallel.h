/* One function over many indices on several threads. */
#pragma once
#include <glib.h>

/* Called some ten times a second from the calling thread; `n_done` indices are done or begun. FALSE: begin no more. */
typedef struct {
  gboolean (*look)(gint64 n_done, gpointer data);
  gpointer data;
} ParallelWatch;

/* Call visit(index, thread, data) for each index below `n`, begun in ascending order; visits of one thread follow each
 * other, those of different threads overlap. `thread` is 0 to n_threads − 1. TRUE when all are done; FALSE when `watch`
 * (NULL: none) asked for no more, after those that had begun are done. */
gboolean parallel_for(gint64 n, int n_threads, void (*visit)(gint64 index, int thread, gpointer data), gpointer data,
                      const ParallelWatch *watch);
/* Processors this process may run on. */
int parallel_threads(void);
