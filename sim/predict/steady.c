/* Each step has its own t₂, just before any op behind its repeats starts: up to there runs of more groups are the same,
 * if none of the ops that stand there in longer lists would have started by then. None has if its like had not started
 * by t₁, which is part of what is compared. Where it had, as a transfer may that is begun long before it is needed, or
 * a forward that waits for less than the backward which stands in its place, an earlier t₂ may do: before any op of the
 * last group starts, or of the last two. */
#include "steady.h"

typedef struct {
  const Timing *timing;
  const RepeatedOps *own;
  const OpList *list;
  const gint64 *start_ns, *end_ns, *issue_ns;
  const gint16 *early_ticks;
  gint32 same_until; /* up to here at most lists of more groups are the same, and so are all batches that begin */
} Records;

/* Of a step's repeats; the last `n_last` groups do not count as such. */
typedef struct {
  const ProgramRepeats *repeats;
  const Trace *trace;
  const gint16 *early_ticks;
  int step, n_last;
} Look;

static Records records_of(const Look *look, int rank) {
  const ProgramRepeats *repeats = look->repeats;
  const Trace *trace = look->trace;
  const gsize first = trace->first[rank];
  const RepeatedOps *own = program_repeats_of(repeats, rank, look->step);
  const OpList *list = &repeats->program->ranks[rank];
  return (Records){trace->timing,
                   own,
                   list,
                   &trace->start_ns[first],
                   &trace->end_ns[first],
                   &trace->issue_ns[first],
                   &look->early_ticks[first],
                   own->same_until - look->n_last * own->n_ops};
}

/* The last moment before an op starts that is not the same in lists of more groups. */
static gint64 before_end_of_body(const Look *look) {
  gint64 earliest_ns = G_MAXINT64;
  for (int rank = 0; rank < look->trace->n_ranks; rank++) {
    const Records of = records_of(look, rank);
    for (gint32 i = MAX(0, of.same_until); i < of.list->n_ops; i++)
      earliest_ns = MIN(earliest_ns, of.start_ns[i]);
  }
  return earliest_ns - 1;
}

/* From a group to the next, as the last kernels of rank 0 up to then have it; 0: there are none. */
static gint64 guess_period(const Records *of, gint64 until_ns) {
  for (gint32 i = of->same_until - 1; i >= of->own->first + of->own->n_ops; i--)
    if (of->list->ops[i].kind == OP_COMPUTE && of->end_ns[i] <= until_ns)
      return of->end_ns[i] - of->end_ns[i - of->own->n_ops];
  return 0;
}

/* Every op that ended in (t₁, t₂], or has started and not ended, has its like one period before; and no op ended or
 * started then that has none now. */
static gboolean comes_back(const Records *of, gint64 t2_ns, gint64 period_ns) {
  const gint64 t1_ns = t2_ns - period_ns, t0_ns = t1_ns - period_ns;
  const gint32 n = of->own->n_ops, end = of->same_until;
  gint32 n_ended_before = 0, n_ended = 0, n_under_way_before = 0, n_under_way = 0;
  for (gint32 i = 0; i < end; i++) {
    const gint64 start_ns = of->start_ns[i], end_ns = of->end_ns[i];
    if (end_ns <= t0_ns)
      continue;
    if (i < of->own->first)
      return FALSE;
    n_ended_before += end_ns <= t1_ns;
    n_under_way_before += start_ns <= t1_ns && end_ns > t1_ns;
    if (end_ns <= t1_ns || start_ns > t2_ns)
      continue;
    const gint32 like = i - n;
    if (like < of->own->first || of->start_ns[like] != start_ns - period_ns)
      return FALSE;
    if (end_ns > t2_ns) {
      n_under_way++;
      if (of->end_ns[like] <= t1_ns)
        return FALSE;
      continue;
    }
    n_ended++;
    if (of->end_ns[like] != end_ns - period_ns || of->early_ticks[like] != of->early_ticks[i])
      return FALSE;
  }
  return n_ended == n && n_ended_before == n && n_under_way == n_under_way_before;
}

