/* Follows one rank by itself. While its other streams are undisturbed (run_ahead.c), what its kernels, tp's collectives
 * and dp's collectives do depends on nothing else, whatever other ranks are doing:
 *
 *     compute   ███   ███   ███   ███   ███
 *     tp           ▒▒    ▒▒    ▒▒    ▒▒
 *     dp        ░░░░░░░░░░░   ░░░░░░░░░░░         two flows at most, which share the rank's ways
 *
 * So time advances for this rank alone, from one change of the two flows to the next, and stands still for the
 * others. The flow of dp is taken out from among the other flows; whatever is under way at the end is put back in its
 * state of that time. The rank is followed only until another stream may use one of its ways:
 *
 *     a stream that is busy           until_ns of run_ahead.c
 *     a stream held by an op of ours  that op must not end here: it is its lane's limit
 *     an op of ours that is complex   a batch, a collective over stages or without latency: until it is ready
 *
 * The records equal those of the clock, to the tick: rates depend only on which flows are on the ways, not on what
 * happened before (flows.h); bytes moved and ends depend only on time differences; and flows on ways that no other
 * flow takes are solved separately anyway. Kernels run as far ahead of the flows as their inputs are known, as
 * everywhere else. The lanes of the three streams are advanced in place, op by op. */
#include "engine_state.h"

#include "held.h"
#include "ticks.h"

enum { OWN_TP, OWN_DP, OWN_COMPUTE, N_OWN, N_MOVE = 2 };
static const Stream own_streams[N_OWN] = {STREAM_TP, STREAM_DP, STREAM_COMPUTE};
static const guint own_bits = 1u << STREAM_TP | 1u << STREAM_DP | 1u << STREAM_COMPUTE;

typedef struct {
  Engine *engine;
  gint32 rank, first_lane;
  const Rank *state;
  Lane *lanes[N_OWN];
  gint32 limit[N_OWN];        /* this op of the lane, or a later one, must not end here */
  ApartTransfer pair[N_MOVE]; /* tp and dp */
  gint64 until_ns;
} Alone;

/* Finds how long the other streams stay undisturbed, and which of our ops they wait for. */
static void look_at_others(Alone *alone) {
  const Engine *engine = alone->engine;
  for (gint32 stream = 0; stream < N_STREAMS && alone->until_ns > 0; stream++) {
    const gint32 lane = alone->first_lane + stream;
    const Lane *at = &engine->lanes[lane];
    if (at->head < 0 || own_bits >> stream & 1)
      continue;
    if (at->state != LANE_HELD) {
      alone->until_ns = MIN(alone->until_ns, engine_undisturbed_beside(engine, lane, own_bits));
      continue;
    }
    const gint32 holder = engine_held_by(engine, alone->rank, at->head);
    if (holder < 0)
      alone->until_ns = 0; /* it may start at any moment */
    for (int own = 0; own < N_OWN && holder >= 0; own++)
      if (alone->state->tasks[holder].stream == own_streams[own])
        alone->limit[own] = MIN(alone->limit[own], holder);
  }
}

/* The position in `ended` of a lane whose end is known but not taken yet, provided no lane is chained to it; −1: not
 * there. */
static gint32 find_ended(const Engine *engine, gint32 lane) {
  for (gint32 i = engine->n_ended; i-- > 0;)
    if (engine->ended[i] == lane && engine->lanes[lane].chain < 0)
      return i;
  return -1;
}

static void drop_ended(Engine *engine, gint32 lane) {
  for (gint32 i = find_ended(engine, lane); i + 1 < engine->n_ended; i++)
    engine->ended[i] = engine->ended[i + 1];
  engine->n_ended--;
}

/* Its record must have its end. */
static inline void end_head(Alone *alone, int own) {
  Lane *lane = alone->lanes[own];
  alone->engine->n_events++;
  lane->last_end_ns = alone->state->end_ns[lane->head];
  lane->head = alone->state->tasks[lane->head].next;
  lane->state = LANE_HELD;
}

static inline gboolean has_own_members(const Engine *engine, const Task *task) {
  return task->kind == OP_COLLECTIVE && engine->meetings.groups[task->group].n_members == 1;
}

/* Whether the lane is held, or what it is doing can be followed here. */
static gboolean can_take_over(const Alone *alone, int own) {
  const Engine *engine = alone->engine;
  const Lane *lane = alone->lanes[own];
  if (lane->head < 0 || lane->state == LANE_HELD)
    return TRUE;
  const gint32 id = (gint32)(lane - engine->lanes);
  if (lane->state != LANE_BUSY)
    return FALSE;
  if (alone->state->end_ns[lane->head] >= 0)
    return find_ended(engine, id) >= 0;
  return own == OWN_DP && engine->begin_ns[id] >= 0 && has_own_members(engine, &alone->state->tasks[lane->head]);
}

