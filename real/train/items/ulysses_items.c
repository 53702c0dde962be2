/* Attention where each rank has pieces of every sequence, by exchanging heads for tokens (Ulysses); implements what
 * context.c lists.
 *
 * In between, a rank has whole sequences, in order of position, for 1/cp of the heads. Saved q, k and v and
 * attention's output have that form, with the same number of elements except for copies of K and V: if there are
 * fewer of these heads than ranks, each is repeated before it is sent, and the copies' gradients are summed on
 * return. Copies occupy whichever of `sent` and `got` the all-to-all is not using: T rows of K's copies, each head's
 * side by side, then V's.
 *
 *     to heads    rows (T × all heads) → a part for each member's heads → all-to-all → rows of all tokens (own heads)
 *     to tokens   the same backwards
 *
 * A forward that will be run again leaves the own tokens' q, k and v of all heads in place, as operands of the second
 * run. Its attention reads the exchanged heads from the send buffer. */
#include "context_rows.h"

/* Reorders between columns of this rank's tokens (several heads side by side) and the parts for each member. */
static void order_by_member(const ItemCall *call, Rows tokens, gint64 width, Rows parts, gboolean is_back) {
  const Cut *cut = item_cut(call);
  const Extent extent = {cut->cp, cut->tokens, width / cut->cp};
  tokens.step = extent.width;
  parts.step = cut->tokens * parts.ld;
  item_copy(call, extent, is_back ? parts : tokens, is_back ? tokens : parts);
}

/* The same for q, k and v. */
static void order_qkv(const ItemCall *call, Rows q, Rows k, Rows v, char *parts, gboolean is_back) {
  const Cut *cut = item_cut(call);
  const gint64 widths[] = {cut->q_width, cut->kv_copies * cut->kv_width, cut->kv_copies * cut->v_width};
  const gint64 width = cut_dealt_width(cut);
  const Rows tokens[] = {q, k, v};
  for (gint64 i = 0, column = 0; i < 3; column += widths[i++])
    order_by_member(call, tokens[i], widths[i], context_tokens(cut, parts, width / cut->cp, 0, column / cut->cp),
                    is_back);
}

/* K and V side by side, single or with all copies. */
typedef struct {
  Rows k, v;
} KeysValues;

static KeysValues own_kv(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  const gint64 ld = context_qkv_width(cut), k = cut->q_width, v = k + cut->kv_width;
  char *qkv = item_saved(call).qkv;
  return (KeysValues){context_tokens(cut, qkv, ld, 0, k), context_tokens(cut, qkv, ld, 0, v)};
}

static KeysValues own_gradients(const ItemCall *call) {
  const Rows dk = context_own_dkv(call);
  const Cut *cut = item_cut(call);
  return (KeysValues){dk, {context_element(cut, dk.at, cut->kv_width), dk.ld, dk.step}};
}

static KeysValues copies_in(const ItemCall *call, char *buffer) {
  const Cut *cut = item_cut(call);
  const gint64 ld = cut->kv_copies * cut_own_kv_width(cut);
  return (KeysValues){context_tokens(cut, buffer, ld, 0, 0),
                      context_tokens(cut, buffer, ld, 0, cut->kv_copies * cut->kv_width)};
}

/* Copies between heads, `width` columns in all, and all copies of each. */
static void repeat_heads(const ItemCall *call, gint64 width, Rows own, Rows copies, gboolean is_back) {
  const Cut *cut = item_cut(call);
  const gint64 n_heads = cut->cp / cut->kv_copies;
  const Extent extent = {n_heads, cut->tokens, width / n_heads};
  own.step = extent.width;
  copies.step = cut->kv_copies * extent.width;
  for (gint64 copy = 0; copy < cut->kv_copies; copy++) {
    const Rows none = {0}, one = {context_element(cut, copies.at, copy * extent.width), copies.ld, copies.step};
    if (is_back)
      item_move(call, extent, one, copy > 0 ? own : none, own);
    else
      item_copy(call, extent, own, one);
  }
}

static void repeat_kv(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  const KeysValues own = own_kv(call), copies = copies_in(call, scratch(call)->got);
  repeat_heads(call, cut->kv_width, own.k, copies.k, FALSE);
  repeat_heads(call, cut->v_width, own.v, copies.v, FALSE);
}

static void sum_dkv(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  const KeysValues own = own_gradients(call), copies = copies_in(call, scratch(call)->sent);
  repeat_heads(call, cut->kv_width, own.k, copies.k, TRUE);
  repeat_heads(call, cut->v_width, own.v, copies.v, TRUE);
}

