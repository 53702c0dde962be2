/* The thread that watches a rank's peers and ends this process when the run cannot go on: ranks that never start, die,
 * fail, are stopped or all stuck, signals, a launcher that is gone. One per process. */
#pragma once
#include "board.h"

typedef struct Monitor Monitor;

/* Starts the thread and takes over SIGTERM and SIGINT. Until monitor_watch() it waits `start_timeout_s` for the other
 * ranks. `has_launcher`: the parent process is one, and this one ends with it. */
Monitor *monitor_start(double start_timeout_s, gboolean has_launcher);
/* From now on: this process is `line` of `board`, whose other lines are entered. `leave` is called last before the
 * process is ended, with `data` (to tell ranks on other machines). */
void monitor_watch(Monitor *monitor, Board *board, int line, void (*leave)(gpointer data), gpointer data);
/* Seconds without progress until the run is ended, 0: none. `stall`: where every rank waits or is stopped; `kernel`:
 * where one of them computes. */
void monitor_set_stall_timeouts(Monitor *monitor, double stall_timeout_s, double kernel_timeout_s);
void monitor_on_abort(Monitor *monitor, void (*abort)(gpointer data), gpointer data);

/* This rank is the cause of the run's end. Prints the message (unless it is quiet), puts `failure` on the board, waits
 * at most 2 s for the others to have seen it. Does not return when another end is already under way. */
void monitor_announce(Monitor *monitor, const char *failure, gboolean is_quiet);
/* After monitor_announce(). */
G_NORETURN void monitor_exit(Monitor *monitor, int status);
/* Ends the thread, gives the signals back. NULL is fine. */
void monitor_stop(Monitor *monitor);
