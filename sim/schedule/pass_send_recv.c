/* send_recv: activations go to the next stage, gradients to the stage before, where those live on other ranks.
 *
 * The order is run dry, in abstract time (a piece's forward 1, its backward 2), always advancing the rank that can
 * start its next op first. When an op that produces something is scheduled, its send is placed right after it and the
 * receive on the peer's list at that same moment: so sends and receives of every pair of ranks stand in one global
 * order, and none can wait for another in a circle (as PyTorch's _add_send_recv does it). */
#include "lowering.h"

/* What one (stage, micro-batch) waits for in one direction. */
typedef struct {
  gint64 time;  /* abstract time it is there; −1 not yet */
  gint32 index; /* the receive in the consumer's new list; −1: produced on the same rank */
} Arrival;

typedef struct {
  OpEditor editor;
  int cursor;  /* next old op */
  gint64 time; /* end of the last op */
} DryRank;

typedef struct {
  Program *program;
  const Order *order;
  double boundary_bytes;
  DryRank *ranks;
  Arrival *arrivals; /* [stage][micro-batch][2]: activation, gradient */
} DryRun;

static gboolean is_forward(const Op *op) {
  return op->action == ACTION_F;
}

static Arrival *arrival_of(const DryRun *run, int stage, int micro_batch, gboolean forward) {
  return &run->arrivals[((gsize)stage * run->program->n_micro_batches + micro_batch) * 2 + (forward ? 0 : 1)];
}

static gboolean same_action(const Op *a, const Op *b) {
  return a->kind == OP_COMPUTE && b->kind == OP_COMPUTE && a->action == b->action && a->stage == b->stage &&
         a->micro_batch == b->micro_batch;
}

/* Parts of one action stand together, with gathers between them. */
static gboolean is_last_part(const OpList *list, int index) {
  for (int i = index + 1; i < list->n_ops; i++)
    if (list->ops[i].kind == OP_COMPUTE)
      return !same_action(&list->ops[index], &list->ops[i]);
  return TRUE;
}

static gboolean is_first_part(const OpList *list, int index) {
  for (int i = index - 1; i >= 0; i--)
    if (list->ops[i].kind == OP_COMPUTE)
      return !same_action(&list->ops[index], &list->ops[i]);
  return TRUE;
}

/* Abstract duration. */
static gint64 weight_of(const DryRun *run, const Op *op) {
  Part part = part_of_op(run->program, op);
  int pieces = part.n_embedding + part.n_layers + part.n_head;
  return MAX(pieces, 1) * (op->action == ACTION_B ? 2 : 1);
}

/* The input an op waits for before its first part: NULL when there is none (first stage's F, W, last stage's backward).
 */
static const Arrival *input_of(const DryRun *run, const Op *op) {
  if (op->action == ACTION_W)
    return NULL;
  if (stage_next(op->stage, !is_forward(op), run->program->n_stages, run->program->n_pipes) < 0)
    return NULL;
  return arrival_of(run, op->stage, op->micro_batch, is_forward(op));
}

/* Abstract time at which a rank's next op could start; −1 when its input has not been scheduled or nothing is left. */
static gint64 next_start(const DryRun *run, int rank) {
  const DryRank *dry = &run->ranks[rank];
  const OpList *list = &run->program->ranks[rank];
  if (dry->cursor >= list->n_ops)
    return -1;
  const Op *op = &list->ops[dry->cursor];
  if (op->kind != OP_COMPUTE || !is_first_part(list, dry->cursor))
    return dry->time;
  const Arrival *input = input_of(run, op);
  if (input == NULL)
    return dry->time;
  return input->time < 0 ? -1 : MAX(dry->time, input->time);
}

/* Activations usually go to the next rank (round the loop), gradients to the one before. */
static Stream send_stream(const DryRun *run, gboolean forward, int from, int to) {
  int usual = forward ? (from + 1) % run->program->n_ranks : (to + 1) % run->program->n_ranks;
  gboolean is_usual = forward ? to == usual : from == usual;
  if (forward)
    return is_usual ? STREAM_SEND_F : STREAM_SEND_F_BACK;
  return is_usual ? STREAM_SEND_B : STREAM_SEND_B_BACK;
}

/* The lane at the other end of a send's. */
static Stream stream_of_receive(Stream send) {
  return send + 1;
}

