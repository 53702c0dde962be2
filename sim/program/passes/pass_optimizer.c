/* optimizer: everything between the last gradient and the next step.
 *
 *     tied embedding   first and last stage reduce the gradient of the matrix they share
 *     copies           with two pipes the two copies of a stage are on ranks r and p − 1 − r, and each has only
 *                      its own pipe's micro-batches: their gradients are reduced, stage by stage, in the same order on
 *                      both (github.com/deepseek-ai/DualPipe leaves this to its user)
 *     whole gradients  under sequence parallelism each tp rank has seen only its own tokens: the gradients of norms
 *                      and other parameters replicated over tp are reduced over tp (arXiv 2205.05198; Megatron-LM's
 *                      finalize_model_grads); without it, those of the q and k norms, as each has seen only its heads
 *     norm             the global gradient norm: one number over all ranks that hold different gradients
 *     optimizer        one Adam step on what this rank owns
 *     all-gather       ZeRO-1/2 without overlap_param: gathers the updated shards, twice under a framework whose
 *                      experts have an optimizer of their own; under one whose ranks own whole matrices, each
 *                      broadcasts its own, one after another
 *     kept vectors     ZeRO-3 under a framework that keeps them whole: each updated one is gathered by itself
 *     sync             the host reads the loss before it issues the next step */
#include "lowering.h"

/* The latest op on `stream` in the list; −1: none. */
static gint32 last_on_stream(const OpEditor *editor, Stream stream) {
  for (gint32 i = editor->n_ops; i-- > 0;)
    if (editor->ops[i].stream == stream)
      return i;
  return -1;
}

static void add_after_last(Op *op, const OpEditor *editor, Stream stream) {
  gint32 last = last_on_stream(editor, stream);
  if (last >= 0)
    op_add_after(op, last);
}

static void add_tied_gradient(Program *program, OpEditor *editor, const Lowering *lowering, int rank) {
  const Workload *workload = lowering->workload;
  const int *stage_rank = lowering->order->placement->stage_rank;
  int first = stage_rank[0], last = stage_rank[program->n_stages - 1];
  if (workload->tied_parameters == 0 || !workload_trains_table(workload, PIECE_EMBEDDING) || first == last ||
      (rank != first && rank != last))
    return;
  Group group = {.name = "embedding", .spans_pp = TRUE, .pp_first = first, .pp_last = last, .charge = AXIS_PP};
  Transfer transfer = {.group = program_group(program, &group),
                       .source = -1,
                       .target = -1,
                       .collective = COLLECTIVE_ALL_REDUCE,
                       .size = SIZE_TIED};
  Op op = op_new(OP_COLLECTIVE, STREAM_DP, ACTION_TIED_GRAD, -1, -1);
  op.work = sized_transfer(program, workload, &transfer);
  add_after_last(&op, editor, STREAM_COMPUTE);
  lowering_await_sends(&op, editor, workload->method);
  op_editor_add(editor, &op);
}

/* The latest op that adds to a stage's gradient. A matrix shared by embedding and head, or one that both add to, is
 * complete only after the last op of all. */
static gint32 last_of_stage(const OpEditor *editor, const Workload *workload, int stage) {
  const gboolean is_apart = workload->shared_parameters == 0 && !workload_heads_read_embedding(workload);
  for (gint32 i = editor->n_ops; i-- > 0 && is_apart;) {
    const Op *op = &editor->ops[i];
    if (op->kind == OP_COMPUTE && op->stage == stage)
      return i;
  }
  return last_on_stream(editor, STREAM_COMPUTE);
}

/* For one stage on this rank whose other copy is on rank `other`. */
static void add_copied_gradient(Program *program, OpEditor *editor, const Workload *workload, int stage, int rank,
                                int other) {
  Group group = {
      .name = "copies", .spans_pp = TRUE, .pp_first = MIN(rank, other), .pp_last = MAX(rank, other), .charge = AXIS_PP};
  Transfer transfer = {.group = program_group(program, &group),
                       .source = -1,
                       .target = -1,
                       .collective = COLLECTIVE_ALL_REDUCE,
                       .size = SIZE_COPIES,
                       .of = stage};
  Op op = op_new(OP_COLLECTIVE, STREAM_DP, ACTION_COPY_GRAD, stage, -1);
  op.work = sized_transfer(program, workload, &transfer);
  op_add_after(&op, last_of_stage(editor, workload, stage));
  op_editor_add(editor, &op);
}

