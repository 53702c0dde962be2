/* A folded run is followed as far as the first conflict of transfers; from there, and in all other runs, the clock has
 * it. */
#include "clock.h"
#include "contention.h"
#include "follow.h"

/* --- what a run knows beforehand --- */

/* `omitted`: as in contention_is_too_long(). FALSE: with that, the run is too long for transfers to slow each other. */
static gboolean classify_transfers(Run *run, double slowest, const Omitted *omitted) {
  const GArray *transfers = run->trace->program->transfers;
  run->ways = run->simulation->contended ? contention_ways(run->trace) : NULL;
  const gboolean is_too_long = run->ways != NULL && contention_is_too_long(run->trace, slowest, omitted);
  if (is_too_long)
    g_clear_pointer(&run->ways, g_free);
  run->has_ways = run->ways != NULL;
  if (run->ways == NULL)
    run->ways = g_new0(guint, run->timing->n_transfers + 1);
  run->eager = g_new(gboolean, run->timing->n_transfers + 1);
  for (guint i = 0; i < (guint)run->timing->n_transfers; i++) {
    const Program *program =
        run->trace->variant != NULL ? run->trace->programs[i / transfers->len] : run->trace->program;
    const Transfer *transfer = &g_array_index(program->transfers, Transfer, i % transfers->len);
    run->eager[i] = transfer->group < 0 && transfer->bytes <= (double)run->simulation->eager_bytes;
  }
  return !is_too_long;
}

static gint64 host_ns(const Timing *timing, const Op *op) {
  return op->kind == OP_COMPUTE ? timing->works[op->work].host_ns
         : op->kind == OP_HOST  ? 0
                                : timing->transfers[op->work].host_ns;
}

/* The host issues op after op without pause, and starts anew at the end of an OP_HOST. Ranks whose micro-batches have
 * other lengths issue as many kernels. */
static void find_offsets(Run *run) {
  run->offset_ns = g_new(gint64, run->tape->n_ops);
  for (int rank = 0; rank < run->tape->n_ranks; rank++) {
    const Op *ops = run->trace->program->ranks[rank].ops - run->tape->first[rank];
    gint64 at_ns = 0;
    for (gint32 op = run->tape->first[rank]; op < run->tape->first[rank + 1]; op++) {
      run->offset_ns[op] = at_ns;
      at_ns = ops[op].kind == OP_HOST ? 0 : add_ns(at_ns, host_ns(run->timing, &ops[op]));
    }
  }
}

static void find_bases(Run *run) {
  const Trace *trace = run->trace;
  run->base = g_new(gssize, trace->n_ranks);
  for (int rank = 0; rank < trace->n_ranks; rank++)
    run->base[rank] = (gssize)trace->first[rank] - run->tape->first[trace->pipeline_rank[rank]];
}

/* Upper bound on the factor of any compute time. */
static double slowest(const Simulation *simulation, const Trace *trace) {
  double factor = 1;
  for (int rank = 0; rank < trace->n_ranks && simulation->speed != NULL; rank++)
    factor = MAX(factor, simulation->speed[rank]);
  return factor * (1 + 3 * simulation->jitter);
}

static void assert_times(const OpTime *times, int n_times, guint n_needed) {
  g_assert((guint)n_times >= n_needed);
  for (int i = 0; i < n_times; i++)
    g_assert(times[i].run_ns >= 0 && times[i].tail_ns >= 0 && times[i].host_ns >= 0);
}

static void run_init(Run *run, const Simulation *simulation, const Tape *tape, Trace *trace) {
  const Timing *timing = simulation->timing;
  assert_times(timing->works, timing->n_works, trace->program->works->len);
  assert_times(timing->transfers, timing->n_transfers, trace->program->transfers->len);
  assert_times(&timing->host_sync, 1, 1);
  *run = (Run){.simulation = simulation,
               .tape = tape,
               .timing = timing,
               .trace = trace,
               .stride = trace->folded ? 1 : trace->layout.stride[AXIS_PP]};
  classify_transfers(run, slowest(simulation, trace), NULL);
  find_offsets(run);
  find_bases(run);
}

static void run_clear(Run *run) {
  g_free(run->ways);
  g_free(run->eager);
  g_free(run->offset_ns);
  g_free(run->base);
}

/* --- events --- */

