/* Sums are over integers, ns · share, in long doubles: exact for weeks of transfers. */
#include "link_use.h"

#include <math.h>
#include <string.h>

#include "arrivals.h"
#include "op_kernels.h"

static gint64 wire_ns(const Timing *timing, gint32 transfer) {
  const gint64 run_ns = timing->transfers[transfer].run_ns;
  return run_ns - MIN(timing->loads[transfer].latency_ns, run_ns);
}

/* [works]: how long the bytes of the tp collectives in each move, alone. Owned by the caller. */
static gint64 *tp_wire_in_works(const Trace *trace) {
  const Program *program = trace->program;
  gint64 *inside_ns = g_new(gint64, program->works->len + 1);
  for (guint w = 0; w < program->works->len; w++) {
    gint64 latency_ns;
    inside_ns[w] = timing_collectives_ns(trace->timing, &g_array_index(program->works, Work, w), AXIS_TP, &latency_ns);
    inside_ns[w] -= latency_ns;
  }
  return inside_ns;
}

/* Whether the program's transfer `number` is a collective over tp alone; the load of those is Timing.tp. */
static gboolean is_of_tp(const Program *program, gint32 number) {
  const Transfer *transfer = &g_array_index(program->transfers, Transfer, number);
  if (transfer->group < 0) /* from rank to rank */
    return FALSE;
  const Group *group = &g_array_index(program->groups, Group, transfer->group);
  return !group->spans_pp && group->axes == AXIS_BIT(AXIS_TP);
}

/* [transfers]. Owned by the caller. */
static gboolean *which_are_of_tp(const Program *program) {
  gboolean *of_tp = g_new(gboolean, program->transfers->len + 1);
  for (guint t = 0; t < program->transfers->len; t++)
    of_tp[t] = is_of_tp(program, (gint32)t);
  return of_tp;
}

/* How many of a rank's ops of the last step are of a kind and a work or transfer. */
typedef struct {
  gint64 *of_kind[N_OP_KINDS]; /* [works] or [transfers]; those of the host are of no interest, and may be of no work */
  gint64 *all;                 /* they lie in; owned */
  gsize n_all;
} Counts;

static Counts counts_new(const Program *program) {
  const gsize room = MAX(program->works->len, program->transfers->len) + 1;
  Counts counts = {.n_all = N_OP_KINDS * room};
  counts.all = g_new(gint64, counts.n_all);
  for (gsize kind = 0; kind < N_OP_KINDS; kind++)
    counts.of_kind[kind] = counts.all + kind * room + 1;
  return counts;
}

/* Each of the ops from `first` to before `end` counts so many times. */
static void count_ops(const OpList *list, int first, int end, int step, gint64 times, const Counts *counts) {
  for (const Op *op = list->ops + first; op < list->ops + end; op++)
    counts->of_kind[op->kind][op->work] += op->step == step ? times : 0;
}

/* Of the mean step of a period, times its steps. */
static void count_period(const Trace *trace, const Metrics *metrics, const Counts *counts, const OpList *list) {
  const int first = trace->program->n_steps - metrics->window;
  for (int step = first; step < trace->program->n_steps; step++)
    count_ops(list, 0, list->n_ops, step, 1, counts);
  if (metrics->period > metrics->window)
    count_ops(list, 0, list->n_ops, first - 1, metrics->period - metrics->window, counts);
}

static void count_rank(const Trace *trace, const Metrics *metrics, const Omitted *omitted, int rank,
                       const Counts *counts) {
  const OpList *list = trace_list(trace, rank);
  const int last_step = trace->program->n_steps - 1;
  memset(counts->all, 0, counts->n_all * sizeof *counts->all);
  if (metrics->period > 0) {
    count_period(trace, metrics, counts, list);
    return;
  }
  if (omitted == NULL) {
    count_ops(list, 0, list->n_ops, last_step, 1, counts);
    return;
  }
  const RepeatedOps *group = program_repeats_of(omitted->repeats, rank, last_step);
  const int end = group->first + group->n_ops;
  count_ops(list, 0, group->first, last_step, 1, counts);
  count_ops(list, group->first, end, last_step, 1 + omitted->n_groups, counts);
  count_ops(list, end, list->n_ops, last_step, 1, counts);
}

