/* MPICH's launcher answers the death of a rank with SIGKILL to the process groups of all others, 70 µs later: no thread
 * of theirs gets to say anything. The reporter is in a group of its own, so it is left alone; it sees the deaths in the
 * order in which they happened (epoll hands out events first come, first served), and says what the killed ranks would
 * have said:
 *
 *   rank 1 dies ──► launcher: SIGKILL to ranks 0, 2            reporter: [1] [0] [2]  the first one is the cause
 *                                                               "rank 0: rank 1 (pid 12) died while it was in 0F3; …"
 *
 * Ranks that live on (other launchers are slower) leave the telling to it, so that everything is said once.
 *
 * The launcher notices that its socket to the rank is closed, which happens before the process has ended; so each rank
 * has a lifeline, a pipe that nobody writes to. A dying process closes its files last opened number first (Linux since
 * 4.3, task_work_run), so the lifeline has a high number.
 *
 * It ends when its rank does. The launcher waits for stderr to be closed, so what it says arrives. */
#include "death_reporter.h"

#include "end_message.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_FDS = 1024, LIFELINE_FD = 900 };

struct DeathReporter {
  pid_t pid; /* −1: dismissed */
  int pipe;  /* first the place of the status table, then the lifeline */
};

/* What it is told: where the status table is. */
typedef struct {
  int fd, n_lines;
} Place;

/* ---- in the reporter ---- */

typedef struct {
  StatusTable *statuses;
  int epoll;
  gboolean is_blind; /* it cannot see all of them */
  gboolean is_over;  /* told, or nothing to tell */
} Watch;

enum { EVENT_DEATH, EVENT_LIFELINE, N_EVENTS }; /* event number: line · N_EVENTS + this */

static void watch_file(Watch *watch, int fd, int line, int kind) {
  struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u32 = (guint32)(line * N_EVENTS + kind)};
  if (fd < 0 || epoll_ctl(watch->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
    watch->is_blind = TRUE; /* it died already, or there is no such system call */
}

/* The other ranks' lifelines through /proc; the own one is the pipe it was told the status table by. */
static void watch_processes(Watch *watch, int own_lifeline) {
  for (int i = 0; i < status_n_lines(watch->statuses); i++) {
    RankStatus line = status_read(watch->statuses, i);
    char path[64];
    g_snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)line.pid, line.lifeline);
    watch_file(watch, i == 0 ? own_lifeline : open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), i, EVENT_LIFELINE);
    watch_file(watch, (int)syscall(SYS_pidfd_open, (pid_t)line.pid, 0u), i, EVENT_DEATH);
  }
}

/* It has not said why it ends. */
static gboolean is_silent(const Watch *watch, int line) {
  LineState state = status_state(watch->statuses, line);
  return state == LINE_RUNS || state == LINE_FINISHED;
}

static gboolean has_cause_on_status_table(const Watch *watch) {
  for (int i = 0; i < status_n_lines(watch->statuses); i++)
    if (status_state(watch->statuses, i) == LINE_FAILED)
      return TRUE;
  return status_is_stalled(watch->statuses);
}

/* `dead` was the first. */
static void tell(const Watch *watch, int dead) {
  char message[END_MESSAGE_BYTES];
  RankStatus first = status_read(watch->statuses, dead);
  for (int i = 0; i < status_n_lines(watch->statuses); i++) {
    if (i == dead || !is_silent(watch, i))
      continue;
    RankStatus own = status_read(watch->statuses, i);
    end_message_of_death(&first, &own, message);
    end_message_print(own.rank, message);
  }
  status_set_told(watch->statuses);
}

static void see(Watch *watch) {
  struct epoll_event event;
  if (epoll_wait(watch->epoll, &event, 1, -1) < 1)
    return; /* interrupted */
  int line = (int)event.data.u32 / N_EVENTS;
  gboolean is_cause = is_silent(watch, line) && !has_cause_on_status_table(watch);
  if (is_cause)
    tell(watch, line);
  watch->is_over = is_cause || (line == 0 && event.data.u32 % N_EVENTS == EVENT_DEATH);
}

static void be_reporter(int from_rank, pid_t rank) {
  Place place;
  Watch watch = {0};
  if (read(from_rank, &place, sizeof place) != (gssize)sizeof place)
    return;
  watch.statuses = status_join(rank, place.fd, place.n_lines, NULL);
  if (watch.statuses == NULL)
    return;
  watch.epoll = epoll_create1(EPOLL_CLOEXEC);
  watch_processes(&watch, from_rank);
  if (!watch.is_blind)
    status_set_reporter(watch.statuses);
  while (!watch.is_blind && !watch.is_over)
    see(&watch);
}

/* Nothing that anybody waits to see closed stays open: the launcher's socket, standard output, other pipes. */
static void close_all_but(int keep) {
  for (int fd = 0; fd < MAX_FDS; fd++)
    if (fd != STDERR_FILENO && fd != keep)
      close(fd);
}

/* ---- in the rank ---- */

DeathReporter *death_reporter_start(void) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) < 0)
    return NULL;
  pid_t rank = getpid(), pid = fork();
  if (pid == 0) {
    setpgid(0, 0);
    prctl(PR_SET_NAME, "death_reporter");
    close_all_but(fds[0]);
    be_reporter(fds[0], rank);
    _exit(0);
  }
  close(fds[0]);
  if (pid < 0) {
    close(fds[1]);
    return NULL;
  }
  DeathReporter *reporter = g_new0(DeathReporter, 1);
  int lifeline = fcntl(fds[1], F_DUPFD_CLOEXEC, LIFELINE_FD);
  if (lifeline >= 0)
    close(fds[1]);
  reporter->pid = pid;
  reporter->pipe = lifeline >= 0 ? lifeline : fds[1];
  return reporter;
}

int death_reporter_lifeline(const DeathReporter *reporter) {
  return reporter == NULL ? -1 : reporter->pipe;
}

void death_reporter_watch(DeathReporter *reporter, const StatusTable *statuses) {
  Place place = {status_fd(statuses), status_n_lines(statuses)};
  if (write(reporter->pipe, &place, sizeof place) < 0)
    return; /* it is gone: then nobody speaks for the dead */
}

void death_reporter_dismiss(DeathReporter *reporter) {
  if (reporter == NULL || reporter->pid < 0)
    return;
  kill(reporter->pid, SIGKILL);
  waitpid(reporter->pid, NULL, 0);
  reporter->pid = -1;
}

void death_reporter_stop(DeathReporter *reporter) {
  if (reporter == NULL)
    return;
  death_reporter_dismiss(reporter);
  close(reporter->pipe);
  g_free(reporter);
}
