/* Attention where each rank has two pieces of every sequence, an early and a late one of 2·cp: what the items that
 * context.c lists do, in its order. Rows of a sequence here are the early piece's, then the late one's.
 *
 * Ring. What a rank c sees of the block of rank r:
 *
 *     r = c      the causal mask over its own rows: both pieces are in order
 *     r < c      all queries see the early piece, which is before both of theirs; the late one is behind
 *     r > c      the late queries see all; the early ones nothing
 *
 * Blocks go to the next rank. Forward begins with the own one; backward with that of the rank before, so that the own
 * one is the last and its gradient whole where it belongs. That first block is kept from forward, in place of the own K
 * and V, which nobody needs again: they come round.
 *
 *     forward    step k has the block of rank c − k      in kv[k mod 2]
 *     backward   step k has the block of rank c − 1 − k  in kv[k mod 2], its gradient so far in d_kv[k mod 2]
 *
 * All-gather. Blocks come by rank and are put in order of position; then the early queries see all keys up to theirs,
 * the late ones up to theirs. Their gradients go the same way back.
 *
 * Ulysses. In between, a sequence is whole, in order of position, for 1/cp of the heads: saved q, k, v and attention's
 * output are of that form, with equally many elements.
 *
 *     to heads    rows (T × all heads) → a part for each member's heads → all-to-all → rows of all tokens (own heads)
 *     to tokens   the same backwards */
#include "trainer.h"

static const Activations *memory(const ItemCall *call) {
  return &call->trainer->activations;
}

static const Cut *cut_of_call(const ItemCall *call) {
  return memory(call)->cut;
}

static const ContextScratch *scratch(const ItemCall *call) {
  return &memory(call)->context;
}

static SavedLayer saved(const ItemCall *call) {
  return activations_layer(memory(call), call->slot, call->layer);
}

static int own_rank(const ItemCall *call) {
  return call->trainer->parameters->at.at[AXIS_CP];
}

static guint8 number_of(const ItemCall *call) {
  return (guint8)call->trainer->parameters->number;
}

static gint64 qkv_width(const Cut *cut) {
  return cut->q_width + cut->kv_width + cut->v_width;
}

static gint64 kv_width(const Cut *cut) {
  return cut->kv_width + cut->v_width;
}

static gint64 kv_elements(const Cut *cut) {
  return cut->tokens * kv_width(cut);
}

static char *element(const Cut *cut, const void *base, gint64 i) {
  return (char *)(gsize)base + i * (gint64)cut->element_bytes;
}

static void launch_flash(const ItemCall *call, const FlashKernel *task) {
  Kernel kernel = {.kind = call->is_backward ? KERNEL_FLASH_BACKWARD : KERNEL_FLASH_FORWARD, .flash = *task};
  item_launch(call, &kernel);
}

static void exchange(const ItemCall *call, Collective collective, const char *in, char *out, gint64 n) {
  call->trainer->comm->type->collective(call->group, call->stream, collective, REDUCE_SUM, (Number)number_of(call), in,
                                        out, n);
}

/* --- moving rows --- */

/* Blocks of rows, of which the first begins at `at`. */
typedef struct {
  char *at;
  gint64 ld, step; /* elements from a row to the next; from a block to the next */
} Rows;

typedef struct {
  gint64 batch, rows, width;
} Extent;

/* out = a + b; b.at NULL: a alone; a.at NULL too: zeros. */
static void move(const ItemCall *call, Extent extent, Rows a, Rows b, Rows out) {
  Kernel kernel = {.kind = KERNEL_MOVE,
                   .move = {.number = number_of(call),
                            .batch = extent.batch,
                            .rows = extent.rows,
                            .width = extent.width,
                            .ld_a = a.ld,
                            .ld_b = b.ld,
                            .ld_out = out.ld,
                            .stride_a = a.step,
                            .stride_b = b.step,
                            .stride_out = out.step,
                            .a = a.at,
                            .b = b.at,
                            .out = out.at}};
  item_launch(call, &kernel);
}

static void copy(const ItemCall *call, Extent extent, Rows from, Rows to) {
  move(call, extent, from, (Rows){0}, to);
}

/* This rank's tokens, a block for each sequence, from a row and a column on. */
static Rows tokens_of(const Cut *cut, char *base, gint64 ld, gint64 row, gint64 column) {
  return (Rows){element(cut, base, row * ld + column), ld, cut->seq_len * ld};
}

static Rows k_and_v(const Cut *cut, char *qkv) {
  return tokens_of(cut, qkv, qkv_width(cut), 0, cut->q_width);
}

