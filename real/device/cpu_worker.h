/* Private to the CPU device: threads that work streams off, the events between them, and the device's failure. */
#pragma once
#include "cpu_kernels.h"
#include "cpu_queue.h"
#include "host_machine.h"

#include <pthread.h>

/* Where a thread sleeps until something it cares about has happened:
 *      seen = bell_epoch(bell);  if (nothing to do)  bell_sleep(bell, seen, deadline_ns);
 * A ring between the two lines is not lost. */
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
/* Until the next ring after `seen` or `deadline_ns` of CLOCK_MONOTONIC (G_MAXINT64: none). */
void bell_sleep(Bell *bell, unsigned seen, gint64 deadline_ns);

typedef enum { WORKER_COMPUTE, WORKER_COMMUNICATION, N_WORKERS } WorkerKind;
enum { BELL_HOST = N_WORKERS, N_BELLS };

struct CpuEvent {
  DeviceEvent base;
  atomic_uint state;    /* EVENT_DONE, and for each bell 2 << its number: ring it when done */
  gint64 ns;            /* written before EVENT_DONE */
  gboolean is_recorded; /* the host's: record() was called since the last use */
};
enum { EVENT_DONE = 1 };

typedef struct CpuWorkers CpuWorkers;
typedef struct CpuWorker CpuWorker;

typedef struct {
  DeviceStream base;
  CpuWorker *worker;
  CpuQueue queue;
  gboolean is_used; /* the host's: between stream_new and stream_free */
} CpuStream;

/* N_STREAMS lanes of a rank, and some for measurements beside them. */
enum { MAX_WORKER_STREAMS = 64 };

struct CpuWorker {
  WorkerKind kind;
  CpuWorkers *all;
  pthread_t thread;
  Bell *bell;
  CpuStream streams[MAX_WORKER_STREAMS];
  atomic_int n_streams; /* only grows: streams that are free have empty queues */
  atomic_int is_busy;   /* in a kernel or a copy */
  CpuScratch *scratch;
};

struct CpuWorkers {
  CpuWorker worker[N_WORKERS];
  Bell bells[N_BELLS]; /* by WorkerKind, then the host's */
  const HostCores *cores;
  atomic_int has_failed, is_closing;
  pthread_mutex_t error_mutex;
  GError *error; /* the first one; under error_mutex */
  int n_threads; /* started */
};

gboolean cpu_workers_start(CpuWorkers *workers, const HostCores *cores, GError **error);
/* Joins the threads; what is queued is dropped. */
void cpu_workers_stop(CpuWorkers *workers);
/* Keeps the first error (taken over), makes everything queued be skipped and wakes whoever sleeps. */
void cpu_workers_fail(CpuWorkers *workers, GError *error);
gboolean cpu_workers_check(CpuWorkers *workers, GError **error);

/* TRUE: was done already. FALSE: bell `number` rings when it is. */
gboolean cpu_event_call(CpuEvent *event, int number);
gboolean cpu_event_is_done(const CpuEvent *event);
