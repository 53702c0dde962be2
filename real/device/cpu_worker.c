/* Two threads serve a rank's streams. The compute thread has one stream to itself. All other streams share the
 * communication thread, which visits their heads in turn and never blocks in one:
 *
 *      compute         │ LAUNCH LAUNCH record(e) …          one thread
 *      tp, dp, send …  │ wait(e) TASK …  ┐
 *                      │ COPY …          ├ one thread: sweep: run each head as far as it goes
 *                      │ TASK (polled)   ┘
 *
 * After a sweep in which nothing moved the thread pauses:
 *   - A head that waits for an event writes its eventcount's number into the event, and whoever records the event
 * advances
 *     that. Its bit and DONE are set by atomic operations on one word, so one side sees the other. Nobody advances it for
 *     a thread that does not wait: waking a thread costs more than most commands.
 *   - With host tasks pending (a message can only be polled for) it polls.
 *   - If the rank has a core for each thread, both spin for as long as a short message takes, POLL_SPIN_NS, before they
 *     sleep: waking an idle core can take 20 us.
 *   - Often the rank has one core for both. Then a thread that only waits sleeps at once. A poller that woke during a
 *     kernel and found nothing would cost the kernel 3 to 30 us, more under nested virtual machines. So the compute
 *     thread itself polls between two kernels, and the poller sleeps long. When the compute thread has nothing to do,
 *     it polls for POLL_SPIN_NS and then leaves polling to the poller:
 *
 *         one core │ kernel │sweep│ kernel │sweep│ kernel …      sweep: of the other thread's streams
 *   - With more ranks than cores nobody spins: the awaited work may need this core.
 *
 * Whoever sweeps holds the streams' lock, so host tasks never run concurrently. */
#include "cpu_worker.h"

#include "error.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

enum {
  POLL_SPIN_NS = 200000,          /* spinning since something last moved */
  POLL_IDLE_PAUSE_NS = 20000,     /* between polls after that, with no kernel running */
  POLL_CROWDED_PAUSE_NS = 100000, /* the same if other ranks wait for the core, which a poll takes from them */
  POLL_BUSY_PAUSE_NS = 2000000,   /* the same beside kernels on the same core; matters only for long kernels */
  LOOK_RECORD_NS = 20000,         /* between polls by the compute thread at the end of an op */
  LOOK_KERNEL_NS = 200000,        /* and within an op, whose time then includes them */
  POLL_MOVED_NS = 10000,          /* a longer sweep has moved data, even if nothing has ended yet */
  COPY_PIECE_BYTES = 1 << 20,     /* after this much a sweep goes on to the other streams: about 100 µs */
  COMMANDS_PER_VISIT = 64,
};

/* --- eventcounts: seen = read; if (nothing to do) await(seen, deadline); an advance between the two is not lost
 *
 * A sleeper announces itself before it reads the count; who advances does so before it looks for sleepers. So one of
 * the two sees the other:
 *
 *      sleeper   n_sleepers++ · count = seen? · wait          advance   count++ · n_sleepers > 0? · lock, unlock, wake
 *
 * The lock keeps the wake-up from falling between a sleeper's look at the count and its wait. */

static void eventcount_init(Eventcount *events) {
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_mutex_init(&events->mutex, NULL);
  pthread_cond_init(&events->cond, &monotonic);
  pthread_condattr_destroy(&monotonic);
}

static void eventcount_clear(Eventcount *events) {
  pthread_cond_destroy(&events->cond);
  pthread_mutex_destroy(&events->mutex);
}

static unsigned eventcount_read(Eventcount *events) {
  return atomic_load(&events->count);
}

static void eventcount_advance(Eventcount *events) {
  atomic_fetch_add(&events->count, 1);
  if (atomic_load(&events->n_sleepers) == 0)
    return;
  pthread_mutex_lock(&events->mutex); /* every sleeper now waits, or will see the new count */
  pthread_mutex_unlock(&events->mutex);
  pthread_cond_broadcast(&events->cond);
}

/* Sleeps until the next advance after `seen` (TRUE) or until `deadline_ns` of CLOCK_MONOTONIC (FALSE; G_MAXINT64: no
 * deadline). */
static gboolean eventcount_await(Eventcount *events, unsigned seen, gint64 deadline_ns) {
  struct timespec deadline = {.tv_sec = deadline_ns / 1000000000, .tv_nsec = deadline_ns % 1000000000};
  pthread_mutex_lock(&events->mutex);
  atomic_fetch_add(&events->n_sleepers, 1);
  int status = 0;
  while (atomic_load(&events->count) == seen && status != ETIMEDOUT)
    status = deadline_ns == G_MAXINT64 ? pthread_cond_wait(&events->cond, &events->mutex)
                                       : pthread_cond_timedwait(&events->cond, &events->mutex, &deadline);
  atomic_fetch_sub(&events->n_sleepers, 1);
  pthread_mutex_unlock(&events->mutex);
  return atomic_load(&events->count) != seen;
}

