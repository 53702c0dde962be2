/* An op starts when all its predecessors in the course have ended; its end releases its successors. The end of a
 * kernel is known when it starts. A transfer that takes ways becomes a flow once its members are there, and ends when
 * the flow does:
 *
 *     ready ops ──start──► kernel, or a transfer without ways ──► its end ─────────────┐
 *         ▲                transfer: are all members there? ──► a flow ──► its end ────┤
 *         └─────────────────── successors that wait for nothing else ◄─────────────────┘
 *
 * In time order the horizon is now, and ends beyond it wait in a queue. Then transfers may come to rest, and
 * everything that ends later is left to follow.c. When running to the end of the run the horizon is the end of time:
 * a known end is taken at once, and only flows keep to their time.
 *
 * A turn begins with the records made without the clock: ops that ended before it are released, those under way start
 * anew at their own time. Flows of an earlier turn, which have all ended, are therefore not begun again; and a
 * transfer that ends at this very moment had its ways to itself until then. */
#include "follow_clock.h"

#include "contention.h"
#include "event_queue.h"
#include "follow_state.h"

typedef enum { LANE_RUNS, LANE_BEGINS } LaneState;

struct FollowClock {
  Follow *follow; /* borrowed, like everything not marked as owned */
  const Course *course;
  Trace *trace;
  gint16 *early_ticks;    /* as in Simulation */
  Contention *contention; /* owned */
  EventQueue queue;       /* ends, and begins of flows; an id is a lane, which is one stream of a rank */
  gint32 *op_of;          /* [lanes] op that ends, or whose flow begins or is under way; owned */
  guint8 *state;          /* [lanes] LaneState: what its event means; owned */
  gint32 *n_awaited;      /* [ops] predecessors that have not ended; owned */
  guint8 *is_over;        /* [ops] it has ended and released its successors; owned */
  gint32 *ready;          /* [ops] stack; owned */
  gint32 n_ready, n_over;
  gint32 *members;   /* [ranks] scratch; owned */
  gint32 last_place; /* no step after this one has started */
  gint64 horizon_ns; /* ops whose end is at or before this time have ended */
  guint64 n_events;
};

static inline const CourseStep *step_of(const FollowClock *clock, gint32 op) {
  return &clock->course->steps[clock->course->place[op]];
}

static inline gint32 lane_of(const CourseStep *step) {
  return step->rank * (gint32)N_STREAMS + step->stream;
}

/* --- ends --- */

static inline void let_go(FollowClock *clock, gint32 op) {
  const Course *course = clock->course;
  clock->is_over[op] = TRUE;
  clock->n_over++;
  for (gint32 s = course->first_successor[op]; s < course->first_successor[op + 1]; s++)
    if (--clock->n_awaited[course->successors[s]] == 0)
      clock->ready[clock->n_ready++] = course->successors[s];
}

/* Ends all members of the step at once; their records must have their end. */
static inline void end_step(FollowClock *clock, const CourseStep *step) {
  const Course *course = clock->course;
  if (step->kind == COURSE_MEETING) {
    for (gint32 m = course->first_member[step->meets]; m < course->first_member[step->meets + 1]; m++)
      let_go(clock, course->members[m]);
    return;
  }
  let_go(clock, step->op);
  if (step->kind == COURSE_TRANSFER)
    let_go(clock, step->meets);
}

static inline void end_at(FollowClock *clock, const CourseStep *step, gint64 end_ns) {
  if (end_ns <= clock->horizon_ns) {
    end_step(clock, step);
    return;
  }
  const gint32 lane = lane_of(step);
  clock->op_of[lane] = step->op;
  clock->state[lane] = LANE_RUNS;
  event_queue_add(&clock->queue, end_ns, lane);
}

static inline void record_end(const FollowClock *clock, gint32 op, gint64 end_ns, gint16 early_ticks) {
  clock->trace->end_ns[op] = end_ns;
  if (clock->early_ticks != NULL)
    clock->early_ticks[op] = early_ticks;
}

static void end_transfer_at(FollowClock *clock, const CourseStep *step, gint64 end_ns, gint16 early_ticks) {
  const Course *course = clock->course;
  record_end(clock, step->op, end_ns, early_ticks);
  if (step->kind == COURSE_TRANSFER)
    record_end(clock, step->meets, end_ns, 0); /* the send's record tells it */
  else if (step->kind == COURSE_MEETING)
    for (gint32 m = course->first_member[step->meets]; m < course->first_member[step->meets + 1]; m++)
      record_end(clock, course->members[m], end_ns, early_ticks);
  end_at(clock, step, end_ns);
}

/* --- transfers --- */

