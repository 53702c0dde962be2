/* Folded runs have their own flows, which are faster; unfolded ones, where a flow is at many ranks, the general ones.
 */
#include "contention.h"

#include "demand.h"
#include "flows.h"
#include "rank_flows.h"

struct Contention {
  Demand *demands;       /* [program transfers]; owned */
  RankFlows *rank_flows; /* folded; owned */
  Flows *flows;          /* unfolded; owned */
  gint32 *links;         /* [n_slots] scratch: of the flow being built; owned */
  gint64 *counts;
  gsize n_slots, n_links;
  gint32 first_server; /* link */
  TransferEnd *ended;  /* [n_ended_slots]; owned */
  gint32 n_ended_slots;
};

/* One that shares servers with others. */
static Demand demand_of_served(guint route, const WayLoad *load, gint64 run_ns) {
  const gint64 latency_ns = MIN(load->latency_ns, run_ns);
  const double run_s = 1e-9 * (double)(run_ns - latency_ns);
  return (Demand){.cap = 1,
                  .alone = 1,
                  .bytes = run_s,
                  .latency_ticks = ticks_of_ns(latency_ns),
                  .alone_ticks = ticks_of_s(run_s),
                  .server = g_bit_nth_lsf(route, -1),
                  .narrowest = -1};
}

static Demand demand_of(const WayLoad *load, gint64 run_ns) {
  int widest = 0;
  for (int way = 0; way < TIMING_MAX_WAYS; way++)
    widest = MAX(widest, load->share[way]);
  gint64 latency_ns = widest > 0 ? MIN(load->latency_ns, run_ns) : run_ns;
  Demand demand = {.cap = widest > 0 ? widest : 1,
                   .bytes = widest * 1e-9 * (double)(run_ns - latency_ns),
                   .latency_ticks = ticks_of_ns(latency_ns)};
  for (int way = 0; way < TIMING_MAX_WAYS; way++) {
    if (load->share[way] == 0)
      continue;
    demand.link[demand.n_ways] = way * N_DIRECTIONS + OUT;
    demand.count[demand.n_ways++] = MAX(1, (gint64)load->share[way] * TIMING_WHOLE_WAY / widest);
  }
  demand.alone = demand.cap;
  demand.narrowest = demand.server = -1;
  for (int i = 0; i < demand.n_ways; i++) {
    const double share = WAY_CAPACITY / (double)demand.count[i];
    demand.out |= 1u << demand.link[i];
    if (share < demand.alone) {
      demand.alone = share;
      demand.narrowest = demand.link[i];
    }
  }
  demand.alone_ticks = ticks_of_s(demand.bytes / demand.alone);
  return demand;
}

/* Behind the links of all ranks are those of servers. */
static Flows *flows_of_all(gint32 n_ranks, const Timing *timing) {
  const gint32 n_of_ranks = n_ranks * LINKS_PER_RANK;
  const gint32 n_links = n_of_ranks + (timing->server_routes != NULL ? N_ROUTE_BITS : 0);
  g_autofree double *capacity = g_new(double, n_links);
  for (gint32 i = 0; i < n_of_ranks; i++)
    capacity[i] = WAY_CAPACITY;
  for (gint32 i = n_of_ranks; i < n_links; i++)
    capacity[i] = timing->server_capacity[i - n_of_ranks];
  return flows_new_on_links(capacity, n_links);
}

Contention *contention_new(const Trace *trace, gint32 n_lanes) {
  const Timing *timing = trace->timing;
  Contention *contention = g_new0(Contention, 1);
  contention->demands = g_new(Demand, timing->n_transfers);
  for (int i = 0; i < timing->n_transfers; i++)
    contention->demands[i] =
        timing->server_routes != NULL && timing->server_routes[i] != 0
            ? demand_of_served(timing->server_routes[i], &timing->loads[i], timing->transfers[i].run_ns)
            : demand_of(&timing->loads[i], timing->transfers[i].run_ns);
  contention->first_server = trace->n_ranks * LINKS_PER_RANK;
  if (trace->folded)
    contention->rank_flows = rank_flows_new(contention->demands, timing->n_transfers, trace->n_ranks, n_lanes);
  else
    contention->flows = flows_of_all(trace->n_ranks, timing);
  return contention;
}

