/* One pass over each rank's ops in list order. A cursor marks the end of the last compute op; the idle time between
 * it and the next compute op is explained backwards, along the chain of this rank's own ops that led there:
 *
 *     compute ██████·······················████       · idle
 *     dp            [reduce ][norm········]           the optimizer waits for the norm, the norm for the reduce
 *                                 ↑ last member came
 *                    dp      bubble  other
 *
 * An op starts at the latest of these events: the ops in `after` ended, the previous op on its stream ended, the
 * host issued it. That event is the cause. The time the cause's own record was running is charged to it, split where
 * the last partner arrived; the time before is explained by its own cause in turn, back to the cursor.
 *
 * So a compute op's charges depend only on what happens between the end of the previous compute op and its own end;
 * if that repeats from group to group (omitted.h), so do the charges. */
#include "metrics.h"

#include <math.h>
#include <string.h>

#include "arrivals.h"
#include "overlap.h"

static const char *const breakdown_names[N_BREAKDOWN] = {
    [BREAKDOWN_COMPUTE] = "compute",
    [BREAKDOWN_RECOMPUTE] = "recompute",
    [BREAKDOWN_TP] = "tp",
    [BREAKDOWN_PP] = "pp",
    [BREAKDOWN_CP] = "cp",
    [BREAKDOWN_EP] = "ep",
    [BREAKDOWN_DP] = "dp",
    [BREAKDOWN_BUBBLE] = "bubble",
    [BREAKDOWN_OPTIMIZER] = "optimizer",
    [BREAKDOWN_HOST] = "host",
    [BREAKDOWN_OFFLOAD] = "offload",
    [BREAKDOWN_OTHER] = "other",
};

/* What the exposed time of what moves is charged to. */
static const BreakdownKind mover_kinds[N_MOVERS] = {
    [AXIS_TP] = BREAKDOWN_TP, [AXIS_CP] = BREAKDOWN_CP, [AXIS_EP] = BREAKDOWN_EP,
    [AXIS_DP] = BREAKDOWN_DP, [AXIS_PP] = BREAKDOWN_PP, [MOVER_OFFLOAD] = BREAKDOWN_OFFLOAD,
};

static const BreakdownKind charge_kinds[N_CHARGES] = {
    [CHARGE_COMPUTE] = BREAKDOWN_COMPUTE, [CHARGE_RECOMPUTE] = BREAKDOWN_RECOMPUTE,
    [CHARGE_TP] = BREAKDOWN_TP,           [CHARGE_CP] = BREAKDOWN_CP,
    [CHARGE_EP] = BREAKDOWN_EP,           [CHARGE_HOST] = BREAKDOWN_HOST,
};

/* What records of a work are charged to. The host is nearly always far ahead: a record is as long as run_ns, and was
 * issued lead_ns before it started. The charges of a work in that case are kept and applied once for all its ops. */
typedef struct {
  gint64 run_ns; /* −1: its records are not split among what happens inside, all of it is charged to `kind` */
  gint64 lead_ns, kernels_ns;
  gint64 n_ahead; /* records of the current rank whose splits are still to be charged */
  BreakdownKind kind;
  ChargeSplit ahead;
  /* the latest that it was not far ahead of: the next is often like it */
  gint64 late_lead_ns, late_run_ns;
  ChargeSplit late;
} WorkCharge;

/* What waiting for an op is charged to. */
typedef struct {
  guint8 wait;      /* BreakdownKind, once everyone it needs is there */
  guint8 absence;   /* and before */
  gint8 mover;      /* what moves; −1: nothing that is counted */
  gint8 has_others; /* see arrivals_has_others() */
} WaitCharge;

/* Where the walk over a rank's ops is. */
typedef struct {
  gint64 cursor_ns;                            /* end of the running kernels so far, in the window */
  gint64 last_other_ns;                        /* end of the op of another kind that ends last so far; 0: none */
  gint32 last_other;                           /* that op; −1: none */
  gint32 last_host;                            /* on the host's stream; −1: none */
  gint64 first_start_ns, last_end_ns, work_ns; /* of F, I, W, B in the last step */
  gint64 from_ns, to_ns;                       /* of a rank that has a window of its own */
} Place;

