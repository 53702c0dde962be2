/* Attention where each rank has two pieces of every sequence, an early and a late one of 2·cp: implements the items
 * that workload's context.c lists, in their order. A sequence's rows here are the early piece's,
 * then the late one's.
 *
 * Rings. What rank c sees of the block of rank r:
 *
 *     r = c      causal mask over its own rows: both pieces are in order
 *     r < c      all queries see the early piece, which is before both of theirs; the late one is after them
 *     r > c      the late queries see all; the early ones nothing
 *
 * Blocks travel to the next rank. Forward starts with its own block. Backward starts with the previous rank's, so
 * that its own comes last and the block's gradient is complete where it belongs. Forward saves the block that
 * backward starts with in place of the own K and V, which are not needed there again: they come round. If a forward
 * is run again, only the second run does this, since both start with the own block.
 *
 *     forward    step k has the block of rank c − k      in kv[k mod 2]
 *     backward   step k has the block of rank c − 1 − k  in kv[k mod 2], its gradient so far in d_kv[k mod 2]
 *
 * All-gather. Blocks arrive by rank and are put in order of position; then early and late queries each see all keys
 * up to theirs. The gradients go back the same way.
 *
 * Ulysses: heads are exchanged for tokens. In between, a rank has whole sequences, in order of position, for 1/cp of
 * the heads. Saved q, k and v and attention's output have that form, with the same number of elements except for copies
 * of K and V: if there are fewer of these heads than ranks, each is repeated before it is sent, and the copies'
 * gradients are summed on return. Copies occupy whichever of `sent` and `got` the all-to-all is not using: T rows of
 * K's copies, each head's side by side, then V's.
 *
 *     to heads    rows (T × all heads) → a part for each member's heads → all-to-all → rows of all tokens (own heads)
 *     to tokens   the same backwards
 *
 * A forward that will be run again leaves the own tokens' q, k and v of all heads in place, as operands of the second
 * run. Its attention reads the exchanged heads from the send buffer. */
#include "item_parts.h"

static const ContextScratch *scratch(const ItemCall *call) {
  return &item_memory(call)->context;
}

static int own_rank(const ItemCall *call) {
  return call->trainer->parameters->at.at[AXIS_CP];
}

static char *element(const LocalSizes *local, const void *base, gint64 i) {
  return (char *)(gsize)base + i * (gint64)local->element_bytes;
}

