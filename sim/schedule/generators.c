/* Pipeline orders, compute only. With p ranks, m micro-batches, v chunks per rank:
 *
 *     gpipe         all F, then all B
 *     1f1b          warm-up of p − rank − 1 forwards, then F B pairs, then the remaining backwards
 *                   (PipeDream-flush; Narayanan et al., arXiv 2104.04473 §2.2)
 *     interleaved   the same over virtual micro-batches: groups of micro-batches pass chunk by chunk (ibid.)
 *     looped-bfs    chunk by chunk, all micro-batches on one before the next: gpipe over chunks (breadth-first;
 *                   Lamy-Poirier, arXiv 2211.05953 §4)
 *
 * Interleaved. Virtual micro-batch k is a (chunk, micro-batch) pair. Forwards walk the groups, within a group the
 * chunks, within a chunk the group's micro-batches; backwards do the same with the chunks reversed:
 *
 *     p = 2, v = 2, m = 5, groups {0 1 2} {3 4}:
 *     k            0  1  2   3  4  5   6  7   8  9
 *     chunk        0  0  0   1  1  1   0  0   1  1
 *     micro-batch  0  1  2   0  1  2   3  4   3  4
 *
 * A micro-batch returns to a rank for its next chunk after p slots, so a group of at least p never waits for itself.
 * Warm-up extends to this rank's first backward: 2(p − rank − 1) slots for the round trip to the last rank, plus (v −
 * 1) · (largest group) for the earlier chunks. If p does not divide m, the published order ends in a short group,
 * which stalls; here the ⌊m/p⌋ groups share the remainder evenly, larger ones first. No group is below p and none
 * above the minimum ⌈m/⌊m/p⌋⌉, so the bubble stays (p − 1)(F + B)/v with the least warm-up. For m < p, the single
 * group stalls for p − m slots at each of the v − 1 chunk changes, forward and backward.
 *
 * If forwards and backwards take turns at their expert exchanges, warm-up is one slot longer, so that neither half of
 * a round depends on the other or on what follows from it (Megatron-LM, megatron/core/pipeline_parallel/schedules.py,
 * get_pp_rank_microbatches, 2025-26). The bubble is unchanged.
 *
 * 1f1b on a single rank has no warm-up: F0 B0 F1 B1 …. If the two take turns, it has one warm-up forward and rounds
 * of two micro-batches: F0 (F1 B0) (F2 B1) … (combined_1f1b.py there, combined_1f1b_schedule_for_no_pipelining,
 * 2025). */
#include "generators.h"

void generate_gpipe(Order *order, OrderShape shape) {
  for (int rank = 0; rank < shape.n_ranks; rank++) {
    for (int m = 0; m < shape.n_micro_batches; m++)
      order_add(order, rank, ACTION_F, rank, m);
    for (int m = 0; m < shape.n_micro_batches; m++)
      order_add(order, rank, ACTION_B, rank, m);
  }
}

void generate_looped_bfs(Order *order, OrderShape shape) {
  for (int rank = 0; rank < shape.n_ranks; rank++) {
    for (int chunk = 0; chunk < shape.n_chunks; chunk++)
      for (int m = 0; m < shape.n_micro_batches; m++)
        order_add(order, rank, ACTION_F, chunk * shape.n_ranks + rank, m);
    for (int chunk = shape.n_chunks - 1; chunk >= 0; chunk--)
      for (int m = 0; m < shape.n_micro_batches; m++)
        order_add(order, rank, ACTION_B, chunk * shape.n_ranks + rank, m);
  }
}

/* Maps slots of the walk over (chunk, micro-batch) pairs. One chunk and one group make it plain 1f1b. */
typedef struct {
  int n_chunks, n_micro_batches;
  int group_size; /* of the smaller groups; the last group may be shorter, but not below p */
  int n_larger;   /* the first n_larger groups hold one micro-batch more */
} Walk;

static int largest_group(const Walk *walk) {
  return walk->group_size + (walk->n_larger > 0);
}

/* First micro-batch of a group. */
static int group_start(const Walk *walk, int group) {
  return MIN(group * walk->group_size + MIN(group, walk->n_larger), walk->n_micro_batches);
}

static int group_of(const Walk *walk, int slot) {
  int larger_slots = walk->n_larger * (walk->group_size + 1) * walk->n_chunks;
  if (slot < larger_slots)
    return slot / ((walk->group_size + 1) * walk->n_chunks);
  return walk->n_larger + (slot - larger_slots) / (walk->group_size * walk->n_chunks);
}

