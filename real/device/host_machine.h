/* The machine this process runs on: cores, memory, clock. */
#pragma once
#include <glib.h>

/* Which cores a rank's threads may use. */
typedef struct {
  int n_cores;         /* in this rank's share; all it may use if not bound */
  int first_core;      /* the machine's number of the first of them; −1: unknown */
  gboolean is_crowded; /* more ranks than cores: other ranks wait for the same cores */
  gboolean is_bound;   /* the share is this rank's own: its threads should be bound to it */
  guint8 *mask;        /* cpu_set_t; NULL unless is_bound */
  gsize mask_bytes;
} HostCores;

/* The local_rank-th of n_local equal shares of the cores this process may use. All of them, not bound, if there are
 * fewer cores than ranks, or if the launcher has already given this process fewer than it has itself. */
HostCores host_cores(int local_rank, int n_local);
void host_cores_clear(HostCores *cores);
/* Binds the calling thread. If the system refuses, the thread stays unbound. */
void host_cores_bind(const HostCores *cores);

gint64 host_available_bytes(void); /* memory available without swapping, within this container's limit; 0: unknown */
char *host_processor_name(void);   /* owned by the caller */
double host_clock_Hz(int core);    /* current; 0: unknown */
gint64 host_now_ns(void);          /* CLOCK_MONOTONIC */
