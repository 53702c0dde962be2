/* Private to this floor: one rank's list of actions while it is written, for schedules in which a rank holds two stages
 * ("lanes": the two arms of a V, or one stage of each of two pipes) and passes come in a pattern of lanes, each lane's
 * micro-batches in order.
 *
 * A pattern is written for as many micro-batches as it needs to close; passes of micro-batches beyond the lane's own
 * are left out. What is left is in a legal order still, since a micro-batch depends on no other. */
#pragma once
#include "order.h"

typedef struct {
  gint32 lane, micro_batch;
} LanePass;

typedef struct {
  Order *order; /* appended to; not owned */
  int rank;
  int stage[2];
  int first[2], n_micro_batches[2]; /* the lane's own: first … first + n − 1 */
  int n_forward[2], n_backward[2];  /* passes of the pattern so far, those left out included */
  GArray *inputs;                   /* of LanePass: input gradients in order; owned */
  guint n_weights;                  /* so many of them had their weight gradient */
} TwoLanes;

/* `lanes` over the two stages, without a pass; to be cleared. */
void two_lanes_init(TwoLanes *lanes, Order *order, int rank, const int stage[2]);
void two_lanes_clear(TwoLanes *lanes);
void two_lanes_forward(TwoLanes *lanes, int lane);
void two_lanes_backward(TwoLanes *lanes, int lane); /* B */
void two_lanes_input(TwoLanes *lanes, int lane);    /* I; its W is left for two_lanes_weight() */
void two_lanes_weight(TwoLanes *lanes);             /* W of the earliest I without one; nothing when there is none */
void two_lanes_all_weights(TwoLanes *lanes);        /* … of all of them */
/* F of one lane and B of the other as one, when both are there. */
void two_lanes_pair(TwoLanes *lanes, int forward_lane, int backward_lane);
