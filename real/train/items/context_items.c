/* Attention where each rank has two pieces of every sequence, an early and a late one of 2·cp: implements the items
 * that context.c lists, in its order. A sequence's rows here are the early piece's, then the late one's.
 *
 * Ring. What rank c sees of the block of rank r:
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
 * Ulysses: ulysses_items.c. PyTorch's ring: ring_of_blocks_items.c. */
#include "context_rows.h"

static gint64 kv_width(const Cut *cut) {
  return cut->kv_width + cut->v_width;
}

static gint64 kv_elements(const Cut *cut) {
  return cut->tokens * kv_width(cut);
}

static Rows k_and_v(const Cut *cut, char *qkv) {
  return context_tokens(cut, qkv, context_qkv_width(cut), 0, cut->q_width);
}

static Rows kv_block(const Cut *cut, char *block) {
  return context_tokens(cut, block, kv_width(cut), 0, 0);
}

/* `rows` K and V rows of each sequence here. */
static Extent kv_extent(const Cut *cut, gint64 rows) {
  return (Extent){cut->sequences, rows, kv_width(cut)};
}

/* --- ring --- */

static ContextView view_of(const ItemCall *call, gint64 step) {
  const gint64 cp = item_cut(call)->cp;
  return context_view(call, (own_rank(call) - step - (call->is_backward ? 1 : 0) + 2 * cp) % cp);
}

static void ring_forward(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  const gint64 step = call->occurrence;
  FlashKernel task = item_flash(call, FALSE);
  task.block.query_at = task.block.key_at = context_positions(cut, own_rank(call), 0);
  if (step > 0) {
    task.o = scratch(call)->part;
    task.lse = scratch(call)->part_lse;
    context_look_at(call, view_of(call, step), scratch(call)->kv[step % 2], &task);
  }
  context_launch(call, &task);
}

/* Packs the saved block, which is sent first: in forward still the own one, in backward the previous rank's. */
static void ring_pack(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  item_copy(call, kv_extent(cut, cut->seq_len), k_and_v(cut, item_saved(call).qkv),
            kv_block(cut, scratch(call)->kv[0]));
}

/* Runs after the second attention, when the own block has been read and sent: saves the block that backward reads
 * first. */
static void ring_keep(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  item_copy(call, kv_extent(cut, cut->seq_len), kv_block(cut, scratch(call)->kv[1]),
            k_and_v(cut, item_saved(call).qkv));
}

static void ring_merge(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  const ContextView view = view_of(call, call->occurrence + 1);
  const SavedLayer layer = item_saved(call);
  const gint64 first = view.first_query * cut->out_width;
  Kernel kernel = {.kind = KERNEL_MERGE,
                   .merge = {.number = (guint8)item_number(call),
                             .sum = (guint8)item_number(call),
                             .sequences = cut->sequences,
                             .seq_len = cut->seq_len,
                             .queries = view.queries,
                             .n_heads = cut->heads,
                             .head_dim = model_v_head_dim(cut->model),
                             .o = context_element(cut, layer.attention, first),
                             .lse = layer.lse + view.first_query,
                             .other = context_element(cut, scratch(call)->part, first),
                             .other_lse = scratch(call)->part_lse + view.first_query}};
  item_launch(call, &kernel);
}

/* Zeroes the gradients that the first block does not write, before others are added to them. */
static void ring_clear(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  const ContextView view = view_of(call, 0);
  const Rows none = {0};
  if (view.first_query > 0)
    item_move(call, (Extent){cut->sequences, view.first_query, cut->q_width}, none, none, context_own_dq(call, 0));
  if (view.keys < cut->seq_len)
    item_move(call, kv_extent(cut, cut->seq_len - view.keys), none, none,
              context_tokens(cut, scratch(call)->d_kv[0], kv_width(cut), view.keys, 0));
}

/* The first block needs no wait: it is read where it was saved, and its dQ, dK and dV are written where they
 * accumulate. A later block's dQ goes to `part`; its dK and dV go to the own block's place until they are added. */
static void ring_backward(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  const ContextScratch *context = scratch(call);
  const gint64 step = call->occurrence;
  const ContextView view = view_of(call, step);
  FlashKernel task = item_flash(call, TRUE);
  context_look_at(call, view, step > 0 ? context->kv[step % 2] : NULL, &task);
  task.d_o = context_element(cut, task.d_o, view.first_query * task.ld_o);
  task.block.ld_dq = task.ld_dq;
  task.block.ld_dkv = task.ld_dkv;
  if (step == 0) {
    task.dk = context->d_kv[0];
    task.dv = context_element(cut, context->d_kv[0], cut->kv_width);
    task.block.ld_dkv = kv_width(cut);
  } else {
    task.dq = context->part;
    task.block.ld_dq = cut->q_width;
  }
  task.dq = context_element(cut, task.dq, view.first_query * task.block.ld_dq);
  context_launch(call, &task);
}

