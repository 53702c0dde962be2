#include "interrupt.h"

#include <sys/signalfd.h>
#include <unistd.h>

void interrupt_init(Interrupt *interrupt) {
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGINT);
  sigaddset(&wanted, SIGTERM);
  *interrupt = (Interrupt){.fd = signalfd(-1, &wanted, SFD_NONBLOCK | SFD_CLOEXEC)};
  if (interrupt->fd >= 0)
    pthread_sigmask(SIG_BLOCK, &wanted, &interrupt->mask);
}

void interrupt_none(Interrupt *interrupt) {
  *interrupt = (Interrupt){.fd = -1};
}

void interrupt_clear(Interrupt *interrupt) {
  if (interrupt->fd < 0)
    return;
  close(interrupt->fd);
  interrupt->fd = -1;
  pthread_sigmask(SIG_SETMASK, &interrupt->mask, NULL);
}

int interrupt_poll(Interrupt *interrupt) {
  struct signalfd_siginfo info;
  if (interrupt->fd >= 0 && read(interrupt->fd, &info, sizeof info) == sizeof info) {
    interrupt->signal = (int)info.ssi_signo;
    interrupt_clear(interrupt); /* the next one is not held up */
  }
  return interrupt->signal;
}
