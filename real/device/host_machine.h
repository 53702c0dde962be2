/* The machine this process runs on, as far as a rank wants to know it. */
#pragma once
#include <glib.h>

/* Which cores a rank's threads may use. */
typedef struct {
  int n_cores;         /* of this rank's share, or all it may use when it was not bound */
  int first_core;      /* the machine's number of the first of them; −1 unknown */
  gboolean is_crowded; /* other ranks wait for the same cores: there are more of them */
  gboolean is_bound;   /* the share is this rank's own: threads are to be bound to it */
  guint8 *mask;        /* cpu_set_t; NULL unless is_bound */
  gsize mask_bytes;
} HostCores;

/* The local_rank-th of n_local equal shares of the cores this process may use; all of them, not bound, when there are
 * fewer than ranks or when a launcher has already given this process fewer than it has itself. */
HostCores host_cores(int local_rank, int n_local);
void host_cores_clear(HostCores *cores);
/* Bind the calling thread. A system that refuses leaves the thread where it is. */
void host_cores_bind(const HostCores *cores);

gint64 host_available_bytes(void); /* memory that can be had without swapping, of this container too; 0 unknown */
char *host_processor_name(void);   /* owned by the caller */
double host_clock_Hz(int core);    /* now; 0 unknown */
gint64 host_now_ns(void);          /* CLOCK_MONOTONIC */
