/* The orders that schedules of the table (schedule_facts.h) make, and what is known of each order. */
#pragma once
#include "order.h"
#include "schedule_facts.h"

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

/* Bubble of the schedule's order. */
Bubble schedule_bubble(const ScheduleFacts *schedule, OrderShape shape, const PhaseTimes *times);
/* Micro-batches per group that its lists repeat in their steady state, where forwards and backwards alternate: one
 * more group lengthens each list by one more such stretch. 0: no repeats with these counts. */
int schedule_repeats(const ScheduleFacts *schedule, OrderShape shape);
/* Why these counts are impossible; NULL: they are not. Static. */
const char *schedule_refusal(const ScheduleFacts *schedule, OrderShape shape);

/* Generates the order; IMPOSSIBLE, with the reason, if the schedule cannot take these counts. */
Order *order_new(const ScheduleFacts *schedule, OrderShape shape, GError **error);
