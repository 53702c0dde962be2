#include "context_rows.h"

void context_launch(const ItemCall *call, const FlashKernel *task) {
  Kernel kernel = {.kind = call->is_backward ? KERNEL_FLASH_BACKWARD : KERNEL_FLASH_FORWARD, .flash = *task};
  item_launch(call, &kernel);
}

void context_exchange(const ItemCall *call, Collective collective, Number number, const char *in, char *out, gint64 n) {
  const CollectiveSpec spec = {.collective = collective, .number = number, .in = in, .out = out, .n = n};
  call->trainer->comm->type->collective(call->group, call->stream, &spec);
}

Rows context_tokens(const Cut *cut, char *base, gint64 ld, gint64 row, gint64 column) {
  return (Rows){context_element(cut, base, row * ld + column), ld, cut->seq_len * ld};
}

Rows context_own_dq(const ItemCall *call, gint64 row) {
  const FlashKernel task = item_flash(call, TRUE);
  return context_tokens(item_cut(call), task.dq, task.ld_dq, row, 0);
}

Rows context_own_dkv(const ItemCall *call) {
  const FlashKernel task = item_flash(call, TRUE);
  return context_tokens(item_cut(call), task.dk, task.ld_dkv, 0, 0);
}

void context_order(const ItemCall *call, char *by_rank, char *by_position, gint64 width, gboolean is_back) {
  const Cut *cut = item_cut(call);
  const gint64 half = cut->seq_len / 2, length = cut->cp * cut->seq_len;
  const Extent extent = {cut->cp, half, width};
  for (gint64 sequence = 0; sequence < cut->sequences; sequence++)
    for (int is_late = 0; is_late < 2; is_late++) {
      const gint64 here = sequence * cut->seq_len + is_late * half;
      const gint64 there = sequence * length + (is_late ? (2 * cut->cp - 1) * half : 0);
      const Rows ranks = {context_element(cut, by_rank, here * width), width, cut->tokens * width};
      const Rows positions = {context_element(cut, by_position, there * width), width,
                              (is_late ? -half : half) * width};
      item_copy(call, extent, is_back ? positions : ranks, is_back ? ranks : positions);
    }
}

RowPositions context_positions(const Cut *cut, gint64 cp_rank, gint64 first) {
  const SequencePieces pieces = parameters_pieces_of(cut, cp_rank);
  return (RowPositions){MAX(cut->seq_len / 2 - first, 0), pieces.early + first, pieces.late + first};
}

ContextView context_view(const ItemCall *call, gint64 of) {
  const Cut *cut = item_cut(call);
  const gint64 s = cut->seq_len, own = own_rank(call);
  const RowPositions key_at = context_positions(cut, of, 0);
  if (of == own)
    return (ContextView){0, s, s, TRUE, key_at};
  return of < own ? (ContextView){0, s, s / 2, FALSE, key_at} : (ContextView){s / 2, s / 2, s, FALSE, key_at};
}

void context_look_at(const ItemCall *call, ContextView view, const char *kv, FlashKernel *task) {
  const Cut *cut = item_cut(call);
  task->block.query_at = context_positions(cut, own_rank(call), view.first_query);
  task->block.key_at = view.key_at;
  task->block.is_cut = TRUE;
  task->block.is_full = !view.is_own;
  task->block.queries = view.queries;
  task->block.keys = view.keys;
  task->block.key_rows = cut->seq_len;
  task->block.ld_kv = kv != NULL ? cut->kv_width + cut->v_width : task->ld_qkv;
  task->k = kv != NULL ? kv : task->k;
  task->v = kv != NULL ? context_element(cut, kv, cut->kv_width) : task->v;
  task->q = context_element(cut, task->q, view.first_query * task->ld_qkv);
  task->o = context_element(cut, task->o, view.first_query * task->ld_o);
  task->lse += view.first_query;
}
