/* Transfers are flows over ways (contention.h), and a transfer that is alone takes its own time to the nanosecond. So
 * the records made here equal those of the clock up to the first conflict: the moment at which a transfer begins on a
 * way, in one direction, that another has not left. To find it, the transfers of each rank are sorted by begin, which
 * is nearly the order of the list, and each is compared with the latest end so far on its ways. */
#include "follow_state.h"

#include "contention.h"
#include "ticks.h"

/* A transfer's time in ticks, computed in doubles, is exact to half a tick well beyond this. */
static const gint64 LONGEST_TRANSFER_NS = 100 * (gint64)1000000000;

static gint64 longest(const OpTime *times, int n) {
  gint64 longest_ns = 0;
  for (int i = 0; i < n; i++)
    longest_ns = MAX(longest_ns, MAX(times[i].run_ns, MAX(times[i].tail_ns, times[i].host_ns)));
  return longest_ns;
}

/* Short enough that no sum of times approaches the end of time in ticks, even if each transfer waits for one on every
 * other stream. */
static gboolean is_short(const Simulation *simulation, const Course *course, int n_ranks) {
  const Timing *timing = simulation->timing;
  gint64 transfer_ns = longest(timing->transfers, timing->n_transfers);
  gint64 work_ns = MAX(longest(timing->works, timing->n_works), longest(&timing->host_sync, 1) + timing->step_ns);
  double sum_ns = (double)course->n_ops * (double)work_ns +
                  (double)N_STREAMS * course->first_transfer[n_ranks] * (double)transfer_ns;
  gint64 begin_ns = 0;
  for (int rank = 0; simulation->begin_ns != NULL && rank < n_ranks; rank++)
    begin_ns = MAX(begin_ns, simulation->begin_ns[rank]);
  sum_ns += (double)begin_ns;
  return transfer_ns < LONGEST_TRANSFER_NS && 3 * sum_ns * TICKS_PER_NS < (double)TICKS_NEVER; /* run, tail and
                                                                                                  host */
}

static gboolean can_follow(const Simulation *simulation) {
  const Program *program = simulation->program;
  return simulation->folded && program->shared != NULL && program->shared->course != NULL &&
         simulation->timing->taxes == NULL && simulation->jitter == 0 && simulation->speed == NULL &&
         is_short(simulation, program->shared->course, program->n_ranks) && !simulation_has_eager_sends(simulation);
}

static guint *ways_of_transfers(const Simulation *simulation, const Trace *trace) {
  const Timing *timing = simulation->timing;
  guint *ways = g_new0(guint, timing->n_transfers);
  if (!simulation->contended || !contention_is_possible(trace))
    return ways;
  for (int i = 0; i < timing->n_transfers; i++)
    for (int way = 0; way < TIMING_MAX_WAYS; way++)
      ways[i] |= timing->loads[i].share[way] > 0 ? 1u << way : 0;
  return ways;
}

static inline gint64 host_ns(const Timing *timing, const CourseIssue *issue) {
  return issue->kind == OP_COMPUTE ? timing->works[issue->work].host_ns
         : issue->kind == OP_HOST  ? 0
                                   : timing->transfers[issue->work].host_ns;
}

/* The host issues op after op without pause, and starts anew at the end of an OP_HOST. */
static void find_offsets(Follow *follow) {
  const Course *course = follow->course;
  for (int rank = 0; rank < follow->trace->n_ranks; rank++) {
    gint64 at_ns = follow->begin_ns != NULL ? follow->begin_ns[rank] : 0;
    for (gint32 i = course->first[rank]; i < course->first[rank + 1]; i++) {
      follow->offset_ns[i] = at_ns;
      at_ns = course->issues[i].kind == OP_HOST ? 0 : at_ns + host_ns(follow->timing, &course->issues[i]);
    }
  }
}

Follow *follow_new(const Simulation *simulation, Trace *trace) {
  if (!can_follow(simulation))
    return NULL;
  Follow *follow = g_new(Follow, 1);
  const Course *course = simulation->program->shared->course;
  *follow = (Follow){.course = course,
                     .timing = simulation->timing,
                     .trace = trace,
                     .begin_ns = simulation->begin_ns,
                     .ways = ways_of_transfers(simulation, trace),
                     .offset_ns = g_new(gint64, course->n_ops),
                     .meeting_ns = g_new(gint64, course->n_meetings),
                     .n_coming = g_new(gint32, course->n_meetings),
                     .first_left = g_memdup2(course->first_transfer, sizeof(gint32) * (gsize)trace->n_ranks),
                     .last_transfer = g_new(gint32, trace->n_ranks),
                     .out.intervals = g_new(Interval, course->most_transfers),
                     .in.intervals = g_new(Interval, course->most_transfers)};
  for (int rank = 0; rank < trace->n_ranks; rank++)
    follow->last_transfer[rank] = -1;
  for (int i = 0; i < simulation->timing->n_transfers; i++)
    follow->has_ways |= follow->ways[i] != 0;
  find_offsets(follow);
  return follow;
}