/* Begins the flow of this lane. */
static void begin_flow(FollowClock *clock, gint32 lane, gint64 begin_ns) {
  const Course *course = clock->course;
  const CourseStep *step = step_of(clock, clock->op_of[lane]);
  if (step->kind == COURSE_TRANSFER) {
    contention_send(clock->contention, begin_ns, lane, step->work, step->rank, step_of(clock, step->meets)->rank);
    return;
  }
  gint32 n = 0;
  if (step->kind == COURSE_COLLECTIVE)
    clock->members[n++] = step->rank;
  else
    for (gint32 m = course->first_member[step->meets]; m < course->first_member[step->meets + 1]; m++)
      clock->members[n++] = step_of(clock, course->members[m])->rank;
  contention_collective(clock->contention, begin_ns, lane, step->work, clock->members, n);
}

/* When running ahead, a flow that begins with a latency is announced at once: it needs no event in the queue. */
static gboolean begins_at_once(const FollowClock *clock, gint32 transfer, gint64 begin_ns) {
  return clock->horizon_ns == G_MAXINT64 ? contention_may_begin_ahead(clock->contention, transfer)
                                         : begin_ns <= clock->horizon_ns;
}

/* All members are there from begin_ns on. `step` is the send's, or that of any member of a collective. */
static void run_transfer(FollowClock *clock, const CourseStep *step, gint64 begin_ns) {
  const gint32 transfer = step->work;
  if (clock->follow->ways[transfer] == 0) {
    end_transfer_at(clock, step, begin_ns + clock->follow->timing->transfers[transfer].run_ns, 0);
    return;
  }
  const gint32 lane = lane_of(step);
  clock->op_of[lane] = step->op;
  if (begins_at_once(clock, transfer, begin_ns)) {
    begin_flow(clock, lane, begin_ns);
    return;
  }
  clock->state[lane] = LANE_BEGINS;
  event_queue_add(&clock->queue, begin_ns, lane);
}

/* A member of a transfer has its start. */
static void arrive(FollowClock *clock, const CourseStep *step, gint64 start_ns) {
  const Follow *follow = clock->follow;
  clock->trace->start_ns[step->op] = start_ns;
  if (step->kind == COURSE_COLLECTIVE) {
    run_transfer(clock, step, start_ns);
  } else if (step->kind == COURSE_TRANSFER) {
    const gint64 partner_ns = clock->trace->start_ns[step->meets];
    if (partner_ns >= 0)
      run_transfer(clock, step->is_send ? step : step_of(clock, step->meets), MAX(start_ns, partner_ns));
  } else {
    const gint64 run_ns = follow->timing->transfers[step->work].run_ns;
    gint64 *meeting_ns = &follow->meeting_ns[step->meets];
    *meeting_ns = MAX(*meeting_ns, start_ns + run_ns);
    if (--follow->n_coming[step->meets] == 0)
      run_transfer(clock, step, *meeting_ns - run_ns);
  }
}

/* --- the run --- */

static void start_ready(FollowClock *clock) {
  while (clock->n_ready > 0) {
    const gint32 op = clock->ready[--clock->n_ready], place = clock->course->place[op];
    const CourseStep *step = &clock->course->steps[place];
    gint64 issue_ns, ready_ns = follow_ready_and_issue(clock->follow, step, &issue_ns);
    clock->last_place = MAX(clock->last_place, place);
    clock->trace->issue_ns[op] = issue_ns;
    if (step->kind >= COURSE_TRANSFER) {
      arrive(clock, step, MAX(ready_ns, issue_ns + clock->follow->timing->transfers[step->work].host_ns));
    } else {
      follow_run_step(clock->follow, step, ready_ns, issue_ns);
      end_at(clock, step, clock->trace->end_ns[op]);
    }
  }
}

/* Advances the flows up to the first end, but not beyond the next event of the queue. FALSE: nothing ends. */
static gboolean advance_flows(FollowClock *clock) {
  gint32 n_ended = 0;
  while (n_ended == 0) {
    const gint64 next_ns = contention_next_ns(clock->contention);
    if (next_ns == G_MAXINT64 || next_ns > event_queue_next(&clock->queue))
      return FALSE;
    const TransferEnd *ended = contention_advance(clock->contention, &n_ended);
    for (gint32 i = 0; i < n_ended; i++)
      end_transfer_at(clock, step_of(clock, clock->op_of[ended[i].lane]), ended[i].end_ns, ended[i].early_ticks);
  }
  return TRUE;
}

