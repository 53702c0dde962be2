/* DualPipe: micro-batches enter from both ends, so a rank has work of one direction while it waits for the other, and
 * the forward of one runs as one with the backward of the other (DeepSeek-AI, DeepSeek-V3, arXiv 2412.19437 §3.2.1 and
 * figure 5). DualPipeV is its half: the V of a single pipe, whose two arms are the two directions.
 *
 * h ranks from an end to the middle (p/2; for the V all p), r ranks from the near end, n micro-batches per direction;
 * lane 0 enters at the near end (the V: is its first arm), lane 1 comes back from the far one:
 *
 *     1   2(h − r − 1)     F0                  fill the way ahead
 *     2   r + 1            F0 F1               both ways are full
 *     3   h − r − 1        I1 W1 F1            first gradients come back: pass them on at once
 *     4   n − 2h + r + 1   (F0 B1) (F1 B0)     steady: pairs, each as one
 *     5   h − r − 1        B1 (F1 B0)          lane 0 has no forwards left
 *     6   r + 1            B1 B0               lane 1 has none; in the later half I alone, its W kept
 *     7   h − r − 1        W I0                and these fill the waits
 *     8   r + 1            W
 *
 * A rank holds at most 2h + 1 stages' worth: p + 1 micro-batches. Fewer than 2h micro-batches per direction make the
 * same pattern with the later ones left out. */
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
  for (int i = 0; i < 2 * n_last; i++) /* lanes 1 0 1 0 …, the later n_last of them I alone */
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
    int near = rank, far = 2 * p - 1 - rank; /* stages of the first and of the second pipe */
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
