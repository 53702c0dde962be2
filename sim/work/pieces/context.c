/* Flash attention when each rank of cp has 1/cp of every sequence: s tokens of the S = cp·s.
 *
 * A sequence is divided into 2·cp pieces, and each rank gets an early and a late one, so that a causal mask leaves
 * every rank S(S+1)/(2·cp) pairs of query and key (Llama 3, arXiv 2407.21783 §3.3.2; Megatron-LM's context
 * parallelism):
 *
 *     cp = 4    rank  0 1 2 3 3 2 1 0
 *
 * Ring (arXiv 2310.01889; cp−1 steps): a rank attends to its own keys, s(s+1)/2 pairs, while they pass to the next
 * rank, then to those of the rank before, and so on. For an earlier rank's block all queries see the early half of
 * the keys; for a later rank's block the late half of the queries sees all keys: s²/2 pairs either way. (The first
 * case, which moves more bytes, is listed.) Each block's output is merged with the previous ones by their
 * log-sum-exps. There are two buffers: a block is received into the one that the block before the present one
 * occupied.
 *
 *     compute   pack | attention 0 | attention 1, keep, merge | attention 2, merge
 *     cp             | [KV of 1]     [KV of 2]
 *
 * Backward: the blocks go round once more, with their gradients dKV one step behind, and each rank adds its part. A
 * rank's own block comes last, when its gradient is complete.
 *
 *     compute   pack | attention 0, clear | attention 1, +dKV of 0 | attention 2, +dKV of 1
 *     cp             | [KV of 1]            [KV of 2, dKV of 0]      [dKV of 1]
 *
 * All-gather (Llama 3): K and V of the whole sequence are gathered, and attention is one kernel; backward gathers
 * them again and reduce-scatters dK and dV.
 *
 *     compute   pack |      | order, attention
 *     cp             | [KV] |
 *     backward  pack |      | order, clear, attention, order |       | unpack
 *               cp   | [KV] |                                | [dKV] |
 *
 * With a window only all-gather or Ulysses is possible (as in Transformer Engine, whose ring takes no window): each
 * query has the keys of its window among all of them.
 *
 * Ulysses (arXiv 2309.14509): an all-to-all gives each rank 1/cp of the heads of all tokens, another brings the
 * output back; backward does the same with dO and with dQ, dK, dV. Tensors are packed by peer before it and unpacked
 * after it. If K and V have fewer heads than there are ranks, each head is repeated before it is sent, so that every
 * rank gets the one that its heads of Q read; the gradients of all copies come back and are summed (DeepSpeed,
 * runtime/sequence_parallel/ulysses_sp.py: kv_replication_factor; XTuner, v1/module/attention/mha.py: repeat_kv; both
 * 2026-08).
 *
 *     compute   repeat, pack |           | unpack, attention, pack |     | unpack
 *     cp                     | [Q, c·KV] |                         | [O] |
 *
 * Rows of several documents: in the ring each document is cut over the ranks like a row, so that all have as many
 * pairs (Transformer Engine's THD format, which pads it to a multiple of 2·cp); Ulysses has whole rows; all-gather cuts
 * rows.
 *
 * Copies around the transfers, each element read and written once (where Transformer Engine makes them: its
 * pytorch/attention/dot_product_attention/context_parallel.py, 2026-08):
 *
 *     pack      K and V, which lie beside Q, go into one buffer (ring: cat, copy_ backward; all-gather: contiguous)
 *     keep      ring, once, by the last forward: the block that backward begins with replaces the rank's own one
 *               (Transformer Engine has no such copy; it makes the visible half of each block contiguous instead,
 *               which is as many bytes for three ranks)
 *     clear     zeros where gradients are summed: ring, the half that the first block leaves out (fill_); all-gather,
 *               dK and dV of the whole sequence (zeros)
 *     order     all-gather: from whole blocks by rank to tokens by position, and back (index_select)
 *     unpack    all-gather: dK and dV beside dQ (contiguous)
 *     repeat    Ulysses with c > 1 copies: K and V read once, written c times (repeat_interleave); the reverse for
 *               the sum of their gradients */
#include "pieces.h"

/* Of the two pieces of a document that a rank has: as of a row. */
static double own_pairs(const LocalSizes *local, gint64 length) {
  return attention_pairs(length / local->cp, 0);
}

