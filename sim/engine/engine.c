/* A run by the clock: events of the queue and of flows in time order.
 *
 * Ends later than now wait in the queue. As long as ranks contend for nothing, records follow from other records in
 * whatever order they are made. Then every end is taken at once, last in first out: a rank, with those it meets, is
 * followed as far as it goes before the next is touched. The records are the same, and this is five times as fast
 * where the state of all ranks outgrows the cache.
 *
 * Where transfers of a rank may share its links (contention.h), their ends depend on one another. A transfer for
 * which all ranks are ready is due: it begins now, or when the host will have issued it, and ends when its flow does.
 * Events of the flows and of the queue are taken in time order. Between them ranks run ahead, even past collectives
 * if nothing else happens on their ways meanwhile (run_ahead.c, run_alone.c).
 *
 * With taxes on transfers, ranks stay in time order as well: a kernel's end moves when a transfer begins beside it.
 * Ends only move later, so an end that is taken too early goes back into the queue. */
#include "engine_state.h"

#include "prefetch.h"

/* When ranks run ahead, each is followed from the end of its transfer as far as it goes, while its state is still in
 * the cache. In time order, everything that ends now is ended before anything goes on. */
static void end_flows(Engine *engine, const TransferEnd *ended, gint32 n_ended) {
  enum { FAR = 16, NEAR = 8 };
  for (gint32 i = 0; i < n_ended; i++) {
    if (i + FAR < n_ended)
      prefetch_lanes(engine, ended[i + FAR].lane);
    if (i + NEAR < n_ended)
      prefetch_head(engine, ended[i + NEAR].lane);
    engine_end_flow(engine, &ended[i]);
    if (engine->runs_ahead)
      engine_take_ended(engine);
  }
}

/* Advances the flows up to the first end, but not beyond the next event of the queue. Returns whether anything
 * ended. */
static gboolean advance_flows(Engine *engine) {
  gint32 n_ended = 0;
  while (n_ended == 0) {
    gint64 next_ns = contention_next_ns(engine->contention);
    if (next_ns == G_MAXINT64 || next_ns > event_queue_next(&engine->queue))
      return FALSE;
    const TransferEnd *ended = contention_advance(engine->contention, &n_ended);
    end_flows(engine, ended, n_ended);
  }
  return TRUE;
}

static void run(Engine *engine) {
  enum { MOST_AT_ONCE = 16 };
  gint32 due[MOST_AT_ONCE];
  for (;;) {
    engine_take_ended(engine);
    if (engine->contention != NULL && advance_flows(engine))
      continue;
    int n_due = event_queue_take_due(&engine->queue, due, MOST_AT_ONCE);
    if (n_due == 0)
      return;
    engine->horizon_ns = MAX(engine->horizon_ns, engine->queue.now);
    if (n_due > 1)
      prefetch_ends(engine, due, n_due);
    for (int i = 0; i < n_due; i++)
      engine_take(engine, due[i]);
  }
}

static void run_all(Engine *engine) {
  for (gint32 rank = 0; rank < engine->trace->n_ranks; rank++)
    engine_examine_streams(engine, rank * LANES_PER_RANK, (1u << N_STREAMS) - 1);
  run(engine);
}

static void init_rank(Engine *engine, gint32 rank) {
  Trace *trace = engine->trace;
  const TaskList *list = &engine->lists[trace->pipeline_rank[rank]];
  gsize first = trace->first[rank];
  engine->ranks[rank] =
      (Rank){list->tasks, &trace->start_ns[first], &trace->end_ns[first], &trace->issue_ns[first], list};
  for (int stream = 0; stream < LANES_PER_RANK; stream++)
    engine->lanes[rank * LANES_PER_RANK + stream] =
        (Lane){.head = stream < N_STREAMS ? list->head[stream] : -1, .chain = -1, .awaited = NOT_AWAITED};
}

/* Upper bound on the factor of any compute time. */
static double slowest(const Simulation *simulation, const Trace *trace) {
  double factor = 1;
  for (int rank = 0; rank < trace->n_ranks && simulation->speed != NULL; rank++)
    factor = MAX(factor, simulation->speed[rank]);
  return factor * (1 + 3 * simulation->jitter);
}

