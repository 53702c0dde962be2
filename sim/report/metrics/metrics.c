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

static const BreakdownKind axis_kinds[N_AXES] = {
    [AXIS_TP] = BREAKDOWN_TP, [AXIS_CP] = BREAKDOWN_CP, [AXIS_EP] = BREAKDOWN_EP,
    [AXIS_DP] = BREAKDOWN_DP, [AXIS_PP] = BREAKDOWN_PP,
};

static const BreakdownKind charge_kinds[N_CHARGES] = {
    [CHARGE_COMPUTE] = BREAKDOWN_COMPUTE, [CHARGE_RECOMPUTE] = BREAKDOWN_RECOMPUTE,
    [CHARGE_TP] = BREAKDOWN_TP,           [CHARGE_CP] = BREAKDOWN_CP,
    [CHARGE_EP] = BREAKDOWN_EP,           [CHARGE_HOST] = BREAKDOWN_HOST,
};

/* What happens inside a compute op if the host was `lead_ns` ahead of its start. */
typedef struct {
  ChargeSplit split;
  gint64 lead_ns, kernels_ns;
  gint64 n_charged; /* ops of the current rank whose splits are still to be charged */
} Ahead;

typedef struct {
  const Trace *trace;
  const Program *program;
  gint64 from_ns, to_ns; /* the step's window */
  Ahead *ahead;          /* [works] NULL without a Timing */

  /* of the rank being walked */
  int rank;
  const OpList *list;
  const gint64 *start_ns, *end_ns, *issue_ns;
  RankBreakdown *out;
  gint32 last[N_STREAMS];                      /* latest op so far of each stream */
  gint64 cursor_ns;                            /* end of the running kernels so far */
  gint64 first_start_ns, last_end_ns, work_ns; /* of F, I, W, B in the last step */

  const Omitted *omitted; /* NULL: nothing */
  gint64 times;           /* repetitions of what is charged now */
  gint32 n_early;         /* first ops of the rank whose launch a charge must not depend on */
  gboolean is_known;      /* no charge has depended on it */

  /* scratch, as long as the longest list */
  gint64 *ready_ns; /* see arrivals.h */
  gint32 *before;   /* the op before on the same stream; −1 none */
  Overlap *overlap;
} Walk;

const char *breakdown_name(BreakdownKind kind) {
  return breakdown_names[kind];
}

static const Group *group_of(const Walk *walk, const Op *op) {
  const Transfer *transfer = &g_array_index(walk->program->transfers, Transfer, op->work);
  return &g_array_index(walk->program->groups, Group, transfer->group);
}

/* What waiting for `op` is charged to once everyone it needs is there. */
static BreakdownKind wait_kind(const Walk *walk, const Op *op) {
  if (op->stream == STREAM_COPY || op->stream == STREAM_COPY_OUT)
    return BREAKDOWN_OFFLOAD;
  if (op->kind == OP_HOST && op->work >= 0) /* the update of what is not on the GPU */
    return BREAKDOWN_OPTIMIZER;
  if (op->kind == OP_SEND || op->kind == OP_RECV)
    return BREAKDOWN_PP;
  if (op->kind == OP_COLLECTIVE) /* the norm is over all axes at once */
    return op->action == ACTION_NORM ? BREAKDOWN_OTHER : axis_kinds[group_of(walk, op)->charge];
  return BREAKDOWN_HOST;
}

/* And before they are there. */
static BreakdownKind absence_kind(const Walk *walk, const Op *op) {
  if (op->kind == OP_SEND || op->kind == OP_RECV)
    return BREAKDOWN_BUBBLE;
  if (op->kind == OP_COLLECTIVE && group_of(walk, op)->spans_pp)
    return BREAKDOWN_BUBBLE;
  return wait_kind(walk, op);
}

static void charge(Walk *walk, BreakdownKind kind, gint64 from_ns, gint64 to_ns) {
  walk->out->ns[kind] += walk->times * (to_ns - from_ns);
}

/* Called before charging a compute op that ended at that time, or the rest after the last one. */
static void begin_charging(Walk *walk, gint64 ended_ns) {
  const Omitted *omitted = walk->omitted;
  if (omitted == NULL)
    return;
  walk->times = omitted_times(omitted, ended_ns);
  walk->n_early = 0;
  for (int step = 0; step < omitted->n_steps; step++) {
    const OmittedPeriod *period = &omitted->periods[step];
    if (ended_ns > period->begin_ns - omitted_period_ns(period))
      walk->n_early = MAX(walk->n_early, period->n_early[walk->rank]);
  }
}