typedef struct {
  const Trace *trace;
  const Program *program;
  gint32 first_step, last_step;
  gboolean is_apart;     /* each rank has a window of its own: from the end of its step before the first */
  gint64 from_ns, to_ns; /* the window of these; its end is known once all ranks have been walked */
  WorkCharge *works;
  WaitCharge *transfers; /* [transfers][2]: of an op that is no gradient norm, and of one */

  /* of the rank being walked */
  int rank;
  const Op *ops;
  gint32 n_ops;
  const gint64 *start_ns, *end_ns, *issue_ns;
  RankBreakdown *out;
  Place at;

  const Omitted *omitted; /* NULL: nothing */
  gint64 ended_ns;        /* what is charged now ended then */
  gint64 times;           /* repetitions of it */
  gboolean is_known;      /* no charge has depended on a launch that would come earlier in the full run */

  GArray *idle; /* of IdleSpan, to be filled; NULL: not wanted */

  Arrivals *arrivals;
  Overlap *overlap;
  OverlapRecords records; /* room for the longest list */
} Walk;

const char *breakdown_name(BreakdownKind kind) {
  return breakdown_names[kind];
}

static WaitCharge transfer_charge(const Trace *trace, const Transfer *transfer, gboolean is_norm) {
  WaitCharge charge = {BREAKDOWN_PP, BREAKDOWN_BUBBLE, AXIS_PP, (gint8)arrivals_has_others(trace, transfer)};
  if (transfer->group < 0)
    return charge;
  const Group *group = &g_array_index(trace->program->groups, Group, transfer->group);
  charge.mover = group->route != 0 ? MOVER_OFFLOAD : (gint8)group->charge;
  charge.wait = (guint8)mover_kinds[charge.mover];
  if (group->route & ROUTES_OF_SERVERS) {
    charge.mover = group->route == ROUTE_SERVE ? -1 : AXIS_DP;
    charge.wait = group->route == ROUTE_SERVE ? BREAKDOWN_OPTIMIZER : BREAKDOWN_DP;
    charge.absence = BREAKDOWN_DP;
    return charge;
  }
  if (is_norm || group->route == ROUTE_STORAGE) { /* over all axes at once; from readers */
    charge.mover = -1;
    charge.wait = BREAKDOWN_OTHER;
  }
  charge.absence = group->spans_pp ? BREAKDOWN_BUBBLE : charge.wait;
  return charge;
}

static inline const WaitCharge *wait_charge(const Walk *walk, const Op *op) {
  static const WaitCharge launch = {BREAKDOWN_HOST, BREAKDOWN_HOST, -1, FALSE},
                          host_update = {BREAKDOWN_OPTIMIZER, BREAKDOWN_OPTIMIZER, -1, FALSE};
  if (op_computes(op)) /* the host's processors update what is not on the GPU */
    return op->kind == OP_HOST && op->work >= 0 ? &host_update : &launch;
  return &walk->transfers[2 * op->work + (op->action == ACTION_NORM)];
}

static void charge(Walk *walk, BreakdownKind kind, gint64 from_ns, gint64 to_ns) {
  walk->out->ns[kind] += walk->times * (to_ns - from_ns);
}

/* The same of time in which no op computes. */
static void charge_wait(Walk *walk, BreakdownKind kind, gint64 from_ns, gint64 to_ns) {
  charge(walk, kind, from_ns, to_ns);
  if (walk->idle == NULL || to_ns <= from_ns)
    return;
  const IdleSpan span = {walk->rank, (guint8)kind, from_ns, to_ns};
  g_array_append_val(walk->idle, span);
}

/* Called before charging a compute op that ended at that time, or the rest after the last one. */
static inline void begin_charging(Walk *walk, gint64 ended_ns) {
  walk->ended_ns = ended_ns;
  walk->times = omitted_times(walk->omitted, ended_ns);
}

/* A charge depends on when op `i` was launched. */
static void depend_on_launch(Walk *walk, gint32 i) {
  const Omitted *omitted = walk->omitted;
  for (int step = 0; omitted != NULL && step < omitted->n_steps; step++) {
    const OmittedPeriod *period = &omitted->periods[step];
    if (walk->ended_ns > period->begin_ns - omitted_period_ns(period) && i < period->n_early[walk->rank])
      walk->is_known = FALSE;
  }
}

/* The op before on the same stream; −1: none. */
static gint32 op_before(const Op *ops, gint32 i) {
  const guint8 stream = ops[i].stream;
  while (--i >= 0 && ops[i].stream != stream)
    ;
  return i;
}

/* The op that let op `i` start, and when; −1: the host issued it. */
static inline gint32 cause_of(const Walk *walk, gint32 i, gint64 *time_ns) {
  const Op *op = &walk->ops[i];
  const gint64 *end_ns = walk->end_ns;
  gint64 latest_ns = walk->issue_ns[i];
  gint32 cause = -1;
  for (int k = 0; k < OP_MAX_AFTER && op->after[k] >= 0; k++) {
    const gint32 after = op->after[k];
    if (end_ns[after] >= latest_ns) {
      latest_ns = end_ns[after];
      cause = after;
    }
  }
  const gint32 before = op->kind == OP_COMPUTE ? -1 : op_before(walk->ops, i); /* idle time begins behind compute ops */
  if (before >= 0 && end_ns[before] >= latest_ns) {
    latest_ns = end_ns[before];
    cause = before;
  }
  *time_ns = latest_ns;
  return cause;
}

