/* The status board: memory shared by the ranks of one machine. Each rank has one line, where it publishes what it is
 * doing; every monitor reads the lines of the others. The memory is an anonymous file of the first rank that the
 * others open through /proc, so nothing is left behind however the ranks end. */
#pragma once
#include "activity.h"

#include <glib.h>

enum { BOARD_TEXT_BYTES = 120, BOARD_FAILURE_BYTES = 512 };

typedef struct Board Board;

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
  char text[BOARD_TEXT_BYTES + 1]; /* what it is doing; "": unknown */
  char failure[BOARD_FAILURE_BYTES];
} BoardLine;

/* The first rank of the machine creates the board; the others open `fd`. NULL with IMPOSSIBLE on failure. */
Board *board_new(int n_lines, int *fd, GError **error);
Board *board_join(gint64 pid, int fd, int n_lines, GError **error);
void board_free(Board *board);

int board_n_lines(const Board *board);
int board_fd(const Board *board); /* valid in this process */
/* Claims `line` for this process. */
void board_enter(Board *board, int line, int rank, int lifeline);
/* Publishes what the rank is doing. Counts as progress if it differs from what the line already says. */
void board_say(Board *board, int line, RankActivity activity, const char *text);
void board_progress(Board *board, int line);
void board_set_state(Board *board, int line, LineState state);
/* Sets LINE_FAILED and records the cause. */
void board_fail(Board *board, int line, const char *failure);
/* Declares the run stalled. The first rank to notice calls this; all see it. `cause`: the line that the others wait
 * for, whose rank is stopped or computing; −1: all are waiting. */
void board_set_stalled(Board *board, int cause, gboolean is_stopped);
gboolean board_is_stalled(const Board *board);
/* The cause given by the first board_set_stalled(). Requires a stalled board. */
int board_stall_cause(const Board *board, gboolean *is_stopped);

/* One process (witness.h) reports a death on behalf of all, so that it is reported once and names one rank.
 * `has_witness`: such a process exists; `told`: it has reported. */
void board_set_witness(Board *board);
gboolean board_has_witness(const Board *board);
void board_set_told(Board *board);
gboolean board_is_told(const Board *board);

LineState board_state(const Board *board, int line);
BoardLine board_read(const Board *board, int line);
/* Sum of all lines' progress counters. Cheap. */
guint64 board_total_progress(const Board *board);

/* Start time of process `pid` in clock ticks since boot; −1 if there is no such process or it is a zombie. */
gint64 board_process_start(gint64 pid);
/* Stopped by SIGSTOP or a debugger. */
gboolean board_process_is_stopped(gint64 pid);