static double other_pairs(const LocalSizes *local, gint64 length) {
  const gint64 queries = length / local->cp;
  return (double)queries * (double)(queries / 2);
}

/* This rank's queries against its own keys, causally. */
static AttentionBlock own_block(const LocalSizes *local) {
  const AttentionBlock row = {.heads = local->heads,
                              .kv_heads = local->kv_width / local->model->head_dim,
                              .queries = local->seq_len,
                              .keys = local->seq_len,
                              .pairs = attention_pairs(local->seq_len, 0)};
  return attention_of_documents(local, row, local->cp, own_pairs);
}

/* … and against the half of another rank's keys that they see. */
static AttentionBlock other_block(const LocalSizes *local) {
  AttentionBlock block = own_block(local);
  block.pairs = (double)block.queries * (block.keys / 2);
  block = attention_of_documents(local, block, local->cp, other_pairs);
  block.keys = MAX(block.keys / 2, 1);
  return block;
}

/* --- the ring of blocks ---
 *
 * The ring as PyTorch runs it (torch/distributed/tensor/experimental/_attention.py, 2024-12 to 2025-08; rotate method
 * allgather, load balance and convert_to_f32 are its defaults and torchtitan's). Ranks have the same pieces of a
 * sequence and see the same blocks as in the ring above. The differences:
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

enum { SUM_BYTES = 4 }; /* fp32 */

static double kv_elements(const LocalSizes *local) {
  return 2.0 * (double)local->tokens * (double)local->q_width;
}

static AttentionBlock of_all_heads(AttentionBlock block) {
  block.kv_heads = block.heads;
  return block;
}

/* If exchanges do not overlap with anything, the next compute item waits for it. */
static gint32 exchange_blocks(ItemList *list, Collective collective, const char *operand, double bytes) {
  const gint32 exchange = item_list_collective(list, AXIS_CP, collective, operand, bytes);
  if (list->local->method->time.context_exchanges == CONTEXT_ALONE)
    item_list_wait(list, exchange);
  return exchange;
}

static gint32 gather_all(ItemList *list, const char *operand) {
  const LocalSizes *local = list->local;
  const double bytes = local->element_bytes * kv_elements(local);
  item_list_memory(list, "attention.kv_pack", 2 * bytes);
  return exchange_blocks(list, COLLECTIVE_ALL_GATHER, operand, (double)local->cp * bytes);
}

/* Repeats heads of grouped queries to as many as Q has; or sums their gradients back. */
static void repeat_heads(ItemList *list) {
  const LocalSizes *local = list->local;
  const double grouped = (double)local->tokens * (double)(local->kv_width + local->v_width);
  if (grouped < kv_elements(local))
    item_list_memory(list, "attention.kv_repeat", local->element_bytes * (kv_elements(local) + grouped));
}

/* out − sigmoid(block's row sums − out's) · (out − block). As single operations: the block to fp32 (read e, write 4),
 * the difference (4 + 4, 4), scaled (4, 4), subtracted (4 + 4, 4); otherwise one kernel. */
static void merge(ItemList *list) {
  const LocalSizes *local = list->local;
  const double elements = (double)local->tokens * (double)local->out_width, e = local->element_bytes;
  if (local->method->time.kernels == FRAMEWORK_KERNELS_PLAIN)
    item_list_operations(list, "attention.merge", 4, elements * (e + 9 * SUM_BYTES));
  else
    item_list_memory(list, "attention.merge", elements * (e + 2 * SUM_BYTES));
}

static void convert(ItemList *list, const char *name, double elements) {
  item_list_memory(list, name, elements * (list->local->element_bytes + SUM_BYTES));
}

/* sum += part */
static void add(ItemList *list, const char *name, double elements) {
  item_list_memory(list, name, elements * (list->local->element_bytes + 2 * SUM_BYTES));
}

static void blocks_forward(ItemList *list) {
  const LocalSizes *local = list->local;
  const AttentionBlock own = of_all_heads(own_block(local)), other = of_all_heads(other_block(local));
  const double out_elements = (double)local->tokens * (double)local->out_width;
  repeat_heads(list);
  const gint32 all = gather_all(list, "attention");
  item_list_attention(list, FALSE, &own);
  convert(list, "attention.out_widen", out_elements);
  item_list_wait(list, all);
  for (gint64 step = 1; step < local->cp; step++) {
    item_list_attention(list, FALSE, &other);
    merge(list);
  }
  convert(list, "attention.out_narrow", out_elements);
}

