/* Ctrl-C, or SIGTERM from a batch system: the first such signal is reported, so that a search can end in order; a
 * second one ends the process at once. */
#pragma once
#include <glib.h>
#include <signal.h>

enum { INTERRUPT_STATUS = 128 }; /* a shell's exit status of what a signal ended, less the signal */

typedef struct {
  int fd;        /* of signals; −1: none */
  sigset_t mask; /* before */
  int signal;    /* that came; 0: none yet */
} Interrupt;

/* From now on, in this thread and those it starts, the signals do not end the process: interrupt_poll() reports them.
 */
void interrupt_init(Interrupt *interrupt);
/* None yet: nothing to clear, and no signal has come. */
void interrupt_none(Interrupt *interrupt);
void interrupt_clear(Interrupt *interrupt);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Interrupt, interrupt_clear)
/* The signal that has come; 0: none. */
int interrupt_poll(Interrupt *interrupt);