/* FALSE: dp shares the rank's ways with another flow; nothing has changed. */
static gboolean take_over(Alone *alone) {
  Engine *engine = alone->engine;
  const Lane *dp = alone->lanes[OWN_DP];
  const gboolean moves = dp->head >= 0 && dp->state == LANE_BUSY && alone->state->end_ns[dp->head] < 0;
  if (!contention_take_out(engine->contention, alone->first_lane + STREAM_DP,
                           moves ? alone->state->tasks[dp->head].work : -1, alone->rank, &alone->pair[OWN_DP]))
    return FALSE;
  for (int own = OWN_DP; own < N_OWN; own++) {
    const Lane *lane = alone->lanes[own];
    if (lane->head < 0 || lane->state != LANE_BUSY || alone->state->end_ns[lane->head] < 0)
      continue;
    drop_ended(engine, (gint32)(lane - engine->lanes));
    end_head(alone, own);
  }
  return TRUE;
}

static inline void stop_before(Alone *alone, gint64 at_ns) {
  alone->until_ns = MIN(alone->until_ns, at_ns);
}

/* The task at the head of a lane if nothing holds it, with the times at which it is ready and issued; NULL: it must
 * not start here. */
static inline const Task *startable(Alone *alone, int own, OpKind kind, gint64 *ready_ns, gint64 *issue_ns) {
  const Lane *lane = alone->lanes[own];
  if (lane->head < 0)
    return NULL;
  const Task *task = &alone->state->tasks[lane->head];
  if (held_by(alone->engine, alone->state, &alone->engine->lanes[alone->first_lane], lane->head, task) >= 0)
    return NULL;
  *ready_ns = latest_end(alone->state, lane, task);
  *issue_ns = engine_issue_of(alone->state, lane->head, task);
  if (task->kind == kind && !(task->flags & TASK_IN_BATCH))
    return task;
  stop_before(alone, *ready_ns);
  return NULL;
}

static gboolean end_known(Alone *alone, int own, gint64 start_ns, gint64 end_ns) {
  const gint32 op = alone->lanes[own]->head;
  if (op >= alone->limit[own]) {
    stop_before(alone, end_ns);
    return FALSE;
  }
  alone->state->start_ns[op] = start_ns;
  alone->state->end_ns[op] = end_ns;
  end_head(alone, own);
  return TRUE;
}

/* FALSE: the kernel at the head does not start. */
static gboolean run_kernel(Alone *alone) {
  gint64 ready_ns, issue_ns;
  const Task *task = startable(alone, OWN_COMPUTE, OP_COMPUTE, &ready_ns, &issue_ns);
  if (task == NULL)
    return FALSE;
  const OpTime *time = &alone->engine->timing->works[task->work];
  return end_known(alone, OWN_COMPUTE, MAX(ready_ns, issue_ns),
                   MAX(add_ns(ready_ns, time->run_ns), add_ns(issue_ns, time->tail_ns)));
}

/* Returns whether this made an end known. */
static gboolean begin_collective(Alone *alone, int own) {
  Engine *engine = alone->engine;
  gint64 ready_ns, issue_ns;
  const Task *task = alone->pair[own].transfer < 0 ? startable(alone, own, OP_COLLECTIVE, &ready_ns, &issue_ns) : NULL;
  if (task == NULL)
    return FALSE;
  const OpTime *time = &engine->timing->transfers[task->work];
  const gint64 start_ns = MAX(ready_ns, add_ns(issue_ns, time->host_ns));
  const gboolean is_flow = contention_takes(engine->contention, task->work);
  if (!has_own_members(engine, task) || (is_flow && !contention_may_begin_ahead(engine->contention, task->work))) {
    stop_before(alone, start_ns);
    return FALSE;
  }
  if (!is_flow)
    return end_known(alone, own, start_ns, add_ns(start_ns, time->run_ns));
  Lane *lane = alone->lanes[own];
  alone->state->start_ns[lane->head] = start_ns;
  lane->state = LANE_BUSY;
  engine->begin_ns[lane - engine->lanes] = start_ns;
  alone->pair[own] = contention_begin_apart(engine->contention, start_ns, task->work);
  return FALSE;
}

static void start_all(Alone *alone) {
  do {
    while (run_kernel(alone))
      ;
  } while (begin_collective(alone, OWN_TP) || begin_collective(alone, OWN_DP));
}

