/* t₂ is just before any op behind the repeats starts: up to there runs of more groups are the same. */
#include "steady.h"

typedef struct {
  const Timing *timing;
  const RepeatedOps *own;
  const OpList *list;
  const gint64 *start_ns, *end_ns, *issue_ns;
  const gint16 *early_ticks;
} Records;

static Records records_of(const ProgramRepeats *repeats, const Trace *trace, const gint16 *early_ticks, int rank) {
  const gsize first = trace->first[rank];
  return (Records){trace->timing,           &repeats->lists[rank], &repeats->program->ranks[rank],
                   &trace->start_ns[first], &trace->end_ns[first], &trace->issue_ns[first],
                   &early_ticks[first]};
}

/* Up to here lists of more groups are the same, and so are all batches that begin. */
static gint32 same_until(const RepeatedOps *list) {
  return list->end + list->n_ops - N_STREAMS;
}

/* The last moment before an op starts that is not the same in lists of more groups. */
static gint64 before_end_of_body(const ProgramRepeats *repeats, const Trace *trace, const gint16 *early_ticks) {
  gint64 earliest_ns = G_MAXINT64;
  for (int rank = 0; rank < trace->n_ranks; rank++) {
    const Records of = records_of(repeats, trace, early_ticks, rank);
    for (gint32 i = MAX(0, same_until(of.own)); i < of.list->n_ops; i++)
      earliest_ns = MIN(earliest_ns, of.start_ns[i]);
  }
  return earliest_ns - 1;
}

/* From a group to the next, as the last kernels of rank 0 up to then have it; 0: there are none. */
static gint64 guess_period(const Records *of, gint64 until_ns) {
  for (gint32 i = same_until(of->own) - 1; i >= of->own->first + of->own->n_ops; i--)
    if (of->list->ops[i].kind == OP_COMPUTE && of->end_ns[i] <= until_ns)
      return of->end_ns[i] - of->end_ns[i - of->own->n_ops];
  return 0;
}

/* Every op that ended in (t₁, t₂], or has started and not ended, has its like one period before; and no op ended or
 * started then that has none now. */
static gboolean comes_back(const Records *of, gint64 t2_ns, gint64 period_ns) {
  const gint64 t1_ns = t2_ns - period_ns, t0_ns = t1_ns - period_ns;
  const gint32 n = of->own->n_ops, end = same_until(of->own);
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
    if (of->end_ns[i] > t2_ns - period_ns && of->end_ns[i] <= t2_ns && i < same_until(of->own) &&
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

Omitted *steady_omitted(const ProgramRepeats *repeats, gint64 n_groups, const Trace *trace, const gint16 *early_ticks) {
  g_assert(trace->folded && trace->program == repeats->program && trace->timing != NULL);
  const gint64 t2_ns = before_end_of_body(repeats, trace, early_ticks);
  const Records first = records_of(repeats, trace, early_ticks, 0);
  const gint64 period_ns = guess_period(&first, t2_ns);
  if (period_ns <= 0 || t2_ns < 2 * period_ns)
    return NULL;
  g_autofree Omitted *omitted = g_malloc0(sizeof *omitted + sizeof(gint32) * (gsize)trace->n_ranks);
  omitted->repeats = repeats;
  omitted->n_groups = n_groups;
  omitted->begin_ns = t2_ns - period_ns;
  omitted->end_ns = t2_ns;
  for (int rank = 0; rank < trace->n_ranks; rank++) {
    const Records of = records_of(repeats, trace, early_ticks, rank);
    if (!comes_back(&of, t2_ns, period_ns) || !host_is_steady(&of, t2_ns, period_ns, &omitted->n_early[rank]))
      return NULL;
  }
  return g_steal_pointer(&omitted);
}
