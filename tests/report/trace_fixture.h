/* Traces for tests of reports: a schedule's Program run as early as its rules allow, in a few lines and without the
 * engine. Transfers take `send_ns` once both sides have arrived. */
#pragma once
#include "passes.h"
#include "schedules.h"
#include "trace.h"

typedef struct {
  Order *order;
  Program *program;
  Trace *trace;
} Fixture;

typedef struct {
  gint64 compute_ns[N_ACTIONS];
  gint64 send_ns;
} FixtureTimes;

/* Ready time of op `index` of `rank`; −1 if something it waits for has not ended yet. */
static gint64 fixture_ready(const Trace *trace, int rank, int index) {
  const OpList *list = trace_list(trace, rank);
  const Op *op = &list->ops[index];
  const gint64 *end_ns = &trace->end_ns[trace->first[rank]];
  gint64 ready_ns = 0;
  for (int i = 0; i < index; i++) {
    gboolean before = list->ops[i].stream == op->stream;
    for (int k = 0; k < OP_MAX_AFTER && op->after[k] >= 0; k++)
      before = before || op->after[k] == i;
    if (before && end_ns[i] < 0)
      return -1;
    ready_ns = before ? MAX(ready_ns, end_ns[i]) : ready_ns;
  }
  return ready_ns;
}

/* Runs the op if it can run; returns whether it did. */
static gboolean fixture_step(Trace *trace, gint32 **match, const FixtureTimes *times, int rank, int index) {
  const Op *op = &trace_list(trace, rank)->ops[index];
  gsize record = trace->first[rank] + (gsize)index;
  gint64 ready_ns = trace->end_ns[record] < 0 ? fixture_ready(trace, rank, index) : -1;
  if (ready_ns < 0)
    return FALSE;
  gint64 end_ns = ready_ns + times->compute_ns[op->action];
  if (op->kind == OP_SEND || op->kind == OP_RECV) {
    gint32 other = match[rank][index];
    gint64 peer_ready_ns = fixture_ready(trace, op->peer, other);
    if (peer_ready_ns < 0)
      return FALSE;
    end_ns = MAX(ready_ns, peer_ready_ns) + times->send_ns;
  }
  trace->start_ns[record] = trace->issue_ns[record] = ready_ns;
  trace->end_ns[record] = end_ns;
  return TRUE;
}

static inline Fixture fixture_new(const char *schedule, int n_ranks, int n_chunks, int n_micro_batches,
                                  const FixtureTimes *times) {
  g_autoptr(GError) error = NULL;
  Fixture fixture = {0};
  const ScheduleFacts *info = schedule_find(schedule, &error);
  g_assert_no_error(error);
  fixture.order = order_new(info, (OrderShape){n_ranks, n_chunks, n_micro_batches, 0}, &error);
  g_assert_no_error(error);
  Lowering lowering = {.order = fixture.order, .n_steps = 1};
  fixture.program = lower(&lowering, NULL, NULL, &error);
  g_assert_no_error(error);
  fixture.trace = trace_new(fixture.program, NULL, TRUE);
  gint32 **match;
  g_assert_true(program_match(fixture.program, &match, &error));
  for (gboolean moved = TRUE; moved;) {
    moved = FALSE;
    for (int rank = 0; rank < fixture.trace->n_ranks; rank++)
      for (int i = 0; i < trace_list(fixture.trace, rank)->n_ops; i++)
        moved = fixture_step(fixture.trace, match, times, rank, i) || moved;
  }
  program_match_free(fixture.program, match);
  for (gsize i = 0; i < fixture.trace->first[fixture.trace->n_ranks]; i++)
    g_assert_cmpint(fixture.trace->end_ns[i], >=, 0);
  return fixture;
}

static inline void fixture_clear(Fixture *fixture) {
  trace_free(fixture->trace);
  program_free(fixture->program);
  order_free(fixture->order);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Fixture, fixture_clear)