/* The ways that anything takes. */
typedef struct {
  int n, way[TIMING_MAX_WAYS];
} Ways;

static Ways ways_of(const Trace *trace) {
  guint16 most[TIMING_MAX_WAYS];
  Ways ways = {0};
  memcpy(most, trace->timing->tp.share, sizeof most);
  for (guint t = 0; t < trace->program->transfers->len; t++)
    for (int way = 0; way < TIMING_MAX_WAYS; way++)
      most[way] |= trace->timing->loads[t].share[way];
  for (int way = 0; way < TIMING_MAX_WAYS; way++)
    if (most[way] > 0)
      ways.way[ways.n++] = way;
  return ways;
}

static void add_load(const Ways *ways, long double sums[TIMING_MAX_WAYS], long double ns, const WayLoad *load) {
  for (int i = 0; i < ways->n; i++)
    sums[i] += ns * load->share[ways->way[i]];
}

/* How long each way is taken, in the fuller direction. tp collectives use no more than they would alone: if they are
 * slowed down, or wait for a member, they just take longer. */
static void taken_by(const Trace *trace, const Ways *ways, const Counts *counts, const gint64 *tp_inside_ns,
                     const gboolean *of_tp, double taken_ns[TIMING_MAX_WAYS]) {
  const Timing *timing = trace->timing;
  long double out[TIMING_MAX_WAYS] = {0}, in[TIMING_MAX_WAYS] = {0};
  gint64 tp_ns = 0;
  for (guint w = 0; w < trace->program->works->len; w++)
    tp_ns += counts->of_kind[OP_COMPUTE][w] * tp_inside_ns[w];
  for (guint t = 0; t < trace->program->transfers->len; t++) {
    const gint64 both = counts->of_kind[OP_COLLECTIVE][t];
    const gint64 n_out = both + counts->of_kind[OP_SEND][t], n_in = both + counts->of_kind[OP_RECV][t];
    const gint64 ns = n_out != 0 || n_in != 0 ? wire_ns(timing, (gint32)t) : 0;
    if (of_tp[t]) {
      tp_ns += n_in * ns;
    } else if (ns > 0) {
      add_load(ways, out, (long double)ns * (long double)n_out, &timing->loads[t]);
      add_load(ways, in, (long double)ns * (long double)n_in, &timing->loads[t]);
    }
  }
  add_load(ways, out, (long double)tp_ns, &timing->tp);
  add_load(ways, in, (long double)tp_ns, &timing->tp);
  for (int i = 0; i < ways->n; i++)
    taken_ns[i] = (double)(MAX(out[i], in[i]) / TIMING_WHOLE_WAY);
}

/* Running mean over the ranks of a stage: if all are alike the mean equals each of them to the last bit, so it
 * matches that of a folded run. */
typedef struct {
  double mean[TIMING_MAX_WAYS]; /* [ways that anything takes] */
  int n;
} StageUse;

static void add_to_stage(const Ways *ways, StageUse *stage, const double asked[TIMING_MAX_WAYS]) {
  stage->n++;
  for (int i = 0; i < ways->n; i++)
    stage->mean[i] += (MIN(asked[i], 1) - stage->mean[i]) / stage->n;
}

static void take_busiest(const Trace *trace, const Ways *ways, int rank, const double asked[TIMING_MAX_WAYS],
                         LinkUse *uses) {
  for (int i = 0; i < ways->n; i++) {
    LinkUse *use = &uses[ways->way[i]];
    if (asked[i] > use->asked) {
      use->asked = asked[i];
      use->most = MIN(asked[i], 1);
      use->busiest = trace_first_rank(trace, rank);
    }
  }
}

static gboolean has_loads(const Trace *trace, const Metrics *metrics) {
  return trace->timing != NULL && trace->timing->loads != NULL && metrics->step_ns > 0;
}