static void ring_sum_dq(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  const ContextView view = view_of(call, call->occurrence + 1);
  const Rows dq = context_own_dq(call, view.first_query);
  const Rows part = context_tokens(cut, scratch(call)->part, cut->q_width, view.first_query, 0);
  item_move(call, (Extent){cut->sequences, view.queries, cut->q_width}, dq, part, dq);
}

static void ring_sum_dkv(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  const gint64 step = call->occurrence + 1;
  const ContextView view = view_of(call, step);
  const Rows own = context_own_dkv(call), round = kv_block(cut, scratch(call)->d_kv[step % 2]);
  item_move(call, kv_extent(cut, view.keys), round, own, view.is_own ? own : round);
}

static void hand_on(const ItemCall *call, char *const blocks[2], gint64 which) {
  context_exchange(call, COLLECTIVE_SEND_RECV, item_number(call), blocks[which % 2], blocks[(which + 1) % 2],
                   kv_elements(item_cut(call)));
}

static void ring_exchange(const ItemCall *call) {
  const ContextScratch *context = scratch(call);
  const CommType *comm = call->trainer->comm->type;
  const gint64 step = call->occurrence, n_steps = item_cut(call)->cp - 1;
  comm->batch_begin(call->trainer->comm);
  if (step < n_steps)
    hand_on(call, context->kv, step);
  if (call->is_backward && step > 0)
    hand_on(call, context->d_kv, step - 1);
  comm->batch_end(call->trainer->comm);
}

/* --- all-gather --- */

/* This rank's block within all ranks' blocks. */
static char *own_part(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  return context_element(cut, scratch(call)->kv[0], own_rank(call) * kv_elements(cut));
}

static void gather_pack(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  item_copy(call, kv_extent(cut, cut->seq_len), k_and_v(cut, item_saved(call).qkv), kv_block(cut, own_part(call)));
}

static void gather_kv(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  context_exchange(call, COLLECTIVE_ALL_GATHER, item_number(call), own_part(call), scratch(call)->kv[0],
                   cut->cp * kv_elements(cut));
}

static void gather_order(const ItemCall *call) {
  const ContextScratch *context = scratch(call);
  context_order(call, context->kv[0], context->kv[1], kv_width(item_cut(call)), FALSE);
}

static void gather_clear(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  Kernel zero = {
      .kind = KERNEL_FILL,
      .fill = {.bytes = cut->cp * kv_elements(cut) * (gint64)cut->element_bytes, .to = scratch(call)->d_kv[0]}};
  item_launch(call, &zero);
}

static void scatter_order(const ItemCall *call) {
  const ContextScratch *context = scratch(call);
  context_order(call, context->kv[0], context->d_kv[0], kv_width(item_cut(call)), TRUE);
}

static void scatter_dkv(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  context_exchange(call, COLLECTIVE_REDUCE_SCATTER, item_number(call), scratch(call)->kv[0], own_part(call),
                   cut->cp * kv_elements(cut));
}

static void scatter_unpack(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  item_copy(call, kv_extent(cut, cut->seq_len), kv_block(cut, own_part(call)), context_own_dkv(call));
}

/* Attention of one piece's queries, to all keys up to theirs. */
static void attend_piece(const ItemCall *call, gboolean is_late) {
  const Cut *cut = item_cut(call);
  const ContextScratch *context = scratch(call);
  const gint64 half = cut->seq_len / 2, piece = is_late ? 2 * cut->cp - 1 - own_rank(call) : own_rank(call);
  FlashKernel task = item_flash(call, call->is_backward);
  context_look_at(call, (ContextView){is_late ? half : 0, half, (piece + 1) * half, TRUE, {0}}, context->kv[1], &task);
  task.block.key_rows = cut->cp * cut->seq_len;
  if (call->is_backward) {
    task.d_o = context_element(cut, task.d_o, is_late * half * task.ld_o);
    task.dq = context_element(cut, task.dq, is_late * half * task.ld_dq);
    task.dk = context->d_kv[0];
    task.dv = context_element(cut, context->d_kv[0], cut->kv_width);
    task.block.ld_dq = task.ld_dq;
    task.block.ld_dkv = kv_width(cut);
    task.block.adds = TRUE;
  }
  context_launch(call, &task);
}

static void attend_to_all(const ItemCall *call) {
  attend_piece(call, FALSE);
  attend_piece(call, TRUE);
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
const ItemKernel *context_kernels(const Plan *plan) {
  static const ItemKernel *const kernels[N_CP_COMMS] = {
      [CP_RING] = ring_kernels, [CP_ALL_GATHER] = gather_kernels, [CP_ULYSSES] = ulysses_kernels};
  return plan_rings_blocks(plan) ? ring_of_blocks_kernels : kernels[plan->cp_comm];
}

/* The communication method determines the collectives. */
static void exchange_blocks(const ItemCall *call) {
  if (plan_rings_blocks(item_cut(call)->plan)) {
    ring_of_blocks_exchange(call);
    return;
  }
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
