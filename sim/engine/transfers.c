/* Transfers whose ends depend on one another. A transfer that begins becomes a flow (contention.h); its end comes
 * from the flows, which are asked before each event of the queue what they do first.
 *
 * Ranks may run ahead of the flows, up to transfers on links. The next event in the queue then precedes anything a
 * rank has yet to find out, since all ranks wait for the queue or for flows. So flows begin in time order. A flow
 * with a latency before it takes its links may be announced as soon as its begin is known: it needs no event in the
 * queue. */
#include "engine_state.h"

void engine_tax(Engine *engine, gint32 rank, gint32 transfer, gint64 from_ns, gint64 to_ns) {
  TaxedTime *taxed = &engine->taxed[rank];
  tax_add(taxed, tax_span(from_ns, to_ns, engine->timing->taxes[transfer]));
  const Lane *compute = &engine->lanes[rank * LANES_PER_RANK + STREAM_COMPUTE];
  const Rank *state = &engine->ranks[rank];
  if (compute->head >= 0 && compute->state == LANE_BUSY && state->tasks[compute->head].kind == OP_COMPUTE)
    state->end_ns[compute->head] = tax_end_of_kernel(taxed);
}

/* Kernels beside the transfer of this lane lose time to it: at its begin for the time it takes alone, at its end for
 * the rest. */
static G_NO_INLINE void tax_members(Engine *engine, gint32 lane, gint64 from_ns, gint64 to_ns) {
  const Lane *head = &engine->lanes[lane];
  const Task *task = &engine->ranks[lane_rank(lane)].tasks[head->head];
  if (task->kind == OP_SEND)
    engine_tax(engine, lane_rank(lane) + task->peer_offset, task->work, from_ns, to_ns);
  for (gint32 member = lane; member >= 0; member = engine->lanes[member].chain)
    engine_tax(engine, lane_rank(member), task->work, from_ns, to_ns);
}

/* All ranks of this lane's transfer are there: its flow begins. */
void engine_begin_flow(Engine *engine, gint32 lane, gint64 now_ns) {
  gint32 rank = lane_rank(lane), op = engine->lanes[lane].head;
  const Task *task = &engine->ranks[rank].tasks[op];
  engine->lanes[lane].state = LANE_BUSY;
  engine->begin_ns[lane] = now_ns;
  if (engine->taxed != NULL) {
    tax_members(engine, lane, now_ns, add_ns(now_ns, engine->timing->transfers[task->work].run_ns));
  }
  if (task->kind == OP_SEND) {
    contention_send(engine->contention, now_ns, lane, task->work, rank, rank + task->peer_offset);
    return;
  }
  gint32 n_members = 0;
  for (gint32 member = lane; member >= 0; member = engine->lanes[member].chain)
    engine->members[n_members++] = lane_rank(member);
  contention_collective(engine->contention, now_ns, lane, task->work, engine->members, n_members);
}

void engine_begin_flow_at(Engine *engine, gint32 lane, gint64 begin_ns) {
  if (!engine->runs_ahead && begin_ns <= engine->horizon_ns) {
    engine_begin_flow(engine, lane, engine->horizon_ns);
    return;
  }
  const gint32 transfer = engine->ranks[lane_rank(lane)].tasks[engine->lanes[lane].head].work;
  if (engine->runs_ahead && contention_may_begin_ahead(engine->contention, transfer)) {
    engine_begin_flow(engine, lane, begin_ns);
    return;
  }
  engine->lanes[lane].state = LANE_DUE;
  event_queue_add(&engine->queue, begin_ns, lane);
}

/* Ends the receive of a send that ended, if it is there. */
static void end_receive(Engine *engine, gint32 lane, const Task *send, gint64 end_ns) {
  gint32 partner_rank = lane_rank(lane) + send->peer_offset;
  const Rank *partner = &engine->ranks[partner_rank];
  gint64 begin_ns = 0;
  if (send->flags & TASK_IS_EAGER) { /* otherwise it was there before the flow began */
    begin_ns = partner->start_ns[send->match];
    if (begin_ns < 0)
      return;
  }
  gint32 partner_lane = partner_rank * LANES_PER_RANK + partner->tasks[send->match].stream;
  partner->end_ns[send->match] = MAX(end_ns, begin_ns);
  end_at(engine, partner_lane, partner->end_ns[send->match]);
}

static G_NO_INLINE void note_early(const Engine *engine, gint32 lane, gint16 early_ticks) {
  for (gint32 member = lane; member >= 0; member = engine->lanes[member].chain)
    engine->simulation->early_ticks[engine->trace->first[lane_rank(member)] + (gsize)engine->lanes[member].head] =
        early_ticks;
}

void engine_end_flow(Engine *engine, const TransferEnd *ended) {
  const gint32 lane = ended->lane;
  const gint64 end_ns = ended->end_ns;
  gint32 rank = lane_rank(lane), op = engine->lanes[lane].head;
  const Task *task = &engine->ranks[rank].tasks[op];
  for (gint32 member = lane; member >= 0; member = engine->lanes[member].chain)
    engine->ranks[lane_rank(member)].end_ns[engine->lanes[member].head] = end_ns;
  if (engine->simulation->early_ticks != NULL)
    note_early(engine, lane, ended->early_ticks);
  if (engine->taxed != NULL)
    tax_members(engine, lane, add_ns(engine->begin_ns[lane], engine->timing->transfers[task->work].run_ns), end_ns);
  engine->begin_ns[lane] = -1;
  end_at(engine, lane, end_ns);
  if (task->kind == OP_SEND)
    end_receive(engine, lane, task, end_ns);
}

/* As start_transfer() of lanes.c, but the end is not known yet. */
void engine_start_contended(Engine *engine, gint32 lane, gint32 op, const Task *task, gint64 partner_start_ns) {
  gint32 partner_rank = lane_rank(lane) + task->peer_offset, match = task->match;
  const Rank *own = &engine->ranks[lane_rank(lane)], *partner = &engine->ranks[partner_rank];
  gboolean is_send = task->kind == OP_SEND, is_eager = task->flags & TASK_IS_EAGER;
  gint64 start_ns = own->start_ns[op];
  if (is_eager && !is_send) {
    if (partner->end_ns[match] < 0) /* the send will find this receive */
      return;
    own->end_ns[op] = MAX(start_ns, partner->end_ns[match]);
    end_at(engine, lane, own->end_ns[op]);
    return;
  }
  if (is_eager)
    engine_begin_flow_at(engine, lane, start_ns);
  else if (partner_start_ns >= 0)
    engine_begin_flow_at(engine, is_send ? lane : partner_rank * LANES_PER_RANK + partner->tasks[match].stream,
                         MAX(start_ns, partner_start_ns));
}
