/* A lane is one stream of one rank: a queue of ops whose head is held, ready or busy.
 *
 *        examine ──► held     an op it waits for has not ended: that op's lane will examine this one again
 *           │
 *           ├──────► ready    others of its batch are not ready: the last of them starts all
 *           ▼
 *         start ───► busy     compute, host     its end is known
 *                             send, receive     known when the partner is there too (eager send: at once)
 *                             collective        known when the last member is there
 *
 *        end ◄────── the event queue, in (time, sequence) order; an end within the horizon needs no queue
 *           └──────► examine the lane itself for its next op, and the lanes it held
 *
 * Ops that meet end by one event: their lanes are chained. Whatever is known in advance is computed in advance: the
 * arrival of an op that the host has yet to launch is known as soon as its stream is free, so launches need no events
 * of their own.
 *
 * The state of a run is a few bytes per lane. Records go straight into the trace, where `end ≤ horizon` also tells
 * whether an op has ended, and `start ≥ 0` whether a partner is there. Rare cases are kept out of line so that the
 * common path through examine and start keeps its values in registers. */
#include "engine_state.h"

#include "held.h"
#include "prefetch.h"
#include "variation.h"

static G_NO_INLINE void vary(const Engine *engine, gint32 rank, gint32 op, gint64 *run_ns, gint64 *tail_ns) {
  const Simulation *simulation = engine->simulation;
  double factor = simulation->speed != NULL ? simulation->speed[rank] : 1.0;
  if (simulation->jitter > 0)
    factor *= 1.0 + simulation->jitter * variation_normal(simulation->seed, rank, op);
  variation_scale(factor, run_ns, tail_ns);
}

static inline void start_compute(Engine *engine, gint32 lane, gint32 op, const Task *task, gint64 ready_ns,
                                 gint64 issue_ns) {
  gint32 rank = lane_rank(lane);
  const Rank *state = &engine->ranks[rank];
  const OpTime *time = &engine->timing->works[task->work];
  gint64 run_ns = time->run_ns, tail_ns = time->tail_ns;
  if (engine->is_varied)
    vary(engine, rank, op, &run_ns, &tail_ns);
  gint64 end_ns = MAX(add_ns(ready_ns, run_ns), add_ns(issue_ns, tail_ns));
  state->start_ns[op] = MAX(ready_ns, issue_ns);
  if (engine->taxed != NULL)
    end_ns = tax_begin_kernel(&engine->taxed[rank], state->start_ns[op], end_ns);
  state->end_ns[op] = end_ns;
  end_at(engine, lane, end_ns);
}

static G_NO_INLINE void start_host(Engine *engine, gint32 lane, gint32 op, const Task *task, gint64 ready_ns,
                                   gint64 issue_ns) {
  const Rank *state = &engine->ranks[lane_rank(lane)];
  state->start_ns[op] = MAX(ready_ns, issue_ns);
  state->end_ns[op] = add_ns(state->start_ns[op], timing_host_run_ns(engine->timing, task->work));
  end_at(engine, lane, state->end_ns[op]);
}

/* Whether a transfer is a flow. */
static inline gboolean is_contended(const Engine *engine, gint32 transfer) {
  return engine->contention != NULL && contention_takes(engine->contention, transfer);
}

/* A partner that has not started has no start. Its lane knows that too, and is in the cache sooner than its
 * record. */
static inline gint64 partner_start(const Engine *engine, gint32 rank, gint32 match) {
  const Rank *partner = &engine->ranks[rank];
  const Lane *lane = &engine->lanes[rank * LANES_PER_RANK + partner->tasks[match].stream];
  if (lane->head >= 0 && (lane->head < match || (lane->head == match && lane->state < LANE_BUSY)))
    return -1;
  return partner->start_ns[match];
}

/* Rendezvous: both ends complete together, one transfer time after the later of them arrived. Eager: the data leaves
 * when the send arrives, and the receive ends when both it and the data are there. Either way the transfer time is
 * that of the send. */
