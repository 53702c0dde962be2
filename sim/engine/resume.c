/* The state of the clock at a moment, from records that were made without it. Up to then no transfer slowed another, so
 * each is a flow with its ways to itself since it began:
 *
 *     ended before now         is past; the first op of a stream that has not is its head
 *     head, held by another    has no record, and is looked at when what holds it ends; so is one whose batch is held
 *     head, free               has its start. Compute and host know their end. A transfer waits for its partners, or
 *                              begins later, or is under way: then its flow is begun at its time, in order
 *     behind a head            has no record
 *
 * A flow that ends at this very moment has left its ways, as the clock takes flows' ends first: only its op has yet to
 * end. So the flows of an earlier turn of the clock, the last of which ended now at the latest, are not begun again. */
#include "engine_state.h"

#include "held.h"

typedef struct {
  gint64 begin_ns;
  gint32 lane;
} Begun;

static void forget(const Rank *state, gint32 op) {
  state->start_ns[op] = state->end_ns[op] = state->issue_ns[op] = -1;
}

/* Heads only move on. Records of a stream are made in order, so behind the first op without one there are none. */
static void find_heads(Engine *engine, gint32 rank, gint64 now_ns) {
  Lane *lanes = &engine->lanes[rank * LANES_PER_RANK];
  const Rank *state = &engine->ranks[rank];
  for (int stream = 0; stream < N_STREAMS; stream++) {
    gint32 head = lanes[stream].head;
    gint64 last_end_ns = lanes[stream].last_end_ns;
    for (; head >= 0 && state->end_ns[head] >= 0 && state->end_ns[head] < now_ns; head = state->tasks[head].next)
      last_end_ns = state->end_ns[head];
    lanes[stream] = (Lane){.last_end_ns = last_end_ns, .head = head, .chain = -1, .awaited = NOT_AWAITED};
    for (gint32 i = head < 0 ? -1 : state->tasks[head].next; i >= 0 && state->start_ns[i] >= 0;
         i = state->tasks[i].next)
      forget(state, i);
  }
}

static gint64 now_of(const Engine *engine) {
  return engine->horizon_ns + 1; /* what ends then has not yet */
}

/* Under way until this very moment: what takes no time has not begun. */
static gboolean ends_now(const Engine *engine, gint64 end_ns, gint32 transfer) {
  return end_ns == now_of(engine) && engine->timing->transfers[transfer].run_ns > 0;
}

static void restore_transfer(Engine *engine, gint32 lane, gint32 op, const Task *task, GArray *begun) {
  const Rank *own = &engine->ranks[rank_of(lane)];
  gint32 partner_rank = rank_of(lane) + task->peer_offset;
  const Rank *partner = &engine->ranks[partner_rank];
  const Task *partner_task = &partner->tasks[task->match];
  gint32 partner_lane = partner_rank * LANES_PER_RANK + partner_task->stream;
  gint64 end_ns = own->end_ns[op];
  gboolean is_flow = engine->contention != NULL && contention_takes(engine->contention, task->work);
  if (is_flow && ends_now(engine, end_ns, task->work)) {
    event_queue_add(&engine->queue, end_ns, lane);
    return;
  }
  own->end_ns[op] = -1;
  if (task->kind != OP_SEND || engine->lanes[partner_lane].state != LANE_BUSY ||
      engine->lanes[partner_lane].head != task->match)
    return;
  if (is_flow) {
    Begun begin = {MAX(own->start_ns[op], partner->start_ns[task->match]), lane};
    g_array_append_val(begun, begin);
    return;
  }
  engine->lanes[lane].chain = partner_lane;
  own->end_ns[op] = partner->end_ns[task->match] = end_ns;
  event_queue_add(&engine->queue, end_ns, lane);
}

static void restore_collective(Engine *engine, gint32 lane, gint32 op, const Task *task, GArray *begun) {
  gint64 *record_ns = &engine->ranks[rank_of(lane)].end_ns[op], end_ns;
  gboolean is_over = ends_now(engine, *record_ns, task->work);
  *record_ns = -1;
  if (!engine_arrive(engine, lane, op, task, &end_ns))
    return;
  if (is_over) {
    end_ns = now_of(engine);
  } else if (engine->contention != NULL && contention_takes(engine->contention, task->work)) {
    Begun begin = {end_ns - engine->timing->transfers[task->work].run_ns, lane};
    g_array_append_val(begun, begin);
    return;
  }
  for (gint32 member = lane; member >= 0; member = engine->lanes[member].chain)
    engine->ranks[rank_of(member)].end_ns[engine->lanes[member].head] = end_ns;
  event_queue_add(&engine->queue, end_ns, lane);
}