/* --- commands and events ------------------------------------------------------------------------------------------ */

void cpu_stream_push(CpuStream *stream, const CpuCommand *command) {
  g_mutex_lock(&stream->lock);
  g_queue_push_tail(&stream->commands, g_memdup2(command, sizeof *command));
  g_mutex_unlock(&stream->lock);
  eventcount_advance(stream->worker->count);
}

/* The oldest command, which stays where it is until it is popped; NULL: none. */
static CpuCommand *head_of(CpuStream *stream) {
  g_mutex_lock(&stream->lock);
  CpuCommand *command = g_queue_peek_head(&stream->commands);
  g_mutex_unlock(&stream->lock);
  return command;
}

static void pop(CpuStream *stream) {
  g_mutex_lock(&stream->lock);
  g_free(g_queue_pop_head(&stream->commands));
  g_mutex_unlock(&stream->lock);
}

gboolean cpu_stream_is_empty(CpuStream *stream) {
  return head_of(stream) == NULL;
}

/* TRUE: the event is already done. FALSE: eventcount `number` will be advanced when it is. */
static gboolean await_event(CpuEvent *event, int number) {
  return (atomic_fetch_or(&event->state, 2u << number) & EVENT_DONE) != 0;
}

gboolean cpu_event_is_done(const CpuEvent *event) {
  return (atomic_load_explicit(&event->state, memory_order_acquire) & EVENT_DONE) != 0;
}

static void finish_event(CpuWorkers *workers, CpuEvent *event) {
  event->ns = host_now_ns();
  unsigned awaited = atomic_fetch_or(&event->state, EVENT_DONE); /* `event` may be gone after this */
  for (int i = 0; i < N_AWAITING; i++)
    if (awaited & 2u << i)
      eventcount_advance(&workers->counts[i]);
}

void cpu_workers_fail(CpuWorkers *workers, GError *error) {
  pthread_mutex_lock(&workers->error_mutex);
  if (workers->error == NULL)
    workers->error = g_steal_pointer(&error);
  pthread_mutex_unlock(&workers->error_mutex);
  g_clear_error(&error);
  atomic_store(&workers->has_failed, 1);
  for (int i = 0; i < N_AWAITING; i++)
    eventcount_advance(&workers->counts[i]);
}

gboolean cpu_workers_check(CpuWorkers *workers, GError **error) {
  if (!atomic_load(&workers->has_failed))
    return TRUE;
  pthread_mutex_lock(&workers->error_mutex);
  if (error != NULL)
    *error = g_error_copy(workers->error);
  pthread_mutex_unlock(&workers->error_mutex);
  return FALSE;
}

gboolean cpu_event_sleep_until(CpuWorkers *workers, CpuEvent *event, gint64 timeout_ns) {
  Eventcount *events = &workers->counts[AWAITED_BY_HOST];
  const gint64 now_ns = host_now_ns();
  const gint64 deadline_ns = timeout_ns > G_MAXINT64 - now_ns ? G_MAXINT64 : now_ns + timeout_ns;
  for (;;) {
    const unsigned seen = eventcount_read(events);
    if (await_event(event, AWAITED_BY_HOST))
      return TRUE;
    if (atomic_load(&workers->has_failed) || host_now_ns() >= deadline_ns)
      return FALSE;
    eventcount_await(events, seen, deadline_ns);
  }
}

static void look_around(CpuWorker *worker, gint64 least_ns);

/* What happened to a stream's oldest command. */
typedef enum {
  HEAD_NONE,  /* there is none */
  HEAD_ENDED, /* it was popped */
  HEAD_MOVED, /* part of it was done */
  HEAD_WAITS, /* for an event */
  HEAD_POLLED /* a host task that is not done yet */
} Head;

static void count_ended(CpuWorkers *workers) {
  atomic_fetch_add_explicit(&workers->n_ended, 1, memory_order_relaxed);
}

static Head run_copy(CpuWorker *worker, CpuCommand *command) {
  gint64 bytes = MIN(command->copy.bytes, COPY_PIECE_BYTES);
  if (bytes > 0) /* with 0 bytes the pointers may be NULL */
    memmove(command->copy.to, command->copy.from, (gsize)bytes);
  command->copy.to += bytes;
  command->copy.from += bytes;
  command->copy.bytes -= bytes;
  count_ended(worker->all);
  return command->copy.bytes == 0 ? HEAD_ENDED : HEAD_MOVED;
}

