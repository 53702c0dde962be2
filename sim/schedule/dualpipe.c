/* DualPipe: micro-batches enter from both ends, so a rank works for one direction while it waits for the other, and a
 * forward of one runs as one with a backward of the other (DeepSeek-AI, DeepSeek-V3, arXiv 2412.19437 §3.2.1 and
 * figure 5). DualPipeV is half of it: a single pipe folded into a V, whose two arms are the two directions.
 *
 * h = ranks from an end to the middle (p/2; for the V all p), r = ranks to the near end, n micro-batches per
 * direction; lane 0 enters at the near end (for the V: the first arm), lane 1 comes back from the far end:
 *
 *     1   2(h − r − 1)     F0                  fill the pipe ahead
 *     2   r + 1            F0 F1               both directions fill
 *     3   h − r − 1        I1 W1 F1            first gradients arrive: pass them on at once
 *     4   n − 2h + r + 1   (F0 B1) (F1 B0)     steady state: pairs, each run as one
 *     5   h − r − 1        B1 (F1 B0)          lane 0 is out of forwards
 *     6   r + 1            B1 B0               so is lane 1; in the later half only I, W is deferred
 *     7   h − r − 1        W I0                deferred W's fill the waits
 *     8   r + 1            W
 *
 * A rank holds at most 2h + 1 stages' activations: p + 1 micro-batches. With fewer than 2h micro-batches per
 * direction the pattern is the same, with the missing ones left out. */
#include "generators.h"
#include "two_lanes.h"

typedef struct {
  int half;     /* h */
  int from_end; /* r */
  int n;
} Pattern;

static void add_ramp_up(TwoLanes *lanes, const Pattern *pattern) {
  int ahead = pattern->half - pattern->from_end - 1;
  for (int i = 0; i < 2 * ahead; i++)
    two_lanes_forward(lanes, 0);
  for (int i = 0; i <= pattern->from_end; i++) {
    two_lanes_forward(lanes, 0);
    two_lanes_forward(lanes, 1);
  }
  for (int i = 0; i < ahead; i++) {
    two_lanes_input(lanes, 1);
    two_lanes_weight(lanes);
    two_lanes_forward(lanes, 1);
  }
}

static void add_steady(TwoLanes *lanes, const Pattern *pattern) {
  for (int i = 0; i < pattern->n - 2 * pattern->half + pattern->from_end + 1; i++) {
    two_lanes_pair(lanes, 0, 1);
    two_lanes_pair(lanes, 1, 0);
  }
}

static void add_ramp_down(TwoLanes *lanes, const Pattern *pattern) {
  int ahead = pattern->half - pattern->from_end - 1, n_last = pattern->from_end + 1;
  for (int i = 0; i < ahead; i++) {
    two_lanes_backward(lanes, 1);
    two_lanes_pair(lanes, 1, 0);
  }
  for (int i = 0; i < 2 * n_last; i++) /* lanes 1 0 1 0 …; the last n_last of them only I */
    (i < n_last ? two_lanes_backward : two_lanes_input)(lanes, 1 - i % 2);
  for (int i = 0; i < ahead; i++) {
    two_lanes_weight(lanes);
    two_lanes_input(lanes, 0);
  }
  two_lanes_all_weights(lanes);
}

static void add_rank(Order *order, int rank, const int stage[2], const Pattern *pattern) {
  TwoLanes lanes;
  two_lanes_init(&lanes, order, rank, stage);
  add_ramp_up(&lanes, pattern);
  add_steady(&lanes, pattern);
  add_ramp_down(&lanes, pattern);
  two_lanes_clear(&lanes);
}

void generate_dualpipe(Order *order, OrderShape shape) {
  int p = shape.n_ranks, half = p / 2, per_direction = (shape.n_micro_batches + 1) / 2;
  for (int rank = 0; rank < p; rank++) {
    int near = rank, far = 2 * p - 1 - rank; /* its stages of the first and of the second pipe */
    gboolean is_near_end = rank < half;
    Pattern pattern = {half, is_near_end ? rank : p - 1 - rank, MAX(per_direction, 2 * half)};
    add_rank(order, rank, is_near_end ? (const int[]){near, far} : (const int[]){far, near}, &pattern);
  }
}

void generate_dualpipe_v(Order *order, OrderShape shape) {
  int p = shape.n_ranks;
  for (int rank = 0; rank < p; rank++) {
    Pattern pattern = {p, rank, MAX(shape.n_micro_batches, 2 * p)};
    add_rank(order, rank, (const int[]){rank, 2 * p - 1 - rank}, &pattern);
  }
}

const char *refusal_of_dualpipe(OrderShape shape) {
  if (shape.n_ranks % 2 != 0)
    return "needs an even number of pipeline ranks, as pipes from both ends meet in the middle";
  return shape.n_micro_batches < 2 ? "needs at least 2 micro-batches, one from each end" : NULL;
}
