/* Private to the CPU device: the threads that execute streams, the events between them, and the failure state. */
#pragma once
#include "cpu_kernels.h"
#include "device.h"
#include "host_machine.h"

#include <pthread.h>
#include <stdatomic.h>

/* Lets a thread sleep until something it waits for has happened (D. Reed, R. Kanodia, CACM 22, 1979). An advance
 * without sleepers costs one atomic addition. */
typedef struct {
  atomic_uint count;
  atomic_int n_sleepers;
  pthread_mutex_t mutex;
  pthread_cond_t cond;
} Eventcount;

typedef enum { WORKER_COMPUTE, WORKER_COMMUNICATION, N_WORKERS } WorkerKind;
enum { AWAITED_BY_HOST = N_WORKERS, N_AWAITING };

typedef struct {
  DeviceEvent base;
  atomic_uint state;    /* EVENT_DONE, and for each eventcount 2 << its number: advance it when done */
  gint64 ns;            /* written before EVENT_DONE */
  gboolean is_recorded; /* the host's: record() was called since the last use */
} CpuEvent;
enum { EVENT_DONE = 1 };

typedef enum { COMMAND_LAUNCH, COMMAND_COPY, COMMAND_RECORD, COMMAND_WAIT, COMMAND_HOST_TASK } CommandKind;

typedef struct {
  CommandKind kind;
  union {
    struct {
      char *to;
      const char *from;
      gint64 bytes; /* left */
    } copy;
    CpuEvent *event; /* RECORD, WAIT */
    struct {
      HostStep step;
      gpointer data;
    } task;
    Kernel kernel;
  };
} CpuCommand;

typedef struct CpuWorkers CpuWorkers;
typedef struct CpuWorker CpuWorker;

typedef struct {
  DeviceStream base;
  CpuWorker *worker;
  GMutex lock;
  GQueue commands;  /* of CpuCommand, owned; under the lock. Only the worker removes them */
  gboolean is_used; /* the host's: between stream_new and stream_free */
} CpuStream;

/* A rank's N_STREAMS lanes, plus some for measurements. */
enum { MAX_WORKER_STREAMS = 64 };

struct CpuWorker {
  WorkerKind kind;
  CpuWorkers *all;
  pthread_t thread;
  Eventcount *count;
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
  Eventcount counts[N_AWAITING]; /* by WorkerKind, then the host's */
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

/* `command` is copied. */
void cpu_stream_push(CpuStream *stream, const CpuCommand *command);
gboolean cpu_stream_is_empty(CpuStream *stream);

gboolean cpu_event_is_done(const CpuEvent *event);
/* The host sleeps until the event is done (TRUE), there is a failure or `timeout_ns` has passed. */
gboolean cpu_event_sleep_until(CpuWorkers *workers, CpuEvent *event, gint64 timeout_ns);
