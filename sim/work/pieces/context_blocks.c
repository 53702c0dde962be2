/* The ring as PyTorch runs it (torch/distributed/tensor/experimental/_attention.py, 2024-12 to 2025-08; rotate method
 * allgather, load balance and convert_to_f32 are its defaults and torchtitan's). Ranks have the same pieces of a
 * sequence and see the same blocks as in context.c. The differences:
 *
 *     heads      it takes as many heads of K and V as of Q: those of grouped queries are repeated before it
 *                (torchtitan's repeat_kv), and their gradients are summed after it
 *     forward    cat([K, V]) of all ranks is gathered at once; block by block a rank attends, and merges outputs and
 *                row sums in fp32
 *     backward   gathers them again; gradients of K and V are summed in fp32 and sent to the next rank after every
 *                block, cp times, so that each returns to its own rank; those of Q are summed in fp32
 *
 *     compute   pack | attention 0 | attention 1, merge | attention 2, merge
 *     cp             | [K, V of all]
 *     backward  pack | attention 0, dKV | attention 1, +dKV | attention 2, +dKV
 *               cp   | [K, V of all]    | [dKV of 0]        | [dKV of 1]        | [dKV of 2]
 *
 * Under torch.compile a collective is waited for where it is issued (torch/distributed/_functional_collectives.py:
 * traced code has no AsyncCollectiveTensor). */
#include "context.h"

enum { SUM_BYTES = 4 }; /* fp32 */

static double kv_elements(const Cut *cut) {
  return 2.0 * (double)cut->tokens * (double)cut->q_width;
}

static AttentionBlock of_all_heads(AttentionBlock block) {
  block.kv_heads = block.heads;
  return block;
}

/* If exchanges do not overlap with anything, the next compute item waits for it. */
static gint32 exchange(ItemList *list, Collective collective, const char *operand, double bytes) {
  const gint32 exchange = item_list_collective(list, AXIS_CP, collective, operand, bytes);
  if (list->cut->method->time.context_exchanges == CONTEXT_ALONE)
    item_list_wait(list, exchange);
  return exchange;
}

static gint32 gather_all(ItemList *list, const char *operand) {
  const Cut *cut = list->cut;
  const double bytes = cut->element_bytes * kv_elements(cut);
  item_list_memory(list, "attention.kv_pack", 2 * bytes);
  return exchange(list, COLLECTIVE_ALL_GATHER, operand, (double)cut->cp * bytes);
}

/* Repeats heads of grouped queries to as many as Q has; or sums their gradients back. */
static void repeat_heads(ItemList *list) {
  const Cut *cut = list->cut;
  const double grouped = (double)cut->tokens * (double)(cut->kv_width + cut->v_width);
  if (grouped < kv_elements(cut))
    item_list_memory(list, "attention.kv_repeat", cut->element_bytes * (kv_elements(cut) + grouped));
}

/* out − sigmoid(block's row sums − out's) · (out − block). As single operations: the block to fp32 (read e, write 4),
 * the difference (4 + 4, 4), scaled (4, 4), subtracted (4 + 4, 4); otherwise one kernel. */
static void merge(ItemList *list) {
  const Cut *cut = list->cut;
  const double elements = (double)cut->tokens * (double)cut->out_width, e = cut->element_bytes;
  if (cut->method->time.kernels == FRAMEWORK_KERNELS_PLAIN)
    item_list_operations(list, "attention.merge", 4, elements * (e + 9 * SUM_BYTES));
  else
    item_list_memory(list, "attention.merge", elements * (e + 2 * SUM_BYTES));
}

static void convert(ItemList *list, const char *name, double elements) {
  item_list_memory(list, name, elements * (list->cut->element_bytes + SUM_BYTES));
}

/* sum += part */
static void add(ItemList *list, const char *name, double elements) {
  item_list_memory(list, name, elements * (list->cut->element_bytes + 2 * SUM_BYTES));
}

void context_blocks_forward(ItemList *list) {
  const Cut *cut = list->cut;
  const AttentionBlock own = of_all_heads(context_own_block(cut)), other = of_all_heads(context_other_block(cut));
  const double out_elements = (double)cut->tokens * (double)cut->out_width;
  repeat_heads(list);
  const gint32 all = gather_all(list, "attention");
  item_list_attention(list, FALSE, &own);
  convert(list, "attention.out_widen", out_elements);
  item_list_wait(list, all);
  for (gint64 step = 1; step < cut->cp; step++) {
    item_list_attention(list, FALSE, &other);
    merge(list);
  }
  convert(list, "attention.out_narrow", out_elements);
}

void context_blocks_backward(ItemList *list) {
  const Cut *cut = list->cut;
  const AttentionBlock own = of_all_heads(context_own_block(cut)), other = of_all_heads(context_other_block(cut));
  const double q_elements = (double)cut->tokens * (double)cut->q_width, kv = kv_elements(cut);
  item_list_memory(list, "attention.clear", SUM_BYTES * (q_elements + kv));
  gint32 coming = gather_all(list, "attention.backward");
  for (gint64 step = 0; step < cut->cp; step++) {
    const gint32 here = coming;
    if (step == 1)
      item_list_wait(list, here); /* the gather, and everything before it on the same stream */
    item_list_attention(list, TRUE, step == 0 ? &own : &other);
    if (step > 1)
      item_list_wait(list, here);
    add(list, "attention.dkv_sum", kv);
    item_list_memory(list, "attention.dkv_pack", 2 * SUM_BYTES * kv);
    coming = exchange(list, COLLECTIVE_SEND_RECV, "attention.backward", SUM_BYTES * kv);
    add(list, "attention.dq_sum", q_elements);
  }
  convert(list, "attention.dq_narrow", q_elements);
  item_list_wait(list, coming);
  convert(list, "attention.dkv_narrow", kv);
  repeat_heads(list);
}

double context_blocks_buffer_bytes(const Cut *cut) {
  const double e = cut->element_bytes, q = (double)cut->tokens * (double)cut->q_width, kv = kv_elements(cut);
  const double gathered = e * (double)(cut->cp + 1) * kv; /* from all ranks, and what this rank packed */
  const double sums = (SUM_BYTES + e) * (q + kv);         /* and one block's contributions to them */
  return e * (double)cut->tokens * (double)cut->out_width + gathered + sums + 2 * SUM_BYTES * kv; /* being sent, and
                                                                                                     being received */
}