gboolean link_use_of(const Trace *trace, const Metrics *metrics, const Omitted *omitted, LinkUse *uses) {
  for (int way = 0; way < TIMING_MAX_WAYS; way++)
    uses[way] = (LinkUse){.busiest = -1};
  if (!has_loads(trace, metrics))
    return FALSE;
  const Program *program = trace->program;
  const int n_stages = program->n_ranks;
  g_autofree gint64 *tp_inside_ns = tp_wire_in_works(trace);
  g_autofree gboolean *of_tp = which_are_of_tp(program);
  g_autofree StageUse *stages = g_new0(StageUse, n_stages);
  const Counts counts = counts_new(program);
  g_autofree gint64 *all = counts.all;
  const Ways ways = ways_of(trace);
  for (int rank = 0; rank < trace->n_ranks; rank++) {
    count_rank(trace, metrics, omitted, rank, &counts);
    double asked[TIMING_MAX_WAYS];
    taken_by(trace, &ways, &counts, tp_inside_ns, of_tp, asked);
    for (int i = 0; i < ways.n; i++)
      asked[i] /= (double)metrics->step_ns * MAX(metrics->period, 1);
    add_to_stage(&ways, &stages[trace->pipeline_rank[rank]], asked);
    take_busiest(trace, &ways, rank, asked, uses);
  }
  for (int stage = 0; stage < n_stages; stage++)
    for (int i = 0; i < ways.n; i++)
      uses[ways.way[i]].mean += stages[stage].mean[i] / n_stages;
  return TRUE;
}

char *link_use_name(const Cluster *cluster, int way) {
  if (way == 0)
    return g_strdup("scale-up links");
  if (way == 1)
    return g_strdup("NICs");
  if (way == TIMING_HOST_WAY)
    return g_strdup("host memory");
  return g_strdup_printf("uplinks of %" G_GINT64_FORMAT " GPUs", cluster_level(cluster, way - 2).span_gpus);
}

/* --- over time --------------------------------------------------------------------------------------------------- */

/* Every kernel and every transfer is two edges, a rise and a fall, which are walked once in the order of time:
 *
 *     kernels    ┌──────┐   ┌────┐
 *     NICs out     ┌───────────┐
 *     moments    1 2    3   4  5 6      one for each time at which something changes
 *
 * The shares of kernels and of tp inside compute ops are summed as integers, so that equal rises and falls cancel
 * exactly. Transfers get what is left: at each moment, in the order in which they end, the pace at which they would
 * move the rest of their bytes by then, or less where a way has less left; those that end later catch up. So no way
 * is ever used more than whole, and a transfer that shared its way at first has moved all its bytes at its end. */

enum { OUT, IN, N_DIRECTIONS, KERNELS = TIMING_MAX_WAYS * N_DIRECTIONS, N_COLUMNS };
static const double unit = 1e-9; /* of a share */
enum { MOST_KERNELS = 2000000 }; /* that are looked at one by one */

typedef struct {
  gint64 time_ns;
  gint32 change, column;
} Edge;

/* A transfer while its bytes move. */
typedef struct {
  const WayLoad *load;
  gboolean out, in;
  gint64 from_ns, to_ns;
  double left_ns; /* of the time that its bytes take alone */
} Move;

typedef struct {
  const Trace *trace;
  gint64 from_ns, to_ns; /* the step's window */
  GArray *edges;         /* of Edge, of kernels, by time */
  GArray *bounds;        /* gint64: where a transfer begins or ends */
  GArray *moves;         /* of Move, within the window */
  gboolean is_coarse;    /* compute ops are taken as one stretch of kernels and one of tp */
} Edges;

/* A rank's kernels come in their order, but for a few that run beside each other: hardly any is before the last. */
static void add_edge(GArray *edges, Edge edge) {
  g_array_append_val(edges, edge);
  Edge *at = &g_array_index(edges, Edge, edges->len - 1);
  for (const Edge *first = (const Edge *)(gconstpointer)edges->data; at > first && at[-1].time_ns > edge.time_ns; at--)
    *at = at[-1];
  *at = edge;
}

static void add_span(Edges *edges, int column, gint64 from_ns, gint64 to_ns, gint32 height) {
  from_ns = MAX(from_ns, edges->from_ns);
  to_ns = MIN(to_ns, edges->to_ns);
  if (to_ns <= from_ns || height == 0)
    return;
  add_edge(edges->edges, (Edge){from_ns, height, column});
  add_edge(edges->edges, (Edge){to_ns, -height, column});
}