static Head run_launch(CpuWorker *worker, const CpuCommand *command) {
  GError *error = NULL;
  if (!cpu_kernel_run(&command->kernel, worker->scratch, &error))
    cpu_workers_fail(worker->all, error);
  count_ended(worker->all);
  look_around(worker, LOOK_KERNEL_NS);
  return HEAD_ENDED;
}

static Head run_task(CpuWorker *worker, const CpuCommand *command) {
  GError *error = NULL;
  gboolean has_ended = command->task.step(command->task.data, &error);
  if (error != NULL)
    cpu_workers_fail(worker->all, error);
  return has_ended ? HEAD_ENDED : HEAD_POLLED;
}

/* After a failure, runs and waits for nothing. */
static Head run_command(CpuWorker *worker, CpuCommand *command) {
  gboolean is_skipped = atomic_load_explicit(&worker->all->has_failed, memory_order_acquire) != 0;
  if (is_skipped)
    return HEAD_ENDED;
  switch (command->kind) {
  case COMMAND_LAUNCH:
    return run_launch(worker, command);
  case COMMAND_COPY:
    return run_copy(worker, command);
  case COMMAND_WAIT:
    return cpu_event_is_done(command->event) ? HEAD_ENDED : HEAD_WAITS;
  case COMMAND_HOST_TASK:
    return run_task(worker, command);
  default:
    g_assert_not_reached();
  }
}

static Head run_head(CpuWorker *worker, CpuStream *stream) {
  CpuCommand *command = head_of(stream);
  if (command == NULL)
    return HEAD_NONE;
  if (command->kind == COMMAND_RECORD) { /* served after a failure too */
    CpuEvent *event = command->event;
    pop(stream); /* first: whoever sees the event done may free the stream */
    finish_event(worker->all, event);
    look_around(worker, LOOK_RECORD_NS);
    return HEAD_ENDED;
  }
  Head head = run_command(worker, command);
  if (head == HEAD_ENDED)
    pop(stream);
  return head;
}

typedef struct {
  gboolean has_moved;
  gboolean polls; /* host tasks are pending */
} Sweep;

/* Runs each head as far as it goes. `sweeping` must be held, here and below. */
static Sweep sweep(CpuWorker *worker) {
  Sweep result = {FALSE, FALSE};
  int n = atomic_load_explicit(&worker->n_streams, memory_order_acquire);
  for (int i = 0; i < n; i++) {
    Head head = HEAD_ENDED;
    for (int visit = 0; head == HEAD_ENDED && visit < COMMANDS_PER_VISIT; visit++) {
      head = run_head(worker, &worker->streams[i]);
      result.has_moved |= head == HEAD_ENDED || head == HEAD_MOVED;
    }
    result.polls |= head == HEAD_POLLED;
  }
  return result;
}

/* Leaves the eventcount's number with every event that a head waits for. TRUE: one of them is already done. */
static gboolean await_events(CpuWorker *worker) {
  int n = atomic_load_explicit(&worker->n_streams, memory_order_acquire);
  for (int i = 0; i < n; i++) {
    const CpuCommand *command = head_of(&worker->streams[i]);
    if (command != NULL && command->kind == COMMAND_WAIT && await_event(command->event, (int)worker->kind))
      return TRUE;
  }
  return FALSE;
}

/* Sweeps until nothing moves and every awaited event will wake it. TRUE: something moved. */
static gboolean settle(CpuWorker *worker) {
  gboolean has_moved = FALSE;
  for (;;) {
    gint64 start_ns = host_now_ns();
    Sweep result = sweep(worker);
    atomic_store(&worker->polls, result.polls);
    if (result.has_moved || (result.polls && host_now_ns() - start_ns > POLL_MOVED_NS))
      has_moved = TRUE;
    else if (!await_events(worker))
      return has_moved;
    if (atomic_load(&worker->all->is_closing))
      return has_moved;
  }
}

/* On the compute thread: polls for the other thread, which sleeps, at most every least_ns. */
static void look_around(CpuWorker *worker, gint64 least_ns) {
  CpuWorker *other = &worker->all->worker[WORKER_COMMUNICATION];
  if (worker == other || !worker->all->share_core || !atomic_load_explicit(&other->polls, memory_order_relaxed))
    return;
  gint64 now_ns = host_now_ns();
  if (now_ns - worker->looked_ns < least_ns || pthread_mutex_trylock(&other->sweeping) != 0)
    return;
  settle(other);
  pthread_mutex_unlock(&other->sweeping);
  worker->looked_ns = host_now_ns();
}

