/* expand: compute ops become runs of kernels, and the collectives among their items become ops.
 *
 *     before   compute  |            0F3            |
 *
 *     after    compute  | norm, qkv … attn_out |      | norm, mlp_up … |      | …
 *              tp                              |  AR  |                |  AR  |
 *
 * A run is a stretch of a piece's list without a collective in it; other items wait only for its end, and it waits
 * for others only at its start. A piece begins when the previous one has ended on all streams. cp and ep work like
 * tp.
 *
 * In a framework whose host reads how many tokens go to each expert, the host waits for the run that chooses them
 * before it issues the exchange (quirks.c, expert_counts); if an item says so, it waits for everything before
 * that (work_item.h, host_waits). */
#include "expand_entries.h"
#include "lowering.h"

#include <string.h>

/* What the next op of a stream must still wait for. */
typedef struct {
  gint32 after[OP_MAX_AFTER + 1]; /* one spare, for make_room() */
  int n;
} Pending;

typedef struct {
  const Program *source;
  Program *target;
  ExpandEntries entries; /* of the target's tables */
  OpEditor editor;
  int n_axes;                    /* the first ones, beyond which the workload has no collectives */
  gint32 *indices;               /* [longest segment list] ops of the piece being expanded; owned */
  gint32 *trailing[N_ITEM_AXES]; /* [old ops] collective at the op's end that no later run of it waits for; −1 none */
  gint32 first_of_op;            /* new index of the first op of the one being expanded */
  gint32 last_compute;           /* new indices; −1 none */
  gint32 last[N_ITEM_AXES];      /* per axis */
  gint32 joined[N_ITEM_AXES];    /* the latest collective that the compute stream waits for */
  gint32 awaited[N_ITEM_AXES];   /* the latest collective that an emitted run waits for */
  Pending compute, axes[N_ITEM_AXES];
  GArray *spans; /* of Span: pieces of the op being expanded, in order; owned */
} Expander;

/* The ops of one instance of a piece. */
typedef struct {
  Piece piece;
  gint32 first, last;
} Span;

static int stream_of(const Expander *expander, gint32 index) {
  return expander->editor.ops[index].stream;
}

/* Of two ops on one stream keeps the later: it ends after the other. FALSE: all are on different streams. */
static gboolean make_room(const Expander *expander, Pending *pending) {
  for (int i = 0; i < pending->n; i++)
    for (int j = i + 1; j < pending->n; j++)
      if (stream_of(expander, pending->after[i]) == stream_of(expander, pending->after[j])) {
        pending->after[i] = MAX(pending->after[i], pending->after[j]);
        pending->after[j] = pending->after[--pending->n];
        return TRUE;
      }
  return FALSE;
}

static void pending_add(const Expander *expander, Pending *pending, gint32 index) {
  if (index < 0)
    return;
  for (int i = 0; i < pending->n; i++)
    if (pending->after[i] == index)
      return;
  pending->after[pending->n++] = index;
  if (pending->n > OP_MAX_AFTER) {
    const gboolean has_room = make_room(expander, pending);
    g_assert(has_room); /* else an op waits for more streams than OP_MAX_AFTER */
  }
}

static void pending_flush(Pending *pending, Op *op) {
  for (int i = 0; i < pending->n; i++)
    op_add_after(op, pending->after[i]);
  pending->n = 0;
}

static void clear_after(Op *op) {
  for (int i = 0; i < OP_MAX_AFTER; i++)
    op->after[i] = -1;
}

/* Makes the compute stream wait for op `collective` of an axis, unless it already does. */
static void join(Expander *expander, int axis, gint32 collective) {
  if (collective <= expander->joined[axis])
    return;
  pending_add(expander, &expander->compute, collective);
  expander->joined[axis] = collective;
}

static void join_all(Expander *expander) {
  for (int axis = 0; axis < expander->n_axes; axis++)
    join(expander, axis, expander->last[axis]);
}

static gboolean waits_for_trailing(const Expander *expander, const Op *old) {
  gint32 latest = -1;
  for (int i = 0; i < OP_MAX_AFTER && old->after[i] >= 0; i++)
    for (int axis = 0; axis < expander->n_axes; axis++)
      latest = MAX(latest, expander->trailing[axis][old->after[i]]);
  return latest >= 0;
}

/* The old op with dependencies as new indices, trailing collectives included. */
static Op translate(const Expander *expander, int old_index) {
  const Op *old = op_editor_old(&expander->editor, old_index);
  Op op = op_editor_translate(&expander->editor, old_index);
  if (!waits_for_trailing(expander, old))
    return op;
  Pending waits = {.n = 0};
  for (int i = 0; i < OP_MAX_AFTER && op.after[i] >= 0; i++)
    pending_add(expander, &waits, op.after[i]);
  for (int i = 0; i < OP_MAX_AFTER && old->after[i] >= 0; i++)
    for (int axis = 0; axis < expander->n_axes; axis++)
      pending_add(expander, &waits, expander->trailing[axis][old->after[i]]);
  clear_after(&op);
  pending_flush(&waits, &op);
  return op;
}

