/* reduce_grad: gradients are reduced over data parallelism, cp included, as soon as they are complete.
 *
 *     ZeRO-0      all-reduce of each bucket, after the last micro-batch's backward
 *     ZeRO-1      reduce-scatter over the shards (and all-reduce of the shard over replicas), after the last one's;
 *                 as ZeRO-0 under a framework that reduces whole gradients
 *     ZeRO-2, 3   the same after every micro-batch: a rank keeps only its shard. Gradients without shards, such as
 *                 those of experts that ep spreads over all ranks of a shard set, stay whole and are reduced as under
 *                 ZeRO-0
 *
 * A bucket has at least bucket_parameters (ZeRO-3: one piece, as gathered). With overlap_grad the backward is cut
 * where a bucket is full, so that its collective overlaps with the rest; without, all of a stage's collectives follow
 * its last backward, and for ZeRO ≥ 2 the next compute op waits for them.
 *
 * ZeRO ≥ 2 has room for two whole buckets, as frameworks have (DeepSpeed's overlap_comm, FSDP's wait for the
 * reduction before the last): one is filled while the other is reduced. So a bucket is not started until the one two
 * before it has been reduced, however slow the network:
 *
 *     compute   |  u−2  |  u−1  |·······|   u   |
 *     dp                | reduce u−2    | reduce u−1    |
 *
 * A matrix shared by embedding and head is reduced when both have added to it, with whichever has its backward last:
 * per micro-batch under ZeRO ≥ 2, else over all. If heads look words up in a separate embedding table on their rank,
 * and their last backward comes after the embedding's (two pipes), the table's bucket is reduced after theirs. Under
 * ZeRO ≥ 2 each micro-batch is reduced separately, and with two pipes only one end of it is on a rank: so the table
 * is also part of the heads' buckets.
 *
 * An order that names its reductions (REDUCE_GRAD) is followed: at each such place the stage's whole gradient is
 * reduced, once per step under every ZeRO stage, when the previous compute op has ended. Under a framework that keeps
 * whole gradients until the end of a pipeline, or over several micro-batches, the same is done after a stage's last
 * backward. */
#include "lowering.h"

/* Where the last backward of each is: old indices; −1 none. */
typedef struct {
  gint32 embedding, head;
} Ends;

/* The ops of a rank that complete gradients. */
typedef struct {
  gint32 *last; /* [stages] micro-batch of the last one; −1 none; owned */
  Ends *ends;   /* [micro-batches]; owned */
  Ends of_all;
} Backwards;

/* A collective to be issued after old op `until`. */
typedef struct {
  Op op;
  gint32 until;
  gboolean frees_bucket; /* the last of its bucket */
} Held;

/* Ops that reduce a part. */
typedef struct {
  Op ops[MOST_REDUCTIONS];
  int n; /* −1: not made yet */
  int stage;
  Part part;
  Piece keeper;
  gboolean is_last;
} Reductions;

typedef struct {
  Program *program;
  const Workload *workload;
  Backwards backwards; /* owned */
  OpEditor editor;
  GArray *cuts;           /* of Part: of the current backward; borrowed */
  GArray *late;           /* of Op: collectives deferred until after the last compute op; owned */
  GArray *of_table;       /* of Held: deferred until the head's backward; owned */
  gboolean reduces_apart; /* ZeRO ≥ 2: each micro-batch separately; not where the order names its reductions */
  gint32 last_compute;    /* new index */
  gint32 wait_for;        /* new index of a collective that the next compute op must wait for; −1 none */
  gint32 reducing[2]; /* ZeRO ≥ 2: new indices of the collectives that free the latest two buckets, older first; −1
                         none so far */
  Reductions latest;
} Reducer;

/* With one shard there is no sharding: gradients are reduced once per step under any ZeRO stage, unless they leave
 * the GPU after every micro-batch. */