/* Whether the head waits for nothing, and so do all ops that start with it; where one of them has ended all have
 * started. */
static gboolean is_free(const Engine *engine, gint32 lane, gint64 now_ns) {
  const gint32 rank = rank_of(lane), head = engine->lanes[lane].head;
  const Lane *lanes = &engine->lanes[first_lane_of(lane)];
  const Rank *state = &engine->ranks[rank];
  if (engine_held_by(engine, rank, head) >= 0)
    return FALSE;
  if (!(state->tasks[head].flags & TASK_IN_BATCH))
    return TRUE;
  const gint32 *next = state->list->next_in_batch;
  for (gint32 i = next[head]; i != head; i = next[i]) {
    if (state->end_ns[i] >= 0 && state->end_ns[i] < now_ns)
      return TRUE;
    if (lanes[state->tasks[i].stream].head != i || engine_held_by(engine, rank, i) >= 0)
      return FALSE;
  }
  return TRUE;
}

/* Free heads are busy, the others held and without a record; at the beginning of time nothing has been looked at. */
static void sort_heads(Engine *engine, gint64 now_ns) {
  for (gint32 lane = 0; lane < engine->trace->n_ranks * LANES_PER_RANK; lane++) {
    gint32 head = engine->lanes[lane].head;
    if (head < 0)
      continue;
    if (now_ns > 0 && is_free(engine, lane, now_ns))
      engine->lanes[lane].state = LANE_BUSY;
    else
      forget(&engine->ranks[rank_of(lane)], head);
  }
}

/* Sends before receives, whose ends they set; `sends` says which. */
static void restore_heads(Engine *engine, gboolean sends, GArray *begun) {
  for (gint32 lane = 0; lane < engine->trace->n_ranks * LANES_PER_RANK; lane++) {
    gint32 head = engine->lanes[lane].head;
    if (head < 0 || engine->lanes[lane].state != LANE_BUSY)
      continue;
    const Rank *state = &engine->ranks[rank_of(lane)];
    const Task *task = &state->tasks[head];
    gboolean is_send = task->kind == OP_SEND;
    if (is_send != sends)
      continue;
    if (task->kind == OP_SEND || task->kind == OP_RECV)
      restore_transfer(engine, lane, head, task, begun);
    else if (task->kind == OP_COLLECTIVE)
      restore_collective(engine, lane, head, task, begun);
    else
      event_queue_add(&engine->queue, state->end_ns[head], lane);
  }
}

static gint compare_begun(gconstpointer a, gconstpointer b) {
  const Begun *x = a, *y = b;
  if (x->begin_ns != y->begin_ns)
    return x->begin_ns < y->begin_ns ? -1 : 1;
  return x->lane - y->lane;
}

static void begin_flows(Engine *engine, GArray *begun, gint64 now_ns) {
  g_array_sort(begun, compare_begun);
  for (guint i = 0; i < begun->len; i++) {
    const Begun *begin = &g_array_index(begun, Begun, i);
    if (begin->begin_ns >= now_ns) {
      engine->lanes[begin->lane].state = LANE_DUE;
      event_queue_add(&engine->queue, begin->begin_ns, begin->lane);
      continue;
    }
    while (contention_next_ns(engine->contention) <= begin->begin_ns) {
      gint32 n_ended;
      contention_advance(engine->contention, &n_ended);
      g_assert(n_ended == 0); /* all of these end now or later */
    }
    engine_begin_flow(engine, begin->lane, begin->begin_ns);
  }
}

void engine_resume(Engine *engine, gint64 now_ns) {
  const gint32 n_ranks = engine->trace->n_ranks;
  g_autoptr(GArray) begun = g_array_new(FALSE, FALSE, sizeof(Begun));
  engine->horizon_ns = MAX(now_ns - 1, 0);
  engine->n_ended = 0;
  event_queue_empty(&engine->queue, engine->horizon_ns);
  meetings_empty(&engine->meetings);
  for (gint32 rank = 0; rank < n_ranks; rank++)
    find_heads(engine, rank, now_ns);
  sort_heads(engine, now_ns);
  restore_heads(engine, FALSE, begun);
  restore_heads(engine, TRUE, begun);
  begin_flows(engine, begun, now_ns);
  for (gint32 rank = 0; rank < n_ranks; rank++)
    engine_examine_streams(engine, rank * LANES_PER_RANK, (1u << N_STREAMS) - 1);
}
