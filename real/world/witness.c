/* MPICH's launcher answers the death of a rank with SIGKILL to the process groups of all others, 70 µs later: no thread
 * of theirs gets to say anything. The witness is in a group of its own, so it is left alone; it sees the deaths in the
 * order in which they happened (epoll hands out events first come, first served), and says what the killed ranks would
 * have said:
 *
 *   rank 1 dies ──► launcher: SIGKILL to ranks 0, 2            witness: [1] [0] [2]  the first one is the cause
 *                                                               "rank 0: rank 1 (pid 12) died while it was in 0F3; …"
 *
 * Ranks that live on (other launchers are slower) leave the telling to it, so that everything is said once.
 *
 * The launcher notices that its socket to the rank is closed, which happens before the process has ended; so each rank
 * has a lifeline, a pipe that nobody writes to. A dying process closes its files last opened number first (Linux since
 * 4.3, task_work_run), so the lifeline has a high number.
 *
 * It ends when its rank does. The launcher waits for stderr to be closed, so what it says arrives. */
#include "witness.h"

#include "end_words.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_FDS = 1024, LIFELINE_FD = 900 };

struct Witness {
  pid_t pid; /* −1: dismissed */
  int pipe;  /* first the place of the board, then the lifeline */
};

/* What it is told: where the board is. */
typedef struct {
  int fd, n_lines;
} Place;

/* ---- in the witness ---- */

typedef struct {
  Board *board;
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

/* The other ranks' lifelines through /proc; the own one is the pipe it was told the board by. */
static void watch_processes(Watch *watch, int own_lifeline) {
  for (int i = 0; i < board_n_lines(watch->board); i++) {
    BoardLine line = board_read(watch->board, i);
    char path[64];
    g_snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)line.pid, line.lifeline);
    watch_file(watch, i == 0 ? own_lifeline : open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), i, EVENT_LIFELINE);
    watch_file(watch, (int)syscall(SYS_pidfd_open, (pid_t)line.pid, 0u), i, EVENT_DEATH);
  }
}

/* It has not said why it ends. */
static gboolean is_silent(const Watch *watch, int line) {
  LineState state = board_state(watch->board, line);
  return state == LINE_RUNS || state == LINE_FINISHED;
}

static gboolean has_cause_on_board(const Watch *watch) {
  for (int i = 0; i < board_n_lines(watch->board); i++)
    if (board_state(watch->board, i) == LINE_FAILED)
      return TRUE;
  return board_is_stalled(watch->board);
}

/* `dead` was the first. */
static void tell(const Watch *watch, int dead) {
  char message[END_WORDS_BYTES];
  BoardLine first = board_read(watch->board, dead);
  for (int i = 0; i < board_n_lines(watch->board); i++) {
    if (i == dead || !is_silent(watch, i))
      continue;
    BoardLine own = board_read(watch->board, i);
    end_words_of_death(&first, &own, message);
    end_words_print(own.rank, message);
  }
  board_set_told(watch->board);
}

static void see(Watch *watch) {
  struct epoll_event event;
  if (epoll_wait(watch->epoll, &event, 1, -1) < 1)
    return; /* interrupted */
  int line = (int)event.data.u32 / N_EVENTS;
  gboolean is_cause = is_silent(watch, line) && !has_cause_on_board(watch);
  if (is_cause)
    tell(watch, line);
  watch->is_over = is_cause || (line == 0 && event.data.u32 % N_EVENTS == EVENT_DEATH);
}

static void be_witness(int from_rank, pid_t rank) {
  Place place;
  Watch watch = {0};
  if (read(from_rank, &place, sizeof place) != (gssize)sizeof place)
    return;
  watch.board = board_join(rank, place.fd, place.n_lines, NULL);
  if (watch.board == NULL)
    return;
  watch.epoll = epoll_create1(EPOLL_CLOEXEC);
  watch_processes(&watch, from_rank);
  if (!watch.is_blind)
    board_set_witness(watch.board);
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

Witness *witness_start(void) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) < 0)
    return NULL;
  pid_t rank = getpid(), pid = fork();
  if (pid == 0) {
    setpgid(0, 0);
    prctl(PR_SET_NAME, "witness");
    close_all_but(fds[0]);
    be_witness(fds[0], rank);
    _exit(0);
  }
  close(fds[0]);
  if (pid < 0) {
    close(fds[1]);
    return NULL;
  }
  Witness *witness = g_new0(Witness, 1);
  int lifeline = fcntl(fds[1], F_DUPFD_CLOEXEC, LIFELINE_FD);
  if (lifeline >= 0)
    close(fds[1]);
  witness->pid = pid;
  witness->pipe = lifeline >= 0 ? lifeline : fds[1];
  return witness;
}

int witness_lifeline(const Witness *witness) {
  return witness == NULL ? -1 : witness->pipe;
}

void witness_watch(Witness *witness, const Board *board) {
  Place place = {board_fd(board), board_n_lines(board)};
  if (write(witness->pipe, &place, sizeof place) < 0)
    return; /* it is gone: then nobody speaks for the dead */
}

void witness_dismiss(Witness *witness) {
  if (witness == NULL || witness->pid < 0)
    return;
  kill(witness->pid, SIGKILL);
  waitpid(witness->pid, NULL, 0);
  witness->pid = -1;
}

void witness_stop(Witness *witness) {
  if (witness == NULL)
    return;
  witness_dismiss(witness);
  close(witness->pipe);
  g_free(witness);
}
