/* send_recv: activations go to the next stage, gradients to the previous one, if those are on other ranks.
 *
 * The order is run dry, in abstract time (a piece's forward 1, its backward 2), always advancing the rank whose next
 * op can start first. When an op that produces something is scheduled, its send is placed right after it, and the
 * receive is placed on the peer's list at the same moment. So the sends and receives of all pairs of ranks follow one
 * global order, and cannot wait for each other in a cycle (as in PyTorch's _add_send_recv).
 *
 * Without overlap (overlap_p2p off) the sender's next op also waits for the send; if the runtime is known to exchange
 * at certain points, the same is done here (exchange.c).
 *
 * An order that names its own sends and receives is only translated: they stay where they are.
 *
 * A pair that runs as one (OVERLAP_F_B) starts when both inputs have arrived, and sends both results at its end. */
#include "lowering.h"

static const gint64 NEVER = G_MAXINT64;

/* The input of one (stage, micro-batch) in one direction. */
typedef struct {
  gint64 time;  /* abstract time of its arrival; −1 not yet */
  gint32 index; /* the receive in the consumer's new list; −1: produced on the same rank, or not yet placed */
} Arrival;

typedef struct {
  OpEditor editor;
  int cursor;               /* next old op */
  gint64 time;              /* end of the last op */
  gint64 start;             /* when its next op could start (next_start()) */
  const Arrival *inputs[2]; /* what the next op waits for (inputs_of()) */
  Op held;                  /* a pair's forward, until its backward has ended */
  gint32 sends[2];          /* sends of the last action, or of the last two if a pair: new indices */
  int n_sends;
} DryRank;

typedef struct {
  Program *program;
  const Order *order;
  ProductTransfers transfers;
  gboolean overlaps; /* ranks compute while they send */
  DryRank *ranks;
  Arrival *arrivals; /* [stage][micro-batch][2]: activation, gradient */
} DryRun;

static gboolean is_forward(const Op *op) {
  return op->action == ACTION_F;
}

static Arrival *arrival_of(const DryRun *run, int stage, int micro_batch, gboolean forward) {
  return &run->arrivals[((gsize)stage * run->program->n_micro_batches + micro_batch) * 2 + (forward ? 0 : 1)];
}

/* The first part of the backward that runs as one with the forward at `index`; NULL if none does. */
static const Op *second_of_pair(const OpList *list, int index) {
  const Op *first = &list->ops[index];
  if (!first->overlapped || !is_forward(first))
    return NULL;
  for (int i = index + 1; i < list->n_ops; i++)
    if (list->ops[i].kind == OP_COMPUTE && op_begins_action(list, i))
      return &list->ops[i];
  return NULL;
}

/* Abstract duration. */
static gint64 weight_of(const DryRun *run, const Op *op) {
  Part part = part_of_op(run->program, op);
  int pieces = part.n_embedding + part.n_layers + part.n_head;
  return MAX(pieces, 1) * (op->action == ACTION_B ? 2 : 1);
}

/* The input that an op waits for before its first part; NULL if none (first stage's F, W, last stage's backward). */
static const Arrival *input_of(const DryRun *run, const Op *op) {
  if (op->action == ACTION_W)
    return NULL;
  if (stage_next(op->stage, !is_forward(op), run->program->n_stages, run->program->n_pipes) < 0)
    return NULL;
  return arrival_of(run, op->stage, op->micro_batch, is_forward(op));
}

/* The inputs of the old op at `index`: its own if it begins an action, of both if it begins a pair. NULL: none. */
static void inputs_of(const DryRun *run, const OpList *list, int index, const Arrival *inputs[2]) {
  inputs[0] = inputs[1] = NULL;
  if (index >= list->n_ops || list->ops[index].kind != OP_COMPUTE || !op_begins_action(list, index))
    return;
  const Op *second = second_of_pair(list, index);
  inputs[0] = input_of(run, &list->ops[index]);
  inputs[1] = second != NULL ? input_of(run, second) : NULL;
}

/* Abstract time at which a rank's next op can start; NEVER while its input is not scheduled, or if no op is left. */
static gint64 next_start(const DryRun *run, int rank) {
  const DryRank *dry = &run->ranks[rank];
  if (dry->cursor >= run->program->ranks[rank].n_ops)
    return NEVER;
  gint64 start = dry->time;
  for (gsize i = 0; i < G_N_ELEMENTS(dry->inputs); i++)
    if (dry->inputs[i] != NULL)
      start = dry->inputs[i]->time < 0 ? NEVER : MAX(start, dry->inputs[i]->time);
  return start;
}

