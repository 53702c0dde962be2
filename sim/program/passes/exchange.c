/* Sends and receives of a runtime that waits for them: between two rounds of compute, a rank exchanges in one go its
 * results for its next inputs, and continues when all transfers are done.
 *
 *     pairs    a round is one action (1f1b)
 *
 *              F │ send F, receive B │ B │ send B, receive F │ F       one batch with one neighbour
 *              F │ send F │ receive F │ F                              one after the other: two neighbours
 *
 *     rounds   a round is a forward and the backward right after it, or one action if there is none to pair it with
 *              (interleaved)
 *
 *              F B │ send F, send B, receive F, receive B │ F B        one batch with both neighbours
 *
 * No receive is posted before the round ahead of it has ended, so a sender waits for its neighbour's round. Source:
 * Megatron-LM, megatron/core/pipeline_parallel/schedules.py and p2p_communication.py (core 0.3 to 0.12) without
 * overlap_p2p_comm: batch_isend_irecv over up to four tensors, then a wait for each.
 *
 * A receive is normally placed before the round that needs it. But activations that wrap around from the last rank to
 * the first (gradients: from the first to the last) are sent p rounds before they can be needed. If groups of
 * micro-batches are larger than p, they are needed even later, and receiving them only then would block the sender.
 * Such a receive is placed earlier, by as many rounds as the group has micro-batches beyond p.
 *
 * With a framework whose sends are synchronous, the host waits for the exchange and for all compute before it
 * (torch.cuda.synchronize() after batch_isend_irecv in p2p_communication.py of Megatron-LM up to core 0.3): it cannot
 * issue one round ahead. */
#include "lowering.h"

/* Position of an action on its rank. */
typedef struct {
  gint32 round;
  gint32 ordinal; /* among the rank's forwards, or among its backwards */
} Place;

/* One transfer of an exchange. */
typedef struct {
  gint32 round; /* the exchange is before this round; n_rounds: after the last */
  gint32 target_stage, stage, micro_batch;
  guint8 forward;
} Move;

/* Kinds of moves of a rank, each listed in the order of rounds. */
typedef enum { MOVE_SEND, MOVE_RECEIVE_F, MOVE_RECEIVE_B, N_MOVES } MoveKind;

typedef struct {
  OpEditor editor;
  Move *moves[N_MOVES]; /* at most one per action; owned */
  gint32 n_moves[N_MOVES];
  gint32 next[N_MOVES];                      /* first not yet placed */
  gint32 last_compute;                       /* new index; −1 none */
  gint32 first_of_exchange, end_of_exchange; /* new indices of the last exchange */
  gint32 n_batches;
} RankExchange;

typedef struct {
  Program *program;
  const Order *order;
  ProductTransfers transfers;
  gboolean is_synchronous; /* the host waits for exchanges */
  Place *places;           /* [stage][micro-batch][2]: of the forward, of the backward; owned */
  gint32 *received;        /* [stage][micro-batch][2]: new index of the receive of its input; −1: none; owned */
  RankExchange *ranks;
} Exchanges;

static gsize entry_of(const Exchanges *run, int stage, int micro_batch, gboolean forward) {
  return ((gsize)stage * run->program->n_micro_batches + micro_batch) * 2 + (forward ? 0 : 1);
}

static gboolean has_products(const Action *action) {
  return action_info(action->kind)->is_compute && action->kind != ACTION_W;
}

static void find_places(Exchanges *run, int rank) {
  const GArray *actions = run->order->actions[rank];
  gint32 round = 0, n_done[2] = {0};
  for (guint i = 0; i < actions->len; i++) {
    const Action *action = &g_array_index(actions, Action, i);
    const gboolean forward = action->kind == ACTION_F;
    if (has_products(action))
      run->places[entry_of(run, action->stage, action->micro_batch, forward)] = (Place){round, n_done[!forward]++};
    round += !action->joins_next;
  }
}

/* The round of its rank before which a product is received. */
static gint32 round_of_receive(const Exchanges *run, const Product *product) {
  const Place *made = &run->places[entry_of(run, product->stage, product->micro_batch, product->forward)];
  const Place *used = &run->places[entry_of(run, product->target_stage, product->micro_batch, product->forward)];
  return used->round - MAX(0, used->ordinal - made->ordinal - run->program->n_ranks);
}

static void add_move(RankExchange *own, MoveKind kind, const Move *move) {
  own->moves[kind][own->n_moves[kind]++] = *move;
}

static void add_moves(Exchanges *run, int rank) {
  const GArray *actions = run->order->actions[rank];
  for (guint i = 0; i < actions->len; i++) {
    const Action *action = &g_array_index(actions, Action, i);
    if (!has_products(action))
      continue;
    const gboolean forward = action->kind == ACTION_F;
    Product product = product_of(run->program, run->order, forward, action->stage, action->micro_batch);
    if (product.target_stage < 0 || product.to == rank)
      continue;
    gint32 made = run->places[entry_of(run, action->stage, action->micro_batch, forward)].round;
    Move move = {made + 1, product.target_stage, product.stage, product.micro_batch, (guint8)forward};
    add_move(&run->ranks[rank], MOVE_SEND, &move);
    move.round = round_of_receive(run, &product);
    add_move(&run->ranks[product.to], forward ? MOVE_RECEIVE_F : MOVE_RECEIVE_B, &move);
  }
}