static void engine_init(Engine *engine, const Simulation *simulation, Trace *trace) {
  const gboolean in_order = simulation->timing->taxes != NULL;
  Contention *contention = simulation->contended ? contention_new(trace, slowest(simulation, trace)) : NULL;
  *engine = (Engine){.simulation = simulation,
                     .timing = simulation->timing,
                     .trace = trace,
                     .horizon_ns = in_order ? 0 : G_MAXINT64,
                     .runs_ahead = !in_order,
                     .is_varied = simulation->speed != NULL || simulation->jitter > 0};
  meetings_init(&engine->meetings, simulation->program);
  engine->lists = task_lists_new(trace, simulation->eager_bytes, &engine->meetings);
  meetings_finish(&engine->meetings, trace);

  g_assert(trace->n_ranks < G_MAXINT32 / LANES_PER_RANK);
  gint32 n_lanes = trace->n_ranks * LANES_PER_RANK;
  event_queue_init(&engine->queue, n_lanes);
  engine->lanes = g_new(Lane, n_lanes);
  engine->ranks = g_new(Rank, trace->n_ranks);
  engine->ended = g_new(gint32, n_lanes);
  engine->contention = contention;
  engine->members = g_new(gint32, n_lanes);
  engine->begin_ns = contention != NULL ? g_new(gint64, n_lanes) : NULL;
  for (gint32 lane = 0; lane < n_lanes && contention != NULL; lane++)
    engine->begin_ns[lane] = -1;
  if (simulation->timing->taxes != NULL)
    engine->taxed = g_new0(TaxedTime, trace->n_ranks);
  for (gint32 rank = 0; rank < trace->n_ranks; rank++)
    init_rank(engine, rank);
  engine_undisturbed_init(engine);
}

static void engine_clear(Engine *engine) {
  engine_undisturbed_clear(engine);
  task_lists_free(engine->lists, engine->simulation->program->n_ranks);
  meetings_clear(&engine->meetings);
  event_queue_clear(&engine->queue);
  g_free(engine->lanes);
  g_free(engine->ranks);
  g_free(engine->ended);
  for (gint32 rank = 0; engine->taxed != NULL && rank < engine->trace->n_ranks; rank++)
    tax_clear(&engine->taxed[rank]);
  g_free(engine->taxed);
  contention_free(engine->contention);
  g_free(engine->members);
  g_free(engine->begin_ns);
}

/* Issue times follow from the ends of host ops alone. A run that runs ahead does not need them meanwhile, so it records
 * them at the end, in memory order, and the clock touches one cold line less per op. */
static void record_issues(const Engine *engine) {
  for (gint32 rank = 0; rank < engine->trace->n_ranks; rank++) {
    const Rank *state = &engine->ranks[rank];
    for (gint32 op = 0; op < state->list->n_tasks; op++)
      state->issue_ns[op] = engine_issue_of(state, op, &state->tasks[op]);
  }
}

Trace *engine_run(const Simulation *simulation, EngineStats *stats) {
  g_assert(simulation->speed == NULL || !simulation->folded);
  Trace *trace = trace_new(simulation->program, simulation->layout, simulation->folded);
  trace->timing = simulation->timing;
  Engine engine;
  engine_init(&engine, simulation, trace);
  run_all(&engine);
  engine_assert_all_ended(&engine);
  if (engine.runs_ahead)
    record_issues(&engine);
  if (stats != NULL)
    *stats = (EngineStats){.n_events = engine.n_events, .n_ahead = engine.n_ahead, .n_ranks = trace->n_ranks};
  engine_clear(&engine);
  return trace;
}

/* --- events of what is left out --- */

static gboolean is_on_links(const Timing *timing, gint32 transfer) {
  for (int way = 0; timing->loads != NULL && way < TIMING_MAX_WAYS; way++)
    if (timing->loads[transfer].share[way] > 0)
      return TRUE;
  return FALSE;
}

static gboolean ends_with_its_send(const Simulation *simulation, gboolean is_contended, const Op *op) {
  if (op->kind != OP_RECV)
    return FALSE;
  const Transfer *transfer = &g_array_index(simulation->program->transfers, Transfer, op->work);
  const gboolean is_eager = transfer->bytes <= (double)simulation->eager_bytes;
  return !is_eager && !(is_contended && is_on_links(simulation->timing, op->work));
}

/* The events of a group are counted on its ops: each op ends by one event, except a receive that ends with its send.
 * The group occurs once in every step. */
static guint64 events_of_group(const Simulation *simulation, gboolean is_contended, const ProgramRepeats *repeats) {
  guint64 n_events = 0;
  for (int rank = 0; rank < repeats->program->n_ranks; rank++) {
    const Op *ops = repeats->program->ranks[rank].ops;
    for (int step = 0; step < repeats->program->n_steps; step++) {
      const RepeatedOps *group = program_repeats_of(repeats, rank, step);
      for (gint32 i = group->first; i < group->first + group->n_ops; i++)
        n_events += !ends_with_its_send(simulation, is_contended, &ops[i]);
    }
  }
  return n_events;
}

gboolean engine_add_omitted(const Simulation *simulation, const Trace *trace, const Omitted *omitted,
                            EngineStats *stats) {
  g_assert(simulation->folded);
  const gboolean is_contended = simulation->contended && contention_is_possible(trace);
  if (is_contended && contention_is_too_long(trace, 1, omitted))
    return FALSE;
  stats->n_events += (guint64)omitted->n_groups * events_of_group(simulation, is_contended, omitted->repeats);
  return TRUE;
}
