/* Each step has its own t₂, just before any op after its repeats starts. Up to t₂ runs with more groups are the same,
 * unless one of the ops that take that place in longer lists would have started by then. The first op to do so waits
 * for ops that have ended in both runs, so its counterpart had started by t₁: then one more op is under way, or over,
 * at t₁ than at t₂, and counting reveals that. It happens to a transfer that begins long before it is needed, or to a
 * forward that waits for less than the backward in its place. Then an earlier t₂ may do: before any op of the last
 * group starts, or of the last two. */
#include "steady.h"

typedef struct {
  const Timing *timing;
  const RepeatedOps *own;
  const OpList *list;
  const gint64 *start_ns, *end_ns, *issue_ns;
  const gint16 *early_ticks;
  gint32 same_until; /* ops before this are the same in lists of more groups, and so is every batch that begins before
                        it */
} Records;

/* One attempt at a step's repeats; the last `n_last` groups do not count as repeats. */
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

/* The last moment before any op starts that differs in lists of more groups. */
static gint64 before_end_of_body(const Look *look) {
  gint64 earliest_ns = G_MAXINT64;
  for (int rank = 0; rank < look->trace->n_ranks; rank++) {
    const Records of = records_of(look, rank);
    for (gint32 i = MAX(0, of.same_until); i < of.list->n_ops; i++)
      earliest_ns = MIN(earliest_ns, of.start_ns[i]);
  }
  return earliest_ns - 1;
}

/* The time from one group to the next, taken from the last kernel of rank 0 by until_ns; 0: there is none. */
static gint64 guess_period(const Records *of, gint64 until_ns) {
  for (gint32 i = of->same_until - 1; i >= of->own->first + of->own->n_ops; i--)
    if (of->list->ops[i].kind == OP_COMPUTE && of->end_ns[i] <= until_ns)
      return of->end_ns[i] - of->end_ns[i - of->own->n_ops];
  return 0;
}

/* The earliest moment whose history still matters after t₁. A receive moves when its send does. */
static gint64 looked_at_since(const Records *of, gint64 t1_ns) {
  gint64 kernel_ns = 0, since_ns = t1_ns;
  for (gint32 i = of->own->first; i < of->same_until; i++) {
    const Op *op = &of->list->ops[i];
    if (op->kind == OP_COMPUTE && of->end_ns[i] <= t1_ns)
      kernel_ns = MAX(kernel_ns, of->end_ns[i]);
    else if (op->kind != OP_RECV && of->start_ns[i] <= t1_ns && of->end_ns[i] > t1_ns)
      since_ns = MIN(since_ns, of->start_ns[i]);
  }
  return MIN(since_ns, kernel_ns);
}

/* Whether op `i` got as far by t₂ as its counterpart by t₁. */
static gboolean is_like_before(const Records *of, gint32 i, gint64 t2_ns, gint64 period_ns) {
  const gint32 like = i - of->own->n_ops;
  if (like < of->own->first || of->start_ns[like] != of->start_ns[i] - period_ns)
    return FALSE;
  if (of->end_ns[i] > t2_ns)
    return of->end_ns[like] > t2_ns - period_ns;
  return of->end_ns[like] == of->end_ns[i] - period_ns && of->early_ticks[like] == of->early_ticks[i];
}

/* Whether the rank is at t₂ where it was at t₁. On each stream as many ops ended in (t₁, t₂] as a group has, and
 * everything before the groups had ended. Everything under way at t₂ has its counterpart at t₁, and so has everything
 * that ended since `since_ns` plus a period. As many ops were under way at t₁ as at t₂. */
static gboolean comes_back(const Records *of, gint64 since_ns, gint64 t2_ns, gint64 period_ns) {
  const gint64 t1_ns = t2_ns - period_ns;
  const gint32 first = of->own->first;
  gint32 n_left[N_STREAMS] = {0}, n_more_under_way = 0;
  for (gint32 i = first; i < first + of->own->n_ops; i++)
    n_left[of->list->ops[i].stream]++;
  for (gint32 i = 0; i < of->same_until; i++) {
    const gint64 start_ns = of->start_ns[i], end_ns = of->end_ns[i];
    if (end_ns < since_ns)
      continue;
    if (i < first)
      return FALSE;
    n_left[of->list->ops[i].stream] -= end_ns > t1_ns && end_ns <= t2_ns;
    n_more_under_way += (start_ns <= t2_ns && end_ns > t2_ns) - (start_ns <= t1_ns && end_ns > t1_ns);
    if (end_ns >= since_ns + period_ns && start_ns <= t2_ns && !is_like_before(of, i, t2_ns, period_ns))
      return FALSE;
  }
  for (int stream = 0; stream < N_STREAMS; stream++)
    if (n_left[stream] != 0)
      return FALSE;
  return n_more_under_way == 0;
}

/* Whether the op was issued before it was needed: issuing it even earlier changes nothing. */
static gboolean is_issued_early(const Records *of, gint32 i) {
  const Op *op = &of->list->ops[i];
  if (op->kind == OP_COMPUTE)
    return of->issue_ns[i] < of->start_ns[i] && of->end_ns[i] - of->start_ns[i] == of->timing->works[op->work].run_ns;
  const gint64 host_ns = op->kind == OP_HOST ? 0 : of->timing->transfers[op->work].host_ns;
  return of->issue_ns[i] + host_ns < of->start_ns[i];
}

/* For groups without host ops. The host keeps its distance from group to group; or it has been ahead since t₁, until
 * it waits for the ranks after the last group. */
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

/* For groups in each of which the host waits for its rank: what it issues after that, it issues a period later in the
 * next group. What has not ended at t₂ must not depend on a wait so long ago that its counterpart was not checked. */
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

/* The same over all ranks. Where the host waits in every group, what it issues is compared over a whole period. */
static gint64 all_looked_at_since(const Look *look, gint64 t1_ns, gint64 period_ns) {
  gint64 since_ns = t1_ns;
  for (int rank = 0; rank < look->trace->n_ranks; rank++) {
    const Records of = records_of(look, rank);
    since_ns = MIN(since_ns, waits_in_every_group(&of) ? t1_ns - period_ns + 1 : looked_at_since(&of, t1_ns));
  }
  return since_ns;
}

/* FALSE: the step is not seen to return to a state. */
static gboolean find_period(const Look *look, OmittedPeriod *period) {
  const gint64 t2_ns = before_end_of_body(look);
  const Records first = records_of(look, 0);
  const gint64 period_ns = guess_period(&first, t2_ns);
  if (period_ns <= 0 || t2_ns < period_ns)
    return FALSE;
  period->begin_ns = t2_ns - period_ns;
  period->end_ns = t2_ns;
  const gint64 since_ns = all_looked_at_since(look, period->begin_ns, period_ns);
  for (int rank = 0; rank < look->trace->n_ranks; rank++) {
    const Records of = records_of(look, rank);
    if (!comes_back(&of, since_ns, t2_ns, period_ns) || !host_is_steady(&of, t2_ns, period_ns, &period->n_early[rank]))
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