static Rows kv_block(const Cut *cut, char *block) {
  return tokens_of(cut, block, kv_width(cut), 0, 0);
}

/* Gradients of this rank's own Q, from a row of each sequence on; and of its K and V. */
static Rows own_dq(const ItemCall *call, gint64 row) {
  const FlashKernel task = item_flash(call, TRUE);
  return tokens_of(cut_of_call(call), task.dq, task.ld_dq, row, 0);
}

static Rows own_dkv(const ItemCall *call) {
  const FlashKernel task = item_flash(call, TRUE);
  return tokens_of(cut_of_call(call), task.dk, task.ld_dkv, 0, 0);
}

/* Rows of each sequence here. */
static Extent kv_extent(const Cut *cut, gint64 rows) {
  return (Extent){cut->sequences, rows, kv_width(cut)};
}

/* Between a block for each rank, of its tokens, and whole sequences in order of position. */
static void order_by_position(const ItemCall *call, char *by_rank, char *by_position, gint64 width, gboolean is_back) {
  const Cut *cut = cut_of_call(call);
  const gint64 half = cut->seq_len / 2, length = cut->cp * cut->seq_len;
  const Extent extent = {cut->cp, half, width};
  for (gint64 sequence = 0; sequence < cut->sequences; sequence++)
    for (int is_late = 0; is_late < 2; is_late++) {
      const gint64 here = sequence * cut->seq_len + is_late * half;
      const gint64 there = sequence * length + (is_late ? (2 * cut->cp - 1) * half : 0);
      const Rows ranks = {element(cut, by_rank, here * width), width, cut->tokens * width};
      const Rows positions = {element(cut, by_position, there * width), width, (is_late ? -half : half) * width};
      copy(call, extent, is_back ? positions : ranks, is_back ? ranks : positions);
    }
}

/* --- ring --- */

/* What this rank's queries see of a block of keys: queries from one on, the first keys, and where these are. */
typedef struct {
  gint64 first_query, queries, keys;
  gboolean is_own;
  RowPositions key_at;
} View;

/* From row `first` on. */
static RowPositions positions_of(const Cut *cut, gint64 cp_rank, gint64 first) {
  const SequencePieces pieces = parameters_pieces_of(cut, cp_rank);
  return (RowPositions){MAX(cut->seq_len / 2 - first, 0), pieces.early + first, pieces.late + first};
}

static View view_of(const ItemCall *call, gint64 step) {
  const Cut *cut = cut_of_call(call);
  const gint64 s = cut->seq_len, own = own_rank(call);
  const gint64 of = (own - step - (call->is_backward ? 1 : 0) + 2 * cut->cp) % cut->cp;
  const RowPositions key_at = positions_of(cut, of, 0);
  if (of == own)
    return (View){0, s, s, TRUE, key_at};
  return of < own ? (View){0, s, s / 2, FALSE, key_at} : (View){s / 2, s / 2, s, FALSE, key_at};
}

/* Turns a task over all of a rank's own tokens to what it sees of the block `kv`; NULL: of the one that is saved. */
static void look_at(const ItemCall *call, View view, const char *kv, FlashKernel *task) {
  const Cut *cut = cut_of_call(call);
  task->block.query_at = positions_of(cut, own_rank(call), view.first_query);
  task->block.key_at = view.key_at;
  task->block.is_cut = TRUE;
  task->block.is_full = !view.is_own;
  task->block.queries = view.queries;
  task->block.keys = view.keys;
  task->block.key_rows = cut->seq_len;
  task->block.ld_kv = kv != NULL ? kv_width(cut) : task->ld_qkv;
  task->k = kv != NULL ? kv : task->k;
  task->v = kv != NULL ? element(cut, kv, cut->kv_width) : task->v;
  task->q = element(cut, task->q, view.first_query * task->ld_qkv);
  task->o = element(cut, task->o, view.first_query * task->ld_o);
  task->lse += view.first_query;
}

static void ring_forward(const ItemCall *call) {
  const Cut *cut = cut_of_call(call);
  const gint64 step = call->occurrence;
  FlashKernel task = item_flash(call, FALSE);
  task.block.query_at = task.block.key_at = positions_of(cut, own_rank(call), 0);
  if (step > 0) {
    task.o = scratch(call)->part;
    task.lse = scratch(call)->part_lse;
    look_at(call, view_of(call, step), scratch(call)->kv[step % 2], &task);
  }
  launch_flash(call, &task);
}

