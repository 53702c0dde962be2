/* Whether transfers of a run could meet on a link at all, and whether the run fits the time range of flows. Decided
 * from the Program and its times, before anything runs. */
#include "contention.h"
#include "ticks.h"

/* The ways that the op takes at its rank, outgoing and incoming, as bits. */
static guint ways_of(const Program *program, const Timing *timing, const Op *op) {
  if (op->kind != OP_SEND && op->kind != OP_RECV && op->kind != OP_COLLECTIVE)
    return 0;
  guint ways = 0;
  for (int way = 0; way < TIMING_MAX_WAYS; way++)
    if (timing->loads[op->work].share[way] > 0)
      ways |= (op->kind != OP_RECV ? 1u << way : 0) | (op->kind != OP_SEND ? 1u << (TIMING_MAX_WAYS + way) : 0);
  return ways;
}

static gboolean can_meet(const Program *program, const Timing *timing, int rank) {
  guint taken[N_STREAMS] = {0};
  const OpList *list = &program->ranks[rank];
  for (int i = 0; i < list->n_ops; i++)
    taken[list->ops[i].stream] |= ways_of(program, timing, &list->ops[i]);
  guint all = 0;
  for (int stream = 0; stream < N_STREAMS; stream++) {
    if (all & taken[stream])
      return TRUE;
    all |= taken[stream];
  }
  return FALSE;
}

static double longest_of(const OpTime *times, int n, double factor) {
  double longest_ns = 0;
  for (int i = 0; i < n; i++)
    longest_ns =
        MAX(longest_ns, factor * (double)times[i].run_ns + (double)times[i].tail_ns + (double)times[i].host_ns);
  return longest_ns;
}

/* A quick upper bound on longest_run_ns(): every op takes as long as the longest. */
static double bound_on_longest_run_ns(const Trace *trace, double slowest) {
  const Timing *timing = trace->timing;
  double longest_ns = longest_of(timing->works, timing->n_works, slowest);
  longest_ns = MAX(longest_ns, longest_of(timing->transfers, timing->n_transfers, N_STREAMS));
  longest_ns = MAX(longest_ns, longest_of(&timing->host_sync, 1, N_STREAMS) + (double)timing->step_ns);
  double n_ops = 0;
  for (int rank = 0; rank < trace->program->n_ranks; rank++)
    n_ops += trace->program->ranks[rank].n_ops;
  return n_ops * longest_ns;
}

/* As if everything ran one after another, and every transfer shared its ways with one on every other stream.
 * `omitted` is included (NULL: nothing). */
static double longest_run_ns(const Trace *trace, double slowest, const Omitted *omitted) {
  const Timing *timing = trace->timing;
  double longest_ns = 0;
  for (int rank = 0; rank < trace->program->n_ranks; rank++) {
    const OpList *list = &trace->program->ranks[rank];
    for (int i = 0; i < list->n_ops; i++) {
      const Op *op = &list->ops[i];
      const OpTime *time = op->kind == OP_COMPUTE ? &timing->works[op->work]
                           : op->kind == OP_HOST  ? timing_of_host(timing, op->work)
                                                  : &timing->transfers[op->work];
      const double factor = op->kind == OP_COMPUTE ? slowest : N_STREAMS;
      const double times = (double)omitted_op_times(omitted, rank, op->step, i);
      if (op->kind == OP_HOST && program_host_work(op) == HOST_WORK_STEP)
        longest_ns += times * (double)timing->step_ns;
      longest_ns += times * (factor * (double)time->run_ns + (double)time->tail_ns + (double)time->host_ns);
    }
  }
  return longest_ns;
}

gboolean contention_is_possible(const Trace *trace) {
  gboolean is_possible = FALSE;
  for (int rank = 0; rank < trace->program->n_ranks && !is_possible; rank++)
    is_possible = trace->timing->loads != NULL && can_meet(trace->program, trace->timing, rank);
  return is_possible;
}

gboolean contention_is_too_long(const Trace *trace, double slowest, const Omitted *omitted) {
  const double never_ns = (double)TICKS_NEVER / TICKS_PER_NS,
               times = omitted != NULL ? (double)omitted->n_groups + 1 : 1;
  return 2 * times * bound_on_longest_run_ns(trace, slowest) >= never_ns &&
         longest_run_ns(trace, slowest, omitted) >= never_ns;
}