static Op transfer_op(DryRun *run, gboolean sends, const Op *producer, int target_stage, int from, int to) {
  gboolean forward = is_forward(producer);
  Transfer transfer = {
      .group = -1, .source = from, .target = to, .collective = COLLECTIVE_SEND_RECV, .bytes = run->boundary_bytes};
  Stream stream = send_stream(run, forward, from, to);
  if (!sends)
    stream = stream_of_receive(stream);
  ActionKind action = sends ? (forward ? ACTION_SEND_F : ACTION_SEND_B) : (forward ? ACTION_RECV_F : ACTION_RECV_B);
  Op op =
      op_new(sends ? OP_SEND : OP_RECV, stream, action, sends ? producer->stage : target_stage, producer->micro_batch);
  op.work = program_transfer(run->program, &transfer);
  op.peer = sends ? to : from;
  op.tag = (target_stage * run->program->n_micro_batches + producer->micro_batch) * 2 + (forward ? 0 : 1);
  return op;
}

/* The last part of an F, I or B is done at `end`: pass its product on. */
static void publish(DryRun *run, int rank, const Op *producer, gint32 index, gint64 end) {
  if (producer->action == ACTION_W)
    return;
  int target_stage = stage_next(producer->stage, is_forward(producer), run->program->n_stages, run->program->n_pipes);
  if (target_stage < 0)
    return;
  int to = run->order->placement->stage_rank[target_stage];
  Arrival *arrival = arrival_of(run, target_stage, producer->micro_batch, is_forward(producer));
  *arrival = (Arrival){end, -1};
  if (to == rank)
    return;
  Op send = transfer_op(run, TRUE, producer, target_stage, rank, to);
  op_add_after(&send, index);
  op_editor_add(&run->ranks[rank].editor, &send);
  Op receive = transfer_op(run, FALSE, producer, target_stage, rank, to);
  arrival->index = op_editor_add(&run->ranks[to].editor, &receive);
}

static void advance(DryRun *run, int rank, gint64 start) {
  DryRank *dry = &run->ranks[rank];
  const OpList *list = &run->program->ranks[rank];
  int old_index = dry->cursor++;
  Op op = op_editor_translate(&dry->editor, old_index);
  if (op.kind == OP_COMPUTE && is_first_part(list, old_index)) {
    const Arrival *input = input_of(run, &op);
    if (input != NULL && input->index >= 0)
      op_add_after(&op, input->index);
  }
  gint32 index = op_editor_add(&dry->editor, &op);
  op_editor_set_moved(&dry->editor, old_index, index);
  if (op.kind != OP_COMPUTE)
    return;
  dry->time = start + weight_of(run, &op);
  if (is_last_part(list, old_index))
    publish(run, rank, &op, index, dry->time);
}

/* Advance the rank that can start first until nothing is left or nothing can go on; then the rest is copied as it
 * stands, and the verifier says what is wrong with it. */
static void run_dry(DryRun *run) {
  for (;;) {
    int best = -1;
    gint64 best_start = 0;
    for (int rank = 0; rank < run->program->n_ranks; rank++) {
      gint64 start = next_start(run, rank);
      if (start >= 0 && (best < 0 || start < best_start)) {
        best = rank;
        best_start = start;
      }
    }
    if (best < 0)
      break;
    advance(run, best, best_start);
  }
  for (int rank = 0; rank < run->program->n_ranks; rank++)
    while (run->ranks[rank].cursor < run->program->ranks[rank].n_ops)
      op_editor_copy(&run->ranks[rank].editor, run->ranks[rank].cursor++);
}

void pass_send_recv(Program *program, const Lowering *lowering) {
  if (program->n_stages == 1)
    return;
  DryRun run = {.program = program,
                .order = lowering->order,
                .boundary_bytes = lowering->workload != NULL ? lowering->workload->boundary_bytes : 0};
  gsize n_arrivals = (gsize)program->n_stages * program->n_micro_batches * 2;
  run.arrivals = g_new(Arrival, n_arrivals);
  for (gsize i = 0; i < n_arrivals; i++)
    run.arrivals[i] = (Arrival){-1, -1};
  run.ranks = g_new0(DryRank, program->n_ranks);
  for (int rank = 0; rank < program->n_ranks; rank++)
    op_editor_init(&run.ranks[rank].editor, &program->ranks[rank]);
  run_dry(&run);
  for (int rank = 0; rank < program->n_ranks; rank++)
    op_editor_finish(&run.ranks[rank].editor);
  g_free(run.ranks);
  g_free(run.arrivals);
}