static void end_collective(Alone *alone, int own, const TransferEnd *ended) {
  Engine *engine = alone->engine;
  const gint32 op = alone->lanes[own]->head;
  alone->state->end_ns[op] = ended->end_ns;
  if (engine->simulation->early_ticks != NULL)
    engine->simulation->early_ticks[engine->trace->first[alone->rank] + (gsize)op] = ended->early_ticks;
  engine->begin_ns[alone->lanes[own] - engine->lanes] = -1;
  engine->n_ahead++;
  end_head(alone, own);
}

/* Whether an op that must not end here would end at at_ticks. */
static gboolean is_at_limit(const Alone *alone, gint64 at_ticks) {
  for (int own = 0; own < N_MOVE; own++) {
    const ApartTransfer *at = &alone->pair[own];
    if (at->transfer >= 0 && at->flow.at_ticks == at_ticks && (at->flow.moves || at->flow.remaining_bytes == 0) &&
        alone->lanes[own]->head >= alone->limit[own])
      return TRUE;
  }
  return FALSE;
}

/* The usual course of a collective of tp: it begins and ends while dp keeps moving. */
static gboolean end_tp_beside(Alone *alone) {
  const ApartTransfer *tp = &alone->pair[OWN_TP];
  TransferEnd ended;
  if (tp->transfer < 0 || tp->flow.moves || alone->lanes[OWN_TP]->head >= alone->limit[OWN_TP] ||
      !contention_end_apart(alone->engine->contention, alone->pair, ticks_of_ns(alone->until_ns), &ended))
    return FALSE;
  end_collective(alone, OWN_TP, &ended);
  return TRUE;
}

/* Advances the two flows to the first end. FALSE: that would be too late. */
static gboolean advance(Alone *alone) {
  TransferEnd ended[N_MOVE];
  if (end_tp_beside(alone))
    return TRUE;
  do {
    const gint64 at_ticks = contention_next_apart_ticks(alone->pair);
    if (at_ticks >= ticks_of_ns(alone->until_ns) || is_at_limit(alone, at_ticks))
      return FALSE;
    contention_advance_apart(alone->engine->contention, alone->pair, at_ticks, ended);
  } while (ended[OWN_TP].end_ns < 0 && ended[OWN_DP].end_ns < 0);
  for (int own = 0; own < N_MOVE; own++)
    if (ended[own].end_ns >= 0)
      end_collective(alone, own, &ended[own]);
  return TRUE;
}

/* Returns the rank to the common clock. */
static void hand_back(Alone *alone) {
  Engine *engine = alone->engine;
  for (int own = 0; own < N_MOVE; own++)
    if (alone->pair[own].transfer >= 0)
      contention_put_back(engine->contention, (gint32)(alone->lanes[own] - engine->lanes), alone->rank,
                          &alone->pair[own]);
  for (int own = 0; own < N_OWN; own++) {
    alone->lanes[own]->holds = 0;
    alone->lanes[own]->awaited = NOT_AWAITED;
  }
  engine->undisturbed[alone->rank].stream = -1;
}

static gboolean may_follow(const Alone *alone, const Task *task) {
  const Lane *lanes = &alone->engine->lanes[alone->first_lane];
  return task->stream == STREAM_TP && !(task->flags & TASK_IN_BATCH) && lanes[STREAM_TP].chain < 0 &&
         lanes[STREAM_CP].head < 0 && lanes[STREAM_EP].head < 0 && has_own_members(alone->engine, task) &&
         can_take_over(alone, OWN_DP) && can_take_over(alone, OWN_COMPUTE);
}

gboolean engine_run_alone(Engine *engine, gint32 lane, const Task *task, gint64 begin_ns) {
  const gint32 rank = lane_rank(lane), first_lane = first_lane_of(lane);
  Alone alone = {.engine = engine,
                 .rank = rank,
                 .first_lane = first_lane,
                 .state = &engine->ranks[rank],
                 .limit = {NOT_AWAITED, NOT_AWAITED, NOT_AWAITED},
                 .until_ns = G_MAXINT64};
  for (int own = 0; own < N_OWN; own++)
    alone.lanes[own] = &engine->lanes[first_lane + (gint32)own_streams[own]];
  if (!may_follow(&alone, task))
    return FALSE;
  look_at_others(&alone);
  if (add_ns(begin_ns, engine->timing->transfers[task->work].run_ns) >= alone.until_ns || !take_over(&alone))
    return FALSE;
  alone.pair[OWN_TP] = contention_begin_apart(engine->contention, begin_ns, task->work);
  engine->begin_ns[lane] = begin_ns;
  do {
    start_all(&alone);
  } while (advance(&alone));
  hand_back(&alone);
  return TRUE;
}