/* What is sent first: before forward's end the own block. */
static void ring_pack(const ItemCall *call) {
  const Cut *cut = cut_of_call(call);
  copy(call, kv_extent(cut, cut->seq_len), k_and_v(cut, saved(call).qkv), kv_block(cut, scratch(call)->kv[0]));
}

/* Behind the second attention: the own block has been read and sent. */
static void ring_keep(const ItemCall *call) {
  const Cut *cut = cut_of_call(call);
  copy(call, kv_extent(cut, cut->seq_len), kv_block(cut, scratch(call)->kv[1]), k_and_v(cut, saved(call).qkv));
}

static void ring_merge(const ItemCall *call) {
  const Cut *cut = cut_of_call(call);
  const View view = view_of(call, call->occurrence + 1);
  const SavedLayer layer = saved(call);
  const gint64 first = view.first_query * cut->out_width;
  Kernel kernel = {.kind = KERNEL_MERGE,
                   .merge = {.number = number_of(call),
                             .sequences = cut->sequences,
                             .seq_len = cut->seq_len,
                             .queries = view.queries,
                             .n_heads = cut->heads,
                             .head_dim = model_v_head_dim(cut->model),
                             .o = element(cut, layer.attention, first),
                             .lse = layer.lse + view.first_query,
                             .other = element(cut, scratch(call)->part, first),
                             .other_lse = scratch(call)->part_lse + view.first_query}};
  item_launch(call, &kernel);
}

/* What the first block leaves out has to be 0 before others add to it. */
static void ring_clear(const ItemCall *call) {
  const Cut *cut = cut_of_call(call);
  const View view = view_of(call, 0);
  const Rows none = {0};
  if (view.first_query > 0)
    move(call, (Extent){cut->sequences, view.first_query, cut->q_width}, none, none, own_dq(call, 0));
  if (view.keys < cut->seq_len)
    move(call, kv_extent(cut, cut->seq_len - view.keys), none, none,
         tokens_of(cut, scratch(call)->d_kv[0], kv_width(cut), view.keys, 0));
}

/* The first block is not waited for: it is read where it is saved. Its dQ, dK, dV lie where they are added up; a later
 * one's dQ in `part`, its dK and dV, until they are added, where the own block's belong. */
static void ring_backward(const ItemCall *call) {
  const Cut *cut = cut_of_call(call);
  const ContextScratch *context = scratch(call);
  const gint64 step = call->occurrence;
  const View view = view_of(call, step);
  FlashKernel task = item_flash(call, TRUE);
  look_at(call, view, step > 0 ? context->kv[step % 2] : NULL, &task);
  task.d_o = element(cut, task.d_o, view.first_query * task.ld_o);
  task.block.ld_dq = task.ld_dq;
  task.block.ld_dkv = task.ld_dkv;
  if (step == 0) {
    task.dk = context->d_kv[0];
    task.dv = element(cut, context->d_kv[0], cut->kv_width);
    task.block.ld_dkv = kv_width(cut);
  } else {
    task.dq = context->part;
    task.block.ld_dq = cut->q_width;
  }
  task.dq = element(cut, task.dq, view.first_query * task.block.ld_dq);
  launch_flash(call, &task);
}

static void ring_sum_dq(const ItemCall *call) {
  const Cut *cut = cut_of_call(call);
  const View view = view_of(call, call->occurrence + 1);
  const Rows dq = own_dq(call, view.first_query);
  const Rows part = tokens_of(cut, scratch(call)->part, cut->q_width, view.first_query, 0);
  move(call, (Extent){cut->sequences, view.queries, cut->q_width}, dq, part, dq);
}

static void ring_sum_dkv(const ItemCall *call) {
  const Cut *cut = cut_of_call(call);
  const gint64 step = call->occurrence + 1;
  const View view = view_of(call, step);
  const Rows own = own_dkv(call), round = kv_block(cut, scratch(call)->d_kv[step % 2]);
  move(call, kv_extent(cut, view.keys), round, own, view.is_own ? own : round);
}

static void hand_on(const ItemCall *call, char *const blocks[2], gint64 which) {
  exchange(call, COLLECTIVE_SEND_RECV, blocks[which % 2], blocks[(which + 1) % 2], kv_elements(cut_of_call(call)));
}

static void ring_exchange(const ItemCall *call) {
  const ContextScratch *context = scratch(call);
  const CommType *comm = call->trainer->comm->type;
  const gint64 step = call->occurrence, n_steps = cut_of_call(call)->cp - 1;
  comm->batch_begin(call->trainer->comm);
  if (step < n_steps)
    hand_on(call, context->kv, step);
  if (call->is_backward && step > 0)
    hand_on(call, context->d_kv, step - 1);
  comm->batch_end(call->trainer->comm);
}