static void pack_qkv(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  const Rows q = context_tokens(cut, item_saved(call).qkv, context_qkv_width(cut), 0, 0);
  const KeysValues kv = cut->kv_copies > 1 ? copies_in(call, scratch(call)->got) : own_kv(call);
  order_qkv(call, q, kv.k, kv.v, scratch(call)->sent, FALSE);
}

static void unpack_gradients(const ItemCall *call) {
  const gboolean repeats = item_cut(call)->kv_copies > 1;
  const KeysValues kv = repeats ? copies_in(call, scratch(call)->sent) : own_gradients(call);
  order_qkv(call, context_own_dq(call, 0), kv.k, kv.v, scratch(call)->got, TRUE);
}

static void order_out(const ItemCall *call, char *out, char *parts, gboolean is_back) {
  const Cut *cut = item_cut(call);
  order_by_member(call, context_tokens(cut, out, cut->out_width, 0, 0), cut->out_width,
                  context_tokens(cut, parts, cut->out_width / cut->cp, 0, 0), is_back);
}

/* q, k and v after the exchange: all tokens, some heads. */
static char *exchanged_qkv(const ItemCall *call) {
  const gboolean is_again =
      !call->is_backward && !call->item->recompute && plan_repeats_attention(item_cut(call)->plan);
  return is_again ? scratch(call)->sent : item_saved(call).qkv;
}

/* Forward exchanges q, k and v, then the output; backward the output's gradient, then those of q, k and v. */
static gboolean is_to_heads(const ItemCall *call) {
  return call->occurrence % 2 == 0;
}

static gboolean moves_qkv(const ItemCall *call) {
  return is_to_heads(call) != call->is_backward;
}

static void ulysses_pack(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  const ContextScratch *context = scratch(call);
  if (is_to_heads(call) && call->is_backward)
    order_out(call, item_memory(call)->d_attention, context->sent, FALSE);
  else if (is_to_heads(call))
    pack_qkv(call);
  else if (call->is_backward)
    context_order(call, context->sent, context->got, cut_dealt_width(cut) / cut->cp, TRUE);
  else
    context_order(call, context->sent, item_saved(call).all_tokens, cut->out_width / cut->cp, TRUE);
}

static void ulysses_unpack(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  const ContextScratch *context = scratch(call);
  if (is_to_heads(call) && call->is_backward)
    context_order(call, context->got, context->d_out, cut->out_width / cut->cp, FALSE);
  else if (is_to_heads(call))
    context_order(call, context->got, exchanged_qkv(call), cut_dealt_width(cut) / cut->cp, FALSE);
  else if (call->is_backward)
    unpack_gradients(call);
  else
    order_out(call, item_saved(call).attention, context->got, TRUE);
}

void ulysses_exchange(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  context_exchange(call, COLLECTIVE_ALL_TO_ALL, item_number(call), scratch(call)->sent, scratch(call)->got,
                   cut->tokens * (moves_qkv(call) ? cut_dealt_width(cut) : cut->out_width));
}

/* All tokens of some heads: one kernel, as without cp. */
static void ulysses_attend(const ItemCall *call) {
  const Cut *cut = item_cut(call);
  const ContextScratch *context = scratch(call);
  const gint64 k = cut->q_width / cut->cp, v = k + cut->kv_copies * cut->kv_width / cut->cp;
  FlashKernel task = item_flash(call, call->is_backward);
  task.rule.first_head += own_rank(call) * (cut->heads / cut->cp);
  task.drop.first_head += own_rank(call) * (cut->heads / cut->cp);
  task.seq_len *= cut->cp;
  task.n_heads /= cut->cp;
  task.n_kv_heads = task.n_kv_heads * cut->kv_copies / cut->cp;
  task.ld_qkv = cut_dealt_width(cut) / cut->cp;
  task.ld_dq = task.ld_dkv = task.ld_qkv;
  task.ld_o /= cut->cp;
  task.q = exchanged_qkv(call);
  task.k = context_element(cut, task.q, k);
  task.v = context_element(cut, task.q, v);
  task.o = item_saved(call).all_tokens;
  if (call->is_backward) {
    task.d_o = context->d_out;
    task.dq = context->got; /* until they are packed; then `got` receives the own ones */
    task.dk = context_element(cut, task.dq, k);
    task.dv = context_element(cut, task.dq, v);
  }
  context_launch(call, &task);
}

const ItemKernel ulysses_kernels[] = {
    {"attention.kv_repeat", repeat_kv, 0},
    {"attention.pack", ulysses_pack, 0},
    {"attention.unpack", ulysses_unpack, 0},
    {"attention", ulysses_attend, 0},
    {"attention.backward", ulysses_attend, 0},
    {"attention.dkv_sum", sum_dkv, 0},
    {NULL, NULL, 0},
};