/* Appends an op equal to `op` but for its work. It is filled in place, since copying a struct just written field by
 * field stalls on those writes. */
static Op *emit(Expander *expander, const Op *op, gint32 work) {
  Op *emitted = op_editor_new_op(&expander->editor);
  *emitted = *op;
  emitted->work = work;
  return emitted;
}

/* `axis`: of `waits_for`. */
static gint32 emit_run(Expander *expander, const Op *op, gint32 work, int axis, gint32 waits_for) {
  if (waits_for >= 0)
    join(expander, axis, waits_for);
  pending_flush(&expander->compute, emit(expander, op, work));
  memcpy(expander->awaited, expander->joined, sizeof expander->joined);
  return expander->last_compute = expander->editor.n_ops - 1;
}

/* The host issues nothing more until op `waits_for` has ended. */
static void emit_host_wait(Expander *expander, gint32 step, gint32 waits_for) {
  Op op = op_new(OP_HOST, STREAM_HOST, ACTION_WAIT, -1, -1);
  op.step = step;
  op_add_after(&op, waits_for);
  op_editor_add(&expander->editor, &op);
}

static gint32 emit_collective(Expander *expander, const Op *op, gint32 work, int axis, gint32 waits_for) {
  static const Stream streams[N_ITEM_AXES] = {[AXIS_TP] = STREAM_TP, [AXIS_CP] = STREAM_CP, [AXIS_EP] = STREAM_EP};
  Op *emitted = emit(expander, op, work);
  emitted->kind = OP_COLLECTIVE;
  emitted->stream = (guint8)streams[axis];
  if (waits_for >= 0) { /* a run of this op, which has itself waited for all that is pending */
    expander->axes[axis].n = 0;
    op_add_after(emitted, waits_for);
  }
  pending_flush(&expander->axes[axis], emitted);
  return expander->last[axis] = expander->editor.n_ops - 1;
}

/* The axis' stream begins a piece when the compute stream has ended the previous one. Other axes have ended with
 * that, except for collectives that no run has waited for yet. */
static void begin_piece(Expander *expander, int axis) {
  Pending *pending = &expander->axes[axis];
  if (expander->last_compute >= expander->first_of_op)
    pending->n = 0; /* that run has waited for everything the op waits for */
  if (expander->last_compute >= 0)
    pending_add(expander, pending, expander->last_compute);
  for (int other = 0; other < expander->n_axes; other++)
    if (other != axis && expander->last[other] > expander->awaited[other])
      pending_add(expander, pending, expander->last[other]);
}

/* One instance of a piece; each stream begins it when the others have ended the previous piece. */
static void expand_piece(Expander *expander, const Op *op, Phase phase, Piece piece, gint32 lengths) {
  const SegmentList *list = &expander->entries.segments.of[piece][phase];
  gint32 *indices = expander->indices;
  const gint32 first = expander->editor.n_ops;
  join_all(expander);
  for (int axis = 0; axis < expander->n_axes; axis++)
    begin_piece(expander, axis);
  for (int i = 0; i < list->n_segments; i++) {
    const Segment *segment = &list->segments[i];
    gint32 waits_for = segment->waits_for >= 0 ? indices[segment->waits_for] : -1;
    const gint32 work = expand_entries_of_segment(&expander->entries, phase, piece, lengths, i);
    const gint32 host_for = segment->is_collective ? waits_for : expander->last_compute;
    if (segment->is_awaited && host_for >= 0)
      emit_host_wait(expander, op->step, host_for);
    if (segment->is_collective) {
      indices[i] = emit_collective(expander, op, work, segment->axis, waits_for);
    } else {
      int axis = segment->waits_for >= 0 ? list->segments[segment->waits_for].axis : 0;
      indices[i] = emit_run(expander, op, work, axis, waits_for);
    }
  }
  const Span span = {piece, first, expander->editor.n_ops - 1};
  if (list->n_segments > 0)
    g_array_append_val(expander->spans, span);
}

static gint32 effect_of(Expander *expander, EntryKind kind, gint32 effect) {
  return expand_entries_of_source(&expander->entries, kind, effect);
}

