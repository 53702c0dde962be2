/* A flow's rate is expressed in thousandths of its widest share. With s_w its share of way w and s its largest share:
 *
 *     cap = s,   bytes = (run − latency) · s,   on way w it counts s_w · 1000 / s times, of a capacity of 1000 · 1000
 *
 * so that flows on a full way get equal parts of that way's bytes. */
#include "contention.h"

#include "ticks.h"

#include <string.h>

enum { OUT, IN, N_DIRECTIONS, LINKS_PER_RANK = TIMING_MAX_WAYS * N_DIRECTIONS };
static const double WAY_CAPACITY = (double)TIMING_WHOLE_WAY * TIMING_WHOLE_WAY;

/* What a transfer takes, ready for use in a flow. */
typedef struct {
  int n_ways;
  gint32 link[TIMING_MAX_WAYS]; /* of rank 0, outgoing */
  gint64 count[TIMING_MAX_WAYS];
  double cap;
  double bytes;
  gint64 latency_ticks;
} Demand;

/* The rates that a collective gets beside the transfers it met last on its rank. */
typedef struct {
  gint32 transfer; /* −1: none */
  FlowsMet met[FLOWS_N_MET];
} Met;
enum { N_MET = 8 }; /* per rank, indexed by the collective's number modulo N_MET */

/* The rates that two transfers of a rank get on its ways, or one alone. */
typedef struct {
  gboolean is_known;
  double rates_Bps[2];
  gint32 bounds[2]; /* of rank 0; −1: the cap */
} KnownRates;

struct Contention {
  Demand *demands; /* [program transfers]; owned */
  gint32 n_transfers;
  const OpTime *times; /* [program transfers] */
  Met *met;            /* [ranks][N_MET]; owned */
  Flows *flows;
  gint32 *links; /* [n_slots] scratch: of the flow being built; owned */
  gint64 *counts;
  gsize n_slots, n_links;
  TransferEnd *ended; /* [n_ended_slots]; owned */
  gint32 n_ended_slots;
  Flows *bare;     /* the ways of one rank with nobody on them; NULL until needed; owned, like the fields below that
                      come with it */
  gint32 *kind_of; /* [program transfers]: transfers of one kind take the same share of the same ways */
  gint32 n_kinds;
  KnownRates *rates; /* [n_kinds][n_kinds + 1]: beside the other kind; last column: alone */
};

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
  return demand;
}

Contention *contention_new(const Trace *trace, double slowest) {
  if (!contention_is_possible(trace) || contention_is_too_long(trace, slowest, NULL))
    return NULL;
  gint32 n_links = trace->n_ranks * LINKS_PER_RANK;
  g_autofree double *capacity = g_new(double, n_links);
  for (gint32 i = 0; i < n_links; i++)
    capacity[i] = WAY_CAPACITY;
  Contention *contention = g_new(Contention, 1);
  *contention = (Contention){.demands = g_new(Demand, trace->timing->n_transfers),
                             .n_transfers = trace->timing->n_transfers,
                             .times = trace->timing->transfers,
                             .met = g_new(Met, trace->n_ranks * N_MET),
                             .flows = flows_new_on_links(capacity, n_links)};
  for (int i = 0; i < trace->n_ranks * N_MET; i++)
    contention->met[i] = (Met){.transfer = -1};
  for (int i = 0; i < trace->timing->n_transfers; i++)
    contention->demands[i] = demand_of(&trace->timing->loads[i], trace->timing->transfers[i].run_ns);
  return contention;
}

void contention_free(Contention *contention) {
  if (contention == NULL)
    return;
  flows_free(contention->flows);
  flows_free(contention->bare);
  g_free(contention->kind_of);
  g_free(contention->rates);
  g_free(contention->demands);
  g_free(contention->met);
  g_free(contention->links);
  g_free(contention->counts);
  g_free(contention->ended);
  g_free(contention);
}

gboolean contention_takes(const Contention *contention, gint32 transfer) {
  return contention->demands[transfer].n_ways > 0;
}

gboolean contention_may_begin_ahead(const Contention *contention, gint32 transfer) {
  return contention->demands[transfer].latency_ticks > 0;
}