/* Prepares the op at the rank's cursor. */
static void look_ahead(DryRun *run, int rank) {
  DryRank *dry = &run->ranks[rank];
  inputs_of(run, &run->program->ranks[rank], dry->cursor, dry->inputs);
  dry->start = next_start(run, rank);
}

/* Passes on the result of an F, I or B, available at `end`, when the op at `index` has ended. */
static void publish(DryRun *run, int rank, const Op *producer, gint32 index, gint64 end) {
  if (producer->action == ACTION_W)
    return;
  Product product = product_of(run->program, run->order, is_forward(producer), producer->stage, producer->micro_batch);
  if (product.target_stage < 0)
    return;
  Arrival *arrival = arrival_of(run, product.target_stage, producer->micro_batch, product.forward);
  *arrival = (Arrival){end, -1};
  if (product.to == rank)
    return;
  DryRank *dry = &run->ranks[rank], *target = &run->ranks[product.to];
  Op *send = op_editor_new_op(&dry->editor);
  product_transfer(&run->transfers, TRUE, &product, send);
  op_add_after(send, index);
  g_assert(dry->n_sends < (int)G_N_ELEMENTS(dry->sends));
  dry->sends[dry->n_sends++] = dry->editor.n_ops - 1;
  product_transfer(&run->transfers, FALSE, &product, op_editor_new_op(&target->editor));
  arrival->index = target->editor.n_ops - 1;
  run->ranks[product.to].start = next_start(run, product.to);
}

/* The last part of an action has ended. In a pair, the forward's result waits for the backward's end. */
static void finish_action(DryRun *run, int rank, const Op *op, gint32 index) {
  DryRank *dry = &run->ranks[rank];
  if (op->overlapped && is_forward(op)) {
    dry->held = *op;
    return;
  }
  if (op->overlapped)
    publish(run, rank, &dry->held, index, dry->time);
  publish(run, rank, op, index, dry->time);
}

/* Makes `op` wait for these receives. */
static void add_inputs(Op *op, const Arrival *const inputs[2]) {
  for (int i = 0; i < 2; i++)
    if (inputs[i] != NULL)
      op_add_after(op, inputs[i]->index);
}

/* Without overlap, a rank continues only when its sends have completed. */
static void await_sends(const DryRun *run, DryRank *dry, Op *op) {
  for (int i = 0; i < dry->n_sends && !run->overlaps; i++)
    op_add_after(op, dry->sends[i]);
  dry->n_sends = 0;
}

static void advance(DryRun *run, int rank, gint64 start) {
  DryRank *dry = &run->ranks[rank];
  const OpList *list = &run->program->ranks[rank];
  int old_index = dry->cursor++;
  const Op *old = &list->ops[old_index];
  Op *op = op_editor_copy_op(&dry->editor, old_index);
  if (old->kind != OP_COMPUTE)
    return;
  add_inputs(op, dry->inputs);
  await_sends(run, dry, op);
  dry->time = start + weight_of(run, old);
  if (op_ends_action(list, old_index))
    finish_action(run, rank, old, dry->editor.n_ops - 1);
}

/* Advances the rank that can start first until none can. Any ops left are copied as they are, and the verifier
 * reports what is wrong with them. What a rank waits for changes only when it advances itself, or another rank
 * publishes something for it. */
static void run_dry(DryRun *run) {
  for (int rank = 0; rank < run->program->n_ranks; rank++)
    look_ahead(run, rank);
  for (;;) {
    int best = -1;
    gint64 best_start = NEVER;
    for (int rank = 0; rank < run->program->n_ranks; rank++) {
      if (run->ranks[rank].start < best_start) {
        best = rank;
        best_start = run->ranks[rank].start;
      }
    }
    if (best < 0)
      break;
    advance(run, best, best_start);
    look_ahead(run, best);
  }
  for (int rank = 0; rank < run->program->n_ranks; rank++)
    while (run->ranks[rank].cursor < run->program->ranks[rank].n_ops)
      op_editor_copy(&run->ranks[rank].editor, run->ranks[rank].cursor++);
}

/* --- an order that places its own transfers --- */

