/* The status table: memory shared by the ranks of one machine. Each rank has one line, where it publishes what it is
 * doing; every monitor reads the lines of the others. The memory is an anonymous file of the first rank that the
 * others open through /proc, so nothing is left behind however the ranks end. */
#pragma once
#include "world.h"

#include <glib.h>

enum { STATUS_TEXT_BYTES = 120, STATUS_FAILURE_BYTES = 512 };

typedef struct StatusTable StatusTable;

typedef enum {
  LINE_EMPTY,
  LINE_RUNS,
  LINE_FINISHED, /* done, waiting for the others to finish */
  LINE_GONE,     /* left MPI: its process may exit */
  LINE_FAILED,   /* this rank's failure ends the run; has a message */
  LINE_ENDS,     /* exiting because of another rank, and has reported it */
} LineState;

/* A snapshot of one line. */
typedef struct {
  LineState state;
  int rank;          /* global */
  gint64 pid;        /* as seen by the machine's other processes */
  gint64 start_time; /* of the process, clock ticks since boot: distinguishes it from a later one with the same pid */
  int lifeline;      /* file descriptor in that process that closes when it dies; −1: none */
  guint64 progress;  /* incremented by each new activity and each transfer */
  RankActivity activity;
  char text[STATUS_TEXT_BYTES + 1]; /* what it is doing; "": unknown */
  char failure[STATUS_FAILURE_BYTES];
} RankStatus;

/* The first rank of the machine creates the status table; the others open `fd`. NULL with IMPOSSIBLE on failure. */
StatusTable *status_new(int n_lines, int *fd, GError **error);
StatusTable *status_join(gint64 pid, int fd, int n_lines, GError **error);
void status_free(StatusTable *statuses);

int status_n_lines(const StatusTable *statuses);
int status_fd(const StatusTable *statuses); /* valid in this process */
/* Claims `line` for this process. */
void status_enter(StatusTable *statuses, int line, int rank, int lifeline);
/* Publishes what the rank is doing. Counts as progress if it differs from what the line already says. */
void status_say(StatusTable *statuses, int line, RankActivity activity, const char *text);
void status_progress(StatusTable *statuses, int line);
void status_set_state(StatusTable *statuses, int line, LineState state);
/* Sets LINE_FAILED and records the cause. */
void status_fail(StatusTable *statuses, int line, const char *failure);
/* Declares the run stalled. The first rank to notice calls this; all see it. `cause`: the line that the others wait
 * for, whose rank is stopped or computing; −1: all are waiting. */
void status_set_stalled(StatusTable *statuses, int cause, gboolean is_stopped);
gboolean status_is_stalled(const StatusTable *statuses);
/* The cause given by the first status_set_stalled(). Requires a stalled status table. */
int status_stall_cause(const StatusTable *statuses, gboolean *is_stopped);

/* One process (death_reporter.h) reports a death on behalf of all, so that it is reported once and names one rank.
 * `has_reporter`: such a process exists; `told`: it has reported. */
void status_set_reporter(StatusTable *statuses);
gboolean status_has_reporter(const StatusTable *statuses);
void status_set_told(StatusTable *statuses);
gboolean status_is_told(const StatusTable *statuses);

LineState status_state(const StatusTable *statuses, int line);
RankStatus status_read(const StatusTable *statuses, int line);
/* Sum of all lines' progress counters. Cheap. */
guint64 status_total_progress(const StatusTable *statuses);

/* Start time of process `pid` in clock ticks since boot; −1 if there is no such process or it is a zombie. */
gint64 rank_process_start(gint64 pid);
/* Stopped by SIGSTOP or a debugger. */
gboolean rank_process_is_stopped(gint64 pid);
