/* The schedules by name: what each is, and an order made by one. */
#pragma once
#include "order.h"

/* What an order is asked to be. */
typedef struct {
  int n_ranks, n_chunks, n_micro_batches;
  int group; /* interleaved: micro-batches that pass a chunk in a row; 0: as many as there are ranks, or a few more so
                that all groups are about equal */
  gboolean takes_turns; /* interleaved, and 1f1b of one rank: the forward and the backward of a round take turns, so
                           neither may need the other */
} OrderShape;

/* Of one rank, all its chunks, for one micro-batch; in any unit. */
typedef struct {
  double f, i, w;
  double pair; /* F and B run as one (OVERLAP_F_B); F + I + W where nothing is gained */
} PhaseTimes;

/* Bubble on stage spans for uniform stages and free communication. */
typedef struct {
  double time;       /* in the unit of the times */
  gboolean is_exact; /* else no order of this kind has a shorter one */
} Bubble;

/* What a schedule is; one row per name. */
typedef struct {
  const char *name;
  const char *summary; /* one line for --help */
  PlacementShape placement;
  int least_chunks, most_chunks; /* per rank */
  gboolean takes_group;
  gboolean overlaps_p2p; /* its authors' runtime computes on while it sends; the frameworks that run the others wait */
  gboolean runs_on; /* a stage begins the next step without waiting for the others: its authors check the gradient norm
                       afterwards (post-validation, Qi et al., arXiv 2401.10241 §4) */
  void (*generate)(Order *order, OrderShape shape); /* into an order without actions */
  Bubble (*bubble)(OrderShape shape, const PhaseTimes *times);
  /* Micro-batches of a group with which its lists repeat themselves: with one more group, lists are the same but for
   * another such stretch among its likes, as forward and backward follow in turn until forwards run out. 0: not with
   * these counts; the function may be NULL: never. */
  int (*repeats)(OrderShape shape);
  const char *(*refusal)(OrderShape shape); /* why these counts cannot be, or NULL; the function may be NULL */
} ScheduleInfo;

/* All rows of the table, for lists of names. */
#define SCHEDULE_NAMES                                                                                                 \
  "gpipe", "1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min", "dualpipe", "dualpipe-v"
const ScheduleInfo *schedule_find(const char *name, GError **error); /* INPUT with the valid names and the nearest */
const char *const *schedule_names(void);                             /* NULL-terminated */

/* Chunks where none were asked for: the least, but two of a schedule that is another one with a single chunk
 * (interleaved: 1f1b, looped-bfs: gpipe) on more than one rank. */
int schedule_default_chunks(const ScheduleInfo *schedule, int n_ranks);
/* IMPOSSIBLE when the schedule has another number of chunks per rank. */
gboolean schedule_check_chunks(const ScheduleInfo *schedule, int n_chunks, GError **error);

/* Generate; IMPOSSIBLE when the schedule cannot take these counts (said why). */
Order *order_new(const ScheduleInfo *schedule, OrderShape shape, GError **error);