/* Nothing delays op `i` any more, but it has not started: a transfer waits for the others of its batch, everything
 * else for its launch. */
static BreakdownKind launch_kind(const Walk *walk, gint32 i) {
  const Op *op = &walk->ops[i];
  return op->batch >= 0 ? wait_charge(walk, op)->wait : BREAKDOWN_HOST;
}

/* Charge the part of [from, to) during which op `cause` was running; returns the end of the unexplained rest. */
static inline gint64 charge_cause(Walk *walk, gint32 cause, gint64 from_ns, gint64 to_ns) {
  const WaitCharge *kinds = wait_charge(walk, &walk->ops[cause]);
  const gint64 start_ns = CLAMP(walk->start_ns[cause], from_ns, to_ns);
  gint64 ready_ns = start_ns;
  if (kinds->has_others) {
    ready_ns = CLAMP(arrivals_ready(walk->arrivals, cause), from_ns, to_ns);
    charge_wait(walk, (BreakdownKind)kinds->absence, start_ns, ready_ns);
  }
  charge_wait(walk, (BreakdownKind)kinds->wait, ready_ns, to_ns);
  return start_ns;
}

/* Nothing but its launch delayed op `i`. Issuing goes back to the last op that blocked the host: returns that, and what
 * is behind it is the host's; −1: none. */
static gint32 charge_issue(Walk *walk, gint32 i, gint64 from_ns, gint64 *to_ns, gint32 *host_op) {
  depend_on_launch(walk, i);
  while (*host_op >= i)
    *host_op = op_before(walk->ops, *host_op);
  const gint64 issued_ns = *host_op >= 0 ? CLAMP(walk->end_ns[*host_op], from_ns, *to_ns) : from_ns;
  charge_wait(walk, BREAKDOWN_HOST, issued_ns, *to_ns);
  *to_ns = issued_ns;
  return *host_op;
}

/* Explain [from, to): op `i` of this list was running until then (`runs`), or could start then and not before. */
static void charge_idle(Walk *walk, gint32 i, gboolean runs, gint64 from_ns, gint64 to_ns) {
  gint32 host_op = walk->at.last_host;
  while (to_ns > from_ns) {
    if (runs && (to_ns = charge_cause(walk, i, from_ns, to_ns)) <= from_ns)
      return;
    gint64 time_ns;
    gint32 cause = cause_of(walk, i, &time_ns);
    time_ns = CLAMP(time_ns, from_ns, to_ns);
    if (time_ns < to_ns)
      charge_wait(walk, launch_kind(walk, i), time_ns, to_ns);
    to_ns = time_ns;
    if (cause < 0 && to_ns > from_ns)
      cause = charge_issue(walk, i, from_ns, &to_ns, &host_op);
    i = cause;
    runs = TRUE;
  }
}

/* From the last kernel to the end of the window. */
static void charge_tail(Walk *walk) {
  const gint64 from_ns = walk->at.cursor_ns, to_ns = walk->to_ns;
  const gint64 end_ns = CLAMP(walk->at.last_other_ns, from_ns, to_ns);
  charge_wait(walk, BREAKDOWN_BUBBLE, end_ns, to_ns);
  if (end_ns > from_ns)
    charge_idle(walk, walk->at.last_other, TRUE, from_ns, end_ns);
}

/* Whether it has pieces or runs of kernels, not just the bare work of an order. */
static gboolean has_kernels(const Work *work) {
  return work->piece >= 0 || work->n_embedding + work->n_layers + work->n_head > 0;
}

static gint64 kernels_of(const ChargeSplit *split) {
  return split->charged_ns[CHARGE_COMPUTE] + split->charged_ns[CHARGE_RECOMPUTE];
}

static void charge_split(Walk *walk, const ChargeSplit *split, gint64 times) {
  for (int k = 0; k < N_CHARGES; k++)
    walk->out->ns[charge_kinds[k]] += times * split->charged_ns[k];
  for (int axis = 0; axis < N_ITEM_AXES; axis++)
    walk->out->hidden_ns[axis] += times * split->hidden_ns[axis];
}