/* Where one rank's products are made, as indices into its new list: [stage][micro-batch][2], like arrivals. */
typedef struct {
  gint32 *made;  /* −1: not yet; owned */
  gint32 held_f; /* a pair's forward while its backward is being copied, as an index into made; −1: none */
} Told;

static gsize entry_of(const DryRun *run, int stage, int micro_batch, gboolean forward) {
  return (gsize)(arrival_of(run, stage, micro_batch, forward) - run->arrivals);
}

/* Fills in the transfer of a place. */
static Op told_transfer(DryRun *run, const Told *told, const Op *place) {
  gboolean forward = place->action == ACTION_SEND_F || place->action == ACTION_RECV_F;
  gboolean sends = place->kind == OP_SEND;
  int stage = place->stage;
  if (!sends)
    stage = stage_next(stage, !forward, run->program->n_stages, run->program->n_pipes);
  Product product = product_of(run->program, run->order, forward, stage, place->micro_batch);
  Op op;
  product_transfer(&run->transfers, sends, &product, &op);
  if (sends)
    op_add_after(&op, told->made[entry_of(run, stage, place->micro_batch, forward)]);
  return op;
}

static void note_made(const DryRun *run, Told *told, const Op *op, gint32 index) {
  if (op->action == ACTION_W)
    return;
  gsize entry = entry_of(run, op->stage, op->micro_batch, is_forward(op));
  told->made[entry] = index;
  if (op->overlapped && is_forward(op))
    told->held_f = (gint32)entry;
  else if (op->overlapped && told->held_f >= 0)
    told->made[told->held_f] = index;
}

static void translate_rank(DryRun *run, Told *told, int rank) {
  OpEditor *editor = &run->ranks[rank].editor;
  const OpList *list = &run->program->ranks[rank];
  told->held_f = -1;
  for (int i = 0; i < list->n_ops; i++) {
    const Op *old = &list->ops[i];
    gboolean is_place = old->kind == OP_SEND || old->kind == OP_RECV;
    Op op = is_place ? told_transfer(run, told, old) : op_editor_translate(editor, i);
    const Arrival *inputs[2];
    inputs_of(run, list, i, inputs);
    add_inputs(&op, inputs);
    gint32 index = op_editor_add(editor, &op);
    op_editor_set_moved(editor, i, index);
    if (op.kind == OP_COMPUTE)
      note_made(run, told, &op, index);
    if (op.kind == OP_RECV)
      arrival_of(run, op.stage, op.micro_batch, op.action == ACTION_RECV_F)->index = index;
  }
}

static void translate(DryRun *run, gsize n_arrivals) {
  Told told = {.made = g_new(gint32, n_arrivals)};
  for (gsize i = 0; i < n_arrivals; i++)
    told.made[i] = -1;
  for (int rank = 0; rank < run->program->n_ranks; rank++)
    translate_rank(run, &told, rank);
  g_free(told.made);
}

static void dry_rank_init(DryRank *dry, OpList *list) {
  *dry = (DryRank){0};
  op_editor_init(&dry->editor, list);
}

void pass_send_recv(Program *program, const Lowering *lowering) {
  if (program->n_stages == 1)
    return;
  DryRun run = {.program = program,
                .order = lowering->order,
                .overlaps = lowering->workload == NULL || lowering->workload->method->overlap_p2p};
  if (!run.overlaps && run.order->exchange != EXCHANGE_ALONE) {
    exchange_send_recv(program, run.order, lowering->workload);
    return;
  }
  product_transfers_init(&run.transfers, program, lowering->workload);
  gsize n_arrivals = (gsize)program->n_stages * program->n_micro_batches * 2;
  run.arrivals = g_new(Arrival, n_arrivals);
  for (gsize i = 0; i < n_arrivals; i++)
    run.arrivals[i] = (Arrival){-1, -1};
  run.ranks = g_new0(DryRank, program->n_ranks);
  for (int rank = 0; rank < program->n_ranks; rank++)
    dry_rank_init(&run.ranks[rank], &program->ranks[rank]);
  if (lowering->order->has_send_recv)
    translate(&run, n_arrivals);
  else
    run_dry(&run);
  for (int rank = 0; rank < program->n_ranks; rank++)
    op_editor_finish(&run.ranks[rank].editor);
  product_transfers_clear(&run.transfers);
  g_free(run.ranks);
  g_free(run.arrivals);
}