static void add_slot(Order *order, const Walk *walk, int rank, ActionKind kind, int slot) {
  int group = group_of(walk, slot);
  int start = group_start(walk, group);
  int size = group_start(walk, group + 1) - start;
  int within = slot - start * walk->n_chunks;
  int chunk = within / size;
  if (kind != ACTION_F)
    chunk = walk->n_chunks - 1 - chunk;
  order_add(order, rank, kind, chunk * order->placement->n_ranks + rank, start + within % size);
}

/* `n_warm_up` forwards, then forwards and backwards alternately, then the remaining backwards. */
static void add_one_forward_one_backward(Order *order, const Walk *walk, int rank, int n_warm_up) {
  GArray *actions = order->actions[rank];
  int n_slots = walk->n_chunks * order->n_micro_batches;
  n_warm_up = MIN(n_warm_up, n_slots);
  for (int slot = 0; slot < n_slots + n_warm_up; slot++) {
    if (slot < n_slots)
      add_slot(order, walk, rank, ACTION_F, slot);
    if (slot < n_slots && slot >= n_warm_up)
      g_array_index(actions, Action, actions->len - 1).joins_next = order->exchange == EXCHANGE_ROUNDS;
    if (slot >= n_warm_up)
      add_slot(order, walk, rank, ACTION_B, slot - n_warm_up);
  }
}

void generate_1f1b(Order *order, OrderShape shape) {
  Walk walk = {1, shape.n_micro_batches, .group_size = shape.n_micro_batches};
  const gboolean is_lone = shape.n_ranks == 1 && shape.takes_turns;
  order->exchange = is_lone ? EXCHANGE_ROUNDS : EXCHANGE_PAIRS;
  for (int rank = 0; rank < shape.n_ranks; rank++)
    add_one_forward_one_backward(order, &walk, rank, shape.n_ranks - rank - 1 + is_lone);
}

void generate_interleaved(Order *order, OrderShape shape) {
  int p = shape.n_ranks, v = shape.n_chunks, m = shape.n_micro_batches;
  if (v == 1) { /* a single round trip does not need a second slot per rank: half the warm-up is enough */
    generate_1f1b(order, shape);
    return;
  }
  order->exchange = EXCHANGE_ROUNDS;
  int n_groups = MAX(1, m / p);
  Walk walk = {v, m, .group_size = m / n_groups, .n_larger = m % n_groups};
  if (shape.group > 0)
    walk = (Walk){v, m, .group_size = MIN(shape.group, m)};
  const int ahead = 2 * (p - 1) + (v - 1) * largest_group(&walk) + (shape.takes_turns ? 1 : 0);
  for (int rank = 0; rank < p; rank++)
    add_one_forward_one_backward(order, &walk, rank, ahead - 2 * rank);
}

Bubble bubble_of_ramp(OrderShape shape, const PhaseTimes *times) {
  return (Bubble){(shape.n_ranks - 1) * (times->f + times->i + times->w), TRUE};
}

Bubble bubble_of_interleaved(OrderShape shape, const PhaseTimes *times) {
  int p = shape.n_ranks, v = shape.n_chunks, m = shape.n_micro_batches;
  int stalls = (v - 1) * MAX(0, p - m);
  return (Bubble){(p - 1 + stalls) * (times->f + times->i + times->w) / v, TRUE};
}

/* Equals interleaved with all micro-batches in one group. */
Bubble bubble_of_looped_bfs(OrderShape shape, const PhaseTimes *times) {
  int p = shape.n_ranks, v = shape.n_chunks, stalls = (v - 1) * MAX(0, p - shape.n_micro_batches);
  return (Bubble){(p - 1 + stalls) * (times->f + times->i + times->w) / v, TRUE};
}

int repeats_by_one(OrderShape shape) {
  return 1;
}

/* Groups are equal only if the group size divides m. */
int repeats_of_interleaved(OrderShape shape) {
  if (shape.n_chunks == 1)
    return 1;
  const int group = shape.group > 0 ? shape.group : shape.n_ranks;
  return shape.n_micro_batches % group == 0 ? group : 0;
}

const char *refusal_of_interleaved(OrderShape shape) {
  int p = shape.n_ranks, m = shape.n_micro_batches, group = shape.group;
  if (group == 0 || shape.n_chunks == 1)
    return NULL;
  if (group < MIN(p, m))
    return "needs groups of at least as many micro-batches as there are pipeline ranks";
  if (m > group && m % group != 0 && m % group < p) /* ranks would wait for each other */
    return "needs a last group of at least as many micro-batches as there are pipeline ranks";
  return NULL;
}