static WorkCharge work_charge(const Timing *timing, gsize w, const Work *work) {
  WorkCharge charge = {.run_ns = -1, .late_run_ns = -1};
  charge.kind = work->phase == PHASE_OPTIMIZER ? BREAKDOWN_OPTIMIZER
                : work->recompute              ? BREAKDOWN_RECOMPUTE
                                               : BREAKDOWN_COMPUTE;
  if (timing == NULL || !has_kernels(work))
    return charge;
  charge.run_ns = timing->works[w].run_ns;
  charge.lead_ns = timing_host_lead(timing, work);
  timing_charge(timing, work, 0, -charge.lead_ns, charge.run_ns, &charge.ahead);
  charge.kernels_ns = kernels_of(&charge.ahead);
  return charge;
}

static void charge_ahead(Walk *walk) {
  for (guint w = 0; w < walk->program->works->len; w++) {
    WorkCharge *of = &walk->works[w];
    if (of->n_ahead == 0)
      continue;
    charge_split(walk, &of->ahead, of->n_ahead);
    walk->at.work_ns += of->kind != BREAKDOWN_OPTIMIZER ? of->n_ahead * of->run_ns : 0;
    of->n_ahead = 0;
  }
}

/* What the compute stream does in a record of run_ns, with the host not far ahead. A run of kernels between collectives
 * is split here, without a cost per kernel: the time beyond that with the host far ahead is the host's, the rest (speed
 * factors, jitter) is the kernels'. */
static ChargeSplit late_split(const Timing *timing, const Work *work, OpTime time, gint64 lead_ns, gint64 run_ns) {
  ChargeSplit split = {0};
  if (work->piece < 0) {
    timing_charge(timing, work, 0, -lead_ns, run_ns, &split);
    return split;
  }
  const gint64 late_ns = time.tail_ns > 0 ? time.tail_ns - lead_ns - time.run_ns : 0;
  split.charged_ns[CHARGE_HOST] = CLAMP(late_ns, 0, run_ns);
  split.charged_ns[work->recompute ? CHARGE_RECOMPUTE : CHARGE_COMPUTE] = run_ns - split.charged_ns[CHARGE_HOST];
  return split;
}

/* Of op `i`, what is in the window: from `from` on. */
static ChargeSplit split_of(const Walk *walk, gint32 i, gint32 w, gint64 from_ns) {
  const Timing *timing = walk->trace->timing;
  const Work *work = &g_array_index(walk->program->works, Work, w);
  const gint64 start_ns = walk->start_ns[i], lead_ns = start_ns - walk->issue_ns[i], end_ns = walk->end_ns[i];
  WorkCharge *of = &walk->works[w];
  if (from_ns > start_ns) {
    ChargeSplit split = {0};
    timing_charge_part(timing, work, start_ns, walk->issue_ns[i], from_ns, end_ns, &split);
    return split;
  }
  if (of->late_lead_ns != lead_ns || of->late_run_ns != end_ns - start_ns)
    of->late = late_split(timing, work, timing->works[w], lead_ns, end_ns - start_ns);
  of->late_lead_ns = lead_ns;
  of->late_run_ns = end_ns - start_ns;
  return of->late;
}

static inline void add_running(Walk *walk, gint32 i, gint64 start_ns, gint64 end_ns, gint64 kernels_ns,
                               gboolean host_is_ahead) {
  Running *running = &walk->records.running[walk->records.n_running++];
  *running = (Running){start_ns, end_ns, running->clock_ns, i, host_is_ahead};
  running[1].clock_ns = running->clock_ns + kernels_ns;
}

/* An op that is no whole one with the host ahead. */
static void charge_other(Walk *walk, gint32 i, gint32 w, gboolean host_is_ahead) {
  const WorkCharge *of = &walk->works[w];
  const gint64 from_ns = MAX(walk->start_ns[i], walk->at.cursor_ns), end_ns = walk->end_ns[i];
  if (end_ns > from_ns && of->run_ns >= 0) {
    const ChargeSplit split = split_of(walk, i, w, from_ns);
    depend_on_launch(walk, i);
    charge_split(walk, &split, walk->times);
    add_running(walk, i, from_ns, end_ns, kernels_of(&split), host_is_ahead);
  } else if (end_ns > from_ns) {
    charge(walk, of->kind, from_ns, end_ns);
    add_running(walk, i, from_ns, end_ns, end_ns - from_ns, TRUE);
  }
  if (of->kind != BREAKDOWN_OPTIMIZER)
    walk->at.work_ns += walk->times * (end_ns - walk->start_ns[i]);
}

/* Transfers between the last op and one that starts then: those that ran beside neither are not hidden. */
static void drop_exposed(Walk *walk, gint64 start_ns) {
  OverlapRecords *records = &walk->records;
  while (records->n_moving > 0) {
    const Moving *last = &records->moving[records->n_moving - 1];
    if (last->start_ns < walk->at.cursor_ns || last->end_ns > start_ns)
      return;
    records->n_moving--;
  }
}