static void blocks_backward(ItemList *list) {
  const LocalSizes *local = list->local;
  const AttentionBlock own = of_all_heads(own_block(local)), other = of_all_heads(other_block(local));
  const double q_elements = (double)local->tokens * (double)local->q_width, kv = kv_elements(local);
  item_list_memory(list, "attention.clear", SUM_BYTES * (q_elements + kv));
  gint32 coming = gather_all(list, "attention.backward");
  for (gint64 step = 0; step < local->cp; step++) {
    const gint32 here = coming;
    if (step == 1)
      item_list_wait(list, here); /* the gather, and everything before it on the same stream */
    item_list_attention(list, TRUE, step == 0 ? &own : &other);
    if (step > 1)
      item_list_wait(list, here);
    add(list, "attention.dkv_sum", kv);
    item_list_memory(list, "attention.dkv_pack", 2 * SUM_BYTES * kv);
    coming = exchange_blocks(list, COLLECTIVE_SEND_RECV, "attention.backward", SUM_BYTES * kv);
    add(list, "attention.dq_sum", q_elements);
  }
  convert(list, "attention.dq_narrow", q_elements);
  item_list_wait(list, coming);
  convert(list, "attention.dkv_narrow", kv);
  repeat_heads(list);
}

static double blocks_buffer_bytes(const LocalSizes *local) {
  const double e = local->element_bytes, q = (double)local->tokens * (double)local->q_width, kv = kv_elements(local);
  const double gathered = e * (double)(local->cp + 1) * kv; /* from all ranks, and what this rank packed */
  const double sums = (SUM_BYTES + e) * (q + kv);           /* and one block's contributions to them */
  return e * (double)local->tokens * (double)local->out_width + gathered + sums + 2 * SUM_BYTES * kv; /* being sent, and
                                                                                                     being received */
}

/* --- all ways of cp --- */

/* A tensor of this rank's tokens with `width` columns. */
static double tensor_bytes(const LocalSizes *local, gint64 width) {
  return local->element_bytes * local->tokens * width;
}

static double kv_bytes(const LocalSizes *local) {
  return tensor_bytes(local, local_own_kv_width(local));
}

static gint64 kv_heads(const LocalSizes *local) {
  return local->kv_width / local->model->head_dim;
}

static gint32 communicate(ItemList *list, Collective collective, const char *operand, double bytes) {
  return item_list_collective(list, AXIS_CP, collective, operand, bytes);
}

/* Each element is read and written. */
static void copy(ItemList *list, const char *name, double bytes) {
  item_list_memory(list, name, 2 * bytes);
}

/* --- ring --- */

/* Reads two outputs with their row sums, writes one. */
static void merge_outputs(ItemList *list) {
  const LocalSizes *local = list->local;
  item_list_memory(list, "attention.merge",
                   3 * (tensor_bytes(local, local->out_width) + attention_row_sums_bytes(local)));
}

/* A recomputed forward needs the rank's own block again. */
static gboolean keeps_first_block(const ItemList *list) {
  return list->recompute || !list->local->method->repeats_attention;
}

static void ring_forward(ItemList *list) {
  const LocalSizes *local = list->local;
  const AttentionBlock own = own_block(local), other = other_block(local);
  copy(list, "attention.kv_pack", kv_bytes(local));
  gint32 coming = communicate(list, COLLECTIVE_SEND_RECV, "attention", kv_bytes(local));
  item_list_attention(list, FALSE, &own);
  for (gint64 step = 1; step < local->cp; step++) {
    const gint32 here = coming;
    if (step + 1 < local->cp)
      coming = communicate(list, COLLECTIVE_SEND_RECV, "attention", kv_bytes(local));
    item_list_wait(list, here);
    item_list_attention(list, FALSE, &other);
    if (step == 1 && keeps_first_block(list))
      copy(list, "attention.kv_keep", kv_bytes(local));
    merge_outputs(list);
  }
}

/* For an earlier rank's block the late half of dK and dV, for a later one's the early half of dQ: the larger is
 * listed. */
static double unseen_bytes(const LocalSizes *local) {
  return MAX(tensor_bytes(local, local->q_width), kv_bytes(local)) / 2;
}