static void place_move(Exchanges *run, RankExchange *own, MoveKind kind, const Move *move) {
  Product product = product_of(run->program, run->order, move->forward, move->stage, move->micro_batch);
  Op *op = op_editor_new_op(&own->editor);
  product_transfer(&run->transfers, kind == MOVE_SEND, &product, op);
  op_add_after(op, own->last_compute);
  if (kind != MOVE_SEND)
    run->received[entry_of(run, move->target_stage, move->micro_batch, move->forward)] = own->editor.n_ops - 1;
}

static Op *new_op(const RankExchange *own, gint32 index) {
  return &own->editor.ops[index];
}

/* Whether the ops of the latest exchange are issued together. */
static gboolean is_batch(const Exchanges *run, const RankExchange *own) {
  gint32 first = own->first_of_exchange, n = own->end_of_exchange - first;
  return n > 1 &&
         (run->order->exchange == EXCHANGE_ROUNDS || new_op(own, first)->peer == new_op(own, first + n - 1)->peer);
}

/* Places the exchange before `round`. */
static void place_exchange(Exchanges *run, RankExchange *own, gint32 round) {
  own->first_of_exchange = own->editor.n_ops;
  for (MoveKind kind = 0; kind < N_MOVES; kind++)
    for (; own->next[kind] < own->n_moves[kind]; own->next[kind]++) {
      const Move *move = &own->moves[kind][own->next[kind]];
      g_assert(move->round >= round);
      if (move->round > round)
        break;
      place_move(run, own, kind, move);
    }
  own->end_of_exchange = own->editor.n_ops;
  const gboolean together = is_batch(run, own);
  for (gint32 i = own->first_of_exchange; i < own->end_of_exchange; i++)
    if (together)
      new_op(own, i)->batch = own->n_batches;
    else if (i > own->first_of_exchange)
      op_add_after(new_op(own, i), i - 1);
  own->n_batches += together;
}

/* `op` waits until the exchange is done; of several receives on one stream, for the last. */
static void await_exchange(const RankExchange *own, Op *op) {
  for (gint32 i = own->first_of_exchange; i < own->end_of_exchange; i++)
    if (i + 1 == own->end_of_exchange || new_op(own, i + 1)->stream != new_op(own, i)->stream)
      op_add_after(op, i);
}

/* The host wait between an exchange and the next round. */
static void add_wait(RankExchange *own) {
  if (own->first_of_exchange == own->end_of_exchange)
    return;
  Op op = op_new(OP_HOST, STREAM_HOST, ACTION_WAIT, -1, -1);
  await_exchange(own, &op);
  op_add_after(&op, own->last_compute);
  op_editor_add(&own->editor, &op);
}

static void add_compute(Exchanges *run, RankExchange *own, int old_index, gboolean begins_round, gboolean begins) {
  if (begins_round && run->is_synchronous)
    add_wait(own);
  Op *op = op_editor_copy_op(&own->editor, old_index);
  if (begins_round)
    await_exchange(own, op);
  if (begins && op->action != ACTION_W)
    op_add_after(op, run->received[entry_of(run, op->stage, op->micro_batch, op->action == ACTION_F)]);
  own->last_compute = own->editor.n_ops - 1;
}

static void rewrite_rank(Exchanges *run, int rank) {
  RankExchange *own = &run->ranks[rank];
  OpList *list = &run->program->ranks[rank];
  const GArray *actions = run->order->actions[rank];
  gint32 round = 0;
  guint n_begun = 0;
  op_editor_init(&own->editor, list);
  for (int i = 0; i < list->n_ops; i++) {
    if (list->ops[i].kind != OP_COMPUTE) {
      op_editor_copy(&own->editor, i);
      continue;
    }
    const gboolean begins = op_begins_action(list, i);
    const gboolean begins_round = begins && (n_begun == 0 || !g_array_index(actions, Action, n_begun - 1).joins_next);
    if (begins_round)
      place_exchange(run, own, round++);
    n_begun += begins;
    add_compute(run, own, i, begins_round, begins);
  }
  place_exchange(run, own, round);
  op_editor_finish(&own->editor);
}

void exchange_send_recv(Program *program, const Order *order, const Workload *workload) {
  const int n_ranks = program->n_ranks;
  const gsize n_entries = (gsize)program->n_stages * program->n_micro_batches * 2;
  Exchanges run = {program,
                   order,
                   .is_synchronous = workload != NULL && workload->method->time.sends == SENDS_SYNCHRONOUS,
                   .places = g_new0(Place, n_entries),
                   .received = g_new(gint32, n_entries),
                   .ranks = g_new0(RankExchange, n_ranks)};
  product_transfers_init(&run.transfers, program, workload);
  for (gsize i = 0; i < n_entries; i++)
    run.received[i] = -1;
  for (int rank = 0; rank < n_ranks; rank++) {
    run.ranks[rank].last_compute = -1;
    for (MoveKind kind = 0; kind < N_MOVES; kind++)
      run.ranks[rank].moves[kind] = g_new(Move, order->actions[rank]->len);
    find_places(&run, rank);
  }
  for (int rank = 0; rank < n_ranks; rank++)
    add_moves(&run, rank);
  for (int rank = 0; rank < n_ranks; rank++) {
    rewrite_rank(&run, rank);
    for (MoveKind kind = 0; kind < N_MOVES; kind++)
      g_free(run.ranks[rank].moves[kind]);
  }
  product_transfers_clear(&run.transfers);
  g_free(run.ranks);
  g_free(run.places);
  g_free(run.received);
}