static int zero_stage(const Workload *workload) {
  return lowering_is_sharded(workload) || workload_gradients_leave(workload, FALSE) ? workload->method->zero : 0;
}

/* Backwards that together complete a gradient both add to: those of the micro-batch if each is reduced separately,
 * else of all. */
static Ends ends_at(const Reducer *reducer, int micro_batch) {
  const gboolean is_apart = zero_stage(reducer->workload) >= 2 && lowering_shards(reducer->workload) > 1;
  return is_apart ? reducer->backwards.ends[micro_batch] : reducer->backwards.of_all;
}

/* Which of the two reduces a matrix they share: the one whose backward is later in the list. Within one stage that is
 * the embedding's; if a V or two pipes bring both ends to one rank, the order decides (of all micro-batches, if a
 * micro-batch has only one of the ends on this rank). */
static Piece keeper_of(const Reducer *reducer, const Ends *ends) {
  const Ends *last = ends->embedding >= 0 && ends->head >= 0 ? ends : &reducer->backwards.of_all;
  return last->embedding >= last->head ? PIECE_EMBEDDING : PIECE_HEAD;
}

/* Reductions of `moved` over `shards` ranks and their replicas. Whole gradients are reduced only if `is_last`, the
 * last of their stage's backwards. Returns how many (0..2). */
static int reduce_moved(const Reducer *reducer, int stage, const Moved *moved, int shards, gboolean is_last, Op *ops) {
  const Workload *workload = reducer->workload;
  const Method *method = workload->method;
  const int zero = shards > 1 ? zero_stage(workload) : 0, replicas = lowering_replicas(workload);
  const gboolean is_whole = !zero_shards_optimizer(zero) || (zero == 1 && method->time.gradients == GRADIENTS_WHOLE);
  const int copies =
      !zero_shards_optimizer(zero) && moved->of_experts ? lowering_expert_copies(workload) : shards * replicas;
  const DpCollective all = {ACTION_REDUCE_GRAD, stage, COLLECTIVE_ALL_REDUCE, AXIS_BIT(AXIS_DP), SIZE_GRADIENTS, -1};
  const DpCollective scatter = {ACTION_REDUCE_GRAD, stage,          COLLECTIVE_REDUCE_SCATTER,
                                AXIS_BIT_DP_SHARD,  SIZE_GRADIENTS, -1};
  const DpCollective of_shards = {ACTION_REDUCE_GRAD,  stage, COLLECTIVE_ALL_REDUCE, AXIS_BIT_DP_REPLICA,
                                  SIZE_GRADIENT_SHARD, -1};
  int n = 0;
  if (!(moved_gradients(workload, moved) > 0))
    return 0;
  if (is_whole && copies > 1 && is_last)
    ops[n++] = dp_collective(reducer->program, workload, &all, moved);
  if (!is_whole && shards > 1)
    ops[n++] = dp_collective(reducer->program, workload, &scatter, moved);
  if (!is_whole && replicas > 1)
    ops[n++] = dp_collective(reducer->program, workload, &of_shards, moved);
  return n;
}

static gboolean is_like(const Reductions *made, int stage, const Part *part, Piece keeper, gboolean is_last) {
  return made->n >= 0 && made->stage == stage && made->keeper == keeper && made->is_last == is_last &&
         made->part.n_embedding == part->n_embedding && made->part.n_layers == part->n_layers &&
         made->part.n_head == part->n_head && made->part.n_dense == part->n_dense &&
         others_equal(&made->part.others, &part->others);
}

static int make_reductions(const Reducer *reducer, int stage, const Part *part, Piece keeper, gboolean is_last,
                           Op ops[MOST_REDUCTIONS]) {
  const Workload *workload = reducer->workload;
  const gboolean with_table = reducer->reduces_apart && part->n_head > 0 && lowering_heads_table(workload) > 0;
  const Moved others = {*part, keeper, FALSE, with_table}, experts = {*part, keeper, TRUE};
  int n = reduce_moved(reducer, stage, &others, lowering_shards(workload), is_last, ops);
  if (part_trained_experts(workload, part) > 0)
    n += reduce_moved(reducer, stage, &experts, lowering_expert_shards(workload), is_last, ops + n);
  return n;
}