/* Issued before it was needed, and so it is if it is issued still earlier. */
static gboolean is_issued_early(const Records *of, gint32 i) {
  const Op *op = &of->list->ops[i];
  if (op->kind == OP_COMPUTE)
    return of->issue_ns[i] < of->start_ns[i] && of->end_ns[i] - of->start_ns[i] == of->timing->works[op->work].run_ns;
  const gint64 host_ns = op->kind == OP_HOST ? 0 : of->timing->transfers[op->work].host_ns;
  return of->issue_ns[i] + host_ns < of->start_ns[i];
}

/* No group has host ops: the host keeps its distance from group to group, or is ahead since
 * t₁, until it waits for the ranks behind the last. */
static gboolean host_is_ahead(const Records *of, gint64 t1_ns, gint64 period_ns, gint32 *n_early) {
  const gint64 issued_ns = of->issue_ns[of->own->first + of->own->n_ops] - of->issue_ns[of->own->first];
  if (issued_ns >= period_ns)
    return issued_ns == period_ns;
  for (*n_early = 0; *n_early < of->list->n_ops;) {
    const gint32 i = (*n_early)++;
    if (of->end_ns[i] > t1_ns && !is_issued_early(of, i))
      return FALSE;
    if (i >= of->own->end && of->list->ops[i].kind == OP_HOST)
      return TRUE;
  }
  return TRUE;
}

/* The host waits for its rank in every group: what it issues then, it issues a period later in the next. What has not
 * ended at t₂ must not rest on a wait so long ago that its like was not looked at. */
static gboolean host_comes_back(const Records *of, gint64 t2_ns, gint64 period_ns) {
  const gint32 n = of->own->n_ops;
  gint64 waited_ns = 0; /* end of the latest wait */
  for (gint32 i = of->own->first; i < of->list->n_ops; i++) {
    if (of->end_ns[i] > t2_ns && waited_ns <= t2_ns - period_ns)
      return FALSE;
    if (of->end_ns[i] > t2_ns - period_ns && of->end_ns[i] <= t2_ns && i < of->same_until &&
        of->issue_ns[i] - of->issue_ns[i - n] != period_ns)
      return FALSE;
    if (of->list->ops[i].kind == OP_HOST)
      waited_ns = of->end_ns[i];
  }
  return TRUE;
}

static gboolean waits_in_every_group(const Records *of) {
  for (gint32 i = of->own->first; i < of->own->first + of->own->n_ops; i++)
    if (of->list->ops[i].kind == OP_HOST)
      return TRUE;
  return FALSE;
}

static gboolean host_is_steady(const Records *of, gint64 t2_ns, gint64 period_ns, gint32 *n_early) {
  return waits_in_every_group(of) ? host_comes_back(of, t2_ns, period_ns)
                                  : host_is_ahead(of, t2_ns - period_ns, period_ns, n_early);
}

/* FALSE: the step is not seen to have come back to a state. */
static gboolean find_period(const Look *look, OmittedPeriod *period) {
  const gint64 t2_ns = before_end_of_body(look);
  const Records first = records_of(look, 0);
  const gint64 period_ns = guess_period(&first, t2_ns);
  if (period_ns <= 0 || t2_ns < 2 * period_ns)
    return FALSE;
  period->begin_ns = t2_ns - period_ns;
  period->end_ns = t2_ns;
  for (int rank = 0; rank < look->trace->n_ranks; rank++) {
    const Records of = records_of(look, rank);
    if (!comes_back(&of, t2_ns, period_ns) || !host_is_steady(&of, t2_ns, period_ns, &period->n_early[rank]))
      return FALSE;
  }
  return TRUE;
}

Omitted *steady_omitted(const ProgramRepeats *repeats, gint64 n_groups, const Trace *trace, const gint16 *early_ticks) {
  enum { MOST_LAST = 2 };
  g_assert(trace->folded && trace->program == repeats->program && trace->timing != NULL);
  g_autoptr(Omitted) omitted = omitted_new(repeats, n_groups);
  for (int step = 0; step < omitted->n_steps; step++) {
    Look look = {repeats, trace, early_ticks, .step = step};
    while (!find_period(&look, &omitted->periods[step]))
      if (++look.n_last > MOST_LAST)
        return NULL;
  }
  return g_steal_pointer(&omitted);
}