/* tp inside compute ops, both ways at its members. */
static void add_tp(Edges *edges, gint64 from_ns, gint64 to_ns) {
  for (int column = 0; column < KERNELS; column++) {
    const double share = (double)edges->trace->timing->tp.share[column / N_DIRECTIONS] / TIMING_WHOLE_WAY;
    add_span(edges, column, from_ns, to_ns, (gint32)llround(share / unit));
  }
}

/* Its bytes move from the moment all parties are there and the latency has passed until its end. What moved before the
 * window is taken to have moved evenly. */
static void add_transfer(Edges *edges, const Op *op, gint64 ready_ns, gint64 end_ns) {
  const Timing *timing = edges->trace->timing;
  const gboolean is_tp = is_of_tp(edges->trace->program, op->work);
  const gint64 alone_ns = timing->transfers[op->work].run_ns,
               latency_ns = MIN(timing->loads[op->work].latency_ns, alone_ns);
  const gint64 all_from_ns = MIN(ready_ns + latency_ns, end_ns), from_ns = MAX(all_from_ns, edges->from_ns);
  if (end_ns <= from_ns)
    return;
  const double part = (double)(end_ns - from_ns) / (double)(end_ns - all_from_ns);
  const Move move = {
      is_tp ? &timing->tp : &timing->loads[op->work], op->kind != OP_RECV, op->kind != OP_SEND, from_ns, end_ns,
      part * (double)(alone_ns - latency_ns)};
  const gint64 bounds[] = {from_ns, end_ns};
  g_array_append_val(edges->moves, move);
  g_array_append_vals(edges->bounds, bounds, 2);
}

/* The op's kernels as one stretch, followed by its exposed tp time as another. */
static void add_coarse(Edges *edges, int rank, int i, const Op *op) {
  const Trace *trace = edges->trace;
  const gsize record = trace->first[rank] + (gsize)i;
  const Work *work = &g_array_index(trace->program->works, Work, op->work);
  const gint64 start_ns = trace->start_ns[record], end_ns = trace->end_ns[record];
  ChargeSplit split = {0};
  timing_charge(trace->timing, work, start_ns, trace->issue_ns[record], end_ns, &split);
  const gint64 kernels_end_ns = end_ns - split.charged_ns[CHARGE_TP];
  add_span(edges, KERNELS, start_ns, kernels_end_ns, 1);
  add_tp(edges, kernels_end_ns, end_ns);
}

static void add_compute(Edges *edges, int rank, int i, GArray *spans) {
  const gsize record = edges->trace->first[rank] + (gsize)i;
  const Op *op = &trace_list(edges->trace, rank)->ops[i];
  const Work *work = &g_array_index(edges->trace->program->works, Work, op->work);
  if (edges->is_coarse && work->n_embedding + work->n_layers + work->n_head > 0) {
    add_coarse(edges, rank, i, op);
    return;
  }
  op_kernels(edges->trace, rank, i, spans);
  if (spans->len == 0)
    add_span(edges, KERNELS, edges->trace->start_ns[record], edges->trace->end_ns[record], 1);
  for (guint k = 0; k < spans->len; k++) {
    const ItemSpan *span = &g_array_index(spans, ItemSpan, k);
    if (span->item->is_collective)
      add_tp(edges, MIN(span->start_ns + span->item->latency_ns, span->end_ns), span->end_ns);
    else
      add_span(edges, KERNELS, span->start_ns, span->end_ns, 1);
  }
}

static void add_rank(Edges *edges, int rank) {
  const OpList *list = trace_list(edges->trace, rank);
  const gsize first = edges->trace->first[rank];
  g_autoptr(Arrivals) arrivals = arrivals_new(edges->trace);
  g_autofree gint64 *ready_ns = g_new(gint64, list->n_ops + 1);
  g_autoptr(GArray) spans = g_array_new(FALSE, FALSE, sizeof(ItemSpan));
  arrivals_of_rank(arrivals, rank, ready_ns);
  for (int i = 0; i < list->n_ops; i++) {
    const gint64 end_ns = edges->trace->end_ns[first + (gsize)i];
    if (end_ns <= edges->from_ns || list->ops[i].kind == OP_HOST)
      continue; /* belongs to an earlier step, or never ran */
    if (list->ops[i].kind == OP_COMPUTE)
      add_compute(edges, rank, i, spans);
    else
      add_transfer(edges, &list->ops[i], ready_ns[i], end_ns);
  }
}