/* Memory of the whole op: held from its first op, dropped after its last run. */
static void move_effect(Expander *expander, gint32 effect, gint32 first, gint32 last) {
  Op *ops = expander->editor.ops;
  ops[first].effect = effect_of(expander, first == last ? ENTRY_EFFECT : ENTRY_HELD, effect);
  if (first != last)
    ops[last].effect = effect_of(expander, ENTRY_DROPPED, effect);
}

/* The same where a forward and a backward may take turns: each piece holds its share from its first op, or drops it
 * after its last. */
static void share_effect(Expander *expander, gint32 effect, const Op *op, Phase phase, gint32 first, gint32 last) {
  Op *ops = expander->editor.ops;
  gboolean has_first = FALSE, has_last = FALSE;
  for (guint i = 0; i < expander->spans->len; i++) {
    const Span *span = &g_array_index(expander->spans, Span, i);
    const gint32 at = phase == PHASE_F ? span->first : span->last;
    const guint8 roles = (guint8)(SHARE_PIECE | (at == first ? SHARE_FIRST : 0) | (at == last ? SHARE_LAST : 0));
    ops[at].effect = expand_entries_share(&expander->entries, effect, op->work, span->piece, roles);
    has_first = has_first || at == first;
    has_last = has_last || at == last;
  }
  if (first == last && !has_first)
    ops[first].effect = expand_entries_share(&expander->entries, effect, op->work, 0, SHARE_FIRST | SHARE_LAST);
  if (first != last && !has_first)
    ops[first].effect = expand_entries_share(&expander->entries, effect, op->work, 0, SHARE_FIRST);
  if (first != last && !has_last)
    ops[last].effect = expand_entries_share(&expander->entries, effect, op->work, 0, SHARE_LAST);
}

static void expand_op(Expander *expander, int old_index) {
  Op op = translate(expander, old_index);
  const Work work = g_array_index(expander->source->works, Work, op.work);
  int counts[N_PIECES];
  work_pieces(&work, counts);
  gint32 effect = op.effect, first = expander->editor.n_ops, compute_before = expander->last_compute;
  expander->first_of_op = first;
  for (int axis = 0; axis < expander->n_axes; axis++)
    expander->axes[axis].n = 0;
  for (int i = 0; i < OP_MAX_AFTER && op.after[i] >= 0; i++) {
    pending_add(expander, &expander->compute, op.after[i]);
    for (int axis = 0; axis < expander->n_axes; axis++)
      pending_add(expander, &expander->axes[axis], op.after[i]);
  }
  clear_after(&op);
  op.effect = 0;
  g_array_set_size(expander->spans, 0);
  for (int i = 0, unit = op.unit; i < N_PIECES; i++) {
    Piece piece = work.phase == PHASE_F ? i : N_PIECES - 1 - i;
    int ahead = 0; /* layers before this kind's */
    for (int before = PIECE_EMBEDDING + 1; before < (int)piece; before++)
      ahead += counts[before];
    for (int n = 0; n < counts[piece]; n++) {
      op.unit = unit;
      if (piece_is_layer(piece))
        op.unit += ahead + (work.phase == PHASE_F ? n : counts[piece] - 1 - n);
      expand_piece(expander, &op, (Phase)work.phase, piece, work.lengths);
    }
    op.unit = unit;
  }
  if (expander->last_compute == compute_before) { /* no kernel in this phase: an op remains, for its place and memory */
    join_all(expander);
    emit_run(expander, &op, expand_entries_no_kernels(&expander->entries, (Phase)work.phase), 0, -1);
  }
  if (expand_entries_are_shared(&expander->entries, effect, op.work))
    share_effect(expander, effect, &op, (Phase)work.phase, first, expander->last_compute);
  else
    move_effect(expander, effect, first, expander->last_compute);
  op_editor_set_moved(&expander->editor, old_index, expander->last_compute);
  for (int axis = 0; axis < expander->n_axes; axis++)
    expander->trailing[axis][old_index] = expander->last[axis] > expander->joined[axis] ? expander->last[axis] : -1;
}

static gint32 kept_work(Expander *expander, gint32 work) {
  return expand_entries_of_source(&expander->entries, ENTRY_WORK, work);
}

/* An op that is not cut. */
static void keep_op(Expander *expander, int old_index) {
  Op op = translate(expander, old_index);
  if (op.kind == OP_COMPUTE) {
    op.work = kept_work(expander, op.work);
    join_all(expander);
    for (int i = 0; i < OP_MAX_AFTER && op.after[i] >= 0; i++)
      pending_add(expander, &expander->compute, op.after[i]);
    clear_after(&op);
    pending_flush(&expander->compute, &op);
    memcpy(expander->awaited, expander->joined, sizeof expander->joined);
    expander->last_compute = expander->editor.n_ops;
  } else if (op.kind != OP_HOST) {
    op.work = expand_entries_of_source(&expander->entries, ENTRY_TRANSFER, op.work);
  } else if (op.work >= 0) {
    op.work = kept_work(expander, op.work);
  }
  op.effect = effect_of(expander, ENTRY_EFFECT, op.effect);
  op_editor_set_moved(&expander->editor, old_index, op_editor_add(&expander->editor, &op));
}