/* From the last compute op to op `i`, which starts at `to`. In a folded run, whole work ends with its items'
 * collectives: until those have ended the wait is theirs, even if the next run of kernels waits longer for something
 * else. */
static void charge_gap(Walk *walk, gint32 i, gint64 to_ns) {
  const Op *op = &walk->ops[i];
  gint64 from_ns = walk->at.cursor_ns;
  drop_exposed(walk, to_ns);
  for (int a = 0; walk->program->expansion != EXPANSION_NONE && a < OP_MAX_AFTER && op->after[a] >= 0; a++) {
    const guint8 stream = walk->ops[op->after[a]].stream;
    const gint64 end_ns = MIN(walk->end_ns[op->after[a]], to_ns);
    if ((stream != STREAM_TP && stream != STREAM_CP) || end_ns <= from_ns)
      continue;
    charge_idle(walk, op->after[a], TRUE, from_ns, end_ns);
    from_ns = end_ns;
    break;
  }
  charge_idle(walk, i, FALSE, from_ns, to_ns);
}

static inline void visit_compute(Walk *walk, gint32 i, const Op *op, gint64 start_ns, gint64 end_ns) {
  const gint64 cursor_ns = walk->at.cursor_ns;
  WorkCharge *of = &walk->works[op->work];
  begin_charging(walk, end_ns);
  if (start_ns > cursor_ns)
    charge_gap(walk, i, start_ns);
  const gboolean host_is_ahead = end_ns - start_ns == of->run_ns && start_ns - walk->issue_ns[i] >= of->lead_ns;
  if (host_is_ahead && start_ns >= cursor_ns) {
    of->n_ahead += walk->times;
    add_running(walk, i, start_ns, end_ns, of->kernels_ns, TRUE);
  } else {
    charge_other(walk, i, op->work, host_is_ahead);
  }
  walk->at.cursor_ns = MAX(cursor_ns, end_ns);
  if (of->kind == BREAKDOWN_OPTIMIZER)
    return;
  if (walk->at.first_start_ns < 0)
    walk->at.first_start_ns = start_ns;
  walk->at.last_end_ns = end_ns;
}

/* A transfer between two ranks is counted once, where it arrives. */
static inline void visit_other(Walk *walk, gint32 i, const Op *op, gint64 start_ns, gint64 end_ns) {
  if (op->kind == OP_HOST)
    walk->at.last_host = i;
  if (end_ns >= walk->at.last_other_ns) {
    walk->at.last_other_ns = end_ns;
    walk->at.last_other = i;
  }
  if (op->kind == OP_SEND || op->kind == OP_HOST)
    return;
  const WaitCharge *kinds = wait_charge(walk, op);
  if (kinds->mover < 0)
    return;
  if (kinds->has_others)
    start_ns = arrivals_ready(walk->arrivals, i);
  start_ns = MAX(start_ns, walk->from_ns);
  if (end_ns > start_ns)
    walk->records.moving[walk->records.n_moving++] =
        (Moving){start_ns, end_ns, walk->records.n_running, op->stream, (guint8)kinds->mover};
}

static void begin_rank(Walk *walk, int rank, RankBreakdown *out) {
  gsize first = walk->trace->first[rank];
  walk->rank = rank;
  walk->ops = trace_list(walk->trace, rank)->ops;
  walk->n_ops = trace_list(walk->trace, rank)->n_ops;
  walk->start_ns = walk->trace->start_ns + first;
  walk->end_ns = walk->trace->end_ns + first;
  walk->issue_ns = walk->trace->issue_ns + first;
  walk->out = out;
  arrivals_look_from(walk->arrivals, rank);
}

/* When the rank had ended its steps before the first. */
static gint64 own_begin_ns(const Walk *walk) {
  gint64 begin_ns = 0;
  for (gint32 i = 0; i < walk->n_ops; i++)
    if (walk->ops[i].step < walk->first_step)
      begin_ns = MAX(begin_ns, walk->end_ns[i]);
  return begin_ns;
}

