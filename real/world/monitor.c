/* One loop around poll(): the processes of the other ranks (a pidfd becomes readable when its process ends), the pipe
 * that signal handlers write to, and ten times a second the status table.
 *
 *     monitor_start            monitor_watch                              monitor_stop
 *         │  ranks are starting     │  watching                                │
 *         ├─────────────────────────┼──────────────────────────────────────────┤
 *           late: end 1               peer failed │ peer died │ stall: end 1
 *                                     SIGTERM, SIGINT: first look for a cause  end 128 + signal
 *
 * A launcher answers the death of a rank with SIGTERM to the others, which may come before the monitor has seen the
 * death; so a signal waits a moment for a cause that says more. The end is the same for all: a failure of its own on
 * the status table, one line on stderr, the abort callback, another's failure on the status table, a wait until the
 * peers have come as far (else the launcher would end them in the middle), _exit. A launcher that kills at once is the
 * reporter's business (death_reporter.h). Whoever claims the end first does it; any other thread that comes to it
 * sleeps for ever.
 *
 * A transport may answer the death of a peer with abort() in the middle of an MPI call (UCX does, when it copies out of
 * the other's memory). So SIGABRT is taken over too: its thread sleeps while the monitor finds the cause.
 *
 * Ranks on other machines are not on the status table: their failures show as MPI errors, or the launcher ends this
 * one. */
#include "monitor.h"

#include "end_message.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  LOOK_MS = 100,
  AWAY_LOOKS = 10, /* longer than so many looks apart: it was stopped */
  GRACE_MS = 300,  /* for the cause of a signal */
  GRACE_LOOK_MS = 5,
  REPORTER_MS = 1000,
  OTHERS_MS = 2000, /* for the others to have seen a failure */
  ABORT_S = 3,      /* an abort callback that takes longer is cut off */
};

/* The signals that end a run, and what they are called. */
static const struct {
  int number;
  const char *name;
} signals[] = {{SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}, {SIGABRT, "SIGABRT (an assertion, or a library gave up)"}};

struct Monitor {
  GThread *thread;
  int wake[2]; /* a signal's number, or 0: look at what changed */
  struct sigaction old[G_N_ELEMENTS(signals)];
  gint64 start_us, start_timeout_us;
  pid_t launcher; /* 0: none */
  atomic_bool is_watching, is_stopping, is_ending;
  _Atomic gint64 stall_timeout_us, kernel_timeout_us;

  /* set before is_watching */
  StatusTable *statuses;
  int line;
  int *pidfd; /* [lines]; −1: look at /proc */
  void (*leave)(gpointer data);
  gpointer leave_data;

  GMutex lock; /* of the callback */
  void (*abort)(gpointer data);
  gpointer abort_data;

  /* of the thread */
  int signal;
  gint64 signal_us;
  guint64 last_progress;
  gint64 last_move_us, last_look_us;
};

/* Signal handlers have no argument: the only mutable globals of the module. */
static volatile sig_atomic_t signal_fd = -1;
static volatile sig_atomic_t monitor_thread; /* its id for the kernel */

/* Async-signal-safe. abort() ends the process when this returns, so that thread stays here; but not the monitor. */
static void on_signal(int number) {
  int saved = errno;
  char byte = (char)number;
  if (signal_fd >= 0 && write(signal_fd, &byte, 1) < 0)
    errno = saved; /* the pipe is full of signals already */
  while (number == SIGABRT && syscall(SYS_gettid) != monitor_thread)
    pause();
  errno = saved;
}

static gboolean is_watching(Monitor *monitor) {
  return atomic_load(&monitor->is_watching);
}

/* What is known of this rank. */
static RankStatus own_line(Monitor *monitor) {
  RankStatus unknown = {.rank = -1, .text = "starting"};
  return is_watching(monitor) ? status_read(monitor->statuses, monitor->line) : unknown;
}

/* ---- processes ---- */

static gboolean process_is_gone(Monitor *monitor, int line) {
  if (monitor->pidfd[line] >= 0) {
    struct pollfd one = {.fd = monitor->pidfd[line], .events = POLLIN};
    return poll(&one, 1, 0) > 0;
  }
  RankStatus other = status_read(monitor->statuses, line);
  return rank_process_start(other.pid) != other.start_time;
}

static void open_processes(Monitor *monitor) {
  int n = status_n_lines(monitor->statuses);
  monitor->pidfd = g_new(int, n);
  for (int i = 0; i < n; i++) {
    monitor->pidfd[i] = -1;
    if (i == monitor->line)
      continue;
    RankStatus other = status_read(monitor->statuses, i);
    int fd = (int)syscall(SYS_pidfd_open, (pid_t)other.pid, 0u);
    if (fd >= 0 && rank_process_start(other.pid) != other.start_time) {
      close(fd); /* died before: /proc goes on saying so */
      fd = -1;
    }
    monitor->pidfd[i] = fd;
  }
}