/* The op that let op `i` start, and when; −1: the host issued it. */
static gint32 cause_of(const Walk *walk, gint32 i, gint64 *time_ns) {
  const Op *op = &walk->list->ops[i];
  gint32 cause = -1;
  *time_ns = walk->issue_ns[i];
  for (int k = 0; k < OP_MAX_AFTER && op->after[k] >= 0; k++) {
    if (walk->end_ns[op->after[k]] >= *time_ns) {
      cause = op->after[k];
      *time_ns = walk->end_ns[cause];
    }
  }
  if (walk->before[i] >= 0 && walk->end_ns[walk->before[i]] >= *time_ns) {
    cause = walk->before[i];
    *time_ns = walk->end_ns[cause];
  }
  return cause;
}

/* Nothing delays op `i` any more, but it has not started: a transfer waits for the others of its batch, everything
 * else for its launch. */
static BreakdownKind launch_kind(const Walk *walk, gint32 i) {
  const Op *op = &walk->list->ops[i];
  return op->batch >= 0 ? wait_kind(walk, op) : BREAKDOWN_HOST;
}

/* Charge the part of [from, to) during which op `cause` was running; returns the end of the unexplained rest. */
static gint64 charge_cause(Walk *walk, gint32 cause, gint64 from_ns, gint64 to_ns) {
  const Op *op = &walk->list->ops[cause];
  gint64 start_ns = CLAMP(walk->start_ns[cause], from_ns, to_ns);
  gint64 ready_ns = CLAMP(walk->ready_ns[cause], from_ns, to_ns);
  charge(walk, wait_kind(walk, op), ready_ns, to_ns);
  charge(walk, absence_kind(walk, op), start_ns, ready_ns);
  return start_ns;
}

/* Op `i` of this list could start at `to` and not before: explain [from, to). */
static void charge_idle(Walk *walk, gint32 i, gint64 from_ns, gint64 to_ns) {
  gint32 host_op = walk->last[STREAM_HOST];
  while (to_ns > from_ns) {
    gint64 time_ns;
    gint32 cause = cause_of(walk, i, &time_ns);
    charge(walk, launch_kind(walk, i), CLAMP(time_ns, from_ns, to_ns), to_ns);
    to_ns = CLAMP(time_ns, from_ns, to_ns);
    if (cause < 0) {
      walk->is_known &= i >= walk->n_early || to_ns <= from_ns;
      /* Issuing goes back to the last op that blocked the host. */
      while (host_op >= i)
        host_op = walk->before[host_op];
      if (host_op < 0 || walk->end_ns[host_op] <= from_ns) {
        charge(walk, BREAKDOWN_HOST, from_ns, to_ns);
        return;
      }
      cause = host_op;
      const gint64 issued_ns =
          CLAMP(walk->end_ns[host_op], from_ns, to_ns); /* everything after it is issued from then on */
      charge(walk, BREAKDOWN_HOST, issued_ns, to_ns);
      to_ns = issued_ns;
    }
    to_ns = charge_cause(walk, cause, from_ns, to_ns);
    i = cause;
  }
}

