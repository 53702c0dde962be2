/* Private to the CPU device: the threads that execute streams, the events between them, and the failure state. */
#pragma once
#include "bell.h"
#include "cpu_kernels.h"
#include "cpu_queue.h"
#include "host_machine.h"

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

/* A rank's N_STREAMS lanes, plus some for measurements. */
enum { MAX_WORKER_STREAMS = 64 };

struct CpuWorker {
  WorkerKind kind;
  CpuWorkers *all;
  pthread_t thread;
  Bell *bell;
  CpuStream streams[MAX_WORKER_STREAMS];
  atomic_int n_streams; /* only grows: freed streams have empty queues */
  atomic_int is_awake;
  atomic_int polls;         /* host tasks were pending in the last sweep of its streams */
  gint64 looked_ns;         /* compute thread only: when it last swept the other thread's streams */
  pthread_mutex_t sweeping; /* held by whoever sweeps its streams */
  CpuScratch *scratch;
};

struct CpuWorkers {
  CpuWorker worker[N_WORKERS];
  Bell bells[N_BELLS]; /* by WorkerKind, then the host's */
  const HostCores *cores;
  gboolean share_core; /* both threads, or perhaps those of other ranks */
  atomic_int has_failed, is_closing;
  _Atomic guint64 n_ended; /* launches, and pieces of copies */
  pthread_mutex_t error_mutex;
  GError *error; /* the first one; under error_mutex */
  int n_threads; /* started */
};

gboolean cpu_workers_start(CpuWorkers *workers, const HostCores *cores, GError **error);
/* Joins the threads; what is queued is dropped. */
void cpu_workers_stop(CpuWorkers *workers);
/* Takes ownership of `error` and keeps the first one; queued work is skipped and sleepers are woken. */
void cpu_workers_fail(CpuWorkers *workers, GError *error);
gboolean cpu_workers_check(CpuWorkers *workers, GError **error);

/* TRUE: the event is already done. FALSE: bell `number` will ring when it is. */
gboolean cpu_event_call(CpuEvent *event, int number);
gboolean cpu_event_is_done(const CpuEvent *event);