static void ring_backward(ItemList *list) {
  const LocalSizes *local = list->local;
  const AttentionBlock own = own_block(local), other = other_block(local);
  copy(list, "attention.kv_pack", kv_bytes(local));
  gint32 coming = communicate(list, COLLECTIVE_SEND_RECV, "attention.backward", kv_bytes(local));
  item_list_attention(list, TRUE, &other);
  item_list_memory(list, "attention.clear", unseen_bytes(local));
  for (gint64 step = 1; step < local->cp; step++) {
    const gboolean is_last = step + 1 == local->cp;
    const gint32 here = coming;
    coming =
        communicate(list, COLLECTIVE_SEND_RECV, "attention.backward", is_last ? kv_bytes(local) : 2 * kv_bytes(local));
    item_list_wait(list, here);
    item_list_attention(list, TRUE, is_last ? &own : &other);
    item_list_memory(list, "attention.dq_sum", 3 * tensor_bytes(local, local->q_width));
    item_list_wait(list, coming);
    item_list_memory(list, "attention.dkv_sum", 3 * kv_bytes(local));
  }
}

static void ring(ItemList *list, gboolean backward) {
  if (list->local->method->rings_blocks)
    (backward ? blocks_backward : blocks_forward)(list);
  else if (backward)
    ring_backward(list);
  else
    ring_forward(list);
}

/* --- all-gather --- */

/* Pairs for the queries of one of the 2·cp pieces. */
static double pairs_of_piece(const LocalSizes *local, gint64 piece) {
  const gint64 length = local->seq_len / 2, whole = local->seq_len * local->cp;
  return attention_queries_pairs(local->model, whole, (piece + 1) * length) -
         attention_queries_pairs(local->model, whole, piece * length);
}

/* Pairs that the queries from `first` to `end` of a row have with the keys of their own documents. */
static double pairs_between(const LocalSizes *local, gint64 row, gint64 first, gint64 end) {
  const MicroBatch *documents = local->documents;
  double pairs = 0;
  gint64 begin = 0;
  for (gint32 i = row > 0 ? documents->row_ends[row - 1] : 0; i < documents->row_ends[row]; i++) {
    const gint64 length = documents->lengths[i], from = CLAMP(first - begin, 0, length),
                 to = CLAMP(end - begin, 0, length);
    if (to > from)
      pairs += attention_queries_pairs(local->model, length, to) - attention_queries_pairs(local->model, length, from);
    begin += length;
  }
  return pairs;
}

/* Rows are cut without regard to documents, so that ranks have more and fewer pairs, and all wait for the one with the
 * most: what long documents far apart cost (Llama 3 gathers for the sake of such masks). */
static double most_pairs_of_documents(const LocalSizes *local) {
  const gint64 length = local->seq_len / 2, cp = local->cp;
  double most = 0;
  for (gint64 rank = 0; rank < cp; rank++) {
    double pairs = 0;
    for (gint64 row = 0; row < local->sequences; row++) {
      const gint64 late = 2 * cp - 1 - rank;
      pairs += pairs_between(local, row, rank * length, (rank + 1) * length) +
               pairs_between(local, row, late * length, (late + 1) * length);
    }
    most = MAX(most, pairs);
  }
  return most;
}

static double no_pairs(const LocalSizes *local, gint64 length) {
  return 0;
}

/* Both pieces of this rank's queries against the keys before them. With a window those of the first piece have fewer;
 * every rank is taken to be the fullest one. */
static AttentionBlock block_of_all_keys(const LocalSizes *local) {
  AttentionBlock block = attention_of_documents(local, own_block(local), local->cp, no_pairs);
  block.keys *= local->cp;
  if (local->documents != NULL) {
    block.windowed = model_window(local->model, local->seq_len * local->cp) > 0;
    block.pairs = most_pairs_of_documents(local) / (double)block.sequences;
    return block;
  }
  block.windowed = model_window(local->model, block.keys) > 0;
  block.pairs = 0;
  for (gint64 rank = 0; rank < local->cp; rank++)
    block.pairs = MAX(block.pairs, pairs_of_piece(local, rank) + pairs_of_piece(local, 2 * local->cp - 1 - rank));
  return block;
}