/* --- all-gather --- */

/* Where this rank's block is among those of all. */
static char *own_part(const ItemCall *call) {
  const Cut *cut = cut_of_call(call);
  return element(cut, scratch(call)->kv[0], own_rank(call) * kv_elements(cut));
}

static void gather_pack(const ItemCall *call) {
  const Cut *cut = cut_of_call(call);
  copy(call, kv_extent(cut, cut->seq_len), k_and_v(cut, saved(call).qkv), kv_block(cut, own_part(call)));
}

static void gather_kv(const ItemCall *call) {
  const Cut *cut = cut_of_call(call);
  exchange(call, COLLECTIVE_ALL_GATHER, own_part(call), scratch(call)->kv[0], cut->cp * kv_elements(cut));
}

static void gather_order(const ItemCall *call) {
  const ContextScratch *context = scratch(call);
  order_by_position(call, context->kv[0], context->kv[1], kv_width(cut_of_call(call)), FALSE);
}

static void gather_clear(const ItemCall *call) {
  const Cut *cut = cut_of_call(call);
  Kernel zero = {
      .kind = KERNEL_FILL,
      .fill = {.bytes = cut->cp * kv_elements(cut) * (gint64)cut->element_bytes, .to = scratch(call)->d_kv[0]}};
  item_launch(call, &zero);
}

static void scatter_order(const ItemCall *call) {
  const ContextScratch *context = scratch(call);
  order_by_position(call, context->kv[0], context->d_kv[0], kv_width(cut_of_call(call)), TRUE);
}

static void scatter_dkv(const ItemCall *call) {
  const Cut *cut = cut_of_call(call);
  exchange(call, COLLECTIVE_REDUCE_SCATTER, scratch(call)->kv[0], own_part(call), cut->cp * kv_elements(cut));
}

static void scatter_unpack(const ItemCall *call) {
  const Cut *cut = cut_of_call(call);
  copy(call, kv_extent(cut, cut->seq_len), kv_block(cut, own_part(call)), own_dkv(call));
}

/* One of the two pieces' queries, to the keys up to theirs. */
static void attend_piece(const ItemCall *call, gboolean is_late) {
  const Cut *cut = cut_of_call(call);
  const ContextScratch *context = scratch(call);
  const gint64 half = cut->seq_len / 2, piece = is_late ? 2 * cut->cp - 1 - own_rank(call) : own_rank(call);
  FlashKernel task = item_flash(call, call->is_backward);
  look_at(call, (View){is_late ? half : 0, half, (piece + 1) * half, TRUE, {0}}, context->kv[1], &task);
  task.block.key_rows = cut->cp * cut->seq_len;
  if (call->is_backward) {
    task.d_o = element(cut, task.d_o, is_late * half * task.ld_o);
    task.dq = element(cut, task.dq, is_late * half * task.ld_dq);
    task.dk = context->d_kv[0];
    task.dv = element(cut, context->d_kv[0], cut->kv_width);
    task.block.ld_dq = task.ld_dq;
    task.block.ld_dkv = kv_width(cut);
    task.block.adds = TRUE;
  }
  launch_flash(call, &task);
}

static void attend_to_all(const ItemCall *call) {
  attend_piece(call, FALSE);
  attend_piece(call, TRUE);
}

/* --- Ulysses --- */

/* Between columns of this rank's tokens, some heads side by side, and columns of the parts for each member. */
static void order_by_member(const ItemCall *call, Rows tokens, gint64 width, Rows parts, gboolean is_back) {
  const Cut *cut = cut_of_call(call);
  const Extent extent = {cut->cp, cut->tokens, width / cut->cp};
  tokens.step = extent.width;
  parts.step = cut->tokens * parts.ld;
  copy(call, extent, is_back ? parts : tokens, is_back ? tokens : parts);
}

/* The same for q, k and v. */
static void order_qkv(const ItemCall *call, Rows q, Rows k, Rows v, char *parts, gboolean is_back) {
  const Cut *cut = cut_of_call(call);
  const gint64 widths[] = {cut->q_width, cut->kv_width, cut->v_width}, width = qkv_width(cut);
  const Rows tokens[] = {q, k, v};
  for (gint64 i = 0, column = 0; i < 3; column += widths[i++])
    order_by_member(call, tokens[i], widths[i], tokens_of(cut, parts, width / cut->cp, 0, column / cut->cp), is_back);
}

