/* How long collectives and sends between the ranks of this world take, by size and group, and what they cost the
 * products that run beside them. */
#pragma once
#include "comm.h"

typedef struct {
  Collective op; /* SEND_RECV: a send */
  int n_ranks;   /* of the group; all such groups of neighbours at once */
  int n_nodes;   /* machines it spans */
  gint64 bytes;  /* full buffer, as nccl-tests counts */
  double median_s, spread;
} LinkTime;

typedef struct {
  GArray *times;      /* of LinkTime; owned */
  gint64 eager_bytes; /* largest send that ended though nobody received; 0: none */
  /* products beside an all-reduce of all ranks, and it beside them: time over time alone; 0: not measured */
  double products_beside, collective_beside;
  double tax; /* seconds of products lost per second that the all-reduces beside them would have taken alone */
} LinkTimes;

typedef struct {
  World *world;
  const DeviceType *device;
  const CommType *comm;
  gint64 least_bytes, most_bytes; /* sizes: each four times the one before */
  int n_repeats; /* of a transfer; products beside one are timed as often, 7 times at most */
  void (*progress)(const char *what, gpointer data); /* rank 0 only; may be NULL */
  gpointer progress_data;
} LinkBench;

/* Collective over the world; times are filled on rank 0. A world of one rank has none: TRUE, nothing measured. */
gboolean link_times_measure(const LinkBench *bench, LinkTimes *times, GError **error);
void link_times_clear(LinkTimes *times);
