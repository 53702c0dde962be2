/* A lane is one stream of one rank: a queue of ops, the head of which is held, runs or waits.
 *
 *        examine ──► held: an op it names has not ended ──► that op's lane will wake it
 *           │
 *           ├──────► ready: the others of its batch are not ──► the last of them starts all
 *           ▼
 *         start ───► compute, host     end is known
 *                    send, receive     known when the partner is there too (eager send: at once)
 *                    collective        known when the last member is there
 *           │ end
 *           ▼
 *      event queue ► end: wake the lane itself for its next op, and the lanes it held
 *
 * Ops that meet end by one event: their lanes are chained. Whatever is known ahead is computed ahead: an op that the
 * host has yet to launch arrives at a time known when its stream is free, so launches need no events of their own. An
 * end that is now is taken at once, without the queue.
 *
 * The state of a run is a few bytes per lane; records go straight into the trace, where `end ≤ now` also answers
 * whether an op has ended (−1 compares as never). */
#include "engine.h"

#include "event_queue.h"
#include "meeting.h"
#include "saturate.h"
#include "variation.h"

typedef enum { LANE_HELD, LANE_READY, LANE_BUSY } LaneState;

typedef struct {
  gint32 head;     /* op at the head; −1 when all have ended */
  gint32 chain;    /* next lane whose op ends by the same event; −1 none */
  guint16 holds;   /* streams of this rank whose heads wait for an op of this lane */
  guint8 state;    /* LaneState */
  guint8 is_woken; /* in `woken` */
} Lane;

typedef struct {
  const Task *tasks;
  gint64 *start_ns, *end_ns, *issue_ns; /* of the trace, this rank's part */
} Rank;

typedef struct {
  const Simulation *simulation;
  Trace *trace;
  TaskList *lists; /* [pipeline ranks] */
  Meetings meetings;
  EventQueue queue;
  Lane *lanes; /* [rank · N_STREAMS + stream] */
  Rank *ranks;
  gint32 *woken; /* lanes to examine now, last in first out; each at most once */
  gint32 n_woken;
  gboolean is_varied; /* compute times differ by rank or op */
  gint64 now_ns;
  guint64 n_events;
  gsize n_ended;
} Engine;

static inline void wake(Engine *engine, gint32 lane) {
  if (engine->lanes[lane].is_woken)
    return;
  engine->lanes[lane].is_woken = TRUE;
  engine->woken[engine->n_woken++] = lane;
}

/* The op at the head of `lane`, and those chained to it, have ended. */
static void end(Engine *engine, gint32 lane) {
  engine->n_events++;
  while (lane >= 0) {
    Lane *ended = &engine->lanes[lane];
    gint32 rank = lane / N_STREAMS, chain = ended->chain;
    ended->head = engine->ranks[rank].tasks[ended->head].next;
    ended->chain = -1;
    ended->state = LANE_HELD;
    for (guint holds = ended->holds; holds != 0; holds &= holds - 1)
      wake(engine, rank * N_STREAMS + __builtin_ctz(holds));
    ended->holds = 0;
    if (ended->head >= 0)
      wake(engine, lane);
    engine->n_ended++;
    lane = chain;
  }
}

static inline void end_at(Engine *engine, gint32 lane, gint64 end_ns) {
  if (end_ns == engine->now_ns)
    end(engine, lane);
  else
    event_queue_add(&engine->queue, end_ns, lane);
}

static void vary(const Engine *engine, gint32 rank, gint32 op, gint64 *run_ns, gint64 *tail_ns) {
  const Simulation *simulation = engine->simulation;
  double factor = simulation->speed != NULL ? simulation->speed[rank] : 1.0;
  if (simulation->jitter > 0)
    factor *= 1.0 + simulation->jitter * variation_normal(simulation->seed, rank, op);
  variation_scale(factor, run_ns, tail_ns);
}

static void start_compute(Engine *engine, gint32 lane, gint32 rank, const Task *task, gint64 issue_ns) {
  Rank *state = &engine->ranks[rank];
  gint32 op = engine->lanes[lane].head;
  gint64 run_ns = task->run_ns, tail_ns = task->tail_ns;
  if (engine->is_varied)
    vary(engine, rank, op, &run_ns, &tail_ns);
  state->start_ns[op] = MAX(engine->now_ns, issue_ns);
  state->end_ns[op] = MAX(add_ns(engine->now_ns, run_ns), add_ns(issue_ns, tail_ns));
  end_at(engine, lane, state->end_ns[op]);
}

static void start_host(Engine *engine, gint32 lane, gint32 rank, const Task *task, gint64 issue_ns) {
  Rank *state = &engine->ranks[rank];
  gint32 op = engine->lanes[lane].head;
  state->start_ns[op] = MAX(engine->now_ns, issue_ns);
  state->end_ns[op] = add_ns(state->start_ns[op], task->run_ns);
  end_at(engine, lane, state->end_ns[op]);
}