/* Makes room for a flow at n_ranks ranks. */
static void begin(Contention *contention, gint32 n_ranks) {
  gsize needed = (gsize)n_ranks * LINKS_PER_RANK;
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
  begin(contention, N_DIRECTIONS);
  add_ways(contention, demand, from, OUT);
  add_ways(contention, demand, to, IN);
  start(contention, begin_ns, lane, demand);
}

void contention_collective(Contention *contention, gint64 begin_ns, gint32 lane, gint32 transfer, const gint32 *ranks,
                           gint32 n_ranks) {
  const Demand *demand = &contention->demands[transfer];
  begin(contention, n_ranks);
  for (gint32 i = 0; i < n_ranks; i++)
    for (int direction = OUT; direction < N_DIRECTIONS; direction++)
      add_ways(contention, demand, ranks[i], direction);
  start(contention, begin_ns, lane, demand);
}

static TransferEnd end_of(guint64 tag, gint64 end_ticks) {
  const gint64 end_ns = ticks_to_ns(end_ticks);
  return (TransferEnd){lane_of(tag), (gint16)(ticks_of_ns(end_ns) - end_ticks), end_ns};
}

gboolean contention_run_ahead(Contention *contention, gint64 begin_ns, gint32 lane, gint32 transfer, gint32 rank,
                              gint64 until_ns, TransferEnd *ended) {
  const Demand *demand = &contention->demands[transfer];
  Met *met = &contention->met[rank * N_MET + transfer % N_MET];
  if (met->transfer != transfer)
    *met = (Met){.transfer = transfer};
  begin(contention, 1);
  for (int direction = OUT; direction < N_DIRECTIONS; direction++)
    add_ways(contention, demand, rank, direction);
  const FlowRequest request = request_of(contention, lane, demand);
  const gint64 end_ticks = flows_run_ahead(contention->flows, ticks_of_ns(begin_ns), &request, rank * LINKS_PER_RANK,
                                           (rank + 1) * LINKS_PER_RANK, ticks_of_ns(until_ns), met->met);
  if (end_ticks < 0)
    return FALSE;
  *ended = end_of(request.tag, end_ticks);
  return TRUE;
}

gint64 contention_undisturbed_until_ns(const Contention *contention, gint64 begin_ns, gint32 lane, gint32 transfer,
                                       gint32 rank) {
  const gint64 latency_ticks = contention->demands[transfer].latency_ticks;
  const gint64 moves_ticks = add_ticks(ticks_of_ns(begin_ns), latency_ticks);
  if (moves_ticks >= flows_now(contention->flows))
    return moves_ticks / TICKS_PER_NS;
  const gint64 end_ticks =
      flows_end_alone(contention->flows, rank * LINKS_PER_RANK, (rank + 1) * LINKS_PER_RANK, tag_of(lane, transfer));
  return end_ticks >= 0 ? end_ticks / TICKS_PER_NS : begin_ns + contention->times[transfer].run_ns;
}

/* --- two transfers of a rank, followed apart from all others --- */

static gboolean take_alike(const Demand *a, const Demand *b) {
  if (a->n_ways != b->n_ways || a->cap != b->cap)
    return FALSE;
  for (int i = 0; i < a->n_ways; i++)
    if (a->link[i] != b->link[i] || a->count[i] != b->count[i])
      return FALSE;
  return TRUE;
}

static void find_kinds(Contention *contention, gint32 n_transfers) {
  g_autofree gint32 *first_of = g_new(gint32, n_transfers);
  contention->kind_of = g_new(gint32, n_transfers);
  for (gint32 i = 0; i < n_transfers; i++) {
    gint32 kind = 0;
    while (kind < contention->n_kinds && !take_alike(&contention->demands[first_of[kind]], &contention->demands[i]))
      kind++;
    if (kind == contention->n_kinds)
      first_of[contention->n_kinds++] = i;
    contention->kind_of[i] = kind;
  }
}

static void make_bare(Contention *contention) {
  double capacity[LINKS_PER_RANK];
  for (int i = 0; i < LINKS_PER_RANK; i++)
    capacity[i] = WAY_CAPACITY;
  contention->bare = flows_new_on_links(capacity, LINKS_PER_RANK);
  find_kinds(contention, contention->n_transfers);
  contention->rates = g_new0(KnownRates, (gsize)contention->n_kinds * (gsize)(contention->n_kinds + 1));
}

