/* Small Programs written op by op, each op with the time it takes: what tests of executors and of reports run. */
#pragma once
#include "timing.h"

typedef struct {
  Program *program;
  GArray **ops;      /* [ranks] of Op, until hand_finish() */
  GArray *works;     /* of OpTime */
  GArray *transfers; /* of OpTime */
  Timing timing;
} Hand;

static inline void hand_init(Hand *hand, int n_ranks) {
  *hand = (Hand){.program = program_new(n_ranks, n_ranks, 1),
                 .ops = g_new(GArray *, n_ranks),
                 .works = g_array_new(FALSE, FALSE, sizeof(OpTime)),
                 .transfers = g_array_new(FALSE, FALSE, sizeof(OpTime))};
  for (int rank = 0; rank < n_ranks; rank++)
    hand->ops[rank] = g_array_new(FALSE, FALSE, sizeof(Op));
}

/* Hand the lists to the program and the times to the timing: the program can run. */
static inline void hand_finish(Hand *hand) {
  for (int rank = 0; rank < hand->program->n_ranks; rank++) {
    OpList *list = &hand->program->ranks[rank];
    list->n_ops = hand->ops[rank]->len;
    list->ops = (Op *)(void *)g_array_free(hand->ops[rank], FALSE);
  }
  g_clear_pointer(&hand->ops, g_free);
  hand->timing.n_works = hand->works->len;
  hand->timing.works = (OpTime *)(void *)hand->works->data;
  hand->timing.n_transfers = hand->transfers->len;
  hand->timing.transfers = (OpTime *)(void *)hand->transfers->data;
}

/* After hand_finish(). */
static inline void hand_clear(Hand *hand) {
  program_free(hand->program);
  g_array_unref(hand->works);
  g_array_unref(hand->transfers);
}

static inline Op *hand_op(Hand *hand, int rank, int op) {
  return &g_array_index(hand->ops[rank], Op, op);
}

static inline int hand_add(Hand *hand, int rank, Op op) {
  g_array_append_val(hand->ops[rank], op);
  return hand->ops[rank]->len - 1;
}

/* A kernel that the host launches in no time. */
static inline OpTime hand_kernel(gint64 run_ns) {
  return (OpTime){.run_ns = run_ns, .tail_ns = run_ns};
}

/* Index of a new work that takes `time`. Equal times make different works. */
static inline int hand_work(Hand *hand, OpTime time) {
  Work work = {.phase = PHASE_F, .piece = -1, .first_item = -1, .last_item = -1, .stage = (gint32)hand->works->len};
  g_array_append_val(hand->works, time);
  return program_work(hand->program, &work);
}

/* Index of the transfer; its time is that of the first asker. */
static inline int hand_transfer(Hand *hand, Transfer transfer, OpTime time) {
  int index = program_transfer(hand->program, &transfer);
  if (index == (int)hand->transfers->len)
    g_array_append_val(hand->transfers, time);
  return index;
}

static inline int hand_compute(Hand *hand, int rank, OpTime time) {
  Op op = op_new(OP_COMPUTE, STREAM_COMPUTE, ACTION_F, rank, 0);
  op.work = hand_work(hand, time);
  return hand_add(hand, rank, op);
}

static inline int hand_host(Hand *hand, int rank) {
  return hand_add(hand, rank, op_new(OP_HOST, STREAM_HOST, ACTION_SYNC, -1, -1));
}

static inline int hand_send(Hand *hand, int rank, int peer, int tag, double bytes, OpTime time) {
  Op op = op_new(OP_SEND, STREAM_SEND_F, ACTION_SEND_F, rank, 0);
  op.peer = peer;
  op.tag = tag;
  op.work = hand_transfer(hand, (Transfer){.group = -1, .source = rank, .target = peer, .bytes = bytes}, time);
  return hand_add(hand, rank, op);
}

static inline int hand_receive(Hand *hand, int rank, int peer, int tag, double bytes, OpTime time) {
  Op op = op_new(OP_RECV, STREAM_RECV_F, ACTION_RECV_F, rank, 0);
  op.peer = peer;
  op.tag = tag;
  op.work = hand_transfer(hand, (Transfer){.group = -1, .source = peer, .target = rank, .bytes = bytes}, time);
  return hand_add(hand, rank, op);
}

static inline int hand_collective(Hand *hand, int rank, Stream stream, Group group, OpTime time) {
  Op op = op_new(OP_COLLECTIVE, stream, ACTION_REDUCE_GRAD, -1, -1);
  Transfer transfer = {.group = program_group(hand->program, &group),
                       .source = -1,
                       .target = -1,
                       .collective = COLLECTIVE_ALL_REDUCE,
                       .bytes = (double)time.run_ns}; /* so that different times are different transfers */
  op.work = hand_transfer(hand, transfer, time);
  return hand_add(hand, rank, op);
}

static inline void hand_after(Hand *hand, int rank, int op, int before) {
  op_add_after(hand_op(hand, rank, op), before);
}

/* One action of a pipeline: receive, compute, send, each after the one before it; −1: nobody to receive from or send
 * to.
 */
static inline void hand_action(Hand *hand, int rank, ActionKind kind, int micro_batch, int work, int from, int to) {
  gboolean forward = kind == ACTION_F;
  int received = -1;
  if (from >= 0) {
    received = hand_receive(hand, rank, from, 2 * micro_batch + forward, 0, (OpTime){0});
    hand_op(hand, rank, received)->stream = forward ? STREAM_RECV_F : STREAM_RECV_B;
  }
  Op op = op_new(OP_COMPUTE, STREAM_COMPUTE, kind, rank, micro_batch);
  op.work = work;
  op_add_after(&op, received);
  int computed = hand_add(hand, rank, op);
  if (to >= 0) {
    int sent = hand_send(hand, rank, to, 2 * micro_batch + forward, 0, (OpTime){0});
    hand_op(hand, rank, sent)->stream = forward ? STREAM_SEND_F : STREAM_SEND_B;
    hand_after(hand, rank, sent, computed);
  }
}

/* 1F1B over the program's ranks: rank r runs min(p − 1 − r, m) forwards, then forward and backward in turn, then the
 * backwards that are left. */
static inline void hand_1f1b(Hand *hand, int n_micro_batches, gint64 f_ns, gint64 b_ns) {
  int p = hand->program->n_ranks, m = n_micro_batches;
  int f_work = hand_work(hand, hand_kernel(f_ns)), b_work = hand_work(hand, hand_kernel(b_ns));
  hand->program->n_micro_batches = m;
  for (int rank = 0; rank < p; rank++) {
    int before = rank - 1, behind = rank + 1 < p ? rank + 1 : -1;
    int warm_up = MIN(p - 1 - rank, m);
    for (int i = 0; i < warm_up; i++)
      hand_action(hand, rank, ACTION_F, i, f_work, before, behind);
    for (int i = warm_up; i < m; i++) {
      hand_action(hand, rank, ACTION_F, i, f_work, before, behind);
      hand_action(hand, rank, ACTION_B, i - warm_up, b_work, behind, before);
    }
    for (int i = m - warm_up; i < m; i++)
      hand_action(hand, rank, ACTION_B, i, b_work, behind, before);
  }
}