/* ---- the end ---- */

static void claim_end(Monitor *monitor) {
  if (!atomic_exchange(&monitor->is_ending, TRUE))
    return;
  for (;;) /* another thread ends the process */
    pause();
}

static gboolean has_ended(Monitor *monitor, int line) {
  LineState state = status_state(monitor->statuses, line);
  return state == LINE_GONE || state == LINE_FAILED || state == LINE_ENDS || process_is_gone(monitor, line);
}

static void wait_for_others(Monitor *monitor) {
  gint64 deadline_us = g_get_monotonic_time() + OTHERS_MS * 1000;
  for (int i = 0; is_watching(monitor) && i < status_n_lines(monitor->statuses); i++)
    while (i != monitor->line && !has_ended(monitor, i) && g_get_monotonic_time() < deadline_us)
      g_usleep(1000);
}

/* What was printed so far, unless a thread died or stays in the middle of printing. */
static void flush_output(void) {
  if (ftrylockfile(stdout) != 0)
    return;
  fflush_unlocked(stdout);
  funlockfile(stdout);
}

static void run_abort(Monitor *monitor) {
  g_mutex_lock(&monitor->lock); /* throughout: what is aborted must not be closed meanwhile */
  if (monitor->abort != NULL) {
    signal(SIGALRM, SIG_DFL);
    alarm(ABORT_S);
    monitor->abort(monitor->abort_data);
    alarm(0);
  }
  g_mutex_unlock(&monitor->lock);
}

void monitor_exit(Monitor *monitor, int status) {
  flush_output();
  if (is_watching(monitor) && monitor->leave != NULL)
    monitor->leave(monitor->leave_data);
  _exit(status);
}

/* `message` NULL: it has been said. A failure is on the status table at once, for the others to see; that this rank
 * ends, only when all is said and aborted: so long the failed one waits, whose exit has the launcher kill the rest. */
static void end_with(Monitor *monitor, int status, LineState state, const char *message) {
  claim_end(monitor);
  if (is_watching(monitor) && state == LINE_FAILED)
    status_fail(monitor->statuses, monitor->line, message);
  if (message != NULL)
    end_message_print(own_line(monitor).rank, message);
  run_abort(monitor);
  if (is_watching(monitor) && state != LINE_FAILED)
    status_set_state(monitor->statuses, monitor->line, state);
  wait_for_others(monitor);
  monitor_exit(monitor, status);
}

/* ---- what to look for ---- */

static void look_for_failed(Monitor *monitor) {
  for (int i = 0; i < status_n_lines(monitor->statuses); i++) {
    if (i == monitor->line || status_state(monitor->statuses, i) != LINE_FAILED)
      continue;
    char message[END_MESSAGE_BYTES];
    RankStatus other = status_read(monitor->statuses, i), own = own_line(monitor);
    end_message_of_failure(&other, &own, message);
    end_with(monitor, 1, LINE_ENDS, message);
  }
}

/* The reporter tells of deaths, if there is one. */
static gboolean has_been_told(Monitor *monitor) {
  gint64 deadline_us = g_get_monotonic_time() + REPORTER_MS * 1000;
  while (status_has_reporter(monitor->statuses) && !status_is_told(monitor->statuses) &&
         g_get_monotonic_time() < deadline_us)
    g_usleep(1000);
  return status_is_told(monitor->statuses);
}

static void look_for_dead(Monitor *monitor) {
  for (int i = 0; i < status_n_lines(monitor->statuses); i++) {
    if (i == monitor->line || !process_is_gone(monitor, i))
      continue;
    RankStatus other = status_read(monitor->statuses, i), own = own_line(monitor); /* its last words: after its end */
    if (other.state != LINE_RUNS && other.state != LINE_FINISHED)
      continue;
    char message[END_MESSAGE_BYTES];
    end_message_of_death(&other, &own, message);
    end_with(monitor, 1, LINE_ENDS, has_been_told(monitor) ? NULL : message);
  }
}

/* Who keeps the run from going on, where nobody is busy with something else. */
typedef struct {
  gboolean is_quiet;      /* every rank that runs waits, computes or is stopped */
  int stopped, computing; /* a line each; −1: none */
} Standstill;

