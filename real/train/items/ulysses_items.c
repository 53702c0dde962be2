/* Attention where each rank has pieces of every sequence, by exchange of heads for tokens; what context.c lists.
 *
 * In between, a sequence is whole, in order of position, for 1/cp of the heads: saved q, k, v and attention's
 * output are of that form, with equally many elements.
 *
 *     to heads    rows (T × all heads) → a part for each member's heads → all-to-all → rows of all tokens (own heads)
 *     to tokens   the same backwards
 *
 * A forward that will be run again leaves saved q, k and v the own tokens' all heads: its operands, once more. What it
 * reads itself, of some heads, lies where it sent from. */
#include "context_rows.h"

/* Between columns of this rank's tokens, some heads side by side, and columns of the parts for each member. */
static void order_by_member(const ItemCall *call, Rows tokens, gint64 width, Rows parts, gboolean is_back) {
  const Cut *cut = cut_of_call(call);
  const Extent extent = {cut->cp, cut->tokens, width / cut->cp};
  tokens.step = extent.width;
  parts.step = cut->tokens * parts.ld;
  context_copy(call, extent, is_back ? parts : tokens, is_back ? tokens : parts);
}

/* The same for q, k and v. */
static void order_qkv(const ItemCall *call, Rows q, Rows k, Rows v, char *parts, gboolean is_back) {
  const Cut *cut = cut_of_call(call);
  const gint64 widths[] = {cut->q_width, cut->kv_width, cut->v_width}, width = context_qkv_width(cut);
  const Rows tokens[] = {q, k, v};
  for (gint64 i = 0, column = 0; i < 3; column += widths[i++])
    order_by_member(call, tokens[i], widths[i], context_tokens(cut, parts, width / cut->cp, 0, column / cut->cp),
                    is_back);
}

static void pack_qkv(const ItemCall *call) {
  const Cut *cut = cut_of_call(call);
  char *qkv = saved(call).qkv;
  const gint64 ld = context_qkv_width(cut), k = cut->q_width, v = k + cut->kv_width;
  order_qkv(call, context_tokens(cut, qkv, ld, 0, 0), context_tokens(cut, qkv, ld, 0, k),
            context_tokens(cut, qkv, ld, 0, v), scratch(call)->sent, FALSE);
}

static void unpack_gradients(const ItemCall *call) {
  const Cut *cut = cut_of_call(call);
  const Rows dk = context_own_dkv(call);
  const Rows dv = {context_element(cut, dk.at, cut->kv_width), dk.ld, dk.step};
  order_qkv(call, context_own_dq(call, 0), dk, dv, scratch(call)->got, TRUE);
}

static void order_out(const ItemCall *call, char *out, char *parts, gboolean is_back) {
  const Cut *cut = cut_of_call(call);
  order_by_member(call, context_tokens(cut, out, cut->out_width, 0, 0), cut->out_width,
                  context_tokens(cut, parts, cut->out_width / cut->cp, 0, 0), is_back);
}

/* Of all tokens, some heads. */
static char *exchanged_qkv(const ItemCall *call) {
  const gboolean is_again =
      !call->is_backward && !call->item->recompute && plan_repeats_attention(cut_of_call(call)->plan);
  return is_again ? scratch(call)->sent : saved(call).qkv;
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
    context_order(call, context->sent, context->got, context_qkv_width(cut) / cut->cp, TRUE);
  else
    context_order(call, context->sent, saved(call).all_tokens, cut->out_width / cut->cp, TRUE);
}

static void ulysses_unpack(const ItemCall *call) {
  const Cut *cut = cut_of_call(call);
  const ContextScratch *context = scratch(call);
  if (is_to_heads(call) && call->is_backward)
    context_order(call, context->got, context->d_out, cut->out_width / cut->cp, FALSE);
  else if (is_to_heads(call))
    context_order(call, context->got, exchanged_qkv(call), context_qkv_width(cut) / cut->cp, FALSE);
  else if (call->is_backward)
    unpack_gradients(call);
  else
    order_out(call, saved(call).attention, context->got, TRUE);
}

void ulysses_exchange(const ItemCall *call) {
  const Cut *cut = cut_of_call(call);
  context_exchange(call, COLLECTIVE_ALL_TO_ALL, stored_number(call), scratch(call)->sent, scratch(call)->got,
                   cut->tokens * (moves_qkv(call) ? context_qkv_width(cut) : cut->out_width));
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
  task.q = exchanged_qkv(call);
  task.k = context_element(cut, task.q, k);
  task.v = context_element(cut, task.q, v);
  task.o = saved(call).all_tokens;
  if (call->is_backward) {
    task.d_o = context->d_out;
    task.dq = context->got; /* until they are packed; the own ones come there */
    task.dk = context_element(cut, task.dq, k);
    task.dv = context_element(cut, task.dq, v);
  }
  context_launch(call, &task);
}

const ItemKernel ulysses_kernels[] = {
    {"attention.pack", ulysses_pack, 0},
    {"attention.unpack", ulysses_unpack, 0},
    {"attention", ulysses_attend, 0},
    {"attention.backward", ulysses_attend, 0},
    {NULL, NULL, 0},
};