/* Takes everything that is due next; FALSE: nothing is. */
static gboolean take_due(FollowClock *clock) {
  enum { MOST_AT_ONCE = 16 };
  gint32 due[MOST_AT_ONCE];
  const int n_due = event_queue_take_due(&clock->queue, due, MOST_AT_ONCE);
  clock->horizon_ns = MAX(clock->horizon_ns, clock->queue.now);
  for (int i = 0; i < n_due; i++)
    if (clock->state[due[i]] == LANE_BEGINS)
      begin_flow(clock, due[i], clock->queue.now);
    else
      end_step(clock, step_of(clock, clock->op_of[due[i]]));
  clock->n_events += (guint64)n_due;
  return n_due > 0;
}

/* No flow is under way, and everything that happens now has happened. */
static gboolean is_at_rest(FollowClock *clock) {
  return contention_is_idle(clock->contention) && event_queue_next(&clock->queue) > clock->horizon_ns;
}

/* Whether the step ended before now_ns. A transfer that moves on its ways until this very moment has left them; a
 * step that takes no time has not begun. */
static gboolean has_ended(const FollowClock *clock, const CourseStep *step, gint64 now_ns) {
  const gint64 end_ns = clock->trace->end_ns[step->op];
  if (end_ns != now_ns)
    return end_ns >= 0 && end_ns < now_ns;
  return step->kind >= COURSE_TRANSFER && clock->follow->ways[step->work] != 0 &&
         clock->follow->timing->transfers[step->work].run_ns > 0;
}

/* Takes over the steps since the last turn that have a record, and the steps that wait for nothing else. */
static void take_over(FollowClock *clock, gint64 now_ns) {
  const Course *course = clock->course;
  Trace *trace = clock->trace;
  const gint32 first = clock->follow->n_past, made = MAX(clock->follow->n_made, clock->last_place + 1),
               end = made < course->n_ops ? course->open[made] : made;
  for (gint32 s = first; s < made; s++) {
    const gint32 op = course->steps[s].op;
    if (!has_ended(clock, &course->steps[s], now_ns))
      trace->start_ns[op] = trace->end_ns[op] = -1;
    else if (!clock->is_over[op])
      let_go(clock, op);
  }
  clock->n_ready = 0;
  for (gint32 s = end; s-- > first;) {
    const gint32 op = course->steps[s].op;
    if (!clock->is_over[op] && clock->n_awaited[op] == 0)
      clock->ready[clock->n_ready++] = op;
  }
}

gboolean follow_clock_run(FollowClock *clock, gint64 now_ns, guint64 n_least) {
  const guint64 rest_after = clock->n_events + n_least;
  event_queue_empty(&clock->queue, clock->horizon_ns);
  follow_expect_members(clock->follow);
  take_over(clock, now_ns);
  if (n_least == 0)
    clock->horizon_ns = G_MAXINT64;
  do {
    do {
      start_ready(clock);
    } while (advance_flows(clock));
    if (n_least > 0 && clock->n_events >= rest_after && is_at_rest(clock))
      return FALSE;
  } while (take_due(clock));
  g_assert(clock->n_over == clock->course->n_ops);
  return TRUE;
}

FollowClock *follow_clock_new(Follow *follow, const Simulation *simulation) {
  const Course *course = follow->course;
  const gsize n_ops = (gsize)course->n_ops, n_lanes = (gsize)follow->trace->n_ranks * N_STREAMS;
  FollowClock *clock = g_new(FollowClock, 1);
  *clock = (FollowClock){.follow = follow,
                         .course = course,
                         .trace = follow->trace,
                         .early_ticks = simulation->early_ticks,
                         .contention = contention_new(follow->trace, 1),
                         .op_of = g_new(gint32, n_lanes),
                         .state = g_new(guint8, n_lanes),
                         .n_awaited = g_memdup2(course->n_awaited, sizeof(gint32) * n_ops),
                         .is_over = g_new0(guint8, n_ops),
                         .ready = g_new(gint32, n_ops),
                         .members = g_new(gint32, follow->trace->n_ranks),
                         .last_place = -1};
  g_assert(clock->contention != NULL);
  event_queue_init(&clock->queue, n_lanes);
  return clock;
}

void follow_clock_free(FollowClock *clock) {
  if (clock == NULL)
    return;
  contention_free(clock->contention);
  event_queue_clear(&clock->queue);
  g_free(clock->op_of);
  g_free(clock->state);
  g_free(clock->n_awaited);
  g_free(clock->is_over);
  g_free(clock->ready);
  g_free(clock->members);
  g_free(clock);
}

gint64 follow_clock_past_ns(const FollowClock *clock) {
  return clock->horizon_ns;
}

gint64 follow_clock_rest_ns(const FollowClock *clock) {
  return MAX(contention_now_ns(clock->contention), clock->horizon_ns);
}

guint64 follow_clock_n_events(const FollowClock *clock) {
  return clock->n_events;
}
