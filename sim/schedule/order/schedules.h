/* Schedules by name: their properties, and the orders they make. */
#pragma once
#include "order.h"

/* The parameters of an order. */
typedef struct {
  int n_ranks, n_chunks, n_micro_batches;
  int group; /* interleaved: consecutive micro-batches per chunk; 0: n_ranks or a few more, so that groups are nearly
                equal */
  gboolean takes_turns; /* interleaved, and 1f1b on one rank: the forward and backward of a round take turns, so neither
                           may depend on the other */
} OrderShape;

/* Per rank (all its chunks) and micro-batch; in any unit. */
typedef struct {
  double f, i, w;
  double pair; /* F and B run as one (OVERLAP_F_B); F + I + W if that gains nothing */
} PhaseTimes;

/* Bubble by stage spans, for uniform stages and free communication. */
typedef struct {
  double time;       /* in the unit of the PhaseTimes */
  gboolean is_exact; /* else a lower bound for orders of this kind */
} Bubble;

/* The properties of a schedule; one row per name. */
typedef struct {
  const char *name;
  const char *summary; /* one line for --help */
  PlacementShape placement;
  int least_chunks, most_chunks; /* per rank */
  gboolean takes_group;
  gboolean overlaps_p2p; /* its authors' runtime computes while sending; the runtimes of the others wait */
  gboolean runs_on; /* a stage begins the next step without waiting for the others: its authors check the gradient norm
                       afterwards (post-validation, Qi et al., arXiv 2401.10241 §4) */
  void (*generate)(Order *order, OrderShape shape); /* fills an order without actions */
  Bubble (*bubble)(OrderShape shape, const PhaseTimes *times);
  /* Micro-batches per group that its lists repeat in their steady state, where forwards and backwards alternate: one
   * more group lengthens each list by one more such stretch. 0: no repeats with these counts. The function may be
   * NULL: never repeats. */
  int (*repeats)(OrderShape shape);
  const char *(*refusal)(OrderShape shape); /* why these counts are impossible, or NULL; the function may be NULL */
} ScheduleInfo;

/* All rows of the table, for lists of names. */
#define SCHEDULE_NAMES                                                                                                 \
  "gpipe", "1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min", "dualpipe", "dualpipe-v"
const ScheduleInfo *schedule_find(const char *name, GError **error); /* INPUT with the valid names and the nearest */
const char *const *schedule_names(void);                             /* NULL-terminated */

/* Chunks if none were asked for: the least possible, but two for a schedule that with one chunk equals another one
 * (interleaved: 1f1b, looped-bfs: gpipe) on more than one rank. */
int schedule_default_chunks(const ScheduleInfo *schedule, int n_ranks);
/* IMPOSSIBLE if the schedule does not allow this number of chunks per rank. */
gboolean schedule_check_chunks(const ScheduleInfo *schedule, int n_chunks, GError **error);

/* Generates the order; IMPOSSIBLE, with the reason, if the schedule cannot take these counts. */
Order *order_new(const ScheduleInfo *schedule, OrderShape shape, GError **error);
