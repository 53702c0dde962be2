/* How long collectives and sends between the ranks of this world take, by size and group, and how much they slow down
 * matrix products that overlap them. */
#pragma once
#include "comm.h"

typedef struct {
  Collective op;           /* SEND_RECV: a send */
  int n_ranks;             /* group size; all groups of neighbouring ranks of this size run at once */
  int n_nodes;             /* machines the group spans */
  gint64 bytes;            /* full buffer, as nccl-tests counts */
  double median_s, spread; /* of one in a row of several; on the host, of one by itself */
  double once_s;           /* median of one by itself, which includes its launch by the host */
} LinkTime;

/* What runs side by side: products C (m×n) = A·Bᵀ of k columns, and all-reduces. */
typedef struct {
  Number number;
  gint64 m, n, k;
  gint64 bytes; /* of an all-reduce */
} LinkBeside;
/* Such that they compete: products that fill a GPU, or a core's cache; transfers that take as long as several. */
LinkBeside link_beside_of(const DeviceType *device);

typedef struct {
  GArray *times;      /* of LinkTime; owned */
  gint64 eager_bytes; /* largest send that completed before the receive was posted; 0: none */
  /* slowdown of products that overlap an all-reduce of all ranks, and of that all-reduce; 0: not measured */
  double products_beside, collective_beside;
  double tax; /* seconds the products lose per second the overlapping all-reduces would take alone */
} LinkTimes;

typedef struct {
  World *world;
  const DeviceType *device;
  const CommType *comm;
  gint64 least_bytes, most_bytes; /* sizes, in factors of 4 */
  LinkBeside beside;
  int n_repeats; /* per transfer; overlap with products is timed as often, but at most 7 times */
  void (*progress)(const char *what, gpointer data); /* rank 0 only; may be NULL */
  gpointer progress_data;
} LinkBench;

/* Collective over the world; times are filled on rank 0. With one rank there is nothing to measure: TRUE. */
gboolean link_times_measure(const LinkBench *bench, LinkTimes *times, GError **error);
void link_times_clear(LinkTimes *times);