static int compare_times(gconstpointer a, gconstpointer b) {
  const gint64 x = *(const gint64 *)a, y = *(const gint64 *)b;
  return (x > y) - (x < y);
}

static int compare_moves(gconstpointer a, gconstpointer b) {
  const Move *x = a, *y = b;
  return (x->from_ns > y->from_ns) - (x->from_ns < y->from_ns);
}

/* The transfers under way at time_ns, by ascending end. `next`: the first of `moves` that has not begun. */
static void take_up(GArray *under_way, const GArray *moves, guint *next, gint64 time_ns) {
  guint n_ended = 0;
  while (n_ended < under_way->len && g_array_index(under_way, Move, n_ended).to_ns <= time_ns)
    n_ended++;
  g_array_remove_range(under_way, 0, n_ended);
  for (; *next < moves->len && g_array_index(moves, Move, *next).from_ns <= time_ns; ++*next) {
    const Move *move = &g_array_index(moves, Move, *next);
    guint at = under_way->len;
    while (at > 0 && g_array_index(under_way, Move, at - 1).to_ns > move->to_ns)
      at--;
    g_array_insert_vals(under_way, at, move, 1);
  }
}

static double share_of(const Move *move, int column) {
  const gboolean takes = column % N_DIRECTIONS == OUT ? move->out : move->in;
  return takes ? (double)move->load->share[column / N_DIRECTIONS] / TIMING_WHOLE_WAY : 0;
}

/* Moves its bytes from time_ns to to_ns, with what `used` leaves of its ways. */
static void move_on(Move *move, gint64 time_ns, gint64 to_ns, double used[KERNELS]) {
  double pace = MIN(1, move->left_ns / (double)(move->to_ns - time_ns));
  for (int column = 0; column < KERNELS; column++)
    if (share_of(move, column) > 0)
      pace = MIN(pace, MAX(1 - used[column], 0) / share_of(move, column));
  for (int column = 0; column < KERNELS; column++)
    used[column] += pace * share_of(move, column);
  move->left_ns -= pace * (double)(to_ns - time_ns);
}

/* What holds from moment->time_ns until to_ns. */
typedef void (*MomentSeen)(const LinkMoment *moment, gint64 to_ns, gpointer data);

/* Moves what is under way on. */
static LinkMoment moment_of(gint64 time_ns, gint64 to_ns, const gint64 heights[N_COLUMNS], GArray *under_way) {
  LinkMoment moment = {.time_ns = time_ns, .computes = heights[KERNELS] > 0};
  double used[KERNELS];
  for (int column = 0; column < KERNELS; column++)
    used[column] = unit * (double)heights[column];
  for (guint i = 0; i < under_way->len; i++)
    move_on(&g_array_index(under_way, Move, i), time_ns, to_ns, used);
  for (int way = 0; way < TIMING_MAX_WAYS; way++)
    moment.used[way] = MAX(used[way * N_DIRECTIONS + OUT], used[way * N_DIRECTIONS + IN]);
  return moment;
}

/* In the order of time. The last is the step's end. */
static void walk(const Edges *edges, MomentSeen seen, gpointer data) {
  g_autoptr(GArray) under_way = g_array_new(FALSE, FALSE, sizeof(Move));
  const gint64 *bound = (const gint64 *)(gconstpointer)edges->bounds->data, *last_bound = bound + edges->bounds->len;
  const Edge *edge = (const Edge *)(gconstpointer)edges->edges->data, *last_edge = edge + edges->edges->len;
  gint64 heights[N_COLUMNS] = {0}, time_ns = edges->from_ns;
  guint n_begun = 0;
  g_array_sort(edges->bounds, compare_times);
  g_array_sort(edges->moves, compare_moves);
  while (edge < last_edge || bound < last_bound) {
    const gboolean is_edge = bound == last_bound || (edge < last_edge && edge->time_ns <= *bound);
    const gint64 next_ns = is_edge ? edge->time_ns : *bound;
    if (next_ns > time_ns) {
      take_up(under_way, edges->moves, &n_begun, time_ns);
      const LinkMoment moment = moment_of(time_ns, next_ns, heights, under_way);
      seen(&moment, next_ns, data);
    }
    time_ns = next_ns;
    if (is_edge) {
      heights[edge->column] += edge->change;
      edge++;
    } else {
      bound++;
    }
  }
  take_up(under_way, edges->moves, &n_begun, time_ns);
  for (gboolean is_end = FALSE; !is_end; time_ns = edges->to_ns) {
    const LinkMoment moment = moment_of(time_ns, edges->to_ns, heights, under_way);
    is_end = time_ns >= edges->to_ns;
    seen(&moment, edges->to_ns, data);
  }
}