/* From the last kernel to the end of the window. */
static void charge_tail(Walk *walk, gint32 last_other) {
  gint64 from_ns = MAX(walk->cursor_ns, walk->from_ns), to_ns = walk->to_ns;
  if (from_ns >= to_ns)
    return;
  gint64 end_ns = last_other < 0 ? from_ns : CLAMP(walk->end_ns[last_other], from_ns, to_ns);
  charge(walk, BREAKDOWN_BUBBLE, end_ns, to_ns);
  if (end_ns > from_ns)
    charge_idle(walk, last_other, from_ns, charge_cause(walk, last_other, from_ns, end_ns));
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

/* The host is nearly always far ahead, so the charges of a work in that case are kept and applied once for all its
 * ops. */
static Ahead split_ahead(const Timing *timing, const Work *work, OpTime time) {
  Ahead ahead = {.lead_ns = timing_host_lead(timing, work)};
  timing_charge(timing, work, 0, -ahead.lead_ns, time.run_ns, &ahead.split);
  ahead.kernels_ns = kernels_of(&ahead.split);
  return ahead;
}

/* Op `i` ran as with the host far ahead. */
static gboolean host_is_ahead(const Walk *walk, gint32 i) {
  gint32 w = walk->list->ops[i].work;
  return walk->end_ns[i] - walk->start_ns[i] == walk->trace->timing->works[w].run_ns &&
         walk->start_ns[i] - walk->issue_ns[i] >= walk->ahead[w].lead_ns;
}

static void charge_ahead(Walk *walk) {
  for (guint w = 0; walk->ahead != NULL && w < walk->program->works->len; w++) {
    charge_split(walk, &walk->ahead[w].split, walk->ahead[w].n_charged);
    walk->ahead[w].n_charged = 0;
  }
}

/* What the compute stream did during op `i`, with the host not far ahead. A run of kernels between collectives is
 * split here, without a cost per kernel: the time beyond that with the host far ahead is the host's, the rest (speed
 * factors, jitter) is the kernels'. */
static void split_running(const Walk *walk, gint32 i, const Work *work, ChargeSplit *split) {
  const OpTime time = walk->trace->timing->works[walk->list->ops[i].work];
  gint64 start_ns = walk->start_ns[i], end_ns = walk->end_ns[i], issue_ns = walk->issue_ns[i];
  if (work->piece < 0) {
    timing_charge(walk->trace->timing, work, start_ns, issue_ns, end_ns, split);
    return;
  }
  gint64 late_ns = time.tail_ns > 0 ? issue_ns + time.tail_ns - start_ns - time.run_ns : 0;
  split->charged_ns[CHARGE_HOST] = CLAMP(late_ns, 0, end_ns - start_ns);
  split->charged_ns[work->recompute ? CHARGE_RECOMPUTE : CHARGE_COMPUTE] =
      end_ns - start_ns - split->charged_ns[CHARGE_HOST];
}

/* Charge the part [from, to) of the op that lies in the window. */
static void charge_inside(Walk *walk, gint32 i, const Work *work, gint64 from_ns, gint64 to_ns) {
  const gboolean is_ahead = host_is_ahead(walk, i);
  const gboolean is_whole = from_ns == walk->start_ns[i] && to_ns == walk->end_ns[i];
  if (is_whole && is_ahead) {
    Ahead *ahead = &walk->ahead[walk->list->ops[i].work];
    ahead->n_charged += walk->times;
    overlap_add_op(walk->overlap, i, from_ns, to_ns, ahead->kernels_ns, TRUE);
    return;
  }
  ChargeSplit split = {0};
  walk->is_known &= i >= walk->n_early;
  if (is_whole)
    split_running(walk, i, work, &split);
  else
    timing_charge_part(walk->trace->timing, work, walk->start_ns[i], walk->issue_ns[i], from_ns, to_ns, &split);
  charge_split(walk, &split, walk->times);
  overlap_add_op(walk->overlap, i, from_ns, to_ns, kernels_of(&split), is_ahead);
}

static void charge_running(Walk *walk, gint32 i, const Work *work) {
  gint64 start_ns = MAX(walk->start_ns[i], MAX(walk->cursor_ns, walk->from_ns));
  gint64 end_ns = MIN(walk->end_ns[i], walk->to_ns);
  if (end_ns <= start_ns)
    return;
  if (walk->trace->timing && has_kernels(work)) {
    charge_inside(walk, i, work, start_ns, end_ns);
    return;
  }
  BreakdownKind kind = work->phase == PHASE_OPTIMIZER ? BREAKDOWN_OPTIMIZER
                       : work->recompute              ? BREAKDOWN_RECOMPUTE
                                                      : BREAKDOWN_COMPUTE;
  charge(walk, kind, start_ns, end_ns);
  overlap_add_op(walk->overlap, i, start_ns, end_ns, end_ns - start_ns, TRUE);
}

static void note_span(Walk *walk, gint32 i) {
  if (walk->first_start_ns < 0)
    walk->first_start_ns = walk->start_ns[i];
  walk->last_end_ns = walk->end_ns[i];
  walk->work_ns += walk->times * (walk->end_ns[i] - walk->start_ns[i]);
}

/* In a folded run, whole work ends with its items' collectives: until those have ended the wait is theirs, even if
 * the next run of kernels waits longer for something else. Returns the start of the rest to be explained. */
static gint64 charge_items_end(Walk *walk, gint32 i, gint64 from_ns, gint64 to_ns) {
  const Op *op = &walk->list->ops[i];
  for (int a = 0; a < OP_MAX_AFTER && op->after[a] >= 0; a++) {
    gint64 end_ns = MIN(walk->end_ns[op->after[a]], to_ns);
    Stream stream = (Stream)walk->list->ops[op->after[a]].stream;
    if ((stream != STREAM_TP && stream != STREAM_CP) || end_ns <= from_ns)
      continue;
    charge_idle(walk, op->after[a], from_ns, charge_cause(walk, op->after[a], from_ns, end_ns));
    return end_ns;
  }
  return from_ns;
}

static void visit_compute(Walk *walk, gint32 i) {
  const Op *op = &walk->list->ops[i];
  const Work *work = &g_array_index(walk->program->works, Work, op->work);
  begin_charging(walk, walk->end_ns[i]);
  gint64 idle_from_ns = MAX(walk->cursor_ns, walk->from_ns), idle_to_ns = MIN(walk->start_ns[i], walk->to_ns);
  if (idle_to_ns > idle_from_ns)
    idle_from_ns = charge_items_end(walk, i, idle_from_ns, idle_to_ns);
  if (idle_to_ns > idle_from_ns)
    charge_idle(walk, i, idle_from_ns, idle_to_ns);
  charge_running(walk, i, work);
  walk->cursor_ns = MAX(walk->cursor_ns, walk->end_ns[i]);
  if (op->step == walk->program->n_steps - 1 && work->phase != PHASE_OPTIMIZER)
    note_span(walk, i);
}

static int kind_axis(BreakdownKind kind) {
  int axis = 0;
  while (axis < N_AXES && axis_kinds[axis] != kind)
    axis++;
  return axis;
}

/* A transfer between two ranks is counted once, where it arrives. */
static void visit_other(Walk *walk, gint32 i) {
  const Op *op = &walk->list->ops[i];
  gint64 start_ns = MAX(walk->ready_ns[i], walk->from_ns), end_ns = MIN(walk->end_ns[i], walk->to_ns);
  if (end_ns <= start_ns || op->kind == OP_SEND || op->kind == OP_HOST)
    return;
  const BreakdownKind kind = wait_kind(walk, op);
  const int mover = kind == BREAKDOWN_OFFLOAD ? MOVER_OFFLOAD : kind_axis(kind);
  if (mover < N_AXES || kind == BREAKDOWN_OFFLOAD)
    overlap_add_transfer(walk->overlap, op->stream, mover, start_ns, end_ns);
}

static void begin_rank(Walk *walk, int rank, RankBreakdown *out) {
  gsize first = walk->trace->first[rank];
  walk->rank = rank;
  walk->list = trace_list(walk->trace, rank);
  walk->start_ns = walk->trace->start_ns + first;
  walk->end_ns = walk->trace->end_ns + first;
  walk->issue_ns = walk->trace->issue_ns + first;
  walk->out = out;
  walk->cursor_ns = 0;
  walk->first_start_ns = -1;
  walk->last_end_ns = walk->work_ns = 0;
  overlap_begin_rank(walk->overlap, rank);
  for (int s = 0; s < N_STREAMS; s++)
    walk->last[s] = -1;
}

/* Belongs to a step before the last and ended before the window: nothing of it is charged. */
static inline gboolean is_past(const Walk *walk, const Op *op, gint32 i) {
  return walk->end_ns[i] <= walk->from_ns && op->step < walk->program->n_steps - 1;
}

static void walk_rank(Walk *walk) {
  gint32 last_other = -1;
  for (gint32 i = 0; i < walk->list->n_ops; i++) {
    const Op *op = &walk->list->ops[i];
    walk->before[i] = walk->last[op->stream];
    walk->last[op->stream] = i;
    if (walk->end_ns[i] < 0)
      continue; /* never ran */
    const gboolean is_charged = !is_past(walk, op, i);
    if (op->kind == OP_COMPUTE) {
      if (is_charged)
        visit_compute(walk, i);
      continue;
    }
    if (is_charged)
      visit_other(walk, i);
    if (last_other < 0 || walk->end_ns[i] >= walk->end_ns[last_other])
      last_other = i;
  }
  begin_charging(walk, G_MAXINT64);
  charge_tail(walk, last_other);
  charge_ahead(walk);
  overlap_sum(walk->overlap, walk->omitted, walk->out->hidden_ns);

  gint64 sum_ns = 0;
  for (int kind = 0; kind < N_BREAKDOWN; kind++)
    sum_ns += walk->out->ns[kind];
  g_assert(sum_ns == walk->to_ns - walk->from_ns + omitted_ns(walk->omitted, walk->from_ns));
  for (int axis = 0; axis < N_AXES; axis++)
    walk->out->exposed_ns[axis] = walk->out->ns[axis_kinds[axis]];
}

static void walk_init(Walk *walk, const Trace *trace, const Omitted *omitted) {
  int n_most = 1;
  for (int pp = 0; pp < trace->program->n_ranks; pp++)
    n_most = MAX(n_most, trace->program->ranks[pp].n_ops);
  *walk = (Walk){.trace = trace, .program = trace->program, .omitted = omitted, .times = 1, .is_known = TRUE};
  walk->to_ns = trace_end(trace);
  walk->from_ns = trace_last_step_begin(trace);
  walk->ready_ns = g_new(gint64, n_most);
  walk->before = g_new(gint32, n_most);
  walk->overlap = overlap_new(trace);
  if (!trace->timing)
    return;
  walk->ahead = g_new0(Ahead, trace->program->works->len + 1);
  for (guint w = 0; w < trace->program->works->len; w++) {
    const Work *work = &g_array_index(trace->program->works, Work, w);
    if (has_kernels(work))
      walk->ahead[w] = split_ahead(trace->timing, work, trace->timing->works[w]);
  }
}

static void walk_clear(Walk *walk) {
  g_free(walk->ready_ns);
  g_free(walk->before);
  overlap_free(walk->overlap);
  g_free(walk->ahead);
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
    metrics->exposed_s[mover] = metrics->mean_s[mover < N_AXES ? axis_kinds[mover] : BREAKDOWN_OFFLOAD];
  }
  double bubble_s = metrics->mean_s[BREAKDOWN_BUBBLE], step_s = (double)metrics->step_ns * 1e-9;
  metrics->bubble_fraction = step_s > 0 ? bubble_s / step_s : 0;
  metrics->bubble_overhead = step_s > bubble_s ? bubble_s / (step_s - bubble_s) : 0;
}