/* Collectives for the gradients of a stage's `part`, without `after`, which the caller adds. Returns how many.
 * Consecutive layers reuse them, with another first layer. */
static int reduce_ops(Reducer *reducer, int stage, const Part *part, const Ends *ends, gboolean is_last,
                      Op ops[MOST_REDUCTIONS]) {
  Reductions *made = &reducer->latest;
  const Piece keeper = keeper_of(reducer, ends);
  if (!is_like(made, stage, part, keeper, is_last)) {
    *made = (Reductions){.stage = stage, .part = *part, .keeper = keeper, .is_last = is_last};
    made->n = make_reductions(reducer, stage, part, keeper, is_last, made->ops);
  }
  for (int i = 0; i < made->n; i++) {
    ops[i] = made->ops[i];
    ops[i].unit = part->first_layer;
  }
  return made->n;
}

/* Issues it after new op `after`. */
static void issue(Reducer *reducer, const Held *held, gint32 after) {
  Op op = held->op;
  op_add_after(&op, after);
  const gint32 index = op_editor_add(&reducer->editor, &op);
  if (!reducer->workload->method->overlap_grad)
    reducer->wait_for = index;
  if (held->frees_bucket) {
    reducer->reducing[0] = reducer->reducing[1];
    reducer->reducing[1] = index;
  }
}

/* Experts in a bucket with the table need not wait for the head, which adds nothing to them. */
static gboolean is_of_experts(const Reducer *reducer, const Op *reduction) {
  return g_array_index(reducer->program->transfers, Transfer, reduction->work).of_experts;
}

/* Reductions of the part whose backward is new op `after`. */
static void emit_reduce(Reducer *reducer, int old_index, const Op *backward, const Part *part, gint32 after) {
  const Workload *workload = reducer->workload;
  const int zero = zero_stage(workload);
  const Ends ends = ends_at(reducer, backward->micro_batch);
  const gboolean awaits_head =
      part->n_embedding > 0 && old_index < ends.head && workload_heads_read_embedding(workload);
  const gboolean is_last = reducer->backwards.last[backward->stage] == backward->micro_batch;
  Op ops[MOST_REDUCTIONS];
  const int n = reduce_ops(reducer, backward->stage, part, &ends, is_last, ops);
  for (int i = 0; i < n; i++) {
    if (zero_shards_gradients(zero)) {
      ops[i].micro_batch = backward->micro_batch;
      op_add_after(&ops[i], after); /* first in `after`: the op that filled its bucket */
    }
    const Held held = {ops[i], ends.head, i + 1 == n};
    if (!zero_shards_gradients(zero) && !workload->method->overlap_grad)
      g_array_append_val(reducer->late, ops[i]);
    else if (awaits_head && (!zero_shards_gradients(zero) || !is_of_experts(reducer, &ops[i])))
      g_array_append_val(reducer->of_table, held);
    else
      issue(reducer, &held, after);
  }
}

