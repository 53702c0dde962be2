/* Transfers are flows over ways (contention.h), and a transfer that is alone takes its own time to the nanosecond. So
 * the records made here equal those of the clock up to the first conflict: the moment at which a transfer begins on a
 * way, in one direction, that another has not left. To find it, the transfers of each rank are sorted by begin, which
 * is nearly the order of the list, and each is compared with the latest end so far on its ways. */
#include "follow.h"

#include "contention.h"

typedef struct {
  gint64 begin_ns, end_ns;
  guint ways;
} Interval;

typedef struct {
  Interval *intervals; /* owned */
  int n;
} IntervalList;

typedef struct {
  const Run *run;
  gint64 *meeting_ns;    /* [meetings] latest (arrival + run) so far; owned, as are all below */
  gint32 *n_coming;      /* [meetings] members still to arrive */
  gint32 *first_left;    /* [ranks] into Tape.transfers: the first that may not have ended */
  gint32 *last_transfer; /* [ranks] no later op is a transfer with a record; −1: none is */
  IntervalList out, in;  /* scratch: the transfers of one rank */
} Follow;

/* Their times in ticks, computed in doubles, are exact to half a tick. */
static gboolean transfers_are_short(const Timing *timing) {
  const gint64 longest_ns = 100 * (gint64)1000000000;
  for (int i = 0; i < timing->n_transfers; i++)
    if (timing->transfers[i].run_ns >= longest_ns)
      return FALSE;
  return TRUE;
}

gboolean follow_can(const Run *run) {
  const Simulation *simulation = run->simulation;
  return simulation->folded && run->timing->taxes == NULL && simulation->jitter == 0 &&
         transfers_are_short(run->timing) && !contention_is_too_long(run->trace, 1, NULL);
}

static void follow_init(Follow *follow, const Run *run) {
  const Tape *tape = run->tape;
  *follow = (Follow){.run = run,
                     .meeting_ns = g_new0(gint64, tape->n_meetings),
                     .n_coming = g_new(gint32, tape->n_meetings),
                     .first_left = g_memdup2(tape->first_transfer, sizeof(gint32) * (gsize)tape->n_ranks),
                     .last_transfer = g_new(gint32, tape->n_ranks),
                     .out.intervals = g_new(Interval, tape->most_transfers),
                     .in.intervals = g_new(Interval, tape->most_transfers)};
  for (int m = 0; m < tape->n_meetings; m++)
    follow->n_coming[m] = tape->first_member[m + 1] - tape->first_member[m];
  for (int rank = 0; rank < tape->n_ranks; rank++)
    follow->last_transfer[rank] = -1;
}

static void follow_clear(Follow *follow) {
  g_free(follow->meeting_ns);
  g_free(follow->n_coming);
  g_free(follow->first_left);
  g_free(follow->last_transfer);
  g_free(follow->out.intervals);
  g_free(follow->in.intervals);
}

/* --- records --- */

/* All members are there: a collective ends for all of them at once. */
static void end_meeting(const Follow *follow, gint32 meeting) {
  const Tape *tape = follow->run->tape;
  for (gint32 m = tape->first_member[meeting]; m < tape->first_member[meeting + 1]; m++)
    follow->run->trace->end_ns[tape->members[m]] = follow->meeting_ns[meeting];
}

/* A send or receive has its start. Then the partner may have a record too, or at least its bytes move. */
static void meet_partner(Follow *follow, const TapeStep *step) {
  const Run *run = follow->run;
  const TapeStep *partner = tape_step(run->tape, step->meets);
  const TapeStep *send = step->kind == TAPE_SEND ? step : partner, *receive = step->kind == TAPE_SEND ? partner : step;
  const gint64 sent_ns = run->trace->start_ns[send->op], received_ns = run->trace->start_ns[receive->op];
  gint64 *end_ns = run->trace->end_ns;
  const gboolean are_there = sent_ns >= 0 && received_ns >= 0, is_eager = run->eager[send->work];
  if (!are_there && !(is_eager && sent_ns >= 0))
    return;
  if (end_ns[send->op] < 0)
    end_ns[send->op] = (is_eager ? sent_ns : MAX(sent_ns, received_ns)) + run->timing->transfers[send->work].run_ns;
  if (are_there)
    end_ns[receive->op] = MAX(end_ns[send->op], received_ns);
  gint32 *last = &follow->last_transfer[partner->rank];
  *last = MAX(*last, partner->op);
}

static void start_transfer(Follow *follow, const TapeStep *step) {
  const Run *run = follow->run;
  const gint64 end_ns = run->trace->start_ns[step->op] + run->timing->transfers[step->work].run_ns;
  if (step->kind == TAPE_COLLECTIVE) {
    run->trace->end_ns[step->op] = end_ns;
  } else if (step->kind == TAPE_MEETING) {
    follow->meeting_ns[step->meets] = MAX(follow->meeting_ns[step->meets], end_ns);
    if (--follow->n_coming[step->meets] == 0)
      end_meeting(follow, step->meets);
  } else {
    meet_partner(follow, step);
  }
}