static void add_copied_gradients(Program *program, OpEditor *editor, const Lowering *lowering, int rank) {
  const Placement *placement = lowering->order->placement;
  const int length = placement->n_stages / placement->n_pipes;
  for (int stage = 0; stage < length && placement->n_pipes > 1; stage++) {
    const int first = placement->stage_rank[stage], second = placement->stage_rank[stage + length];
    if (first == second || (rank != first && rank != second))
      continue;
    add_copied_gradient(program, editor, lowering->workload, rank == first ? stage : stage + length, rank,
                        rank == first ? second : first);
  }
}

static void add_whole_gradients(Program *program, OpEditor *editor, const Lowering *lowering, int rank) {
  const Workload *workload = lowering->workload;
  const gboolean may_be_none = !workload->method->sequence_parallel || !training_is_of_all(&workload->method->training);
  if (workload->method->tp == 1 || (may_be_none && whole_gradient_bytes(workload, rank) == 0))
    return;
  Group group = {.name = "tp", .axes = AXIS_BIT(AXIS_TP), .pp_first = -1, .pp_last = -1, .charge = AXIS_TP};
  Transfer transfer = {.group = program_group(program, &group),
                       .source = -1,
                       .target = -1,
                       .collective = COLLECTIVE_ALL_REDUCE,
                       .size = SIZE_WHOLE,
                       .of = rank};
  Op op = op_new(OP_COLLECTIVE, STREAM_TP, ACTION_WHOLE_GRAD, -1, -1);
  op.work = sized_transfer(program, workload, &transfer);
  add_after_last(&op, editor, STREAM_COMPUTE);
  add_after_last(&op, editor, STREAM_DP);
  lowering_await_sends(&op, editor, workload->method);
  op_editor_add(editor, &op);
}

/* `plan` NULL: a bare order, in which a rank computes while it sends. */
static void add_all_reduced_number(Program *program, OpEditor *editor, const Group *group, const Method *method) {
  Transfer transfer = {.group = program_group(program, group),
                       .source = -1,
                       .target = -1,
                       .collective = COLLECTIVE_ALL_REDUCE,
                       .bytes = sizeof(float)};
  Op op = op_new(OP_COLLECTIVE, STREAM_DP, ACTION_NORM, -1, -1);
  op.work = program_transfer(program, &transfer);
  add_after_last(&op, editor, STREAM_COMPUTE);
  add_after_last(&op, editor, STREAM_TP);
  if (method != NULL)
    lowering_await_sends(&op, editor, method);
  op_editor_add(editor, &op);
}

static void add_norm(Program *program, OpEditor *editor, const Workload *workload) {
  AxisSet axes = AXIS_BIT(AXIS_TP);
  if (lowering_shards(workload) > 1)
    axes |= AXIS_BIT_DP_SHARD | (workload->method->cp > 1 ? AXIS_BIT(AXIS_CP) : 0);
  if (workload->method->ep > 1)
    axes |= AXIS_BIT(AXIS_EP);
  if (!workload->method->grad_norm_barrier || servers_are_used(&workload->method->servers) ||
      layout_group_size(&workload->layout, axes) * program->n_ranks == 1)
    return;
  Group group = {.name = "world",
                 .axes = axes,
                 .spans_pp = program->n_ranks > 1,
                 .pp_first = -1,
                 .pp_last = -1,
                 .charge = AXIS_PP};
  add_all_reduced_number(program, editor, &group, workload->method);
}

static void add_optimizer(Program *program, OpEditor *editor, const Lowering *lowering, int rank) {
  Work work = {.phase = PHASE_OPTIMIZER,
               .stage = -1,
               .piece = -1,
               .first_item = -1,
               .last_item = -1,
               .owner = rank,
               .parameters = optimizer_parameters(lowering->workload, rank),
               .passed = optimizer_passed(lowering->workload, rank)};
  Op op = op_new(OP_COMPUTE, STREAM_COMPUTE, ACTION_OPTIMIZER, -1, -1);
  op.work = program_work(program, &work);
  add_after_last(&op, editor, STREAM_DP);
  add_after_last(&op, editor, STREAM_TP);
  lowering_await_sends(&op, editor, lowering->workload->method);
  op_editor_add(editor, &op);
}

/* Assumes that all owners have equal parts. */
static void add_broadcasts(Program *program, OpEditor *editor, const Workload *workload, int stage,
                           const Moved *moved) {
  const int owners = lowering_owners(workload, stage, moved->of_experts);
  const DpCollective broadcast = {ACTION_UNSHARD, stage, COLLECTIVE_BROADCAST, AXIS_BIT_DP_SHARD, SIZE_WEIGHTS, stage};
  for (int i = 0; i < owners; i++) {
    Op op = dp_collective(program, workload, &broadcast, moved);
    add_after_last(&op, editor, STREAM_COMPUTE);
    op_editor_add(editor, &op);
  }
}