static Standstill find_standstill(Monitor *monitor) {
  Standstill still = {TRUE, -1, -1};
  for (int i = 0; i < status_n_lines(monitor->statuses); i++) {
    RankStatus line = status_read(monitor->statuses, i);
    if (line.state != LINE_RUNS) /* one that has finished waits for the others, too */
      continue;
    if (i != monitor->line && rank_process_is_stopped(line.pid))
      still.stopped = i;
    else if (line.activity == RANK_COMPUTES)
      still.computing = i;
    else
      still.is_quiet = still.is_quiet && line.activity == RANK_WAITS;
  }
  return still;
}

/* A process that is stopped never says that it waits. One that computes may have a long kernel: it has a limit of its
 * own. */
static void look_for_stall(Monitor *monitor) {
  const gint64 now_us = g_get_monotonic_time(), away_us = now_us - monitor->last_look_us;
  monitor->last_look_us = now_us;
  if (away_us > AWAY_LOOKS * LOOK_MS * 1000) /* stopped itself, perhaps with all others: that time does not count */
    monitor->last_move_us = MIN(monitor->last_move_us + away_us, now_us);
  const guint64 progress = status_total_progress(monitor->statuses);
  const gboolean has_moved = progress != monitor->last_progress;
  const Standstill still = has_moved ? (Standstill){FALSE, -1, -1} : find_standstill(monitor);
  if (!still.is_quiet) {
    monitor->last_progress = progress;
    monitor->last_move_us = now_us;
  }
  const gint64 limit_us = atomic_load(still.computing >= 0 ? &monitor->kernel_timeout_us : &monitor->stall_timeout_us);
  if (limit_us > 0 && now_us - monitor->last_move_us >= limit_us &&
      status_total_progress(monitor->statuses) == progress) /* nor while it looked */
    status_set_stalled(monitor->statuses, still.computing >= 0 ? still.computing : still.stopped, still.computing < 0);
  if (!status_is_stalled(monitor->statuses))
    return;
  char message[END_MESSAGE_BYTES];
  gboolean is_stopped;
  const int cause = status_stall_cause(monitor->statuses, &is_stopped);
  RankStatus own = own_line(monitor), other = cause >= 0 ? status_read(monitor->statuses, cause) : own;
  end_message_of_stall((double)(now_us - monitor->last_move_us) / 1e6, cause >= 0 ? &other : NULL, is_stopped, &own,
                       message);
  end_with(monitor, 1, LINE_ENDS, message);
}

static void look_for_launcher(Monitor *monitor) {
  if (monitor->launcher != 0 && getppid() != monitor->launcher)
    end_with(monitor, 1, LINE_ENDS, "stops: the launcher that started it is gone");
}

/* A signal whose cause did not show up in time. */
static void look_for_signal(Monitor *monitor) {
  gint64 wait_us = is_watching(monitor) ? GRACE_MS * 1000 : 0;
  if (monitor->signal == 0 || g_get_monotonic_time() - monitor->signal_us < wait_us)
    return;
  char message[END_MESSAGE_BYTES];
  const char *name = "a signal";
  for (gsize i = 0; i < G_N_ELEMENTS(signals); i++)
    if (signals[i].number == monitor->signal)
      name = signals[i].name;
  RankStatus own = own_line(monitor);
  end_message_of_signal(name, &own, message);
  end_with(monitor, 128 + monitor->signal, LINE_FAILED, message);
}

static void look_for_late_start(Monitor *monitor) {
  if (g_get_monotonic_time() - monitor->start_us < monitor->start_timeout_us)
    return;
  char message[END_MESSAGE_BYTES];
  g_snprintf(message, sizeof message,
             "other ranks did not start within %g s: does every rank of the launch run this program?",
             (double)monitor->start_timeout_us / 1e6);
  end_with(monitor, 1, LINE_ENDS, message);
}

static void look(Monitor *monitor) {
  if (is_watching(monitor)) {
    look_for_failed(monitor);
    look_for_dead(monitor);
    look_for_stall(monitor);
  } else {
    look_for_late_start(monitor);
  }
  look_for_launcher(monitor);
  look_for_signal(monitor);
}

/* ---- the thread ---- */

static void read_wake(Monitor *monitor) {
  char bytes[64];
  gssize n = read(monitor->wake[0], bytes, sizeof bytes);
  for (gssize i = 0; i < n; i++)
    if (bytes[i] != 0 && monitor->signal == 0) {
      monitor->signal = bytes[i];
      monitor->signal_us = g_get_monotonic_time();
    }
}