/* A buffered send is on its way from its own arrival on; the receive ends when both data and receive are there. */
static void start_eager(Engine *engine, gint32 lane, gint32 partner_rank, const Task *task, gint64 *end_ns,
                        gint64 start_ns) {
  const Rank *partner = &engine->ranks[partner_rank];
  gboolean partner_is_there = partner->start_ns[task->match] >= 0;
  if (task->kind == OP_SEND) {
    *end_ns = add_ns(start_ns, task->run_ns);
    end_at(engine, lane, *end_ns);
    if (partner_is_there) {
      const Task *receive = &partner->tasks[task->match];
      partner->end_ns[task->match] = MAX(*end_ns, partner->start_ns[task->match]);
      end_at(engine, partner_rank * N_STREAMS + receive->stream, partner->end_ns[task->match]);
    }
  } else if (partner_is_there) {
    *end_ns = MAX(start_ns, partner->end_ns[task->match]);
    end_at(engine, lane, *end_ns);
  }
}

static void start_transfer(Engine *engine, gint32 lane, gint32 rank, const Task *task, gint64 issue_ns) {
  const Rank *own = &engine->ranks[rank], *partner = &engine->ranks[rank + task->peer_offset];
  gint32 op = engine->lanes[lane].head;
  gint64 start_ns = MAX(engine->now_ns, add_ns(issue_ns, task->launch_ns));
  own->start_ns[op] = start_ns;
  if (task->is_eager) {
    start_eager(engine, lane, rank + task->peer_offset, task, &own->end_ns[op], start_ns);
    return;
  }
  gint64 partner_start_ns = partner->start_ns[task->match];
  if (partner_start_ns < 0)
    return;
  gint64 end_ns = add_ns(MAX(start_ns, partner_start_ns), task->run_ns);
  own->end_ns[op] = partner->end_ns[task->match] = end_ns;
  engine->lanes[lane].chain = (rank + task->peer_offset) * N_STREAMS + partner->tasks[task->match].stream;
  end_at(engine, lane, end_ns);
}

static void start_collective(Engine *engine, gint32 lane, gint32 rank, const Task *task, gint64 issue_ns) {
  gint32 n_members, op = engine->lanes[lane].head;
  Meeting *meeting = meetings_at(&engine->meetings, rank, task, &n_members);
  gint64 start_ns = MAX(engine->now_ns, add_ns(issue_ns, task->launch_ns));
  engine->ranks[rank].start_ns[op] = start_ns;
  meeting->end_ns = MAX(meeting->end_ns, add_ns(start_ns, task->run_ns));
  engine->lanes[lane].chain = meeting->last;
  meeting->last = lane;
  if (++meeting->n_arrived < n_members)
    return;

  gint64 end_ns = meeting->end_ns;
  *meeting = (Meeting){.last = -1};
  for (gint32 member = lane; member >= 0; member = engine->lanes[member].chain)
    engine->ranks[member / N_STREAMS].end_ns[engine->lanes[member].head] = end_ns;
  end_at(engine, lane, end_ns);
}

static void start(Engine *engine, gint32 lane, gint32 rank, const Task *task) {
  Rank *state = &engine->ranks[rank];
  gint64 barrier_ns = task->barrier < 0 ? 0 : state->end_ns[task->barrier];
  gint64 issue_ns = add_ns(barrier_ns, task->issue_offset_ns);
  state->issue_ns[engine->lanes[lane].head] = issue_ns;
  engine->lanes[lane].state = LANE_BUSY;
  switch ((OpKind)task->kind) {
  case OP_COMPUTE:
    start_compute(engine, lane, rank, task, issue_ns);
    break;
  case OP_HOST:
    start_host(engine, lane, rank, task, issue_ns);
    break;
  case OP_COLLECTIVE:
    start_collective(engine, lane, rank, task, issue_ns);
    break;
  default:
    start_transfer(engine, lane, rank, task, issue_ns);
  }
}

/* The lane's op is ready: start its batch when that makes all of them. */
static void start_batch(Engine *engine, gint32 rank, gint32 op) {
  const Task *tasks = engine->ranks[rank].tasks;
  gint32 first_lane = rank * N_STREAMS;
  for (gint32 i = tasks[op].next_in_batch; i != op; i = tasks[i].next_in_batch) {
    const Lane *lane = &engine->lanes[first_lane + tasks[i].stream];
    if (lane->head != i || lane->state != LANE_READY)
      return;
  }
  gint32 i = op;
  do {
    start(engine, first_lane + tasks[i].stream, rank, &tasks[i]);
    i = tasks[i].next_in_batch;
  } while (i != op);
}

/* The first op that the head has to wait for; −1: none. */
static inline gint32 held_by(const Rank *state, const Task *task, gint64 now_ns) {
  for (int i = 0; i < task->n_after; i++)
    if ((guint64)state->end_ns[task->after[i]] > (guint64)now_ns)
      return task->after[i];
  if (task->barrier >= 0 && (guint64)state->end_ns[task->barrier] > (guint64)now_ns)
    return task->barrier;
  return -1;
}