/* Copies a backward op, cut at its buckets, each followed by its collectives. */
static void reduce_backward(Reducer *reducer, int old_index) {
  const Method *method = reducer->workload->method;
  Op op = op_editor_translate(&reducer->editor, old_index);
  Part whole = part_of_op(reducer->program, &op);
  GArray *cuts = reducer->cuts;
  const int zero = zero_stage(reducer->workload);
  const gboolean is_gathered =
      zero_shards_weights(zero) && op.action == ACTION_B && lowering_gathers_early(reducer->workload);
  g_array_set_size(cuts, 0);
  if (is_gathered || (!zero_shards_gradients(zero) && !method->overlap_grad))
    g_array_append_val(cuts, whole); /* ZeRO-3: already cut where gathered; a W gathers nothing and is still whole */
  else
    part_cut(reducer->workload, &whole, TRUE, zero_shards_weights(zero) ? 0 : method->bucket_parameters, cuts);
  for (guint c = 0; c < cuts->len; c++) {
    const Part *part = &g_array_index(cuts, Part, c);
    Op piece = op;
    piece.unit = part->first_layer;
    if (cuts->len > 1)
      piece.work = part_work(reducer->program, reducer->workload, phase_of_action(op.action), part);
    if (c > 0)
      for (int i = 0; i < OP_MAX_AFTER; i++)
        piece.after[i] = -1; /* the first part has waited already */
    if (reducer->wait_for >= 0)
      op_add_after(&piece, reducer->wait_for);
    reducer->wait_for = -1;
    if (zero_shards_gradients(zero) && method->overlap_grad)
      op_add_after(&piece, reducer->reducing[0]);
    gint32 index = op_editor_add(&reducer->editor, &piece);
    reducer->last_compute = index;
    op_editor_set_moved(&reducer->editor, old_index, index);
    emit_reduce(reducer, old_index, &op, part, index);
  }
}

/* Issues what was deferred until the old op. */
static void issue_held(Reducer *reducer, gint32 old_index) {
  for (guint i = 0; i < reducer->of_table->len; i++) {
    const Held *held = &g_array_index(reducer->of_table, Held, i);
    if (held->until == old_index)
      issue(reducer, held, reducer->last_compute);
  }
}

static Backwards find_backwards(const Program *program, const OpList *list, const Workload *workload) {
  const Ends none = {-1, -1};
  Backwards found = {g_new(gint32, program->n_stages), g_new(Ends, program->n_micro_batches), none};
  for (int stage = 0; stage < program->n_stages; stage++)
    found.last[stage] = -1;
  for (int i = 0; i < program->n_micro_batches; i++)
    found.ends[i] = none;
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    if (op->kind != OP_COMPUTE || !action_completes_gradient(op->action))
      continue;
    const StageLayers *layers = &workload->stages[op->stage].layers;
    found.last[op->stage] = op->micro_batch;
    if (layers->has_embedding)
      found.of_all.embedding = found.ends[op->micro_batch].embedding = i;
    if (layers->has_head)
      found.of_all.head = found.ends[op->micro_batch].head = i;
  }
  return found;
}

static void backwards_clear(Backwards *backwards) {
  g_free(backwards->last);
  g_free(backwards->ends);
}

/* Whether the gradient that the op completes is reduced after it. */
static inline gboolean is_reduced(const Op *op, int zero, const gint32 *last) {
  return op->kind == OP_COMPUTE && action_completes_gradient(op->action) &&
         (zero_shards_gradients(zero) || last[op->stage] == op->micro_batch);
}

