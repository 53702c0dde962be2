/* The status board: memory shared by the ranks of one machine, one line each, in which every rank says what it is
 * doing, and every monitor reads what the others do. It is an anonymous file of the first rank that the others open
 * through /proc, so nothing is left behind however the ranks end. */
#pragma once
#include "activity.h"

#include <glib.h>

enum { BOARD_TEXT_BYTES = 120, BOARD_FAILURE_BYTES = 512 };

typedef struct Board Board;

typedef enum {
  LINE_EMPTY,
  LINE_RUNS,
  LINE_FINISHED, /* has nothing more to do, waits for the others to finish */
  LINE_GONE,     /* left MPI: its process may end */
  LINE_FAILED,   /* the cause of the run's end, with a message */
  LINE_ENDS,     /* ends because of another rank, and has said so */
} LineState;

/* A copy of a line. */
typedef struct {
  LineState state;
  int rank;          /* global */
  gint64 pid;        /* as the machine's processes see it */
  gint64 start_time; /* of that process, clock ticks since boot: tells it from a later one with the same pid */
  int lifeline;      /* a file descriptor of it that its death closes; −1 none */
  guint64 progress;  /* counts what it newly said and what it moved */
  RankActivity activity;
  char text[BOARD_TEXT_BYTES + 1]; /* what it is doing; "" not said */
  char failure[BOARD_FAILURE_BYTES];
} BoardLine;

/* The first rank of the machine makes it; `fd` is what the others open. NULL with IMPOSSIBLE. */
Board *board_new(int n_lines, int *fd, GError **error);
Board *board_join(gint64 pid, int fd, int n_lines, GError **error);
void board_free(Board *board);

int board_n_lines(const Board *board);
int board_fd(const Board *board); /* in this process */
/* This process takes `line`. */
void board_enter(Board *board, int line, int rank, int lifeline);
/* Counts as progress unless it says so already. */
void board_say(Board *board, int line, RankActivity activity, const char *text);
void board_progress(Board *board, int line);
void board_set_state(Board *board, int line, LineState state);
/* State FAILED with its cause. */
void board_fail(Board *board, int line, const char *failure);
/* Nothing moves any more: said by the first that notices, seen by all. `cause`: the line that the others wait for,
 * which is stopped or computes; −1: all wait. */
void board_set_stalled(Board *board, int cause, gboolean is_stopped);
gboolean board_is_stalled(const Board *board);
/* What was said first; it is stalled. */
int board_stall_cause(const Board *board, gboolean *is_stopped);

/* A death is told by one process for all (witness.h), so that every rank names the same one, once. `has_witness`: there
 * is one that will; `told`: it has. */
void board_set_witness(Board *board);
gboolean board_has_witness(const Board *board);
void board_set_told(Board *board);
gboolean board_is_told(const Board *board);

LineState board_state(const Board *board, int line);
BoardLine board_read(const Board *board, int line);
/* Sum of all counters. Cheap. */
guint64 board_total_progress(const Board *board);

/* Clock ticks since boot at which process `pid` started; −1 when there is none, or it has ended and is only not yet
 * waited for. */
gint64 board_process_start(gint64 pid);
/* By SIGSTOP or a debugger. */
gboolean board_process_is_stopped(gint64 pid);