/* A receive that waits with its send for their transfer, which is no flow, ends by the same event. */
static gboolean ends_by_itself(const Run *run, gboolean is_receive, gint32 transfer) {
  return !is_receive || run->eager[transfer] || run->ways[transfer] != 0;
}

/* Of all ranks that are alike: each counts, but of the members of a collective only one. */
static guint64 events_of_transfer(const Run *run, const TapeStep *step, int n_alike) {
  const Program *program = run->trace->program;
  if (step->kind < TAPE_COLLECTIVE)
    return ends_by_itself(run, step->kind == TAPE_RECEIVE, step->work) ? (guint64)n_alike : 0;
  if (step->kind == TAPE_MEETING && run->tape->members[run->tape->first_member[step->meets]] != step->op)
    return 0;
  const gint32 group = g_array_index(program->transfers, Transfer, step->work).group;
  const AxisSet axes = g_array_index(program->groups, Group, group).axes;
  return (guint64)(run->trace->folded ? 1 : n_alike / layout_group_size(&run->trace->layout, axes));
}

static guint64 count_events(const Run *run) {
  const Tape *tape = run->tape;
  const gint32 n_transfers = tape->first_transfer[tape->n_ranks];
  const int n_alike = run->trace->n_ranks / tape->n_ranks;
  guint64 n_events = (guint64)(tape->n_ops - n_transfers) * (guint64)n_alike;
  for (gint32 t = 0; t < n_transfers; t++)
    n_events += events_of_transfer(run, tape_step(tape, tape->transfers[t]), n_alike);
  return n_events;
}

/* The events of a group are counted on its ops. It occurs once in every step. */
static guint64 events_of_group(const Run *run, const ProgramRepeats *repeats) {
  guint64 n_events = 0;
  for (int rank = 0; rank < repeats->program->n_ranks; rank++) {
    const Op *ops = repeats->program->ranks[rank].ops;
    for (int step = 0; step < repeats->program->n_steps; step++) {
      const RepeatedOps *group = program_repeats_of(repeats, rank, step);
      for (gint32 i = group->first; i < group->first + group->n_ops; i++)
        n_events += ends_by_itself(run, ops[i].kind == OP_RECV, ops[i].work);
    }
  }
  return n_events;
}

gboolean engine_add_omitted(const Simulation *simulation, Trace *trace, const Omitted *omitted, EngineStats *stats) {
  g_assert(simulation->folded);
  Run run = {.simulation = simulation, .timing = simulation->timing, .trace = trace};
  const gboolean is_counted = classify_transfers(&run, 1, omitted);
  if (is_counted)
    stats->n_events += (guint64)omitted->n_groups * events_of_group(&run, omitted->repeats);
  run_clear(&run);
  return is_counted;
}

/* --- the run --- */

static void follow(Run *run) {
  gint32 n_made;
  const gint64 conflict_ns = follow_to_conflict(run, &n_made);
  if (conflict_ns == G_MAXINT64)
    return;
  g_autoptr(Clock) clock = clock_new(run);
  clock_run_from(clock, conflict_ns, n_made);
}

static void tell_variants(const Simulation *simulation, Trace *trace) {
  trace->programs = simulation->programs;
  trace->variant = g_new(int, trace->n_ranks);
  for (int rank = 0; rank < trace->n_ranks; rank++)
    trace->variant[rank] = layout_coordinates(simulation->layout, rank).at[AXIS_DP];
  if (simulation->whole != NULL)
    trace->whole = *simulation->whole;
}

Trace *engine_run(const Simulation *simulation, EngineStats *stats) {
  g_assert(simulation->speed == NULL || !simulation->folded);
  Trace *trace = trace_new(simulation->program, simulation->layout, simulation->folded);
  trace->timing = simulation->timing;
  if (simulation->programs != NULL)
    tell_variants(simulation, trace);
  const Tape *tape = program_tape(simulation->program);
  if (tape == NULL)
    g_error("engine: the program gets stuck, though it was verified");
  Run run;
  run_init(&run, simulation, tape, trace);
  if (follow_can(&run)) {
    follow(&run);
  } else {
    g_autoptr(Clock) clock = clock_new(&run);
    clock_run_all(clock);
  }
  if (stats != NULL)
    *stats = (EngineStats){.n_events = count_events(&run), .n_ranks = trace->n_ranks};
  run_clear(&run);
  return trace;
}