static void reduce_rank(Program *program, OpList *list, const Workload *workload, GArray *cuts) {
  Reducer reducer = {.program = program,
                     .workload = workload,
                     .backwards = find_backwards(program, list, workload),
                     .cuts = cuts,
                     .late = g_array_new(FALSE, FALSE, sizeof(Op)),
                     .of_table = g_array_new(FALSE, FALSE, sizeof(Held)),
                     .reduces_apart = zero_stage(workload) >= 2,
                     .latest.n = -1,
                     .last_compute = -1,
                     .wait_for = -1,
                     .reducing = {-1, -1}};
  const gint32 *last = reducer.backwards.last;
  const int zero = zero_stage(workload);
  const int n_ops = list->n_ops;
  int n_before = 0; /* ops before the first reduction */
  for (; n_before < n_ops && !is_reduced(&list->ops[n_before], zero, last); n_before++)
    if (list->ops[n_before].kind == OP_COMPUTE)
      reducer.last_compute = n_before;
  op_editor_init_behind_first(&reducer.editor, list, n_before);
  for (int i = n_before; i < n_ops; i++) {
    const Op *op = op_editor_old(&reducer.editor, i);
    if (is_reduced(op, zero, last)) {
      reduce_backward(&reducer, i);
      issue_held(&reducer, i);
      continue;
    }
    Op *copy = op_editor_copy_op(&reducer.editor, i);
    if (op->kind == OP_COMPUTE && reducer.wait_for >= 0) {
      op_add_after(copy, reducer.wait_for);
      reducer.wait_for = -1;
    }
    if (op->kind == OP_COMPUTE)
      reducer.last_compute = reducer.editor.n_ops - 1;
  }
  for (guint i = 0; i < reducer.late->len; i++) {
    Op op = g_array_index(reducer.late, Op, i);
    op_add_after(&op, reducer.last_compute);
    lowering_await_sends(&op, &reducer.editor, workload->method);
    op_editor_add(&reducer.editor, &op);
  }
  op_editor_finish(&reducer.editor);
  g_array_free(reducer.late, TRUE);
  g_array_free(reducer.of_table, TRUE);
  backwards_clear(&reducer.backwards);
}

/* Reduces the whole gradient of a stage when the latest compute op has ended. */
static void reduce_stage(Reducer *reducer, int stage) {
  Op ops[MOST_REDUCTIONS];
  const Part part = part_of_stage(reducer->workload, stage);
  const int n = reduce_ops(reducer, stage, &part, &reducer->backwards.of_all, TRUE, ops);
  for (int i = 0; i < n; i++) {
    op_add_after(&ops[i], reducer->last_compute);
    const gint32 index = op_editor_add(&reducer->editor, &ops[i]);
    if (!reducer->workload->method->overlap_grad)
      reducer->wait_for = index;
  }
}

/* Whether the op is the last to add to its stage's gradient. */
static gboolean ends_gradient(const OpList *list, int i, const gint32 *last) {
  return is_reduced(&list->ops[i], 0, last) && op_ends_action(list, i);
}

/* Reduces where the order says, or if it says nothing, after each stage's last backward. */
static void reduce_rank_by_stages(Program *program, OpList *list, const Workload *workload, gboolean is_told) {
  Reducer reducer = {.program = program,
                     .workload = workload,
                     .backwards = find_backwards(program, list, workload),
                     .latest.n = -1,
                     .last_compute = -1,
                     .wait_for = -1};
  op_editor_init(&reducer.editor, list);
  for (int i = 0; i < list->n_ops; i++) {
    if (list->ops[i].action == ACTION_REDUCE_GRAD) {
      reduce_stage(&reducer, list->ops[i].stage);
      continue;
    }
    const gboolean ends = !is_told && ends_gradient(list, i, reducer.backwards.last);
    Op *copy = op_editor_copy_op(&reducer.editor, i);
    if (list->ops[i].kind == OP_COMPUTE) {
      reducer.last_compute = reducer.editor.n_ops - 1;
      if (reducer.wait_for >= 0)
        op_add_after(copy, reducer.wait_for);
      reducer.wait_for = -1;
    }
    if (ends)
      reduce_stage(&reducer, list->ops[i].stage);
  }
  op_editor_finish(&reducer.editor);
  backwards_clear(&reducer.backwards);
}

void pass_reduce_grad(Program *program, const Lowering *lowering) {
  const Workload *workload = lowering->workload;
  if (workload == NULL || !lowering_makes_buckets(workload))
    return;
  g_autoptr(GArray) cuts = g_array_new(FALSE, FALSE, sizeof(Part));
  const gboolean is_told = lowering->order->has_reduce_grad;
  for (int rank = 0; rank < program->n_ranks; rank++)
    if (is_told || workload->method->reduces_once)
      reduce_rank_by_stages(program, &program->ranks[rank], workload, is_told);
    else
      reduce_rank(program, &program->ranks[rank], workload, cuts);
}