void follow_free(Follow *follow) {
  if (follow == NULL)
    return;
  g_free(follow->ways);
  g_free(follow->offset_ns);
  g_free(follow->meeting_ns);
  g_free(follow->n_coming);
  g_free(follow->first_left);
  g_free(follow->last_transfer);
  g_free(follow->out.intervals);
  g_free(follow->in.intervals);
  g_free(follow);
}

/* All members are there: a transfer ends for all of them at once. */
static void end_meeting(const Follow *follow, gint32 meeting) {
  const Course *course = follow->course;
  for (gint32 m = course->first_member[meeting]; m < course->first_member[meeting + 1]; m++)
    follow->trace->end_ns[course->members[m]] = follow->meeting_ns[meeting];
}

static void start_step(const Follow *follow, const CourseStep *step, gint64 ready_ns, gint64 issue_ns) {
  const Course *course = follow->course;
  const Timing *timing = follow->timing;
  gint64 *start_ns = follow->trace->start_ns, *end_ns = follow->trace->end_ns;
  gint32 op = step->op;
  if (step->kind < COURSE_TRANSFER) {
    follow_run_step(follow, step, ready_ns, issue_ns);
    return;
  }
  const OpTime *time = &timing->transfers[step->work];
  start_ns[op] = MAX(ready_ns, issue_ns + time->host_ns);
  if (step->kind == COURSE_TRANSFER) {
    if (start_ns[step->meets] < 0)
      return;
    end_ns[op] = end_ns[step->meets] = MAX(start_ns[op], start_ns[step->meets]) + time->run_ns;
    /* the clock may have started the partner, whose own step will then find it done */
    gint32 *last = &follow->last_transfer[course->steps[course->place[step->meets]].rank];
    *last = MAX(*last, step->meets);
  } else if (step->kind == COURSE_COLLECTIVE) {
    end_ns[op] = start_ns[op] + time->run_ns;
  } else {
    gint64 *meeting_ns = &follow->meeting_ns[step->meets];
    *meeting_ns = MAX(*meeting_ns, start_ns[op] + time->run_ns);
    if (--follow->n_coming[step->meets] == 0)
      end_meeting(follow, step->meets);
  }
}

/* Records that end up to past_ns are final; meetings are counted anew. */
static void begin_turn(Follow *follow, gint64 past_ns) {
  const Course *course = follow->course;
  const gint64 *end_ns = follow->trace->end_ns;
  while (follow->n_past < course->n_ops && end_ns[course->steps[follow->n_past].op] >= 0 &&
         end_ns[course->steps[follow->n_past].op] <= past_ns)
    follow->n_past++;
  follow_expect_members(follow);
}

/* Fill the records of these steps that have no end yet. */
static void make_records(Follow *follow, gint32 begin, gint32 end) {
  const gint64 *end_ns = follow->trace->end_ns;
  for (gint32 s = begin; s < end; s++) {
    const CourseStep *step = &follow->course->steps[s];
    if (end_ns[step->op] >= 0)
      continue;
    gint64 issue_ns, ready_ns = follow_ready_and_issue(follow, step, &issue_ns);
    follow->trace->issue_ns[step->op] = issue_ns;
    start_step(follow, step, ready_ns, issue_ns);
    if (step->kind >= COURSE_TRANSFER)
      follow->last_transfer[step->rank] = MAX(follow->last_transfer[step->rank], step->op);
  }
}

/* Everything that steps from `from` on wait for, unless it has ended already, ends at or after the returned time.
 * None of these steps has started earlier, and none waits only for the host. */
static gint64 earliest_ready(const Follow *follow, gint32 from) {
  const Course *course = follow->course;
  gint64 earliest_ns = G_MAXINT64;
  for (gint32 s = from; from < course->n_ops && s < course->open[from]; s++) {
    const CourseStep *step = &course->steps[s];
    gint64 issue_ns, ready_ns = follow->trace->end_ns[step->op];
    if (ready_ns < 0)
      ready_ns = follow_ready_and_issue(follow, step, &issue_ns);
    earliest_ns = MIN(earliest_ns, ready_ns);
  }
  return earliest_ns;
}