static void launch_flash(const ItemCall *call, const FlashKernel *task) {
  Kernel kernel = {.kind = call->is_backward ? KERNEL_FLASH_BACKWARD : KERNEL_FLASH_FORWARD, .flash = *task};
  item_launch(call, &kernel);
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

/* This rank's tokens, one block per sequence, starting at a row and a column. */
static Rows tokens_at(const LocalSizes *local, char *base, gint64 ld, gint64 row, gint64 column) {
  return (Rows){element(local, base, row * ld + column), ld, local->seq_len * ld};
}

/* Gradients of this rank's own Q, starting at a row of each sequence; and of its K and V. */
static Rows own_dq(const ItemCall *call, gint64 row) {
  const FlashKernel task = item_flash(call, TRUE);
  return tokens_at(item_local_sizes(call), task.dq, task.ld_dq, row, 0);
}

static Rows own_dkv(const ItemCall *call) {
  const FlashKernel task = item_flash(call, TRUE);
  return tokens_at(item_local_sizes(call), task.dk, task.ld_dkv, 0, 0);
}

/* Reorders between one block of tokens per rank and whole sequences in order of position. */
static void order_tokens(const ItemCall *call, char *by_rank, char *by_position, gint64 width, gboolean is_back) {
  const LocalSizes *local = item_local_sizes(call);
  const gint64 half = local->seq_len / 2, length = local->cp * local->seq_len;
  const Extent extent = {local->cp, half, width};
  for (gint64 sequence = 0; sequence < local->sequences; sequence++)
    for (int is_late = 0; is_late < 2; is_late++) {
      const gint64 here = sequence * local->seq_len + is_late * half;
      const gint64 there = sequence * length + (is_late ? (2 * local->cp - 1) * half : 0);
      const Rows ranks = {element(local, by_rank, here * width), width, local->tokens * width};
      const Rows positions = {element(local, by_position, there * width), width, (is_late ? -half : half) * width};
      item_copy(call, extent, is_back ? positions : ranks, is_back ? ranks : positions);
    }
}

/* --- what a rank sees in a ring ----------------------------------------------------------------------------------- */

/* What this rank's queries see of a block of keys: queries from first_query on see the first `keys` keys; key_at:
 * their positions. */
typedef struct {
  gint64 first_query, queries, keys;
  gboolean is_own;
  RowPositions key_at;
} ContextView;

/* Positions of a cp rank's tokens of a sequence, from row `first` on. */
static RowPositions positions_of(const LocalSizes *local, gint64 cp_rank, gint64 first) {
  const SequencePieces pieces = parameters_pieces_of(local, cp_rank);
  return (RowPositions){MAX(local->seq_len / 2 - first, 0), pieces.early + first, pieces.late + first};
}

/* Narrows a task over all of a rank's own tokens to what it sees of the block `kv`; NULL: of the saved block. */
static void look_at(const ItemCall *call, ContextView view, const char *kv, FlashKernel *task) {
  const LocalSizes *local = item_local_sizes(call);
  task->block.query_at = positions_of(local, own_rank(call), view.first_query);
  task->block.key_at = view.key_at;
  task->block.is_cut = TRUE;
  task->block.is_full = !view.is_own;
  task->block.queries = view.queries;
  task->block.keys = view.keys;
  task->block.key_rows = local->seq_len;
  task->block.ld_kv = kv != NULL ? local->kv_width + local->v_width : task->ld_qkv;
  task->k = kv != NULL ? kv : task->k;
  task->v = kv != NULL ? element(local, kv, local->kv_width) : task->v;
  task->q = element(local, task->q, view.first_query * task->ld_qkv);
  task->o = element(local, task->o, view.first_query * task->ld_o);
  task->lse += view.first_query;
  if (call->is_backward)
    task->d_o = element(local, task->d_o, view.first_query * task->ld_o);
}

/* --- ring --------------------------------------------------------------------------------------------------------- */

static gint64 kv_width(const LocalSizes *local) {
  return local->kv_width + local->v_width;
}

static gint64 kv_elements(const LocalSizes *local) {
  return local->tokens * kv_width(local);
}

static Rows k_and_v(const LocalSizes *local, char *qkv) {
  return tokens_at(local, qkv, local_qkv_width(local), 0, local->q_width);
}

static Rows kv_block(const LocalSizes *local, char *block) {
  return tokens_at(local, block, kv_width(local), 0, 0);
}

/* `rows` K and V rows of each sequence here. */
static Extent kv_extent(const LocalSizes *local, gint64 rows) {
  return (Extent){local->sequences, rows, kv_width(local)};
}

/* View of the block that a step has. */
static ContextView view_of(const ItemCall *call, gint64 step) {
  const LocalSizes *local = item_local_sizes(call);
  const gint64 s = local->seq_len, own = own_rank(call);
  const gint64 of = (own - step - (call->is_backward ? 1 : 0) + 2 * local->cp) % local->cp;
  const RowPositions key_at = positions_of(local, of, 0);
  if (of == own)
    return (ContextView){0, s, s, TRUE, key_at};
  return of < own ? (ContextView){0, s, s / 2, FALSE, key_at} : (ContextView){s / 2, s / 2, s, FALSE, key_at};
}

/* Attention to the first block writes the output itself, to later ones `part`. */
static void ring_forward(const ItemCall *call) {
  const gint64 step = call->occurrence;
  FlashKernel task = item_flash(call, FALSE);
  task.block.query_at = task.block.key_at = positions_of(item_local_sizes(call), own_rank(call), 0);
  if (step > 0) {
    task.o = scratch(call)->part;
    task.lse = scratch(call)->part_lse;
    look_at(call, view_of(call, step), scratch(call)->kv[step % 2], &task);
  }
  launch_flash(call, &task);
}

/* Packs the saved block, which is sent first: in forward still the own one, in backward the previous rank's. */
static void ring_pack(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  item_copy(call, kv_extent(local, local->seq_len), k_and_v(local, item_saved(call).qkv),
            kv_block(local, scratch(call)->kv[0]));
}

/* Runs after the second attention, when the own block has been read and sent: saves the block that backward reads
 * first. */
static void ring_keep(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  item_copy(call, kv_extent(local, local->seq_len), kv_block(local, scratch(call)->kv[1]),
            k_and_v(local, item_saved(call).qkv));
}

/* Merges `part` into the output so far. */
static void ring_merge(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  const ContextView view = view_of(call, call->occurrence + 1);
  const gint64 first = view.first_query * local->out_width;
  Kernel kernel = {.kind = KERNEL_MERGE,
                   .merge = {.number = (guint8)item_number(call),
                             .sequences = local->sequences,
                             .seq_len = local->seq_len,
                             .queries = view.queries,
                             .n_heads = local->heads,
                             .head_dim = model_v_head_dim(local->model),
                             .o = element(local, item_saved(call).attention, first),
                             .lse = item_saved(call).lse + view.first_query,
                             .other = element(local, scratch(call)->part, first),
                             .other_lse = scratch(call)->part_lse + view.first_query}};
  item_launch(call, &kernel);
}

/* Zeroes the gradients that the first block does not write, before others are added to them. */
static void ring_clear(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  const ContextView view = view_of(call, 0);
  const Rows none = {0};
  if (view.first_query > 0)
    item_move(call, (Extent){local->sequences, view.first_query, local->q_width}, none, none, own_dq(call, 0));
  if (view.keys < local->seq_len)
    item_move(call, kv_extent(local, local->seq_len - view.keys), none, none,
              tokens_at(local, scratch(call)->d_kv[0], kv_width(local), view.keys, 0));
}

/* The first block needs no wait: it is read where it was saved, and its dQ, dK and dV are written where they
 * accumulate. A later block's dQ goes to `part`; its dK and dV go to the own block's place until they are added. */
static void ring_backward(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  const ContextScratch *context = scratch(call);
  const gint64 step = call->occurrence;
  const ContextView view = view_of(call, step);
  FlashKernel task = item_flash(call, TRUE);
  look_at(call, view, step > 0 ? context->kv[step % 2] : NULL, &task);
  task.block.ld_dq = task.ld_dq;
  task.block.ld_dkv = task.ld_dkv;
  if (step == 0) {
    task.dk = context->d_kv[0];
    task.dv = element(local, context->d_kv[0], local->kv_width);
    task.block.ld_dkv = kv_width(local);
  } else {
    task.dq = context->part;
    task.block.ld_dq = local->q_width;
  }
  task.dq = element(local, task.dq, view.first_query * task.block.ld_dq);
  launch_flash(call, &task);
}

static void ring_sum_dq(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  const ContextView view = view_of(call, call->occurrence + 1);
  const Rows dq = own_dq(call, view.first_query);
  const Rows part = tokens_at(local, scratch(call)->part, local->q_width, view.first_query, 0);
  item_move(call, (Extent){local->sequences, view.queries, local->q_width}, dq, part, dq);
}

static void ring_sum_dkv(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  const gint64 step = call->occurrence + 1;
  const ContextView view = view_of(call, step);
  const Rows own = own_dkv(call), round = kv_block(local, scratch(call)->d_kv[step % 2]);
  item_move(call, kv_extent(local, view.keys), round, own, view.is_own ? own : round);
}

static void hand_on(const ItemCall *call, char *const blocks[2], gint64 which) {
  item_collective(call, item_number(call), blocks[which % 2], blocks[(which + 1) % 2],
                  kv_elements(item_local_sizes(call)));
}

static void ring_exchange(const ItemCall *call) {
  const ContextScratch *context = scratch(call);
  const CommType *comm = call->trainer->comm->type;
  const gint64 step = call->occurrence, n_steps = item_local_sizes(call)->cp - 1;
  comm->batch_begin(call->trainer->comm);
  if (step < n_steps)
    hand_on(call, context->kv, step);
  if (call->is_backward && step > 0)
    hand_on(call, context->d_kv, step - 1);
  comm->batch_end(call->trainer->comm);
}

/* --- all-gather --------------------------------------------------------------------------------------------------- */

/* This rank's block within all ranks' blocks. */
static char *own_part(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  return element(local, scratch(call)->kv[0], own_rank(call) * kv_elements(local));
}

static void gather_pack(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  item_copy(call, kv_extent(local, local->seq_len), k_and_v(local, item_saved(call).qkv),
            kv_block(local, own_part(call)));
}

static void gather_kv(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  item_collective(call, item_number(call), own_part(call), scratch(call)->kv[0], local->cp * kv_elements(local));
}

static void gather_order(const ItemCall *call) {
  const ContextScratch *context = scratch(call);
  order_tokens(call, context->kv[0], context->kv[1], kv_width(item_local_sizes(call)), FALSE);
}

static void gather_clear(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  const gint64 bytes = local->cp * kv_elements(local) * (gint64)local->element_bytes;
  item_launch(call, &(Kernel){.kind = KERNEL_FILL, .fill = {.bytes = bytes, .to = scratch(call)->d_kv[0]}});
}

static void scatter_order(const ItemCall *call) {
  const ContextScratch *context = scratch(call);
  order_tokens(call, context->kv[0], context->d_kv[0], kv_width(item_local_sizes(call)), TRUE);
}

static void scatter_dkv(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  item_collective(call, item_number(call), scratch(call)->kv[0], own_part(call), local->cp * kv_elements(local));
}

static void scatter_unpack(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  item_copy(call, kv_extent(local, local->seq_len), kv_block(local, own_part(call)), own_dkv(call));
}

/* Attention of one piece's queries, to all keys up to theirs. */
static void attend_piece(const ItemCall *call, gboolean is_late) {
  const LocalSizes *local = item_local_sizes(call);
  const ContextScratch *context = scratch(call);
  const gint64 half = local->seq_len / 2, piece = is_late ? 2 * local->cp - 1 - own_rank(call) : own_rank(call);
  FlashKernel task = item_flash(call, call->is_backward);
  look_at(call, (ContextView){is_late ? half : 0, half, (piece + 1) * half, TRUE, {0}}, context->kv[1], &task);
  task.block.key_rows = local->cp * local->seq_len;
  if (call->is_backward) {
    task.dq = element(local, task.dq, is_late * half * task.ld_dq);
    task.dk = context->d_kv[0];
    task.dv = element(local, context->d_kv[0], local->kv_width);
    task.block.ld_dq = task.ld_dq;
    task.block.ld_dkv = kv_width(local);
    task.block.adds = TRUE;
  }
  launch_flash(call, &task);
}

static void attend_to_all(const ItemCall *call) {
  attend_piece(call, FALSE);
  attend_piece(call, TRUE);
}

/* --- Ulysses ------------------------------------------------------------------------------------------------------ */

/* K and V of this rank's tokens, side by side or apart. */
typedef struct {
  Rows k, v;
} KeysValues;

static KeysValues own_kv(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  const gint64 ld = local_qkv_width(local), k = local->q_width, v = k + local->kv_width;
  char *qkv = item_saved(call).qkv;
  return (KeysValues){tokens_at(local, qkv, ld, 0, k), tokens_at(local, qkv, ld, 0, v)};
}

static KeysValues own_gradients(const ItemCall *call) {
  const Rows dk = own_dkv(call);
  const LocalSizes *local = item_local_sizes(call);
  return (KeysValues){dk, {element(local, dk.at, local->kv_width), dk.ld, dk.step}};
}

/* The copies of each head of K in rows, beside each other, and then of V. */
static KeysValues copies_in(const ItemCall *call, char *buffer) {
  const LocalSizes *local = item_local_sizes(call);
  const gint64 ld = local->kv_copies * (local->kv_width + local->v_width);
  return (KeysValues){tokens_at(local, buffer, ld, 0, 0),
                      tokens_at(local, buffer, ld, 0, local->kv_copies * local->kv_width)};
}

/* Between heads, `width` columns in all, and all copies of each: copies, or adds up on the way back. */
static void repeat_heads(const ItemCall *call, gint64 width, Rows own, Rows copies, gboolean is_back) {
  const LocalSizes *local = item_local_sizes(call);
  const gint64 n_heads = local->kv_width / local->model->head_dim;
  const Extent extent = {n_heads, local->tokens, width / n_heads};
  own.step = extent.width;
  copies.step = local->kv_copies * extent.width;
  for (gint64 copy = 0; copy < local->kv_copies; copy++) {
    const Rows none = {0}, one = {element(local, copies.at, copy * extent.width), copies.ld, copies.step};
    if (is_back)
      item_move(call, extent, one, copy > 0 ? own : none, own);
    else
      item_copy(call, extent, own, one);
  }
}

/* Repeats K and V, or, in backward, sums the gradients of the copies. */
static void ulysses_repeat(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  const KeysValues own = call->is_backward ? own_gradients(call) : own_kv(call);
  const KeysValues copies = copies_in(call, call->is_backward ? scratch(call)->sent : scratch(call)->got);
  repeat_heads(call, local->kv_width, own.k, copies.k, call->is_backward);
  repeat_heads(call, local->v_width, own.v, copies.v, call->is_backward);
}

/* Reorders between columns of this rank's tokens (several heads side by side) and the parts for each member. */
static void order_by_member(const ItemCall *call, Rows tokens, gint64 width, Rows parts, gboolean is_back) {
  const LocalSizes *local = item_local_sizes(call);
  const Extent extent = {local->cp, local->tokens, width / local->cp};
  tokens.step = extent.width;
  parts.step = local->tokens * parts.ld;
  item_copy(call, extent, is_back ? parts : tokens, is_back ? tokens : parts);
}

/* The same for q, k and v. */
static void order_qkv(const ItemCall *call, Rows q, Rows k, Rows v, char *parts, gboolean is_back) {
  const LocalSizes *local = item_local_sizes(call);
  const gint64 widths[] = {local->q_width, local->kv_copies * local->kv_width, local->kv_copies * local->v_width};
  const gint64 width = local_dealt_width(local);
  const Rows tokens[] = {q, k, v};
  for (gint64 i = 0, column = 0; i < 3; column += widths[i++])
    order_by_member(call, tokens[i], widths[i], tokens_at(local, parts, width / local->cp, 0, column / local->cp),
                    is_back);
}

static void pack_qkv(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  const Rows q = tokens_at(local, item_saved(call).qkv, local_qkv_width(local), 0, 0);
  const KeysValues kv = local->kv_copies > 1 ? copies_in(call, scratch(call)->got) : own_kv(call);
  order_qkv(call, q, kv.k, kv.v, scratch(call)->sent, FALSE);
}

static void unpack_gradients(const ItemCall *call) {
  const gboolean is_repeated = item_local_sizes(call)->kv_copies > 1;
  const KeysValues kv = is_repeated ? copies_in(call, scratch(call)->sent) : own_gradients(call);
  order_qkv(call, own_dq(call, 0), kv.k, kv.v, scratch(call)->got, TRUE);
}

static void order_out(const ItemCall *call, char *out, char *parts, gboolean is_back) {
  const LocalSizes *local = item_local_sizes(call);
  order_by_member(call, tokens_at(local, out, local->out_width, 0, 0), local->out_width,
                  tokens_at(local, parts, local->out_width / local->cp, 0, 0), is_back);
}

/* q, k and v after the exchange: all tokens, some heads. */
static char *exchanged_qkv(const ItemCall *call) {
  const gboolean is_again =
      !call->is_backward && !call->item->recompute && item_local_sizes(call)->method->repeats_attention;
  return is_again ? scratch(call)->sent : item_saved(call).qkv;
}

/* Forward exchanges q, k and v, then the output; backward the output's gradient, then those of q, k and v. */
static gboolean is_to_heads(const ItemCall *call) {
  return call->occurrence % 2 == 0;
}

static void ulysses_pack(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  const ContextScratch *context = scratch(call);
  if (is_to_heads(call) && call->is_backward)
    order_out(call, item_memory(call)->d_attention, context->sent, FALSE);
  else if (is_to_heads(call))
    pack_qkv(call);
  else if (call->is_backward)
    order_tokens(call, context->sent, context->got, local_dealt_width(local) / local->cp, TRUE);
  else
    order_tokens(call, context->sent, item_saved(call).all_tokens, local->out_width / local->cp, TRUE);
}

static void ulysses_unpack(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  const ContextScratch *context = scratch(call);
  if (is_to_heads(call) && call->is_backward)
    order_tokens(call, context->got, context->d_out, local->out_width / local->cp, FALSE);
  else if (is_to_heads(call))
    order_tokens(call, context->got, exchanged_qkv(call), local_dealt_width(local) / local->cp, FALSE);
  else if (call->is_backward)
    unpack_gradients(call);
  else
    order_out(call, item_saved(call).attention, context->got, TRUE);
}

static void ulysses_exchange(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  item_collective(call, item_number(call), scratch(call)->sent, scratch(call)->got,
                  local->tokens *
                      (is_to_heads(call) != call->is_backward ? local_dealt_width(local) : local->out_width));
}

/* All tokens of some heads: one kernel, as without cp. */
static void ulysses_attend(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  const ContextScratch *context = scratch(call);
  const gint64 k = local->q_width / local->cp, v = k + local->kv_copies * local->kv_width / local->cp;
  FlashKernel task = item_flash(call, call->is_backward);
  task.rule.first_head += own_rank(call) * (local->heads / local->cp);
  task.drop.first_head += own_rank(call) * (local->heads / local->cp);
  task.seq_len *= local->cp;
  task.n_heads /= local->cp;
  task.n_kv_heads = task.n_kv_heads * local->kv_copies / local->cp;
  task.ld_qkv = local_dealt_width(local) / local->cp;
  task.ld_dq = task.ld_dkv = task.ld_qkv;
  task.ld_o /= local->cp;
  task.q = exchanged_qkv(call);
  task.k = element(local, task.q, k);
  task.v = element(local, task.q, v);
  task.o = item_saved(call).all_tokens;
  if (call->is_backward) {
    task.d_o = context->d_out;
    task.dq = context->got; /* until they are packed; then `got` receives the own ones */
    task.dk = element(local, task.dq, k);
    task.dv = element(local, task.dq, v);
  }
  launch_flash(call, &task);
}

/* --- names --- */

static const ItemKernel ring_kernels[] = {
    {"attention.kv_pack", ring_pack, 0},  {"attention", ring_forward, 0},           {"attention.kv_keep", ring_keep, 0},
    {"attention.merge", ring_merge, 0},   {"attention.backward", ring_backward, 0}, {"attention.clear", ring_clear, 0},
    {"attention.dq_sum", ring_sum_dq, 0}, {"attention.dkv_sum", ring_sum_dkv, 0},   {NULL, NULL, 0},
};
static const ItemKernel gather_kernels[] = {
    {"attention.kv_pack", gather_pack, 0},
    {"attention.kv_order", gather_order, 0},
    {"attention", attend_to_all, 0},
    {"attention.clear", gather_clear, 0},
    {"attention.backward", attend_to_all, 0},
    {"attention.dkv_order", scatter_order, 0},
    {"attention.dkv_unpack", scatter_unpack, 0},
    {NULL, NULL, 0},
};
static const ItemKernel ulysses_kernels[] = {
    {"attention.kv_repeat", ulysses_repeat, 0},
    {"attention.pack", ulysses_pack, 0},
    {"attention.unpack", ulysses_unpack, 0},
    {"attention", ulysses_attend, 0},
    {"attention.backward", ulysses_attend, 0},
    {"attention.dkv_sum", ulysses_repeat, 0},
    {NULL, NULL, 0},
};

const ItemKernel *context_kernels(const Method *method) {
  static const ItemKernel *const kernels[N_CP_COMMS] = {
      [CP_RING] = ring_kernels, [CP_ALL_GATHER] = gather_kernels, [CP_ULYSSES] = ulysses_kernels};
  return kernels[method->cp_comm];
}

/* The communication method determines the collectives. */
static void exchange_blocks(const ItemCall *call) {
  switch ((Collective)call->item->collective) {
  case COLLECTIVE_SEND_RECV:
    ring_exchange(call);
    return;
  case COLLECTIVE_ALL_GATHER:
    gather_kv(call);
    return;
  case COLLECTIVE_REDUCE_SCATTER:
    scatter_dkv(call);
    return;
  default:
    ulysses_exchange(call);
  }
}

const ItemKernel context_collectives[] = {
    {"attention", exchange_blocks, 0},
    {"attention.backward", exchange_blocks, 0},
    {"loss.softmax", item_sum_loss, 0},
    {NULL, NULL, 0},
};