/* All but the tail. What belongs to a step before the first ended before the window: nothing of it is charged. */
static void walk_rank(Walk *walk) {
  const Op *ops = walk->ops;
  const gint64 *start_ns = walk->start_ns, *end_ns = walk->end_ns;
  const gint32 n_ops = walk->n_ops;
  if (walk->is_apart)
    walk->from_ns = walk->to_ns = own_begin_ns(walk);
  walk->at = (Place){.cursor_ns = walk->from_ns, .last_other = -1, .last_host = -1, .first_start_ns = -1};
  walk->records.n_running = walk->records.n_moving = 0;
  walk->records.running[0].clock_ns = 0;
  for (gint32 i = 0; i < n_ops; i++) {
    const Op *op = &ops[i];
    if (op->step < walk->first_step || op->step > walk->last_step)
      continue;
    if (op->kind != OP_COMPUTE)
      visit_other(walk, i, op, start_ns[i], end_ns[i]);
    else if (end_ns[i] >= 0)
      visit_compute(walk, i, op, start_ns[i], end_ns[i]);
  }
  charge_ahead(walk);
  overlap_add_hidden(walk->overlap, walk->rank, &walk->records, walk->omitted, walk->out->hidden_ns);
  walk->to_ns = MAX(walk->to_ns, MAX(walk->at.cursor_ns, walk->at.last_other_ns));
}

static void finish_rank(Walk *walk) {
  begin_charging(walk, G_MAXINT64);
  charge_tail(walk);
  gint64 sum_ns = 0;
  for (int kind = 0; kind < N_BREAKDOWN; kind++)
    sum_ns += walk->out->ns[kind];
  g_assert(sum_ns == walk->to_ns - walk->from_ns + omitted_ns(walk->omitted, walk->from_ns));
  for (int axis = 0; axis < N_AXES; axis++)
    walk->out->exposed_ns[axis] = walk->out->ns[mover_kinds[axis]];
}

static void walk_init(Walk *walk, const Trace *trace, const Omitted *omitted, int first_step, int last_step) {
  const GArray *works = trace->program->works, *transfers = trace->program->transfers;
  const gsize n_most = trace_longest_list(trace);
  *walk = (Walk){.trace = trace, .program = trace->program, .omitted = omitted, .is_known = TRUE};
  walk->first_step = first_step;
  walk->last_step = last_step;
  walk->from_ns = walk->to_ns = first_step > 0 ? trace_step_end(trace, first_step - 1) : 0;
  walk->arrivals = arrivals_new(trace);
  walk->overlap = overlap_new(trace);
  walk->works = g_malloc(works->len * sizeof *walk->works + 2 * transfers->len * sizeof *walk->transfers +
                         (n_most + 1) * (sizeof *walk->records.running + sizeof *walk->records.moving));
  walk->records.running = (Running *)(walk->works + works->len);
  walk->records.moving = (Moving *)(walk->records.running + n_most + 1);
  walk->transfers = (WaitCharge *)(walk->records.moving + n_most);
  for (guint w = 0; w < works->len; w++)
    walk->works[w] = work_charge(trace->timing, w, &g_array_index(works, Work, w));
  for (guint t = 0; t < 2 * transfers->len; t++)
    walk->transfers[t] = transfer_charge(trace, &g_array_index(transfers, Transfer, t / 2), t % 2);
}

static void walk_clear(Walk *walk) {
  arrivals_free(walk->arrivals);
  overlap_free(walk->overlap);
  g_free(walk->works);
}

static void take_means(Metrics *metrics) {
  gint64 ns[N_BREAKDOWN] = {0}, hidden_ns[N_MOVERS] = {0};
  for (int r = 0; r < metrics->n_ranks; r++) {
    for (int kind = 0; kind < N_BREAKDOWN; kind++)
      ns[kind] += metrics->ranks[r].ns[kind];
    for (int mover = 0; mover < N_MOVERS; mover++)
      hidden_ns[mover] += metrics->ranks[r].hidden_ns[mover];
  }
  for (int kind = 0; kind < N_BREAKDOWN; kind++)
    metrics->mean_s[kind] = (double)ns[kind] / metrics->n_ranks * 1e-9;
  for (int mover = 0; mover < N_MOVERS; mover++) {
    metrics->hidden_s[mover] = (double)hidden_ns[mover] / metrics->n_ranks * 1e-9;
    metrics->exposed_s[mover] = metrics->mean_s[mover_kinds[mover]];
  }
  double bubble_s = metrics->mean_s[BREAKDOWN_BUBBLE], step_s = (double)metrics->step_ns * 1e-9;
  metrics->bubble_fraction = step_s > 0 ? bubble_s / step_s : 0;
  metrics->bubble_overhead = step_s > bubble_s ? bubble_s / (step_s - bubble_s) : 0;
}

/* The rank's span, from its first kernel to its last. */
static void take_span(Walk *walk, Metrics *metrics) {
  const Omitted *omitted = walk->omitted;
  walk->is_known &= omitted == NULL || walk->at.last_end_ns > omitted->periods[omitted->n_steps - 1].end_ns;
  const gint64 first_ns = MAX(walk->at.first_start_ns, 0);
  const gint64 span_ns = walk->at.last_end_ns - first_ns + omitted_ns(omitted, first_ns);
  if (span_ns > metrics->span_ns) {
    metrics->span_ns = span_ns;
    metrics->span_bubble_ns = span_ns - walk->at.work_ns;
  }
}