static inline void start_transfer(Engine *engine, gint32 lane, gint32 op, const Task *task, gint64 ready_ns,
                                  gint64 issue_ns) {
  gint32 partner_rank = lane_rank(lane) + task->peer_offset, match = task->match;
  const Rank *own = &engine->ranks[lane_rank(lane)], *partner = &engine->ranks[partner_rank];
  const OpTime *times = engine->timing->transfers;
  gboolean is_send = task->kind == OP_SEND, is_eager = task->flags & TASK_IS_EAGER;
  gint64 partner_start_ns = partner_start(engine, partner_rank, match);
  gint64 start_ns = MAX(ready_ns, add_ns(issue_ns, times[task->work].host_ns));
  own->start_ns[op] = start_ns;
  if (is_contended(engine, is_send ? task->work : partner->tasks[match].work)) {
    engine_start_contended(engine, lane, op, task, partner_start_ns);
    return;
  }
  if (partner_start_ns < 0 && !(is_eager && is_send))
    return;
  if (is_eager && !is_send) {
    own->end_ns[op] = MAX(start_ns, partner->end_ns[match]);
    end_at(engine, lane, own->end_ns[op]);
    return;
  }
  const Task *partner_task = &partner->tasks[match];
  gint64 run_ns = times[is_send ? task->work : partner_task->work].run_ns;
  gint64 end_ns = add_ns(is_eager ? start_ns : MAX(start_ns, partner_start_ns), run_ns);
  own->end_ns[op] = end_ns;
  if (engine->taxed != NULL) {
    const gint32 transfer = is_send ? task->work : partner_task->work;
    engine_tax(engine, lane_rank(lane), transfer, end_ns - run_ns, end_ns);
    engine_tax(engine, partner_rank, transfer, end_ns - run_ns, end_ns);
  }
  if (partner_start_ns >= 0) {
    gint32 partner_lane = partner_rank * LANES_PER_RANK + partner_task->stream;
    partner->end_ns[match] = MAX(end_ns, partner_start_ns);
    if (partner_start_ns <= end_ns) {
      engine->lanes[lane].chain = partner_lane;
      engine->n_events += is_eager; /* counted as if it came later: it ends by itself then */
    } else {
      end_at(engine, partner_lane, partner_start_ns);
    }
  }
  end_at(engine, lane, end_ns);
}

/* The op's record has its start: it arrives at its collective. Returns whether it is the last; the lanes of all are
 * then chained, and *end_ns is when it ends alone. */
static gboolean arrive(Engine *engine, gint32 lane, gint32 op, const Task *task, gint64 *end_ns) {
  gint32 n_members, rank = lane_rank(lane);
  Meeting *meeting = meetings_at(&engine->meetings, rank, task->group, task->slot, &n_members);
  gint64 run_ns = engine->timing->transfers[task->work].run_ns;
  meeting->end_ns = MAX(meeting->end_ns, add_ns(engine->ranks[rank].start_ns[op], run_ns));
  engine->lanes[lane].chain = meeting->last;
  meeting->last = lane;
  if (++meeting->n_arrived < n_members)
    return FALSE;
  *end_ns = meeting->end_ns;
  *meeting = (Meeting){.last = -1};
  return TRUE;
}

/* Ahead of the flows if that is possible, otherwise among them. */
static void begin_contended(Engine *engine, gint32 lane, const Task *task, gint64 begin_ns) {
  if (engine->undisturbed != NULL && engine_run_alone(engine, lane, task, begin_ns))
    engine_examine_streams(engine, first_lane_of(lane), (1u << N_STREAMS) - 1);
  else if (engine->undisturbed == NULL || !engine_run_ahead(engine, lane, task, begin_ns))
    engine_begin_flow_at(engine, lane, begin_ns);
}

static G_NO_INLINE void start_collective(Engine *engine, gint32 lane, gint32 op, const Task *task, gint64 ready_ns,
                                         gint64 issue_ns) {
  const OpTime *time = &engine->timing->transfers[task->work];
  gint64 end_ns;
  engine->ranks[lane_rank(lane)].start_ns[op] = MAX(ready_ns, add_ns(issue_ns, time->host_ns));
  if (!arrive(engine, lane, op, task, &end_ns))
    return;
  if (is_contended(engine, task->work)) {
    begin_contended(engine, lane, task, end_ns - time->run_ns);
    return;
  }
  for (gint32 member = lane; member >= 0; member = engine->lanes[member].chain)
    engine->ranks[lane_rank(member)].end_ns[engine->lanes[member].head] = end_ns;
  for (gint32 member = lane; member >= 0 && engine->taxed != NULL; member = engine->lanes[member].chain)
    engine_tax(engine, lane_rank(member), task->work, end_ns - time->run_ns, end_ns);
  end_at(engine, lane, end_ns);
}

static G_ALWAYS_INLINE inline void start(Engine *engine, gint32 lane, gint32 op, const Task *task, gint64 ready_ns) {
  const Rank *state = &engine->ranks[lane_rank(lane)];
  const gint64 issue_ns = engine_issue_of(state, op, task);
  prefetch(state, task->next);
  if (!engine->runs_ahead)
    state->issue_ns[op] = issue_ns;
  engine->lanes[lane].state = LANE_BUSY;
  switch ((OpKind)task->kind) {
  case OP_COMPUTE:
    start_compute(engine, lane, op, task, ready_ns, issue_ns);
    break;
  case OP_HOST:
    start_host(engine, lane, op, task, ready_ns, issue_ns);
    break;
  case OP_COLLECTIVE:
    start_collective(engine, lane, op, task, ready_ns, issue_ns);
    break;
  default:
    start_transfer(engine, lane, op, task, ready_ns, issue_ns);
  }
}

/* In time order, an op that was held until now becomes ready now. */
static inline gint64 ready_time(const Engine *engine, const Rank *state, const Lane *lane) {
  return engine->runs_ahead ? engine_latest_end(state, lane) : engine->horizon_ns;
}

