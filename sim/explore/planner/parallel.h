/* One function over many indices on several threads. */
#pragma once
#include <glib.h>

/* `visit(index, thread, data)` for each index below `n`, in no order; `thread` is 0 to n_threads − 1, and no two visits
 * of one thread overlap. Returns when all are done. */
void parallel_for(gint64 n, int n_threads, void (*visit)(gint64 index, int thread, gpointer data), gpointer data);
/* Processors this process may run on. */
int parallel_threads(void);
