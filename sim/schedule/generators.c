/* Pipeline orders, compute only. With p ranks, m micro-batches, v chunks per rank:
 *
 *     gpipe         all F, then all B
 *     1f1b          warm-up of p − rank − 1 forwards, then F B pairs, then the backwards left
 *                   (PipeDream-flush; Narayanan et al., arXiv 2104.04473 §2.2)
 *     interleaved   the same over virtual micro-batches: groups of micro-batches pass chunk by chunk (ibid.)
 *
 * Interleaved. Virtual micro-batch k is a (chunk, micro-batch) pair; forwards walk groups, in a group chunks, in a
 * chunk the group's micro-batches; backwards walk the same with the chunks reversed:
 *
 *     p = 2, v = 2, m = 5, groups {0 1 2} {3 4}:
 *     k            0  1  2   3  4  5   6  7   8  9
 *     chunk        0  0  0   1  1  1   0  0   1  1
 *     micro-batch  0  1  2   0  1  2   3  4   3  4
 *
 * A micro-batch comes back to a rank for its next chunk after p slots, so a group of at least p never waits for
 * itself. Warm-up reaches the first backward of this rank: 2(p − rank − 1) slots for the round trip to the last rank,
 * and (v − 1) · (largest group) for the earlier chunks. Where m is no multiple of p the published order would end in a
 * short group, which stalls; here the ⌊m/p⌋ groups share the remainder evenly, larger ones first: no group is below p
 * and none above the least possible ⌈m/⌊m/p⌋⌉, so the bubble stays (p − 1)(F + B)/v with the least warm-up. For m < p
 * the one group is short by p − m slots at each of the v − 1 chunk changes, forward and backward. */
#include "generators.h"

Order *order_new_looped(int n_ranks, int n_chunks, int n_micro_batches) {
  Order *order = g_new0(Order, 1);
  order->n_ranks = n_ranks;
  order->n_stages = n_ranks * n_chunks;
  order->n_micro_batches = n_micro_batches;
  order->actions = g_new0(GArray *, n_ranks);
  for (int rank = 0; rank < n_ranks; rank++)
    order->actions[rank] = g_array_sized_new(FALSE, FALSE, sizeof(Action), 2u * n_chunks * n_micro_batches);
  order->stage_rank = g_new(int, order->n_stages);
  for (int stage = 0; stage < order->n_stages; stage++)
    order->stage_rank[stage] = stage % n_ranks;
  return order;
}

void order_add(Order *order, int rank, ActionKind kind, int stage, int micro_batch) {
  Action action = {.stage = stage, .micro_batch = micro_batch, .kind = (guint8)kind};
  g_array_append_val(order->actions[rank], action);
}

Order *generate_gpipe(int n_ranks, int n_chunks, int n_micro_batches) {
  Order *order = order_new_looped(n_ranks, n_chunks, n_micro_batches);
  for (int rank = 0; rank < n_ranks; rank++) {
    for (int m = 0; m < n_micro_batches; m++)
      order_add(order, rank, ACTION_F, rank, m);
    for (int m = 0; m < n_micro_batches; m++)
      order_add(order, rank, ACTION_B, rank, m);
  }
  return order;
}

/* Which slot of the walk over (chunk, micro-batch) pairs is what. One chunk and one group make it plain 1f1b. */
typedef struct {
  int n_chunks;
  int group_size; /* of the smaller groups */
  int n_larger;   /* the first so many groups hold one micro-batch more */
} Walk;

static int largest_group(const Walk *walk) {
  return walk->group_size + (walk->n_larger > 0);
}

/* First micro-batch of a group. */
static int group_start(const Walk *walk, int group) {
  return group * walk->group_size + MIN(group, walk->n_larger);
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
  order_add(order, rank, kind, chunk * order->n_ranks + rank, start + within % size);
}

/* `n_warm_up` forwards, then forward and backward in turn, then the backwards left. */
static void add_one_forward_one_backward(Order *order, const Walk *walk, int rank, int n_warm_up) {
  int n_slots = walk->n_chunks * order->n_micro_batches;
  n_warm_up = MIN(n_warm_up, n_slots);
  for (int slot = 0; slot < n_slots + n_warm_up; slot++) {
    if (slot < n_slots)
      add_slot(order, walk, rank, ACTION_F, slot);
    if (slot >= n_warm_up)
      add_slot(order, walk, rank, ACTION_B, slot - n_warm_up);
  }
}

Order *generate_1f1b(int n_ranks, int n_chunks, int n_micro_batches) {
  Order *order = order_new_looped(n_ranks, n_chunks, n_micro_batches);
  Walk walk = {.n_chunks = 1, .group_size = n_micro_batches};
  for (int rank = 0; rank < n_ranks; rank++)
    add_one_forward_one_backward(order, &walk, rank, n_ranks - rank - 1);
  return order;
}

Order *generate_interleaved(int n_ranks, int n_chunks, int n_micro_batches) {
  if (n_chunks == 1) /* one round trip needs no second slot per rank: half of the warm-up is enough */
    return generate_1f1b(n_ranks, n_chunks, n_micro_batches);
  Order *order = order_new_looped(n_ranks, n_chunks, n_micro_batches);
  int n_groups = MAX(1, n_micro_batches / n_ranks);
  Walk walk = {n_chunks, .group_size = n_micro_batches / n_groups, .n_larger = n_micro_batches % n_groups};
  for (int rank = 0; rank < n_ranks; rank++)
    add_one_forward_one_backward(order, &walk, rank, 2 * (n_ranks - rank - 1) + (n_chunks - 1) * largest_group(&walk));
  return order;
}

double bubble_of_ramp(int n_ranks, int n_chunks, int n_micro_batches, double f, double b) {
  return (n_ranks - 1) * (f + b);
}

double bubble_of_interleaved(int n_ranks, int n_chunks, int n_micro_batches, double f, double b) {
  int stalls = (n_chunks - 1) * MAX(0, n_ranks - n_micro_batches);
  return (n_ranks - 1 + stalls) * (f + b) / n_chunks;
}
