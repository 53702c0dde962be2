/* Ctrl-C, or SIGTERM from a batch system: the first such signal is only reported, so that a search can finish
 * cleanly; the second ends the process at once. */
#pragma once
#include <glib.h>
#include <signal.h>

enum { INTERRUPT_STATUS = 128 }; /* shell exit status of a process killed by a signal, minus the signal's number */

typedef struct {
  int fd;        /* of signals; −1: none */
  sigset_t mask; /* signal mask of the thread before */
  int signal;    /* signal received; 0: none yet */
} Interrupt;

/* From now on, in this thread and those it starts, the signals no longer end the process; interrupt_poll() reports
 * them. */
void interrupt_init(Interrupt *interrupt);
/* Initial state: nothing to clear, and no signal received. */
void interrupt_none(Interrupt *interrupt);
void interrupt_clear(Interrupt *interrupt);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Interrupt, interrupt_clear)
/* The signal received; 0: none. */
int interrupt_poll(Interrupt *interrupt);
