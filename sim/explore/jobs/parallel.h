/* One function over many indices on several threads. */
#pragma once
#include <glib.h>

/* Who looks on from the calling thread, some ten times a second: `n_done` indices are visited or taken. FALSE: no more
 * are to be. */
typedef struct {
  gboolean (*look)(gint64 n_done, gpointer data);
  gpointer data;
} ParallelWatch;

/* `visit(index, thread, data)` for each index below `n`; they are begun in order, but visits of two threads overlap,
 * and those of one do not. `thread` is 0 to n_threads − 1. Returns when all are done, or, FALSE, when those are that
 * had begun as `watch` (NULL: nobody) wanted no more. */
gboolean parallel_for(gint64 n, int n_threads, void (*visit)(gint64 index, int thread, gpointer data), gpointer data,
                      const ParallelWatch *watch);
/* Processors this process may run on. */
int parallel_threads(void);
