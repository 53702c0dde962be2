/* Zero-bubble orders split the backward: other ranks wait only for I, and W fills slots that would idle. (Qi et al.,
 * Zero Bubble Pipeline Parallelism, arXiv 2401.10241: §2.1 zb-h1, §2.2 zb-h2, §6 zb-v.)
 *
 * zb-h1, zb-h2. Like 1f1b, but rank r begins with k(p − 1 − r) forwards, and its W comes kr micro-batches after its
 * I; k = 1 for zb-h1 and 2 for zb-h2. So every rank holds at most k(p − 1) + 1 micro-batches. p = 3, m = 5, zb-h1:
 *
 *     rank 0   F F F . . I W F I W F I W . I W . I W
 *     rank 1     F F . I F I W F I W F I W I W W
 *     rank 2       F I F I F I W F I W F I W W W
 *
 * The path from rank q's first F down to rank r ≥ q, through all that rank r runs before its last I, and back up to
 * the W's that rank q has left, is longer than a rank's work by (r − q)(F + I − kW): the bubble is at r = p − 1, q =
 * 0. With fewer than k(p − 1) + 1 micro-batches, fewer W can be deferred.
 *
 * zb-v. Two chunks, the second on the way back, so rank 0 has the first and the last stage. Rank r runs 2(p − r) − 1
 * forwards of the first chunk, r forwards of each alternately, and p − r times F I W of the second chunk; then F I W
 * of the two chunks alternately, until forwards run out and W is deferred in favour of the I's that other ranks wait
 * for. At most 2p chunks are held, as many as 1f1b's rank 0 holds. */
#include "generators.h"
#include "two_lanes.h"

static void add_halved_rank(Order *order, int rank, int n_warm_up, int n_behind) {
  int m = order->n_micro_batches;
  n_warm_up = MIN(n_warm_up, m);
  for (int slot = 0; slot < m + n_warm_up; slot++) {
    int backward = slot - n_warm_up;
    if (slot < m)
      order_add(order, rank, ACTION_F, rank, slot);
    if (backward >= 0)
      order_add(order, rank, ACTION_I, rank, backward);
    if (backward >= n_behind)
      order_add(order, rank, ACTION_W, rank, backward - n_behind);
  }
  for (int weight = MAX(0, m - n_behind); weight < m; weight++)
    order_add(order, rank, ACTION_W, rank, weight);
}

static void generate_halved(Order *order, OrderShape shape, int k) {
  for (int rank = 0; rank < shape.n_ranks; rank++)
    add_halved_rank(order, rank, k * (shape.n_ranks - 1 - rank), k * rank);
}

void generate_zb_h1(Order *order, OrderShape shape) {
  generate_halved(order, shape, 1);
}

void generate_zb_h2(Order *order, OrderShape shape) {
  generate_halved(order, shape, 2);
}

static void add_in_thirds(TwoLanes *lanes, int lane) {
  two_lanes_forward(lanes, lane);
  two_lanes_input(lanes, lane);
  two_lanes_weight(lanes);
}

static void add_zb_v_rank(TwoLanes *lanes, int rank, int p, int m) {
  for (int i = 0; i < 2 * (p - rank) - 1; i++)
    two_lanes_forward(lanes, 0);
  for (int i = 0; i < rank; i++) {
    two_lanes_forward(lanes, 1);
    two_lanes_forward(lanes, 0);
  }
  for (int i = 0; i < p - rank; i++)
    add_in_thirds(lanes, 1);
  while (lanes->n_forward[1] < m) {
    add_in_thirds(lanes, 0);
    add_in_thirds(lanes, 1);
  }
  for (int i = 0; i < rank; i++) {
    two_lanes_input(lanes, 0);
    two_lanes_input(lanes, 1);
  }
  for (int i = 0; i < p - rank; i++) {
    two_lanes_input(lanes, 0);
    two_lanes_weight(lanes);
  }
  two_lanes_all_weights(lanes);
}

void generate_zb_v(Order *order, OrderShape shape) {
  int p = shape.n_ranks;
  for (int rank = 0; rank < p; rank++) {
    TwoLanes lanes;
    two_lanes_init(&lanes, order, rank, (const int[]){rank, 2 * p - 1 - rank});
    add_zb_v_rank(&lanes, rank, p, MAX(shape.n_micro_batches, 2 * p));
    two_lanes_clear(&lanes);
  }
}