/* Sleeps until something may have changed. */
static void sleep_until_change(Monitor *monitor, struct pollfd *fds, int n_lines) {
  nfds_t n = 0;
  fds[n++] = (struct pollfd){.fd = monitor->wake[0], .events = POLLIN};
  for (int i = 0; i < n_lines; i++)
    if (monitor->pidfd[i] >= 0 && status_state(monitor->statuses, i) != LINE_GONE)
      fds[n++] = (struct pollfd){.fd = monitor->pidfd[i], .events = POLLIN};
  poll(fds, n, monitor->signal != 0 ? GRACE_LOOK_MS : LOOK_MS);
  if (fds[0].revents != 0)
    read_wake(monitor);
}

static gpointer run(gpointer data) {
  Monitor *monitor = data;
  monitor_thread = (sig_atomic_t)syscall(SYS_gettid);
  g_autofree struct pollfd *fds = g_new0(struct pollfd, 1);
  int n_lines = 0;
  monitor->last_move_us = monitor->last_look_us = g_get_monotonic_time();
  while (!atomic_load(&monitor->is_stopping)) {
    if (n_lines == 0 && is_watching(monitor)) {
      n_lines = status_n_lines(monitor->statuses);
      fds = g_renew(struct pollfd, fds, 1 + n_lines);
    }
    sleep_until_change(monitor, fds, n_lines);
    if (!atomic_load(&monitor->is_stopping))
      look(monitor);
  }
  return NULL;
}

static void wake(Monitor *monitor) {
  char byte = 0;
  if (write(monitor->wake[1], &byte, 1) < 0)
    return; /* it will look soon anyway */
}

Monitor *monitor_start(double start_timeout_s, gboolean has_launcher) {
  Monitor *monitor = g_new0(Monitor, 1);
  g_mutex_init(&monitor->lock);
  gboolean has_pipe = pipe2(monitor->wake, O_CLOEXEC | O_NONBLOCK) == 0;
  g_assert(has_pipe);
  monitor->start_us = g_get_monotonic_time();
  monitor->start_timeout_us = (gint64)ceil(start_timeout_s * 1e6);
  monitor->launcher = has_launcher ? getppid() : 0;
  signal_fd = monitor->wake[1];
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  monitor->thread = g_thread_new("monitor", run, monitor);
  for (gsize i = 0; i < G_N_ELEMENTS(signals); i++)
    sigaction(signals[i].number, &action, &monitor->old[i]);
  return monitor;
}

void monitor_watch(Monitor *monitor, StatusTable *statuses, int line, void (*leave)(gpointer data), gpointer data) {
  monitor->statuses = statuses;
  monitor->line = line;
  monitor->leave = leave;
  monitor->leave_data = data;
  open_processes(monitor);
  atomic_store(&monitor->is_watching, TRUE);
  wake(monitor);
}

void monitor_set_stall_timeouts(Monitor *monitor, double stall_timeout_s, double kernel_timeout_s) {
  atomic_store(&monitor->stall_timeout_us, (gint64)ceil(stall_timeout_s * 1e6));
  atomic_store(&monitor->kernel_timeout_us, (gint64)ceil(kernel_timeout_s * 1e6));
}

void monitor_on_abort(Monitor *monitor, void (*abort)(gpointer data), gpointer data) {
  g_mutex_lock(&monitor->lock);
  monitor->abort = abort;
  monitor->abort_data = data;
  g_mutex_unlock(&monitor->lock);
}

/* An error of this rank that follows from another's death is reported as that death: give it a moment to show. */
static void prefer_death(Monitor *monitor) {
  if (status_n_lines(monitor->statuses) == 1)
    return;
  g_usleep(20 * 1000);
  look_for_dead(monitor);
}

void monitor_announce(Monitor *monitor, const char *failure, gboolean is_quiet) {
  if (is_watching(monitor))
    prefer_death(monitor);
  claim_end(monitor);
  if (!is_quiet)
    end_message_print(own_line(monitor).rank, failure);
  if (is_watching(monitor))
    status_fail(monitor->statuses, monitor->line, failure);
  wait_for_others(monitor);
}

void monitor_stop(Monitor *monitor) {
  if (monitor == NULL)
    return;
  atomic_store(&monitor->is_stopping, TRUE);
  wake(monitor);
  g_thread_join(monitor->thread);
  for (gsize i = 0; i < G_N_ELEMENTS(signals); i++)
    sigaction(signals[i].number, &monitor->old[i], NULL);
  signal_fd = -1;
  for (int i = 0; monitor->pidfd != NULL && i < status_n_lines(monitor->statuses); i++)
    if (monitor->pidfd[i] >= 0)
      close(monitor->pidfd[i]);
  close(monitor->wake[0]);
  close(monitor->wake[1]);
  g_mutex_clear(&monitor->lock);
  g_free(monitor->pidfd);
  g_free(monitor);
}