/* The rate that flows.h gives a lone flow: what its narrowest way allows. */
static void rate_alone(const Demand *demand, double *rate_Bps, gint32 *bound) {
  *rate_Bps = demand->cap;
  *bound = -1;
  for (int direction = OUT; direction < N_DIRECTIONS; direction++)
    for (int i = 0; i < demand->n_ways; i++) {
      const double share_Bps = WAY_CAPACITY / (double)demand->count[i];
      const gint32 link = demand->link[i] + direction;
      if (share_Bps < *rate_Bps || (share_Bps == *rate_Bps && *bound >= 0 && link < *bound)) {
        *rate_Bps = share_Bps;
        *bound = link;
      }
    }
}

static gint32 links_of(const Demand *demand, gint32 links[LINKS_PER_RANK], gint64 counts[LINKS_PER_RANK]) {
  gint32 n = 0;
  for (int direction = OUT; direction < N_DIRECTIONS; direction++)
    for (int i = 0; i < demand->n_ways; i++) {
      links[n] = demand->link[i] + direction;
      counts[n++] = demand->count[i];
    }
  return n;
}

/* `other` −1: the transfer is alone. */
static void find_rates(const Contention *contention, gint32 transfer, gint32 other, KnownRates *rates) {
  const gint32 transfers[] = {transfer, other};
  FlowRequest requests[2];
  gint32 links[2][LINKS_PER_RANK];
  gint64 counts[2][LINKS_PER_RANK];
  rates->is_known = TRUE;
  for (int i = 0; i < 2 && transfers[i] >= 0; i++) {
    const Demand *demand = &contention->demands[transfers[i]];
    const gint32 n = links_of(demand, links[i], counts[i]);
    requests[i] = (FlowRequest){.route = {.links = links[i], .n_links = n},
                                .counts = counts[i],
                                .weight = 1,
                                .bytes = demand->bytes,
                                .cap_Bps = demand->cap};
    rate_alone(demand, &rates->rates_Bps[i], &rates->bounds[i]);
  }
  double rates_Bps[2];
  gint32 bounds[2];
  if (other < 0 || !flows_rates_of_two(contention->bare, requests, rates_Bps, bounds))
    return;
  memcpy(rates->rates_Bps, rates_Bps, sizeof rates_Bps);
  memcpy(rates->bounds, bounds, sizeof bounds);
}

static const KnownRates *rates_of(Contention *contention, gint32 transfer, gint32 other) {
  if (contention->bare == NULL)
    make_bare(contention);
  const gint32 beside = other >= 0 ? contention->kind_of[other] : contention->n_kinds;
  KnownRates *rates = &contention->rates[contention->kind_of[transfer] * (contention->n_kinds + 1) + beside];
  if (!rates->is_known)
    find_rates(contention, transfer, other, rates);
  return rates;
}

ApartTransfer contention_begin_apart(const Contention *contention, gint64 begin_ns, gint32 transfer) {
  const Demand *demand = &contention->demands[transfer];
  return (ApartTransfer){transfer,
                         {.at_ticks = add_ticks(ticks_of_ns(begin_ns), demand->latency_ticks),
                          .bound = -1,
                          .remaining_bytes = demand->bytes}};
}

gboolean contention_take_out(Contention *contention, gint32 lane, gint32 transfer, gint32 rank, ApartTransfer *apart) {
  const gint32 first = rank * LINKS_PER_RANK, end = first + LINKS_PER_RANK;
  apart->transfer = transfer;
  if (transfer < 0)
    return flows_are_free(contention->flows, first, end);
  if (!flows_take_out(contention->flows, first, end, tag_of(lane, transfer), &apart->flow))
    return FALSE;
  if (apart->flow.bound >= 0)
    apart->flow.bound -= first;
  return TRUE;
}

void contention_put_back(Contention *contention, gint32 lane, gint32 rank, const ApartTransfer *apart) {
  const Demand *demand = &contention->demands[apart->transfer];
  FlowApart flow = apart->flow;
  if (flow.bound >= 0)
    flow.bound += rank * LINKS_PER_RANK;
  begin(contention, 1);
  for (int direction = OUT; direction < N_DIRECTIONS; direction++)
    add_ways(contention, demand, rank, direction);
  const FlowRequest request = request_of(contention, lane, demand);
  flows_put_back(contention->flows, &request, &flow);
}