/* Whether the op runs pieces of the workload and is not cut yet. */
static gboolean is_whole(const Program *program, const Op *op) {
  if (op->kind != OP_COMPUTE)
    return FALSE;
  const Work *work = &g_array_index(program->works, Work, op->work);
  return work->phase != PHASE_OPTIMIZER && work->piece < 0;
}

/* Number of ops that a cut op becomes, not counting host waits. */
static gsize count_parts(const Expander *expander, const Op *op) {
  const Work *work = &g_array_index(expander->source->works, Work, op->work);
  int counts[N_PIECES];
  gsize n = 1;
  work_pieces(work, counts);
  for (int piece = 0; piece < N_PIECES; piece++)
    n += (gsize)counts[piece] * (gsize)expander->entries.segments.of[piece][work->phase].n_segments;
  return n;
}

static gboolean is_cut(const Expander *expander, const Op *op, const gboolean *is_beside, int i) {
  return (is_beside == NULL || is_beside[i]) && is_whole(expander->source, op);
}

/* `is_beside`: [ops] which to expand; NULL: all. */
static void expand_rank(Expander *expander, int rank, const gboolean *is_beside) {
  const OpList *source = &expander->source->ranks[rank];
  OpList *list = &expander->target->ranks[rank];
  *list = *source;
  gsize n_ops = 0;
  for (int i = 0; i < source->n_ops; i++)
    n_ops += is_cut(expander, &source->ops[i], is_beside, i) ? count_parts(expander, &source->ops[i]) : 1;
  op_editor_init_with_room(&expander->editor, list, n_ops);
  list->ops = NULL; /* the source keeps the old ones */
  expander->last_compute = -1;
  expander->compute.n = 0;
  for (int axis = 0; axis < expander->n_axes; axis++) {
    expander->trailing[axis] = g_new(gint32, source->n_ops + 1);
    memset(expander->trailing[axis], -1, sizeof(gint32) * (gsize)(source->n_ops + 1));
    expander->last[axis] = expander->joined[axis] = expander->awaited[axis] = -1;
    expander->axes[axis].n = 0;
  }
  for (int i = 0; i < source->n_ops; i++) {
    if (is_cut(expander, &source->ops[i], is_beside, i))
      expand_op(expander, i);
    else
      keep_op(expander, i);
  }
  op_editor_finish(&expander->editor);
  for (int axis = 0; axis < expander->n_axes; axis++)
    g_free(expander->trailing[axis]);
}

/* Sets n_axes, and makes room for the ops of the longest list. */
static void look_at_segments(Expander *expander) {
  int n_most = 1;
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < PHASE_OPTIMIZER; phase++) {
      const SegmentList *list = &expander->entries.segments.of[piece][phase];
      n_most = MAX(n_most, list->n_segments);
      for (int i = 0; i < list->n_segments; i++)
        if (list->segments[i].is_collective)
          expander->n_axes = MAX(expander->n_axes, list->segments[i].axis + 1);
    }
  expander->indices = g_new(gint32, n_most);
}

/* The target program, without ops. */
static Program *new_target(const Program *source, Expansion expansion) {
  Program *target = program_new(source->n_ranks, source->n_stages, source->n_micro_batches);
  target->n_steps = source->n_steps;
  target->n_pipes = source->n_pipes;
  target->heads_add_to_table = source->heads_add_to_table;
  target->expansion = (guint8)expansion;
  return target;
}

Program *program_expand_beside(const Program *program, const Workload *workload, const OpsBeside *beside) {
  Program *target = new_target(program, beside == NULL ? EXPANSION_ALL : EXPANSION_BESIDE);
  Expander expander = {.source = program, .target = target};
  expand_entries_init(&expander.entries, program, workload, target);
  look_at_segments(&expander);
  expander.spans = g_array_new(FALSE, FALSE, sizeof(Span));
  for (int rank = 0; rank < program->n_ranks; rank++)
    expand_rank(&expander, rank, beside != NULL ? beside->is_beside[rank] : NULL);
  expand_entries_clear(&expander.entries);
  g_free(expander.indices);
  g_array_free(expander.spans, TRUE);
  if (beside == NULL && workload->method->ep > 1)
    program_interleave(target);
  return target;
}

Program *program_expand(const Program *program, const Workload *workload) {
  return program_expand_beside(program, workload, NULL);
}
