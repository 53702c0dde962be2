/* Private to the CPU device: lets a thread sleep until something it waits for has happened:
 *      seen = bell_epoch(bell);  if (nothing to do)  bell_sleep(bell, seen, deadline_ns);
 * A ring between the two lines is not lost. A ring without sleepers costs one atomic addition. */
#pragma once
#include <glib.h>

#include <pthread.h>
#include <stdatomic.h>

typedef struct {
  atomic_uint epoch;
  atomic_int n_sleepers;
  pthread_mutex_t mutex;
  pthread_cond_t cond;
} Bell;

void bell_init(Bell *bell);
void bell_clear(Bell *bell);
unsigned bell_epoch(Bell *bell);
void bell_ring(Bell *bell);
/* Sleeps until the next ring after `seen` (TRUE) or until `deadline_ns` of CLOCK_MONOTONIC (FALSE; G_MAXINT64: no
 * deadline). */
gboolean bell_sleep(Bell *bell, unsigned seen, gint64 deadline_ns);
