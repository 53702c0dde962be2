/* The new groups are inserted after the first. Ops up to there are unchanged; the inserted ops, and those after them,
 * are shifted by that many groups, along with all micro-batches, batches and ops that they refer to:
 *
 *     list      A A A │ B │ b C C              b: begins like B
 *     longer    A A A │ B │ B B B │ b C C
 */
#include "more_groups.h"

typedef struct {
  const OpList *list;
  const RepeatedOps *own;
  gint32 q;                 /* micro-batches per group */
  gint32 n_batches;         /* batches per group; −1: unknown */
  gint32 n_before, n_after; /* micro-batches per step, before and after */
} Growth;

static gint32 end_of_first(const Growth *growth) {
  return growth->own->first + growth->own->n_ops;
}

/* From an op of the first group to its match in the next. */
static gint32 count_batches(const OpList *list, const RepeatedOps *own) {
  const Op *ops = list->ops;
  for (gint32 i = own->first; i < own->end; i++)
    if (ops[i].batch >= 0)
      return ops[i + own->n_ops].batch - ops[i].batch;
  for (gint32 i = own->first; i < list->n_ops; i++)
    if (ops[i].batch >= 0)
      return -1;
  return 0;
}

/* The earliest op that this one waits for; G_MAXINT32: none. */
static gint32 earliest_awaited(const Op *op) {
  gint32 earliest = G_MAXINT32;
  for (int i = 0; i < OP_MAX_AFTER && op->after[i] >= 0; i++)
    earliest = MIN(earliest, op->after[i]);
  return earliest;
}

/* Whether the stretch of groups ends at an op that waits for other ops than the same op a group later. A gradient
 * bucket waits for the one two before it, which the first two micro-batches lack: then these are not the groups that a
 * longer list repeats. Where forwards run out, as they should, the two are different ops. */
static gboolean is_cut_short(const Growth *growth) {
  const OpList *list = growth->list;
  const gint32 end = growth->own->end, n_ops = growth->own->n_ops;
  if (end + n_ops >= list->n_ops)
    return FALSE;
  const Op *op = &list->ops[end], *like = op + n_ops;
  return op->kind == like->kind && op->stream == like->stream && op->action == like->action &&
         op->stage == like->stage && op->unit == like->unit && op->micro_batch >= 0 &&
         like->micro_batch == op->micro_batch + growth->q && !op_waits_alike(op, like, n_ops);
}

/* Dependencies are shifted along with their op. So they must point into the groups, or at most one group before them,
 * to ops that match those of the first group. */
static gboolean can_grow(const Growth *growth) {
  const OpList *list = growth->list;
  const gint32 first = growth->own->first, n_ops = growth->own->n_ops;
  if (growth->n_batches < 0 || is_cut_short(growth))
    return FALSE;
  for (gint32 i = first; i < list->n_ops; i++)
    if (earliest_awaited(&list->ops[i]) < (i < end_of_first(growth) ? first - n_ops : first))
      return FALSE;
  return TRUE;
}

/* Tags enumerate micro-batches within receiving stages (product_transfer()). */
static gint32 moved_tag(const Growth *growth, const Op *op, gint32 n_groups) {
  const gint32 stage = op->tag / (2 * growth->n_before);
  return op->tag + 2 * (stage * (growth->n_after - growth->n_before) + n_groups * growth->q);
}

static Op moved(const Growth *growth, const Op *from, gint32 n_groups) {
  Op op = *from;
  if (op.kind == OP_SEND || op.kind == OP_RECV)
    op.tag = moved_tag(growth, from, n_groups);
  if (n_groups == 0)
    return op;
  op.micro_batch += op.micro_batch >= 0 ? n_groups * growth->q : 0;
  op.batch += op.batch >= 0 ? n_groups * growth->n_batches : 0;
  for (int i = 0; i < OP_MAX_AFTER && op.after[i] >= 0; i++)
    op.after[i] += n_groups * growth->own->n_ops;
  return op;
}

static void grow(const Growth *growth, gint32 n_more, OpList *longer) {
  const OpList *list = growth->list;
  const gint32 first = growth->own->first, end = end_of_first(growth);
  longer->n_ops = list->n_ops + n_more * growth->own->n_ops;
  longer->ops = g_new(Op, longer->n_ops + 1);
  Op *op = longer->ops;
  for (gint32 i = 0; i < end; i++)
    *op++ = moved(growth, &list->ops[i], 0);
  for (gint32 group = 1; group <= n_more; group++)
    for (gint32 i = first; i < end; i++)
      *op++ = moved(growth, &list->ops[i], group);
  for (gint32 i = end; i < list->n_ops; i++)
    *op++ = moved(growth, &list->ops[i], n_more);
}

/* Ops, micro-batches and tags must fit in int32. */
static gboolean can_be_counted(const ProgramRepeats *repeats, gint64 n_more) {
  const Program *program = repeats->program;
  const double n_micro_batches = program->n_micro_batches + (double)n_more * repeats->n_micro_batches;
  double n_ops = 0;
  for (int rank = 0; rank < program->n_ranks; rank++)
    n_ops += program->ranks[rank].n_ops + (double)n_more * program_repeats_of(repeats, rank, 0)->n_ops;
  return n_ops < G_MAXINT32 && 2 * n_micro_batches * (program->n_stages + 1) < G_MAXINT32;
}

static void copy_entries(GArray *to, const GArray *from) {
  g_array_append_vals(to, from->data, from->len);
}

static Program *new_like(const Program *source, int n_micro_batches) {
  Program *program = program_new(source->n_ranks, source->n_stages, n_micro_batches);
  program->n_pipes = source->n_pipes;
  program->heads_add_to_table = source->heads_add_to_table;
  copy_entries(program->works, source->works);
  copy_entries(program->transfers, source->transfers);
  copy_entries(program->groups, source->groups);
  return program;
}

Program *program_of_more_groups(const ProgramRepeats *repeats, gint64 n_more) {
  const Program *source = repeats->program;
  if (source->n_steps > 1 || source->expansion != EXPANSION_NONE || !can_be_counted(repeats, n_more))
    return NULL;
  const int q = repeats->n_micro_batches;
  g_autoptr(Program) program = new_like(source, source->n_micro_batches + (int)n_more * q);
  for (int rank = 0; rank < source->n_ranks; rank++) {
    const OpList *list = &source->ranks[rank];
    const RepeatedOps *own = program_repeats_of(repeats, rank, 0);
    const Growth growth = {list, own, q, count_batches(list, own), source->n_micro_batches, program->n_micro_batches};
    if (!can_grow(&growth))
      return NULL;
    grow(&growth, (gint32)n_more, &program->ranks[rank]);
  }
  return g_steal_pointer(&program);
}
