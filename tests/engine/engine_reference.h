/* The semantics of program.h, taken literally: each op's times follow from those of the ops it depends on, iterated
 * until nothing changes. No clock, no order, no optimisation: the reference for the engine. */
#pragma once
#include "engine.h"
#include "variation.h"

typedef struct {
  const Simulation *simulation;
  Trace *trace; /* the result */
} Reference;

static inline const Op *op_at(const Reference *reference, int rank, int op) {
  return &trace_list(reference->trace, rank)->ops[op];
}

static inline gint64 end_at(const Reference *reference, int rank, int op) {
  return reference->trace->end_ns[reference->trace->first[rank] + op];
}

static inline gint64 start_at(const Reference *reference, int rank, int op) {
  return reference->trace->start_ns[reference->trace->first[rank] + op];
}

/* How many like ops precede this one: same kind, peer and tag, or same group. */
static inline int ordinal(const Reference *reference, int rank, int op) {
  const Op *it = op_at(reference, rank, op);
  const GArray *transfers = reference->simulation->program->transfers;
  int n = 0;
  for (int i = 0; i < op; i++) {
    const Op *other = op_at(reference, rank, i);
    if (other->kind != it->kind)
      continue;
    n += it->kind == OP_COLLECTIVE ? g_array_index(transfers, Transfer, other->work).group ==
                                         g_array_index(transfers, Transfer, it->work).group
                                   : other->peer == it->peer && other->tag == it->tag;
  }
  return n;
}

/* The matching op on rank `other`; −1: none. */
static inline int counterpart(const Reference *reference, int rank, int op, int other) {
  const Op *it = op_at(reference, rank, op);
  const GArray *transfers = reference->simulation->program->transfers;
  int own_pp = reference->trace->pipeline_rank[rank];
  for (int i = 0; i < trace_list(reference->trace, other)->n_ops; i++) {
    const Op *candidate = op_at(reference, other, i);
    gboolean meets =
        it->kind == OP_COLLECTIVE
            ? candidate->kind == OP_COLLECTIVE && g_array_index(transfers, Transfer, candidate->work).group ==
                                                      g_array_index(transfers, Transfer, it->work).group
            : candidate->kind == OP_SEND + OP_RECV - it->kind && candidate->tag == it->tag && candidate->peer == own_pp;
    if (meets && ordinal(reference, other, i) == ordinal(reference, rank, op))
      return i;
  }
  return -1;
}

static inline gboolean is_member(const Reference *reference, const Group *group, int rank, int other) {
  const Layout *layout = &reference->trace->layout;
  int tp = layout->size[AXIS_TP], dp = layout->size[AXIS_DP];
  if (reference->trace->folded)
    return group->spans_pp || rank == other;
  return (group->axes & AXIS_BIT(AXIS_TP) || rank % tp == other % tp) &&
         (group->axes & AXIS_BIT(AXIS_DP) || rank / tp % dp == other / tp % dp) &&
         (group->spans_pp || rank / tp / dp == other / tp / dp);
}

/* The later of two times; −1 if either is unknown (−1). */
static inline gint64 latest(gint64 a_ns, gint64 b_ns) {
  return a_ns < 0 || b_ns < 0 ? -1 : MAX(a_ns, b_ns);
}

/* When the previous op on the stream and the named dependencies had ended, for all of its batch; −1: unknown. */
static inline gint64 ready_at(const Reference *reference, int rank, int op, gboolean with_batch) {
  const Op *it = op_at(reference, rank, op);
  gint64 ready_ns = 0;
  for (int i = 0; i < op; i++) {
    const Op *before = op_at(reference, rank, i);
    gboolean is_named = FALSE;
    for (int k = 0; k < OP_MAX_AFTER; k++)
      is_named |= it->after[k] == i;
    if (is_named || before->stream == it->stream || before->kind == OP_HOST)
      ready_ns = latest(ready_ns, end_at(reference, rank, i));
  }
  for (int i = 0; with_batch && it->batch >= 0 && i < trace_list(reference->trace, rank)->n_ops; i++)
    if (op_at(reference, rank, i)->batch == it->batch)
      ready_ns = latest(ready_ns, ready_at(reference, rank, i, FALSE));
  return ready_ns;
}

