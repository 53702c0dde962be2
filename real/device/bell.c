/* The epoch counts rings. A sleeper announces itself before it reads the epoch; a ringer advances the epoch before it
 * looks for sleepers. So one of the two sees the other:
 *
 *      sleeper   n_sleepers++ · epoch = seen? · wait          ringer   epoch++ · n_sleepers > 0? · lock, unlock, wake
 *
 * The lock keeps the ringer's wake-up from falling between a sleeper's look at the epoch and its wait. */
#include "bell.h"

#include <errno.h>
#include <time.h>

void bell_init(Bell *bell) {
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_mutex_init(&bell->mutex, NULL);
  pthread_cond_init(&bell->cond, &monotonic);
  pthread_condattr_destroy(&monotonic);
}

void bell_clear(Bell *bell) {
  pthread_cond_destroy(&bell->cond);
  pthread_mutex_destroy(&bell->mutex);
}

unsigned bell_epoch(Bell *bell) {
  return atomic_load(&bell->epoch);
}

void bell_ring(Bell *bell) {
  atomic_fetch_add(&bell->epoch, 1);
  if (atomic_load(&bell->n_sleepers) == 0)
    return;
  pthread_mutex_lock(&bell->mutex); /* every sleeper now waits, or will see the new epoch */
  pthread_mutex_unlock(&bell->mutex);
  pthread_cond_broadcast(&bell->cond);
}

gboolean bell_sleep(Bell *bell, unsigned seen, gint64 deadline_ns) {
  struct timespec deadline = {.tv_sec = deadline_ns / 1000000000, .tv_nsec = deadline_ns % 1000000000};
  pthread_mutex_lock(&bell->mutex);
  atomic_fetch_add(&bell->n_sleepers, 1);
  int status = 0;
  while (atomic_load(&bell->epoch) == seen && status != ETIMEDOUT)
    status = deadline_ns == G_MAXINT64 ? pthread_cond_wait(&bell->cond, &bell->mutex)
                                       : pthread_cond_timedwait(&bell->cond, &bell->mutex, &deadline);
  atomic_fetch_sub(&bell->n_sleepers, 1);
  pthread_mutex_unlock(&bell->mutex);
  return atomic_load(&bell->epoch) != seen;
}