static void gather_and_attend(ItemList *list, gboolean backward) {
  const LocalSizes *local = list->local;
  const AttentionBlock block = block_of_all_keys(local);
  const char *operand = backward ? "attention.backward" : "attention";
  const double all_bytes = local->cp * kv_bytes(local);
  copy(list, "attention.kv_pack", kv_bytes(local));
  item_list_wait(list, communicate(list, COLLECTIVE_ALL_GATHER, operand, all_bytes));
  copy(list, "attention.kv_order", all_bytes);
  if (backward)
    item_list_memory(list, "attention.clear", all_bytes);
  item_list_attention(list, backward, &block);
  if (!backward)
    return;
  copy(list, "attention.dkv_order", all_bytes);
  item_list_wait(list, communicate(list, COLLECTIVE_REDUCE_SCATTER, operand, all_bytes));
  copy(list, "attention.dkv_unpack", kv_bytes(local));
}

/* --- Ulysses --- */

static AttentionBlock block_of_some_heads(const LocalSizes *local) {
  const gint64 length = local->seq_len * local->cp;
  const AttentionBlock row = {.heads = local->heads / local->cp,
                              .kv_heads = kv_heads(local) * local->kv_copies / local->cp,
                              .queries = length,
                              .keys = length,
                              .pairs = attention_layer_pairs(local->model, length),
                              .windowed = model_window(local->model, length) > 0};
  return attention_of_documents(local, row, 1, attention_document_pairs);
}

static void exchange(ItemList *list, const char *operand, gint64 width) {
  const double bytes = tensor_bytes(list->local, width);
  copy(list, "attention.pack", bytes);
  item_list_wait(list, communicate(list, COLLECTIVE_ALL_TO_ALL, operand, bytes));
  copy(list, "attention.unpack", bytes);
}

/* Between K and V and the copies that are sent. */
static void repeat(ItemList *list, const char *name) {
  if (list->local->kv_copies > 1)
    item_list_memory(list, name, (1 + list->local->kv_copies) * kv_bytes(list->local));
}

static void exchange_and_attend(ItemList *list, gboolean backward) {
  const LocalSizes *local = list->local;
  const AttentionBlock block = block_of_some_heads(local);
  const char *operand = backward ? "attention.backward" : "attention";
  if (!backward)
    repeat(list, "attention.kv_repeat");
  exchange(list, operand, backward ? local->out_width : local_dealt_width(local));
  item_list_attention(list, backward, &block);
  exchange(list, operand, backward ? local_dealt_width(local) : local->out_width);
  if (backward)
    repeat(list, "attention.dkv_sum");
}

/* --- buffers ---
 *
 * What is held at once while backward runs, in Transformer Engine as here: dO and this rank's dQ, dK and dV, and */

static double gradient_bytes(const LocalSizes *local) {
  return tensor_bytes(local, local->out_width + local->q_width) + kv_bytes(local);
}

/* two blocks of K and V, two of dK and dV, and one block's contribution to dQ. */
static double ring_buffer_bytes(const LocalSizes *local) {
  if (local->method->rings_blocks)
    return blocks_buffer_bytes(local);
  return gradient_bytes(local) + 4 * kv_bytes(local) + tensor_bytes(local, local->q_width);
}

/* K and V of the whole sequence, by rank and by position, and their gradients by position (those by rank replace the
 * received K and V). */
static double gather_buffer_bytes(const LocalSizes *local) {
  return gradient_bytes(local) + 3 * local->cp * kv_bytes(local);
}

/* dO of some heads; dQ, dK and dV of all copies, packed and as received. Before packing, those of some heads are held
 * where the received ones will be; copies are summed from where they were packed. */
static double ulysses_buffer_bytes(const LocalSizes *local) {
  return gradient_bytes(local) + tensor_bytes(local, local->out_width) +
         2 * tensor_bytes(local, local_dealt_width(local));
}

static const struct {
  void (*attend)(ItemList *list, gboolean backward);
  double (*buffer_bytes)(const LocalSizes *local);
} comms[N_CP_COMMS] = {
    [CP_RING] = {ring, ring_buffer_bytes},
    [CP_ALL_GATHER] = {gather_and_attend, gather_buffer_bytes},
    [CP_ULYSSES] = {exchange_and_attend, ulysses_buffer_bytes},
};

void context_attention(ItemList *list, gboolean backward) {
  comms[list->local->method->cp_comm].attend(list, backward);
}

double context_buffer_bytes(const LocalSizes *local) {
  return comms[local->method->cp_comm].buffer_bytes(local);
}
