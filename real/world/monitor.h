/* The thread that watches a rank's peers and ends this process when the run cannot go on: a rank never starts, dies,
 * fails or is stopped, all are stuck, a signal arrives, or the launcher is gone. One per process. */
#pragma once
#include "rank_status.h"

typedef struct Monitor Monitor;

/* Starts the thread and takes over SIGTERM and SIGINT. monitor_watch() must follow within `start_timeout_s`, or ranks
 * count as missing. `has_launcher`: the parent process is a launcher, and this process ends with it. */
Monitor *monitor_start(double start_timeout_s, gboolean has_launcher);
/* Starts watching `status table`, on which this process is `line` and all other lines are entered. `leave(data)` is the
 * last call before the process is ended (to notify ranks on other machines). */
void monitor_watch(Monitor *monitor, StatusTable *statuses, int line, void (*leave)(gpointer data), gpointer data);
/* Seconds without progress after which the run is ended; 0: no limit. `stall`: while every rank waits or is stopped;
 * `kernel`: while one of them computes. */
void monitor_set_stall_timeouts(Monitor *monitor, double stall_timeout_s, double kernel_timeout_s);
void monitor_on_abort(Monitor *monitor, void (*abort)(gpointer data), gpointer data);

/* This rank ends the run. Prints the message (unless quiet), puts `failure` on the status table, and waits at most 2 s
 * for the others to see it. Does not return if the process is already being ended. */
void monitor_announce(Monitor *monitor, const char *failure, gboolean is_quiet);
/* Call after monitor_announce(). */
G_NORETURN void monitor_exit(Monitor *monitor, int status);
/* Ends the thread and restores the signal handlers. NULL is fine. */
void monitor_stop(Monitor *monitor);
