/* Runs one function over many indices on several threads. */
#pragma once
#include <glib.h>

/* Called about ten times a second from the calling thread; `n_done` indices are finished or in progress. Return
 * FALSE to start no more. */
typedef struct {
  gboolean (*look)(gint64 n_done, gpointer data);
  gpointer data;
} ParallelWatch;

/* Call visit(index, thread, data) for each index below `n`, started in ascending order; calls on one thread are
 * sequential, calls on different threads overlap. `thread` is 0 to most_threads − 1. TRUE when all are done; FALSE if
 * `watch` (NULL: none) asked to stop, once the calls in progress have returned. */
gboolean parallel_for(gint64 n, int most_threads, void (*visit)(gint64 index, int thread, gpointer data), gpointer data,
                      const ParallelWatch *watch);
/* Processors this process may run on. */
int parallel_threads(void);