/* --- conflicts between transfers --- */

/* Insertion sort by begin: intervals arrive nearly in order. */
static inline void add_interval(IntervalList *list, Interval added) {
  int at = list->n++;
  for (; at > 0 && list->intervals[at - 1].begin_ns > added.begin_ns; at--)
    list->intervals[at] = list->intervals[at - 1];
  list->intervals[at] = added;
}

/* The rank's transfers that end after from_ns, outgoing and incoming; a collective is both. */
static void sort_intervals(Follow *follow, int rank, gint64 from_ns) {
  const Course *course = follow->course;
  gint32 *first = &follow->first_left[rank];
  const gint64 *ends_ns = follow->trace->end_ns;
  while (*first < course->first_transfer[rank + 1] && ends_ns[course->transfers[*first].op] >= 0 &&
         ends_ns[course->transfers[*first].op] <= from_ns)
    ++*first;
  follow->out.n = follow->in.n = 0;
  for (gint32 t = *first; t < course->first_transfer[rank + 1]; t++) {
    const CourseTransfer *transfer = &course->transfers[t];
    if (transfer->op > follow->last_transfer[rank])
      break;
    gint64 end_ns = ends_ns[transfer->op];
    guint ways = follow->ways[transfer->work];
    if (ways == 0 || end_ns <= from_ns)
      continue;
    const Interval added = {end_ns - follow->timing->transfers[transfer->work].run_ns, end_ns, ways};
    if (transfer->kind != OP_RECV)
      add_interval(&follow->out, added);
    if (transfer->kind != OP_SEND)
      add_interval(&follow->in, added);
  }
}

static gint64 first_conflict(const IntervalList *list) {
  gint64 latest_ns[TIMING_MAX_WAYS] = {0};
  for (int i = 0; i < list->n; i++) {
    const Interval *interval = &list->intervals[i];
    for (guint ways = interval->ways; ways != 0; ways &= ways - 1) {
      gint64 *latest = &latest_ns[__builtin_ctz(ways)];
      if (interval->begin_ns < *latest)
        return interval->begin_ns;
      *latest = MAX(*latest, interval->end_ns);
    }
  }
  return G_MAXINT64;
}

/* The first moment at which a transfer begins on a way that another has not left, among those that have a record and
 * end after from_ns. from_ns never decreases. */
static gint64 conflict_after(Follow *follow, gint64 from_ns) {
  gint64 conflict_ns = G_MAXINT64;
  for (int rank = 0; rank < follow->trace->n_ranks; rank++) {
    sort_intervals(follow, rank, from_ns);
    conflict_ns = MIN(conflict_ns, MIN(first_conflict(&follow->out), first_conflict(&follow->in)));
  }
  return conflict_ns;
}

/* Makes records one stretch of the course at a time, each twice as long as the last. A conflict found among them
 * counts only up to the moment before which no further op can be ready. */
gint64 follow_to_conflict(Follow *follow, gint64 past_ns, gint64 rest_ns, gint32 *n_made) {
  enum { STEPS_OF_A_RANK = 16 };
  const gint32 n_ops = follow->course->n_ops;
  gint32 n_steps = follow->has_ways ? STEPS_OF_A_RANK * follow->trace->n_ranks : n_ops;
  gint64 conflict_ns, until_ns;
  begin_turn(follow, past_ns);
  gint32 made = follow->n_past;
  do {
    const gint32 end = n_ops - made > n_steps ? made + n_steps : n_ops;
    make_records(follow, made, end);
    made = end;
    n_steps = 2 * MIN(n_steps, n_ops / 2);
    until_ns = earliest_ready(follow, made);
    conflict_ns = follow->has_ways ? conflict_after(follow, rest_ns) : G_MAXINT64;
    rest_ns = MAX(rest_ns, until_ns);
  } while (conflict_ns > until_ns);
  follow->n_made = made;
  *n_made = made - follow->n_past;
  return conflict_ns;
}

guint64 follow_n_past(const Follow *follow) {
  return (guint64)follow->n_past;
}

guint64 follow_n_events(const Follow *follow) {
  const Course *course = follow->course;
  guint64 n = (guint64)course->n_ops - (guint64)(course->first_member[course->n_meetings] - course->n_meetings);
  for (gint32 t = 0; t < course->first_transfer[follow->trace->n_ranks]; t++)
    n -= course->transfers[t].kind == OP_RECV && follow->ways[course->transfers[t].work] == 0;
  return n;
}