static void walk_all(Walk *walk, Metrics *metrics) {
  g_autofree Place *places = g_new(Place, metrics->n_ranks); /* where the ranks' walks ended */
  for (int r = 0; r < metrics->n_ranks && walk->is_known; r++) {
    begin_rank(walk, r, &metrics->ranks[r]);
    walk_rank(walk);
    take_span(walk, metrics);
    walk->at.from_ns = walk->from_ns;
    walk->at.to_ns = walk->to_ns;
    places[r] = walk->at;
  }
  for (int r = 0; r < metrics->n_ranks && walk->is_known; r++) {
    begin_rank(walk, r, &metrics->ranks[r]);
    walk->at = places[r];
    if (walk->is_apart) {
      walk->from_ns = walk->at.from_ns;
      walk->to_ns = walk->at.to_ns;
    }
    finish_rank(walk);
  }
  metrics->step_ns = walk->to_ns - walk->from_ns + omitted_ns(walk->omitted, walk->from_ns);
}

/* `idle` may be NULL. */
static Metrics *metrics_of_steps(const Trace *trace, const Omitted *omitted, int first_step, int last_step,
                                 gboolean is_apart, GArray *idle) {
  g_autoptr(Metrics) metrics = g_malloc0(sizeof *metrics + (gsize)trace->n_ranks * sizeof *metrics->ranks);
  metrics->n_ranks = trace->n_ranks;
  metrics->ranks = (RankBreakdown *)(metrics + 1);
  Walk walk;
  walk_init(&walk, trace, omitted, first_step, last_step);
  walk.idle = idle;
  walk.is_apart = is_apart;
  walk_all(&walk, metrics);
  walk_clear(&walk);
  if (!walk.is_known)
    return NULL;
  take_means(metrics);
  return g_steal_pointer(&metrics);
}

Metrics *metrics_new_with(const Trace *trace, const Omitted *omitted) {
  const int last_step = trace->program->n_steps - 1;
  return metrics_of_steps(trace, omitted, last_step, last_step, FALSE, NULL);
}

Metrics *metrics_new(const Trace *trace) {
  return metrics_new_with(trace, NULL);
}

GArray *metrics_idle_spans(const Trace *trace) {
  GArray *idle = g_array_new(FALSE, FALSE, sizeof(IdleSpan));
  metrics_free(metrics_of_steps(trace, NULL, trace->program->n_steps - 1, trace->program->n_steps - 1, FALSE, idle));
  return idle;
}

/* --- of a period ------------------------------------------------------------------------------------------------- */

/* A step's mean share of (window + n_more · step), in whole nanoseconds that sum to the mean step; what rounding leaves
 * goes to the largest. */
static void take_share(RankBreakdown *rank, const RankBreakdown *step, gint64 n_more, gint64 period, gint64 mean_ns) {
  int largest = 0;
  for (int kind = 0; kind < N_BREAKDOWN; kind++) {
    rank->ns[kind] = (rank->ns[kind] + n_more * step->ns[kind]) / period;
    mean_ns -= rank->ns[kind];
    largest = rank->ns[kind] > rank->ns[largest] ? kind : largest;
  }
  rank->ns[largest] += mean_ns;
  for (int mover = 0; mover < N_MOVERS; mover++)
    rank->hidden_ns[mover] = (rank->hidden_ns[mover] + n_more * step->hidden_ns[mover]) / period;
  for (int axis = 0; axis < N_AXES; axis++)
    rank->exposed_ns[axis] = rank->ns[mover_kinds[axis]];
}

Metrics *metrics_new_of_period(const Trace *trace, int period, int window) {
  const int n_steps = trace->program->n_steps, n_more = period - window;
  Metrics *metrics = metrics_of_steps(trace, NULL, n_steps - window, n_steps - 1, FALSE, NULL);
  g_autoptr(Metrics) step =
      n_more > 0 ? metrics_of_steps(trace, NULL, n_steps - window - 1, n_steps - window - 1, FALSE, NULL) : NULL;
  metrics->period = period;
  metrics->window = window;
  metrics->window_ns = metrics->step_ns;
  metrics->plain_step_ns = step != NULL ? step->step_ns : 0;
  metrics->step_ns = (metrics->window_ns + n_more * metrics->plain_step_ns) / period;
  const RankBreakdown none = {{0}};
  for (int r = 0; r < metrics->n_ranks; r++)
    take_share(&metrics->ranks[r], step != NULL ? &step->ranks[r] : &none, n_more, period, metrics->step_ns);
  take_means(metrics);
  return metrics;
}