static inline OpTime time_at(const Reference *reference, int rank, int op) {
  const Simulation *simulation = reference->simulation;
  const Op *it = op_at(reference, rank, op);
  if (it->kind == OP_HOST) {
    OpTime wait = simulation->timing->host_sync;
    wait.run_ns += it->action == ACTION_SYNC ? simulation->timing->step_ns : 0;
    return wait;
  }
  if (it->kind != OP_COMPUTE)
    return simulation->timing->transfers[it->work];
  OpTime time = simulation->timing->works[it->work];
  double factor = simulation->speed != NULL ? simulation->speed[rank] : 1;
  factor *= 1 + simulation->jitter * variation_normal(simulation->seed, rank, op);
  variation_scale(factor, &time.run_ns, &time.tail_ns);
  return time;
}

static inline gint64 issue_at(const Reference *reference, int rank, int op) {
  gint64 issue_ns = 0;
  for (int i = 0; i < op; i++) {
    const Op *before = op_at(reference, rank, i);
    if (before->kind == OP_HOST)
      issue_ns = end_at(reference, rank, i);
    else if (before->kind == OP_COMPUTE)
      issue_ns += reference->simulation->timing->works[before->work].host_ns;
    else
      issue_ns += reference->simulation->timing->transfers[before->work].host_ns;
  }
  return issue_ns;
}

/* End of a started send, receive or collective; −1: unknown. */
static inline gint64 meeting_end(const Reference *reference, int rank, int op, gint64 run_ns) {
  const Program *program = reference->simulation->program;
  const Op *it = op_at(reference, rank, op);
  const Transfer *transfer = &g_array_index(program->transfers, Transfer, it->work);
  gint64 start_ns = start_at(reference, rank, op);
  if (it->kind != OP_COLLECTIVE) {
    int partner = trace_partner(reference->trace, rank, it->peer);
    gint64 partner_start_ns = start_at(reference, partner, counterpart(reference, rank, op, partner));
    if (transfer->bytes > reference->simulation->eager_bytes)
      return partner_start_ns < 0 ? -1 : MAX(start_ns, partner_start_ns) + run_ns;
    if (it->kind == OP_SEND)
      return start_ns + run_ns;
    return partner_start_ns < 0 ? -1 : MAX(start_ns, partner_start_ns + run_ns);
  }
  const Group *group = &g_array_index(program->groups, Group, transfer->group);
  for (int other = 0; other < reference->trace->n_ranks; other++)
    if (is_member(reference, group, rank, other))
      start_ns = latest(start_ns, start_at(reference, other, counterpart(reference, rank, op, other)));
  return start_ns < 0 ? -1 : start_ns + run_ns;
}

/* Derives the op's times as far as they follow from what is known; TRUE if anything is new. */
static inline gboolean learn(const Reference *reference, int rank, int op) {
  Trace *trace = reference->trace;
  gsize record = trace->first[rank] + op;
  if (trace->end_ns[record] >= 0)
    return FALSE;
  OpTime time = time_at(reference, rank, op);
  const Op *it = op_at(reference, rank, op);
  gboolean on_device = it->kind == OP_COMPUTE || it->kind == OP_HOST, was_started = trace->start_ns[record] >= 0;
  gint64 ready_ns = ready_at(reference, rank, op, TRUE);
  if (ready_ns < 0)
    return FALSE;
  gint64 issue_ns = trace->issue_ns[record] = issue_at(reference, rank, op);
  trace->start_ns[record] = MAX(ready_ns, on_device ? issue_ns : issue_ns + time.host_ns);
  if (it->kind == OP_COMPUTE)
    trace->end_ns[record] = MAX(ready_ns + time.run_ns, issue_ns + time.tail_ns);
  else if (it->kind == OP_HOST)
    trace->end_ns[record] = trace->start_ns[record] + time.run_ns;
  else
    trace->end_ns[record] = meeting_end(reference, rank, op, time.run_ns);
  return !was_started || trace->end_ns[record] >= 0;
}

static inline Trace *run_reference(const Simulation *simulation) {
  Reference reference = {simulation, trace_new(simulation->program, simulation->layout, simulation->folded)};
  for (gboolean is_news = TRUE; is_news;) {
    is_news = FALSE;
    for (int rank = 0; rank < reference.trace->n_ranks; rank++)
      for (int op = 0; op < trace_list(reference.trace, rank)->n_ops; op++)
        is_news |= learn(&reference, rank, op);
  }
  return reference.trace;
}