static void add_gather(Program *program, OpEditor *editor, const Workload *workload, int stage, gboolean of_experts) {
  const Moved moved = {part_of_stage(workload, stage), PIECE_EMBEDDING, of_experts};
  if (lowering_broadcasts_weights(workload)) {
    add_broadcasts(program, editor, workload, stage, &moved);
    return;
  }
  const DpCollective gather = {ACTION_UNSHARD, stage, COLLECTIVE_ALL_GATHER, AXIS_BIT_DP_SHARD, SIZE_WEIGHTS, -1};
  Op op = dp_collective(program, workload, &gather, &moved);
  add_after_last(&op, editor, STREAM_COMPUTE);
  op_editor_add(editor, &op);
}

static void add_gathers_of_all(Program *program, OpEditor *editor, const Lowering *lowering, int rank) {
  const Workload *workload = lowering->workload;
  for (int stage = 0; stage < program->n_stages; stage++) {
    if (lowering->order->placement->stage_rank[stage] != rank)
      continue;
    const StageWork *work = &workload->stages[stage];
    if (lowering_shards(workload) > 1 && work->trained > work->trained_experts)
      add_gather(program, editor, workload, stage, FALSE);
    if (lowering_expert_shards(workload) > 1 && work->trained_experts > 0)
      add_gather(program, editor, workload, stage, TRUE);
  }
}

static void add_gathers(Program *program, OpEditor *editor, const Lowering *lowering, int rank) {
  const Workload *workload = lowering->workload;
  const int zero = workload->method->zero;
  if (!zero_shards_optimizer(zero) || zero_shards_weights(zero) || lowering_gathers_early(workload) ||
      !lowering_is_sharded(workload))
    return;
  for (int i = 0; i < lowering_optimizers(workload); i++)
    add_gathers_of_all(program, editor, lowering, rank);
}

/* Each is as wide as the model, by assumption: their time is latency. */
static void add_kept_vectors(Program *program, OpEditor *editor, const Lowering *lowering, int rank) {
  const Workload *workload = lowering->workload;
  int n = 0;
  for (int stage = 0; stage < program->n_stages; stage++)
    if (lowering->order->placement->stage_rank[stage] == rank)
      n += lowering_kept_vectors(workload, stage);
  if (n == 0)
    return;
  const Group group = dp_group(workload, AXIS_BIT_DP_SHARD);
  Transfer transfer = {.group = program_group(program, &group),
                       .source = -1,
                       .target = -1,
                       .collective = COLLECTIVE_ALL_GATHER,
                       .bytes = n * workload->method->recipe.weights * (double)workload->model->hidden,
                       .n_calls = n};
  Op op = op_new(OP_COLLECTIVE, STREAM_DP, ACTION_KEPT, -1, -1);
  op.work = program_transfer(program, &transfer);
  add_after_last(&op, editor, STREAM_COMPUTE);
  op_editor_add(editor, &op);
}

static void add_sync(OpEditor *editor) {
  Op op = op_new(OP_HOST, STREAM_HOST, ACTION_SYNC, -1, -1);
  add_after_last(&op, editor, STREAM_COMPUTE);
  add_after_last(&op, editor, STREAM_DP);
  op_editor_add(editor, &op);
}

/* In a bare order, a step ends on all ranks at once. */
static void add_barriers(Program *program) {
  Group group = {.name = "world", .spans_pp = TRUE, .pp_first = -1, .pp_last = -1, .charge = AXIS_PP};
  for (int rank = 0; rank < program->n_ranks; rank++) {
    OpEditor editor;
    op_editor_init_behind(&editor, &program->ranks[rank]);
    add_all_reduced_number(program, &editor, &group, NULL);
    add_sync(&editor);
    op_editor_finish(&editor);
  }
}

void pass_optimizer(Program *program, const Lowering *lowering) {
  if (lowering->workload == NULL) {
    if (lowering->barrier && program->n_ranks > 1)
      add_barriers(program);
    return;
  }
  for (int rank = 0; rank < program->n_ranks; rank++) {
    OpEditor editor;
    op_editor_init_behind(&editor, &program->ranks[rank]);
    add_tied_gradient(program, &editor, lowering, rank);
    add_copied_gradients(program, &editor, lowering, rank);
    add_whole_gradients(program, &editor, lowering, rank);
    add_norm(program, &editor, lowering->workload);
    add_optimizer(program, &editor, lowering, rank);
    add_gathers(program, &editor, lowering, rank);
    add_kept_vectors(program, &editor, lowering, rank);
    add_sync(&editor);
    op_editor_finish(&editor);
  }
  add_servers(program, lowering);
}