/* An op of a batch is ready: start the whole batch once all the others are too. */
static G_NO_INLINE void start_batch(Engine *engine, gint32 id, gint32 op) {
  Lane *lanes = &engine->lanes[first_lane_of(id)];
  const Rank *state = &engine->ranks[lane_rank(id)];
  const gint32 *next_in_batch = state->list->next_in_batch;
  gint64 batch_ns = ready_time(engine, state, &engine->lanes[id]);
  engine->lanes[id].state = LANE_READY;
  for (gint32 i = next_in_batch[op]; i != op; i = next_in_batch[i]) {
    const Lane *other = &lanes[state->tasks[i].stream];
    if (other->head != i || other->state != LANE_READY)
      return;
    batch_ns = MAX(batch_ns, ready_time(engine, state, other));
  }
  gint32 i = op;
  do {
    start(engine, first_lane_of(id) + state->tasks[i].stream, i, &state->tasks[i], batch_ns);
    i = next_in_batch[i];
  } while (i != op);
}

static inline void examine(Engine *engine, gint32 id) {
  const Lane *lane = &engine->lanes[id];
  gint32 op = lane->head;
  if (op < 0 || lane->state != LANE_HELD)
    return;
  const Rank *state = &engine->ranks[lane_rank(id)];
  const Task *task = &state->tasks[op];
  Lane *lanes = &engine->lanes[first_lane_of(id)];
  gint32 holder = held_by(engine, state, lanes, op, task);
  if (holder >= 0) {
    Lane *holding = &lanes[holder == task->after ? task->after_stream : state->tasks[holder].stream];
    holding->holds |= 1u << task->stream;
    holding->awaited = MIN(holding->awaited, holder);
    return;
  }
  if (task->flags & TASK_IN_BATCH)
    start_batch(engine, id, op);
  else
    start(engine, id, op, task, ready_time(engine, state, lane));
}

void engine_examine_streams(Engine *engine, gint32 first_lane, guint streams) {
  for (; streams != 0; streams &= streams - 1)
    examine(engine, first_lane + __builtin_ctz(streams));
}

/* The op at the head of `id`, and those chained to it, have ended. */
static void end(Engine *engine, gint32 id) {
  engine->n_events++;
  while (id >= 0) {
    Lane *lane = &engine->lanes[id];
    const Rank *state = &engine->ranks[lane_rank(id)];
    gint32 first_lane = first_lane_of(id), own = id - first_lane, chain = lane->chain;
    guint streams = 1u << own;
    if (lane->head >= lane->awaited) { /* otherwise all held heads wait for later ops */
      streams |= lane->holds;
      lane->holds = 0;
      lane->awaited = NOT_AWAITED;
    }
    lane->last_end_ns = state->end_ns[lane->head];
    lane->head = state->tasks[lane->head].next;
    lane->chain = -1;
    lane->state = LANE_HELD;
    engine_examine_streams(engine, first_lane, streams);
    id = chain;
  }
}

/* The kernel of this lane ends later than was known when it was queued. */
static inline gboolean is_too_early(const Engine *engine, gint32 lane) {
  gint32 head = engine->lanes[lane].head;
  return engine->taxed != NULL && head >= 0 && engine->ranks[lane_rank(lane)].end_ns[head] > engine->horizon_ns;
}

static inline void take(Engine *engine, gint32 lane) {
  if (engine->lanes[lane].state == LANE_DUE)
    engine_begin_flow(engine, lane, engine->queue.now);
  else if (is_too_early(engine, lane))
    event_queue_add(&engine->queue, engine->ranks[lane_rank(lane)].end_ns[engine->lanes[lane].head], lane);
  else
    end(engine, lane);
}

void engine_take_ended(Engine *engine) {
  while (engine->n_ended > 0) {
    if (engine->contention != NULL)
      prefetch_ended(engine);
    take(engine, engine->ended[--engine->n_ended]);
  }
}

void engine_take(Engine *engine, gint32 lane) {
  take(engine, lane);
  engine_take_ended(engine);
}

static void describe_head(const Engine *engine, gint32 lane, GString *text) {
  gint32 rank = lane_rank(lane), op = engine->lanes[lane].head;
  const Rank *state = &engine->ranks[rank];
  gint32 holder = held_by(engine, state, &engine->lanes[rank * LANES_PER_RANK], op, &state->tasks[op]);
  g_string_append_printf(text, "\n  rank %d, stream %s: op %d ", rank, stream_info(lane % LANES_PER_RANK)->name, op);
  if (holder >= 0)
    g_string_append_printf(text, "waits for stream %s", stream_info(state->tasks[holder].stream)->name);
  else
    g_string_append(text, engine->lanes[lane].state == LANE_READY ? "waits for its batch" : "waits for its peers");
}

void engine_assert_all_ended(const Engine *engine) {
  g_autoptr(GString) text = g_string_new(NULL);
  int n_stuck = 0;
  for (gint32 lane = 0; lane < engine->trace->n_ranks * LANES_PER_RANK; lane++)
    if (engine->lanes[lane].head >= 0 && n_stuck++ < 24)
      describe_head(engine, lane, text);
  if (n_stuck > 0)
    g_error("engine: %d streams stuck at %" G_GINT64_FORMAT " ns, though the program was verified:%s", n_stuck,
            engine->queue.now, text->str);
}