static void pack_qkv(const ItemCall *call) {
  const Cut *cut = cut_of_call(call);
  char *qkv = saved(call).qkv;
  const gint64 ld = qkv_width(cut), k = cut->q_width, v = k + cut->kv_width;
  order_qkv(call, tokens_of(cut, qkv, ld, 0, 0), tokens_of(cut, qkv, ld, 0, k), tokens_of(cut, qkv, ld, 0, v),
            scratch(call)->sent, FALSE);
}

static void unpack_gradients(const ItemCall *call) {
  const Cut *cut = cut_of_call(call);
  const Rows dk = own_dkv(call);
  const Rows dv = {element(cut, dk.at, cut->kv_width), dk.ld, dk.step};
  order_qkv(call, own_dq(call, 0), dk, dv, scratch(call)->got, TRUE);
}

static void order_out(const ItemCall *call, char *out, char *parts, gboolean is_back) {
  const Cut *cut = cut_of_call(call);
  order_by_member(call, tokens_of(cut, out, cut->out_width, 0, 0), cut->out_width,
                  tokens_of(cut, parts, cut->out_width / cut->cp, 0, 0), is_back);
}

/* Forward exchanges q, k and v, then the output; backward the output's gradient, then theirs. */
static gboolean is_to_heads(const ItemCall *call) {
  return call->occurrence % 2 == 0;
}

static gboolean moves_qkv(const ItemCall *call) {
  return is_to_heads(call) != call->is_backward;
}

static void ulysses_pack(const ItemCall *call) {
  const Cut *cut = cut_of_call(call);
  const ContextScratch *context = scratch(call);
  if (is_to_heads(call) && call->is_backward)
    order_out(call, memory(call)->d_attention, context->sent, FALSE);
  else if (is_to_heads(call))
    pack_qkv(call);
  else if (call->is_backward)
    order_by_position(call, context->sent, context->got, qkv_width(cut) / cut->cp, TRUE);
  else
    order_by_position(call, context->sent, saved(call).all_tokens, cut->out_width / cut->cp, TRUE);
}

static void ulysses_unpack(const ItemCall *call) {
  const Cut *cut = cut_of_call(call);
  const ContextScratch *context = scratch(call);
  if (is_to_heads(call) && call->is_backward)
    order_by_position(call, context->got, context->d_out, cut->out_width / cut->cp, FALSE);
  else if (is_to_heads(call))
    order_by_position(call, context->got, saved(call).qkv, qkv_width(cut) / cut->cp, FALSE);
  else if (call->is_backward)
    unpack_gradients(call);
  else
    order_out(call, saved(call).attention, context->got, TRUE);
}

static void ulysses_exchange(const ItemCall *call) {
  const Cut *cut = cut_of_call(call);
  exchange(call, COLLECTIVE_ALL_TO_ALL, scratch(call)->sent, scratch(call)->got,
           cut->tokens * (moves_qkv(call) ? qkv_width(cut) : cut->out_width));
}

/* All tokens of some heads: one kernel, as where nothing is cut. */
static void ulysses_attend(const ItemCall *call) {
  const Cut *cut = cut_of_call(call);
  const ContextScratch *context = scratch(call);
  const gint64 k = cut->q_width / cut->cp, v = k + cut->kv_width / cut->cp;
  FlashKernel task = item_flash(call, call->is_backward);
  task.rule.first_head += own_rank(call) * (cut->heads / cut->cp);
  task.drop.first_head += own_rank(call) * (cut->heads / cut->cp);
  task.seq_len *= cut->cp;
  task.n_heads /= cut->cp;
  task.n_kv_heads /= cut->cp;
  task.ld_qkv /= cut->cp;
  task.ld_dq = task.ld_dkv = task.ld_qkv;
  task.ld_o /= cut->cp;
  task.k = element(cut, task.q, k);
  task.v = element(cut, task.q, v);
  task.o = saved(call).all_tokens;
  if (call->is_backward) {
    task.d_o = context->d_out;
    task.dq = context->got; /* until they are packed; the own ones come there */
    task.dk = element(cut, task.dq, k);
    task.dv = element(cut, task.dq, v);
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
    {"attention.pack", ulysses_pack, 0},
    {"attention.unpack", ulysses_unpack, 0},
    {"attention", ulysses_attend, 0},
    {"attention.backward", ulysses_attend, 0},
    {NULL, NULL, 0},
};
const ItemKernel *const context_kernels[N_CP_COMMS] = {
    [CP_RING] = ring_kernels, [CP_ALL_GATHER] = gather_kernels, [CP_ULYSSES] = ulysses_kernels};

/* The way of communicating says which collectives there are. */
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