static void examine(Engine *engine, gint32 id) {
  Lane *lane = &engine->lanes[id];
  lane->is_woken = FALSE;
  if (lane->state != LANE_HELD)
    return;
  gint32 rank = id / N_STREAMS;
  const Rank *state = &engine->ranks[rank];
  const Task *task = &state->tasks[lane->head];
  gint32 holder = held_by(state, task, engine->now_ns);
  if (holder >= 0) {
    engine->lanes[rank * N_STREAMS + state->tasks[holder].stream].holds |= 1u << task->stream;
  } else if (task->next_in_batch < 0) {
    start(engine, id, rank, task);
  } else {
    lane->state = LANE_READY;
    start_batch(engine, rank, lane->head);
  }
}

static void run(Engine *engine) {
  guint32 lane;
  do {
    while (engine->n_woken > 0)
      examine(engine, engine->woken[--engine->n_woken]);
    if (!event_queue_take(&engine->queue, &engine->now_ns, &lane))
      return;
    end(engine, lane);
  } while (TRUE);
}

static void init_rank(Engine *engine, gint32 rank) {
  Trace *trace = engine->trace;
  const TaskList *list = &engine->lists[trace->pipeline_rank[rank]];
  gsize first = trace->first[rank];
  engine->ranks[rank] = (Rank){list->tasks, &trace->start_ns[first], &trace->end_ns[first], &trace->issue_ns[first]};
  for (int stream = 0; stream < N_STREAMS; stream++)
    engine->lanes[rank * N_STREAMS + stream] = (Lane){.head = list->head[stream], .chain = -1};
}

static void engine_init(Engine *engine, const Simulation *simulation) {
  g_assert(simulation->speed == NULL || !simulation->folded);
  Trace *trace = trace_new(simulation->program, simulation->layout, simulation->folded);
  trace->timing = simulation->timing;
  *engine = (Engine){.simulation = simulation,
                     .trace = trace,
                     .lists = task_lists_new(trace, simulation->eager_bytes),
                     .is_varied = simulation->speed != NULL || simulation->jitter > 0};
  meetings_init(&engine->meetings, trace, engine->lists);

  g_assert(trace->n_ranks < (1 << EVENT_PAYLOAD_BITS) / N_STREAMS);
  gint32 n_lanes = trace->n_ranks * N_STREAMS;
  event_queue_init(&engine->queue, n_lanes);
  engine->lanes = g_new(Lane, n_lanes);
  engine->ranks = g_new(Rank, trace->n_ranks);
  engine->woken = g_new(gint32, n_lanes);
  for (gint32 rank = 0; rank < trace->n_ranks; rank++)
    init_rank(engine, rank);
  for (gint32 lane = n_lanes - 1; lane >= 0; lane--)
    if (engine->lanes[lane].head >= 0)
      wake(engine, lane);
}

/* Every head that never ended, a line each, as far as they fit a screen. */
static void report_stuck(const Engine *engine) {
  g_autoptr(GString) text = g_string_new(NULL);
  int n_left = 24;
  for (gint32 lane = 0; lane < engine->trace->n_ranks * N_STREAMS && n_left > 0; lane++) {
    gint32 rank = lane / N_STREAMS, head = engine->lanes[lane].head;
    if (head < 0)
      continue;
    const Task *task = &engine->ranks[rank].tasks[head];
    gint32 holder = held_by(&engine->ranks[rank], task, engine->now_ns);
    g_string_append_printf(text, "\n  rank %d, stream %s: op %d ", rank, stream_info(task->stream)->name, head);
    if (holder >= 0)
      g_string_append_printf(text, "waits for op %d", holder);
    else
      g_string_append(text, engine->lanes[lane].state == LANE_READY ? "waits for its batch" : "waits for its peers");
    n_left--;
  }
  g_error("engine: stuck at %" G_GINT64_FORMAT " ns, though the program was verified:%s", engine->now_ns, text->str);
}

static void engine_clear(Engine *engine) {
  task_lists_free(engine->lists, engine->simulation->program->n_ranks);
  meetings_clear(&engine->meetings);
  event_queue_clear(&engine->queue);
  g_free(engine->lanes);
  g_free(engine->ranks);
  g_free(engine->woken);
}

Trace *engine_run(const Simulation *simulation, EngineStats *stats) {
  Engine engine;
  engine_init(&engine, simulation);
  run(&engine);
  if (engine.n_ended < engine.trace->first[engine.trace->n_ranks])
    report_stuck(&engine);
  if (stats != NULL)
    *stats = (EngineStats){.n_events = engine.n_events, .n_ranks = engine.trace->n_ranks};
  engine_clear(&engine);
  return engine.trace;
}