void metrics_free(Metrics *metrics) {
  g_free(metrics);
}

/* --- of workers that go apart --------------------------------------------------------------------------------------
 */

static gint64 sum_of(const RankBreakdown *rank) {
  gint64 sum_ns = 0;
  for (int kind = 0; kind < N_BREAKDOWN; kind++)
    sum_ns += rank->ns[kind];
  return sum_ns;
}

/* A rank that takes T counts 1/T in the means, which then sum to the harmonic mean of all T: in that time, on average,
 * a rank takes a step. */
static void take_means_by_pace(Metrics *metrics) {
  double pace = 0, sums_s[N_BREAKDOWN] = {0}, hidden_s[N_MOVERS] = {0};
  for (int r = 0; r < metrics->n_ranks; r++) {
    const double own = 1 / (double)sum_of(&metrics->ranks[r]);
    pace += own;
    for (int kind = 0; kind < N_BREAKDOWN; kind++)
      sums_s[kind] += own * 1e-9 * (double)metrics->ranks[r].ns[kind];
    for (int mover = 0; mover < N_MOVERS; mover++)
      hidden_s[mover] += own * 1e-9 * (double)metrics->ranks[r].hidden_ns[mover];
  }
  metrics->step_ns = llround(metrics->n_ranks / pace);
  take_means(metrics);
  for (int kind = 0; kind < N_BREAKDOWN; kind++)
    metrics->mean_s[kind] = sums_s[kind] / pace;
  for (int mover = 0; mover < N_MOVERS; mover++) {
    metrics->hidden_s[mover] = hidden_s[mover] / pace;
    metrics->exposed_s[mover] = metrics->mean_s[mover_kinds[mover]];
  }
}

Metrics *metrics_new_of_workers(const Trace *trace) {
  const int n_steps = trace->program->n_steps, n = (n_steps + 1) / 2;
  Metrics *metrics = metrics_of_steps(trace, NULL, n_steps - n, n_steps - 1, TRUE, NULL);
  const RankBreakdown none = {{0}};
  for (int r = 0; r < metrics->n_ranks; r++)
    take_share(&metrics->ranks[r], &none, 0, n, sum_of(&metrics->ranks[r]) / n);
  take_means_by_pace(metrics);
  return metrics;
}

/* --- in flight --------------------------------------------------------------------------------------------------- */

/* Peak micro-batches in flight per rank. Compute ops run in list order, so counting needs no clock. Both an F and a
 * backward may be cut into several ops: the first op of the F adds the micro-batch, the last op of its B (or W)
 * removes it. */

static int peak_in_flight(const Trace *trace, int rank, gint32 *releases, gboolean *held) {
  const Program *program = trace->program;
  const OpList *list = trace_list(trace, rank);
  const gint64 *end_ns = trace->end_ns + trace->first[rank];
  gsize n_slots = (gsize)program->n_steps * program->n_stages * program->n_micro_batches;
  memset(releases, 0, n_slots * sizeof *releases);
  memset(held, 0, n_slots * sizeof *held);

  int count = 0, peak = 0;
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 0; i < list->n_ops; i++) {
      const Op *op = &list->ops[i];
      if (op->kind != OP_COMPUTE || op->stage < 0 || op->micro_batch < 0 || end_ns[i] < 0)
        continue;
      gsize slot = ((gsize)op->step * program->n_stages + op->stage) * program->n_micro_batches + op->micro_batch;
      gboolean releases_one = op->action == ACTION_B || op->action == ACTION_W;
      if (pass == 0) {
        releases[slot] += releases_one;
      } else if (op->action == ACTION_F && !held[slot]) {
        held[slot] = TRUE;
        count++;
        peak = MAX(peak, count);
      } else if (releases_one && --releases[slot] == 0) {
        count--;
      }
    }
  }
  return peak;
}

void metrics_in_flight(const Trace *trace, int *peak) {
  const Program *program = trace->program;
  gsize n_slots = (gsize)program->n_steps * program->n_stages * program->n_micro_batches;
  g_autofree gint32 *releases = g_new(gint32, MAX(n_slots, 1));
  g_autofree gboolean *held = g_new(gboolean, MAX(n_slots, 1));
  memset(peak, 0, sizeof *peak * (gsize)program->n_ranks);
  for (int r = 0; r < trace->n_ranks; r++) {
    int pp = trace->pipeline_rank[r];
    if (peak[pp] == 0) /* ranks that run the same list have the same peak */
      peak[pp] = peak_in_flight(trace, r, releases, held);
  }
}
