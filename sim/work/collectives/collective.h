/* Collective operations: their names, and bus bandwidth as nccl-tests defines it. */
#pragma once
#include <glib.h>

typedef enum {
  COLLECTIVE_ALL_REDUCE,
  COLLECTIVE_ALL_GATHER,
  COLLECTIVE_REDUCE_SCATTER,
  COLLECTIVE_ALL_TO_ALL,
  COLLECTIVE_BROADCAST,
  COLLECTIVE_REDUCE,
  COLLECTIVE_GATHER,
  COLLECTIVE_SCATTER,
  COLLECTIVE_SEND_RECV,
  COLLECTIVE_PARAMETER_SERVER, /* every worker pushes S to one server, which answers with S to each */
  N_COLLECTIVES
} Collective;

const char *collective_name(Collective collective); /* "all_reduce" … as `--op` and program text spell it */
/* broadcast, reduce, gather, scatter */
gboolean collective_has_root(Collective collective);
const char *const *collective_names(void); /* NULL-terminated, enum order */

/* busbw = algbw × factor(n), algbw = S/t, S as nccl-tests counts it: the full buffer (all_gather and
 * reduce_scatter: the n-times-larger side). Source: nccl-tests doc/PERFORMANCE.md. */
double collective_bus_factor(Collective collective, int n_ranks);
/* Bytes each rank sends over its links with a bandwidth-optimal algorithm, for the same S; for rooted operations,
 * those of the root or server: all_reduce 2(n−1)/n·S, all_gather and reduce_scatter (n−1)/n·S, parameter_server (n·S
 * in and out of the server). */
double collective_sent_bytes(Collective collective, int n_ranks, double bytes);