/* Fill the records of these steps. */
static void make_records(Follow *follow, gint32 begin, gint32 end) {
  const Run *run = follow->run;
  Trace *trace = run->trace;
  for (gint32 s = begin; s < end; s++) {
    const TapeStep *step = &run->tape->steps[s];
    gint64 issue_ns;
    const gint64 ready_ns = run_ready_ns(run, 0, step, &issue_ns);
    gint64 *start_ns = &trace->start_ns[step->op], *end_ns = &trace->end_ns[step->op];
    trace->issue_ns[step->op] = issue_ns;
    if (tape_is_transfer(step)) {
      *start_ns = run_transfer_start_ns(run, step, ready_ns, issue_ns);
      start_transfer(follow, step);
      follow->last_transfer[step->rank] = MAX(follow->last_transfer[step->rank], step->op);
      continue;
    }
    *start_ns = MAX(ready_ns, issue_ns);
    if (step->kind == TAPE_HOST) {
      *end_ns = run_host_end_ns(run, step, *start_ns);
    } else {
      const OpTime *time = &run->timing->works[step->work];
      *end_ns = MAX(ready_ns + time->run_ns, issue_ns + time->tail_ns);
    }
  }
}

/* Everything that steps from `from` on wait for, unless it has ended already, ends at or after the returned time.
 * None of these steps has started earlier, and none waits only for the host. */
static gint64 earliest_ready(const Follow *follow, gint32 from) {
  const Run *run = follow->run;
  gint64 earliest_ns = G_MAXINT64;
  for (gint32 s = from; from < run->tape->n_ops && s < run->tape->open[from]; s++) {
    const TapeStep *step = &run->tape->steps[s];
    gint64 issue_ns, ready_ns = run->trace->end_ns[step->op];
    if (ready_ns < 0)
      ready_ns = run_ready_ns(run, 0, step, &issue_ns);
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

/* The rank's transfers that end after from_ns, outgoing and incoming; a collective is both. A receive moves when its
 * send does. */
static void sort_intervals(Follow *follow, int rank, gint64 from_ns) {
  const Run *run = follow->run;
  const Tape *tape = run->tape;
  gint32 *first = &follow->first_left[rank];
  const gint64 *ends_ns = run->trace->end_ns;
  while (*first < tape->first_transfer[rank + 1] && ends_ns[tape->transfers[*first]] >= 0 &&
         ends_ns[tape->transfers[*first]] <= from_ns)
    ++*first;
  follow->out.n = follow->in.n = 0;
  for (gint32 t = *first; t < tape->first_transfer[rank + 1]; t++) {
    const gint32 op = tape->transfers[t];
    if (op > follow->last_transfer[rank])
      break;
    const TapeStep *step = tape_step(tape, op);
    const gint64 end_ns = ends_ns[step->kind == TAPE_RECEIVE ? step->meets : op];
    const guint ways = run->ways[step->work];
    if (ways == 0 || end_ns <= from_ns)
      continue;
    const Interval added = {end_ns - run->timing->transfers[step->work].run_ns, end_ns, ways};
    if (step->kind != TAPE_RECEIVE)
      add_interval(&follow->out, added);
    if (step->kind != TAPE_SEND)
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
  for (int rank = 0; rank < follow->run->tape->n_ranks; rank++) {
    sort_intervals(follow, rank, from_ns);
    conflict_ns = MIN(conflict_ns, MIN(first_conflict(&follow->out), first_conflict(&follow->in)));
  }
  return conflict_ns;
}

/* One stretch of the tape at a time, each twice as long as the last. A conflict found counts only up to the moment
 * before which no further op can be ready. */
gint64 follow_to_conflict(const Run *run, gint32 *n_made) {
  enum { STEPS_OF_A_RANK = 16 };
  const gint32 n_ops = run->tape->n_ops;
  gint32 n_steps = run->has_ways ? STEPS_OF_A_RANK * run->tape->n_ranks : n_ops;
  gint64 conflict_ns, until_ns = -1;
  Follow follow;
  follow_init(&follow, run);
  *n_made = 0;
  do {
    const gint32 end = n_ops - *n_made > n_steps ? *n_made + n_steps : n_ops;
    const gint64 rest_ns = until_ns;
    make_records(&follow, *n_made, end);
    *n_made = end;
    n_steps = 2 * MIN(n_steps, n_ops / 2);
    until_ns = earliest_ready(&follow, end);
    conflict_ns = run->has_ways ? conflict_after(&follow, rest_ns) : G_MAXINT64;
  } while (conflict_ns > until_ns);
  follow_clear(&follow);
  return conflict_ns;
}