gint64 contention_next_apart_ticks(const ApartTransfer pair[2]) {
  gint64 next_ticks = TICKS_NEVER;
  for (int i = 0; i < 2; i++)
    if (pair[i].transfer >= 0)
      next_ticks = MIN(next_ticks, pair[i].flow.at_ticks);
  return next_ticks;
}

/* As in flows.c: a flow whose rate does not change keeps its end. */
static void set_apart_rate(FlowApart *flow, gint64 now_ticks, double rate_Bps, gint32 bound) {
  if (rate_Bps == flow->rate_Bps && bound == flow->bound)
    return;
  flow->bound = bound;
  if (flow->rate_Bps > 0) {
    const double bytes = flow->rate_Bps * ((double)(now_ticks - flow->settled_ticks) / TICKS_PER_S);
    flow->settled_ticks = now_ticks;
    flow->remaining_bytes -= MIN(bytes, flow->remaining_bytes);
    if (rate_Bps == flow->rate_Bps)
      return;
  }
  flow->rate_Bps = rate_Bps;
  flow->at_ticks = add_ticks(now_ticks, ticks_of_s(flow->remaining_bytes / rate_Bps));
}

static void share_apart(Contention *contention, ApartTransfer pair[2], gint64 now_ticks) {
  ApartTransfer *moving[2];
  int n = 0;
  for (int i = 0; i < 2; i++)
    if (pair[i].transfer >= 0 && pair[i].flow.moves)
      moving[n++] = &pair[i];
  if (n == 0)
    return;
  const KnownRates *rates = rates_of(contention, moving[0]->transfer, n > 1 ? moving[1]->transfer : -1);
  for (int i = 0; i < n; i++)
    set_apart_rate(&moving[i]->flow, now_ticks, rates->rates_Bps[i], rates->bounds[i]);
}

void contention_advance_apart(Contention *contention, ApartTransfer pair[2], gint64 now_ticks, TransferEnd ended[2]) {
  for (int i = 0; i < 2; i++) {
    FlowApart *flow = &pair[i].flow;
    ended[i].end_ns = -1;
    if (pair[i].transfer < 0 || flow->at_ticks != now_ticks)
      continue;
    if (flow->moves || flow->remaining_bytes == 0) {
      ended[i] = end_of(0, now_ticks);
      pair[i].transfer = -1;
      continue;
    }
    flow->moves = TRUE;
    flow->settled_ticks = now_ticks;
  }
  share_apart(contention, pair, now_ticks);
}

gboolean contention_end_apart(Contention *contention, ApartTransfer pair[2], gint64 until_ticks, TransferEnd *ended) {
  FlowApart *flow = &pair[0].flow;
  const FlowApart *beside = pair[1].transfer >= 0 ? &pair[1].flow : NULL;
  const gint64 begin_ticks = flow->at_ticks;
  if (flow->remaining_bytes == 0 || begin_ticks >= until_ticks ||
      (beside != NULL && (!beside->moves || beside->at_ticks <= begin_ticks)))
    return FALSE;
  flow->moves = TRUE;
  flow->settled_ticks = begin_ticks;
  share_apart(contention, pair, begin_ticks);
  const gint64 end_ticks = flow->at_ticks;
  if (end_ticks >= until_ticks || (beside != NULL && beside->at_ticks <= end_ticks))
    return FALSE;
  *ended = end_of(0, end_ticks);
  pair[0].transfer = -1;
  share_apart(contention, pair, end_ticks);
  return TRUE;
}

gint64 contention_next_ns(Contention *contention) {
  return ticks_to_ns(flows_next(contention->flows));
}

const TransferEnd *contention_advance(Contention *contention, gint32 *n_ended) {
  *n_ended = flows_advance(contention->flows, flows_next(contention->flows));
  const FlowEnd *ended = flows_ended(contention->flows);
  if (*n_ended > contention->n_ended_slots) {
    contention->n_ended_slots = 2 * *n_ended;
    contention->ended = g_renew(TransferEnd, contention->ended, contention->n_ended_slots);
  }
  for (gint32 i = 0; i < *n_ended; i++)
    contention->ended[i] = end_of(ended[i].tag, ended[i].end_ticks);
  return contention->ended;
}

/* --- before anything runs --- */

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