/* How long to sleep when nothing moves: a deadline; 0: not at all. */
static gint64 pause_until_ns(const CpuWorker *worker, gint64 moved_ns) {
  const CpuWorkers *all = worker->all;
  const CpuWorker *compute = &all->worker[WORKER_COMPUTE], *other = &all->worker[WORKER_COMMUNICATION];
  gboolean polls = atomic_load(&worker->polls) != 0;
  gboolean looks = worker == compute && all->share_core && atomic_load(&other->polls); /* polls for the other */
  if (all->share_core && !polls && !looks)
    return G_MAXINT64;
  gint64 now_ns = host_now_ns();
  if (worker == other && all->share_core && atomic_load(&compute->is_awake))
    return now_ns + POLL_BUSY_PAUSE_NS;
  if (now_ns - moved_ns < (all->cores->is_crowded ? 0 : POLL_SPIN_NS))
    return 0;
  if (!polls)
    return G_MAXINT64;
  return now_ns + (all->cores->is_crowded ? POLL_CROWDED_PAUSE_NS : POLL_IDLE_PAUSE_NS);
}

/* TRUE: someone woke it. */
static gboolean sleep_until_ns(CpuWorker *worker, unsigned seen, gint64 deadline_ns) {
  atomic_store(&worker->is_awake, 0);
  if (worker->kind == WORKER_COMPUTE && worker->all->share_core &&
      atomic_load(&worker->all->worker[WORKER_COMMUNICATION].polls))
    eventcount_advance(&worker->all->counts[WORKER_COMMUNICATION]); /* from here on it polls itself */
  gboolean is_woken = eventcount_await(worker->count, seen, deadline_ns);
  atomic_store(&worker->is_awake, 1);
  return is_woken;
}

static void *worker_main(void *data) {
  CpuWorker *worker = data;
  host_cores_bind(worker->all->cores);
#ifdef __linux__
  prctl(PR_SET_TIMERSLACK, 1UL); /* pauses are as short as asked for, not 50 µs longer */
#endif
  gint64 moved_ns = host_now_ns();
  atomic_store(&worker->is_awake, 1);
  for (;;) {
    unsigned seen = eventcount_read(worker->count); /* before looking: closing sets the flag, then advances */
    if (atomic_load(&worker->all->is_closing))
      break;
    pthread_mutex_lock(&worker->sweeping);
    gboolean has_moved = settle(worker);
    pthread_mutex_unlock(&worker->sweeping);
    if (has_moved)
      moved_ns = host_now_ns();
    gint64 deadline_ns = pause_until_ns(worker, moved_ns);
    if (deadline_ns > 0) {
      if (sleep_until_ns(worker, seen, deadline_ns))
        moved_ns = host_now_ns();
      continue;
    }
    look_around(worker, 0);
    sched_yield();
  }
  return NULL;
}

static gboolean start_worker(CpuWorkers *workers, WorkerKind kind, GError **error) {
  CpuWorker *worker = &workers->worker[kind];
  worker->kind = kind;
  worker->all = workers;
  worker->count = &workers->counts[kind];
  worker->scratch = cpu_scratch_new();
  pthread_mutex_init(&worker->sweeping, NULL);
  int status = pthread_create(&worker->thread, NULL, worker_main, worker);
  if (status != 0)
    return fail_impossible(error, "a thread could not be started: %s", g_strerror(status));
  workers->n_threads++;
  return TRUE;
}

gboolean cpu_workers_start(CpuWorkers *workers, const HostCores *cores, GError **error) {
  workers->cores = cores;
  workers->share_core = !cores->is_bound || cores->n_cores == 1;
  pthread_mutex_init(&workers->error_mutex, NULL);
  for (int i = 0; i < N_AWAITING; i++)
    eventcount_init(&workers->counts[i]);
  return start_worker(workers, WORKER_COMPUTE, error) && start_worker(workers, WORKER_COMMUNICATION, error);
}

void cpu_workers_stop(CpuWorkers *workers) {
  atomic_store(&workers->is_closing, 1);
  for (int i = 0; i < N_AWAITING; i++)
    eventcount_advance(&workers->counts[i]);
  for (int i = 0; i < workers->n_threads; i++)
    pthread_join(workers->worker[i].thread, NULL);
  for (int i = 0; i < N_WORKERS; i++) {
    for (int j = 0; j < workers->worker[i].n_streams; j++)
      g_queue_clear_full(&workers->worker[i].streams[j].commands, g_free);
    cpu_scratch_free(workers->worker[i].scratch);
    pthread_mutex_destroy(&workers->worker[i].sweeping);
  }
  for (int i = 0; i < N_AWAITING; i++)
    eventcount_clear(&workers->counts[i]);
  pthread_mutex_destroy(&workers->error_mutex);
  g_clear_error(&workers->error);
}