void contention_free(Contention *contention) {
  if (contention == NULL)
    return;
  rank_flows_free(contention->rank_flows);
  flows_free(contention->flows);
  g_free(contention->demands);
  g_free(contention->links);
  g_free(contention->counts);
  g_free(contention->ended);
  g_free(contention);
}

gboolean contention_may_begin_ahead(const Contention *contention, gint32 transfer) {
  return contention->demands[transfer].latency_ticks > 0;
}

/* Makes room for a flow at n_ranks ranks. */
static void begin(Contention *contention, gint32 n_ranks) {
  gsize needed = (gsize)n_ranks * LINKS_PER_RANK + 1;
  contention->n_links = 0;
  if (needed <= contention->n_slots)
    return;
  contention->links = g_renew(gint32, contention->links, needed);
  contention->counts = g_renew(gint64, contention->counts, needed);
  contention->n_slots = needed;
}

static inline void add_ways(Contention *contention, const Demand *demand, gint32 rank, int direction) {
  for (int i = 0; i < demand->n_ways; i++) {
    contention->links[contention->n_links] = rank * LINKS_PER_RANK + demand->link[i] + direction;
    contention->counts[contention->n_links++] = demand->count[i];
  }
}

static inline guint64 tag_of(gint32 lane, gint32 transfer) {
  return (guint64)transfer << 32 | (guint32)lane;
}

static inline gint32 lane_of(guint64 tag) {
  return (gint32)(guint32)tag;
}

/* On the ways added since begin(). */
static inline FlowRequest request_of(const Contention *contention, gint32 lane, const Demand *demand) {
  return (FlowRequest){.route = {.links = contention->links,
                                 .n_links = (gint32)contention->n_links,
                                 .latency_ticks = demand->latency_ticks},
                       .counts = contention->counts,
                       .weight = 1,
                       .bytes = demand->bytes,
                       .cap_Bps = demand->cap,
                       .tag = tag_of(lane, (gint32)(demand - contention->demands))};
}

static void start(Contention *contention, gint64 begin_ns, gint32 lane, const Demand *demand) {
  const FlowRequest request = request_of(contention, lane, demand);
  (demand->latency_ticks > 0 ? flows_start_later : flows_start)(contention->flows, ticks_of_ns(begin_ns), &request);
}

void contention_send(Contention *contention, gint64 begin_ns, gint32 lane, gint32 transfer, gint32 from, gint32 to) {
  const Demand *demand = &contention->demands[transfer];
  if (contention->rank_flows != NULL) {
    rank_flows_send(contention->rank_flows, ticks_of_ns(begin_ns), lane, transfer, from, to);
    return;
  }
  begin(contention, N_DIRECTIONS);
  add_ways(contention, demand, from, OUT);
  add_ways(contention, demand, to, IN);
  start(contention, begin_ns, lane, demand);
}

void contention_collective(Contention *contention, gint64 begin_ns, gint32 lane, gint32 transfer, const gint32 *ranks,
                           gint32 n_ranks) {
  const Demand *demand = &contention->demands[transfer];
  if (contention->rank_flows != NULL) {
    rank_flows_collective(contention->rank_flows, ticks_of_ns(begin_ns), lane, transfer, ranks, n_ranks);
    return;
  }
  begin(contention, n_ranks);
  for (gint32 i = 0; i < n_ranks; i++)
    for (int direction = OUT; direction < N_DIRECTIONS; direction++)
      add_ways(contention, demand, ranks[i], direction);
  if (demand->server >= 0) {
    contention->links[contention->n_links] = contention->first_server + demand->server;
    contention->counts[contention->n_links++] = 1;
  }
  start(contention, begin_ns, lane, demand);
}

static TransferEnd end_of(gint32 lane, gint64 end_ticks) {
  const gint64 end_ns = ticks_to_ns(end_ticks);
  return (TransferEnd){lane, (gint16)(ticks_of_ns(end_ns) - end_ticks), end_ns};
}

