/* Hand-written Programs and traces, op by op, for tests of code that reads them. */
#pragma once
#include "trace.h"

typedef struct {
  Program *program;
  GArray **records; /* [ranks] of Record */
  Trace *trace;     /* NULL until hand_finish() */
} Hand;

typedef struct {
  gint64 issue_ns, start_ns, end_ns;
} Record;

static inline Hand hand_new(int n_ranks, int n_micro_batches) {
  Hand hand = {.program = program_new(n_ranks, n_ranks, n_micro_batches)};
  hand.program->n_steps = 1;
  hand.records = g_new(GArray *, n_ranks);
  for (int r = 0; r < n_ranks; r++)
    hand.records[r] = g_array_new(FALSE, FALSE, sizeof(Record));
  return hand;
}

/* Appends an op with its record to the rank's list; returns its index. */
static inline gint32 hand_add(Hand *hand, int rank, Op op, gint64 issue_ns, gint64 start_ns, gint64 end_ns) {
  OpList *list = &hand->program->ranks[rank];
  list->ops = g_renew(Op, list->ops, list->n_ops + 1);
  list->ops[list->n_ops] = op;
  Record record = {issue_ns, start_ns, end_ns};
  g_array_append_val(hand->records[rank], record);
  return list->n_ops++;
}

static inline Op hand_after(Op op, gint32 index) {
  op_add_after(&op, index);
  return op;
}

/* A compute op of the rank's own stage; `phase` and `action` as given, no pieces. */
static inline Op hand_compute(Hand *hand, int rank, Phase phase, ActionKind action, int micro_batch) {
  Op op = op_new(OP_COMPUTE, STREAM_COMPUTE, action, phase == PHASE_OPTIMIZER ? -1 : rank, micro_batch);
  Work work = {.phase = phase, .piece = -1, .first_item = -1, .last_item = -1, .stage = rank};
  op.work = program_work(hand->program, &work);
  return op;
}

static inline Op hand_send(Hand *hand, int from, int to, int tag, gboolean sends) {
  Op op = op_new(sends ? OP_SEND : OP_RECV, sends ? STREAM_SEND_F : STREAM_RECV_F,
                 sends ? ACTION_SEND_F : ACTION_RECV_F, sends ? from : to, tag);
  Transfer transfer = {.group = -1, .source = from, .target = to, .collective = COLLECTIVE_SEND_RECV, .bytes = 1 << 20};
  op.work = program_transfer(hand->program, &transfer);
  op.peer = sends ? to : from;
  op.tag = tag;
  return op;
}

static inline Op hand_collective(Hand *hand, const Group *group, Stream stream, ActionKind action, double bytes) {
  Op op = op_new(OP_COLLECTIVE, stream, action, -1, -1);
  Transfer transfer = {.group = program_group(hand->program, group),
                       .source = -1,
                       .target = -1,
                       .collective = COLLECTIVE_ALL_REDUCE,
                       .bytes = bytes};
  op.work = program_transfer(hand->program, &transfer);
  return op;
}

static inline const Trace *hand_finish(Hand *hand) {
  hand->trace = trace_new(hand->program, NULL, TRUE);
  for (int r = 0; r < hand->program->n_ranks; r++) {
    for (guint i = 0; i < hand->records[r]->len; i++) {
      const Record *record = &g_array_index(hand->records[r], Record, i);
      gsize at = hand->trace->first[r] + i;
      hand->trace->issue_ns[at] = record->issue_ns;
      hand->trace->start_ns[at] = record->start_ns;
      hand->trace->end_ns[at] = record->end_ns;
    }
  }
  return hand->trace;
}

static inline void hand_clear(Hand *hand) {
  trace_free(hand->trace);
  for (int r = 0; r < hand->program->n_ranks; r++)
    g_array_unref(hand->records[r]);
  g_free(hand->records);
  program_free(hand->program);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Hand, hand_clear)
