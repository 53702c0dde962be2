/* Private to the schedule layer: writes one rank's list of actions for schedules in which a rank holds two stages
 * ("lanes": the two arms of a V, or one stage of each of two pipes) and passes follow a pattern of lanes, with each
 * lane's micro-batches in order.
 *
 * The pattern is generated for as many micro-batches as it needs to close; passes beyond the lane's own micro-batches
 * are left out. The remaining order is still legal, since micro-batches do not depend on each other. */
#pragma once
#include "order.h"

typedef struct {
  gint32 lane, micro_batch;
} LanePass;

typedef struct {
  Order *order; /* appended to; borrowed */
  int rank;
  int stage[2];
  int first[2], n_micro_batches[2]; /* per lane: first … first + n − 1 */
  int n_forward[2], n_backward[2];  /* passes of the pattern so far, including those left out */
  GArray *inputs;                   /* of LanePass: input gradients in order; owned */
  guint n_weights;                  /* of these, the first n_weights have had their weight gradient */
} TwoLanes;

/* `lanes` over the two stages, with no passes yet; clear it after use. */
void two_lanes_init(TwoLanes *lanes, Order *order, int rank, const int stage[2]);
void two_lanes_clear(TwoLanes *lanes);
void two_lanes_forward(TwoLanes *lanes, int lane);
void two_lanes_backward(TwoLanes *lanes, int lane); /* B */
void two_lanes_input(TwoLanes *lanes, int lane);    /* I; its W is deferred to two_lanes_weight() */
void two_lanes_weight(TwoLanes *lanes);             /* W of the earliest I that lacks one; no-op if there is none */
void two_lanes_all_weights(TwoLanes *lanes);        /* … of all of them */
/* F of one lane and B of the other as one, if both exist. */
void two_lanes_pair(TwoLanes *lanes, int forward_lane, int backward_lane);