static void make_room(Contention *contention, gint32 n_ended) {
  if (n_ended <= contention->n_ended_slots)
    return;
  contention->n_ended_slots = 2 * n_ended;
  contention->ended = g_renew(TransferEnd, contention->ended, contention->n_ended_slots);
}

static const TransferEnd *advance_rank_flows(Contention *contention, gint64 until_ns, gint32 *n_ended) {
  const gint32 *lanes;
  *n_ended = rank_flows_advance(contention->rank_flows, ticks_of_ns(until_ns), &lanes);
  make_room(contention, *n_ended);
  for (gint32 i = 0; i < *n_ended; i++)
    contention->ended[i] = end_of(lanes[i], rank_flows_now(contention->rank_flows));
  return contention->ended;
}

const TransferEnd *contention_advance(Contention *contention, gint64 until_ns, gint32 *n_ended) {
  if (contention->rank_flows != NULL)
    return advance_rank_flows(contention, until_ns, n_ended);
  const gint64 until_ticks = ticks_of_ns(until_ns);
  *n_ended = 0;
  for (gint64 next_ticks = 0; *n_ended == 0 && next_ticks < TICKS_NEVER;) {
    next_ticks = flows_next(contention->flows);
    if (next_ticks > until_ticks || next_ticks == TICKS_NEVER)
      break;
    *n_ended = flows_advance(contention->flows, next_ticks);
  }
  const FlowEnd *ended = flows_ended(contention->flows);
  make_room(contention, *n_ended);
  for (gint32 i = 0; i < *n_ended; i++)
    contention->ended[i] = end_of(lane_of(ended[i].tag), ended[i].end_ticks);
  return contention->ended;
}

/* --- before anything runs --- */

static gboolean can_meet(const Program *program, const guint *ways, int rank) {
  enum { ALL_OUT = (1u << TIMING_MAX_WAYS) - 1, ALL_IN = ALL_OUT << TIMING_MAX_WAYS };
  guint taken[N_STREAMS] = {0}, all = 0;
  const OpList *list = &program->ranks[rank];
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    if (op->kind != OP_COMPUTE && op->kind != OP_HOST)
      taken[op->stream] |= (ways[op->work] | ways[op->work] << TIMING_MAX_WAYS) & (op->kind == OP_SEND   ? ALL_OUT
                                                                                   : op->kind == OP_RECV ? ALL_IN
                                                                                                         : ~0u);
  }
  for (int stream = 0; stream < N_STREAMS; stream++) {
    if (all & taken[stream])
      return TRUE;
    all |= taken[stream];
  }
  return FALSE;
}

/* What shares servers takes a way too, which is no rank's. */
static guint *mark_served(guint *ways, const Timing *timing) {
  for (int i = 0; i < timing->n_transfers && timing->server_routes != NULL; i++)
    ways[i] |= timing->server_routes[i] != 0 ? 1u << (2 * TIMING_MAX_WAYS) : 0;
  return ways;
}

guint *contention_ways(const Trace *trace) {
  const Timing *timing = trace->timing;
  if (timing->loads == NULL)
    return NULL;
  g_autofree guint *ways = g_new0(guint, timing->n_transfers + 1);
  for (int i = 0; i < timing->n_transfers; i++)
    for (int way = 0; way < TIMING_MAX_WAYS; way++)
      ways[i] |= timing->loads[i].share[way] > 0 ? 1u << way : 0;
  for (int rank = 0; rank < trace->program->n_ranks; rank++)
    if (can_meet(trace->program, ways, rank) || timing->server_routes != NULL)
      return mark_served(g_steal_pointer(&ways), timing);
  return NULL;
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

gboolean contention_is_too_long(const Trace *trace, double slowest, const Omitted *omitted) {
  const double never_ns = (double)TICKS_NEVER / TICKS_PER_NS,
               times = omitted != NULL ? (double)omitted->n_groups + 1 : 1;
  return 2 * times * bound_on_longest_run_ns(trace, slowest) >= never_ns &&
         longest_run_ns(trace, slowest, omitted) >= never_ns;
}
