/* Parameter servers: nodes beside the workers (the plan's ranks), over which the parameters are spread evenly. Workers
 * push the gradients of every bucket to them as soon as it is complete; the servers' processors sum and update, with
 * master copy and moments in their memory, and workers pull the new weights before their next step (Li et al., OSDI
 * 2014; BytePS, Jiang et al., OSDI 2020).
 *
 *     sync        a bucket is updated once, when all workers have pushed it
 *     async=S     each push is an update of its own; a worker may be S steps ahead of the slowest (stale synchronous
 *                 parallel, Ho et al., NIPS 2013); 0: none begins a step before all have ended the last
 *     async       the same without a bound
 *
 *     4                                                   nodes like those of the cluster, without use of their GPUs
 *     4+async=2+local=8+nic=100Gb/s+memory=200GB/s        8 neighbours on dp sum first, and each pushes an eighth of
 *                                                         that; of one server: its network, its memory's bandwidth
 *     workers                                             the workers' own nodes, which share their NICs */
#pragma once
#include <glib.h>

enum { STALENESS_UNBOUNDED = -1, MOST_STALENESS = 1000 };

typedef struct {
  int n; /* 0: none; with on_workers as many as there are nodes */
  gboolean on_workers;
  gboolean is_async;
  int staleness;     /* of async, in steps */
  int local;         /* neighbours on dp that sum first; 1: none */
  double nic_Bps;    /* of a server; 0: its node's NICs */
  double memory_Bps; /* of a server; 0: its node's */
} Servers;

static inline gboolean servers_are_used(const Servers *servers) {
  return servers->n > 0 || servers->on_workers;
}

/* "none", or as above. INPUT. */
gboolean servers_parse(const char *what, const char *text, Servers *servers, GError **error);
/* Static. */
const char *servers_text(const Servers *servers);