static void walk_rank(const Trace *trace, const Metrics *metrics, int rank, MomentSeen seen, gpointer data) {
  const gint64 end_ns = trace_end(trace);
  g_autoptr(GArray) all = g_array_new(FALSE, FALSE, sizeof(Edge));
  g_autoptr(GArray) bounds = g_array_new(FALSE, FALSE, sizeof(gint64));
  g_autoptr(GArray) moves = g_array_new(FALSE, FALSE, sizeof(Move));
  Edges edges = {.trace = trace,
                 .from_ns = end_ns - (metrics->period > 0 ? metrics->window_ns : metrics->step_ns),
                 .to_ns = end_ns,
                 .edges = all,
                 .bounds = bounds,
                 .moves = moves,
                 .is_coarse = op_kernels_count_of(trace, rank) > MOST_KERNELS};
  add_rank(&edges, rank);
  walk(&edges, seen, data);
}

static void append_moment(const LinkMoment *moment, gint64 to_ns, gpointer moments) {
  g_array_append_vals(moments, moment, 1);
}

GArray *link_timeline_of(const Trace *trace, const Metrics *metrics, int rank) {
  if (!has_loads(trace, metrics))
    return NULL;
  GArray *moments = g_array_new(FALSE, FALSE, sizeof(LinkMoment));
  walk_rank(trace, metrics, rank, append_moment, moments);
  return moments;
}

typedef struct {
  double idle_s, busy_ns[TIMING_MAX_WAYS];
} Idle;

static void add_idle(const LinkMoment *moment, gint64 to_ns, gpointer data) {
  Idle *idle = data;
  if (moment->computes)
    return;
  const double idle_ns = (double)(to_ns - moment->time_ns);
  idle->idle_s += idle_ns * 1e-9;
  for (int way = 0; way < TIMING_MAX_WAYS; way++)
    idle->busy_ns[way] += moment->used[way] * idle_ns;
}

static gint64 wait_ns(const RankBreakdown *rank) {
  gint64 sum_ns = rank->ns[BREAKDOWN_OFFLOAD];
  for (int axis = 0; axis < N_AXES; axis++)
    sum_ns += rank->exposed_ns[axis];
  return sum_ns;
}

BoundingLink bounding_link_of(const Trace *trace, const Metrics *metrics) {
  BoundingLink bounding = {.way = -1};
  if (metrics->period > 0) /* the links of its window are not those of its other steps */
    return bounding;
  for (int rank = 1; rank < metrics->n_ranks; rank++)
    if (wait_ns(&metrics->ranks[rank]) > wait_ns(&metrics->ranks[bounding.rank]))
      bounding.rank = rank;
  bounding.first_rank = trace_first_rank(trace, bounding.rank);
  bounding.wait_s = (double)wait_ns(&metrics->ranks[bounding.rank]) * 1e-9;
  Idle idle = {0};
  if (bounding.wait_s > 0 && has_loads(trace, metrics))
    walk_rank(trace, metrics, bounding.rank, add_idle, &idle);
  bounding.idle_s = idle.idle_s;
  for (int way = 0; way < TIMING_MAX_WAYS; way++)
    if (idle.busy_ns[way] * 1e-9 > bounding.busy_s) {
      bounding.way = way;
      bounding.busy_s = idle.busy_ns[way] * 1e-9;
    }
  return bounding;
}