/* The rank's span, from its first kernel to its last. */
static void take_span(Walk *walk, Metrics *metrics) {
  const Omitted *omitted = walk->omitted;
  walk->is_known &= omitted == NULL || walk->last_end_ns > omitted->periods[omitted->n_steps - 1].end_ns;
  const gint64 first_ns = MAX(walk->first_start_ns, 0);
  const gint64 span_ns = walk->last_end_ns - first_ns + omitted_ns(omitted, first_ns);
  if (span_ns > metrics->span_ns) {
    metrics->span_ns = span_ns;
    metrics->span_bubble_ns = span_ns - walk->work_ns;
  }
}

Metrics *metrics_new_with(const Trace *trace, const Omitted *omitted) {
  g_autoptr(Arrivals) arrivals = arrivals_new(trace);
  g_autoptr(Metrics) metrics = g_new0(Metrics, 1);
  metrics->n_ranks = trace->n_ranks;
  metrics->ranks = g_new0(RankBreakdown, trace->n_ranks);

  Walk walk;
  walk_init(&walk, trace, omitted);
  metrics->step_ns = walk.to_ns - walk.from_ns + omitted_ns(omitted, walk.from_ns);
  for (int r = 0; r < trace->n_ranks && walk.is_known; r++) {
    begin_rank(&walk, r, &metrics->ranks[r]);
    arrivals_of_rank(arrivals, r, walk.ready_ns);
    walk_rank(&walk);
    take_span(&walk, metrics);
  }
  walk_clear(&walk);
  if (!walk.is_known)
    return NULL;
  take_means(metrics);
  return g_steal_pointer(&metrics);
}

Metrics *metrics_new(const Trace *trace) {
  return metrics_new_with(trace, NULL);
}

void metrics_free(Metrics *metrics) {
  if (!metrics)
    return;
  g_free(metrics->ranks);
  g_free(metrics);
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
