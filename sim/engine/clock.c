/* An op starts when all that it waits for has ended; its end releases its successors on the tape. The end of a kernel
 * is known when it starts. A transfer that takes ways becomes a flow once its members are there, and ends when the
 * flow does:
 *
 *     ready ops ──start──► kernel, or a transfer without ways ──► its end ─────────────┐
 *         ▲                transfer: are all members there? ──► a flow ──► its end ────┤
 *         └─────────────────── successors that wait for nothing else ◄─────────────────┘
 *
 * As long as ranks contend for nothing, records follow from other records in whatever order they are made: the horizon
 * is the end of time, a known end is taken at once, last in first out, and only flows keep to their time. So a rank,
 * with those it meets, is followed as far as it goes while its state is in the cache.
 *
 * With taxes on transfers the horizon is now, and ends beyond it wait in a queue: a kernel's end moves when a transfer
 * begins beside it. Ends only move later, so an end that is due too early goes back into the queue.
 *
 * Where the clock takes over from follow.c, ops that have ended are released, and those under way start anew at their
 * own time. A transfer that ends at this very moment had its ways to itself until then. */
#include "clock.h"

#include <string.h>

#include "contention.h"
#include "event_queue.h"
#include "meeting.h"
#include "tax.h"
#include "variation.h"

/* A power of two: lane to rank is a shift. */
enum { LANES_PER_RANK = 16, OVER = G_MAXUINT8 };
G_STATIC_ASSERT((int)N_STREAMS <= (int)LANES_PER_RANK);

/* One stream of one rank: the op of it that has started. */
typedef struct {
  gint64 begin_ns;   /* of its flow */
  gint32 op;         /* on the tape; −1: none */
  gint32 chain;      /* next lane whose op ends by the same event; −1: none */
  gboolean is_begin; /* its event is the begin of its flow */
} Lane;

typedef struct {
  gint32 rank, op;
} RankOp;

struct Clock {
  Run *run;               /* borrowed */
  Contention *contention; /* NULL: every transfer takes its own time; owned, as are all below */
  Meetings meetings;
  TaxedTime *taxed;  /* [ranks]; NULL: no taxes */
  EventQueue queue;  /* ends, and begins of flows; an id is a lane */
  Lane *lanes;       /* [ranks · LANES_PER_RANK] */
  guint8 *n_awaited; /* [records] what the op waits for and has not ended; OVER: the op has ended */
  RankOp *ready;     /* stack */
  gint32 n_ready;
  gsize n_over;
  gint32 *members;   /* scratch: the ranks of a collective that begins */
  gint64 horizon_ns; /* ops whose end is at or before this time have ended */
};

static inline gint32 rank_of(gint32 lane) {
  return (guint32)lane / LANES_PER_RANK;
}

static inline gint32 lane_of(gint32 rank, const TapeStep *step) {
  return rank * LANES_PER_RANK + step->stream;
}

static inline gsize record_of(const Run *run, gint32 rank, gint32 op) {
  return (gsize)(run->base[rank] + op);
}

/* Of the op under way. */
static inline gsize lane_record(const Clock *clock, gint32 lane) {
  return record_of(clock->run, rank_of(lane), clock->lanes[lane].op);
}

static inline const TapeStep *lane_step(const Clock *clock, gint32 lane) {
  return tape_step(clock->run->tape, clock->lanes[lane].op);
}

/* The times of a step on this rank. */
static inline gint32 work_of(const Clock *clock, gint32 rank, const TapeStep *step) {
  return trace_work(clock->run->trace, rank, step->work);
}

static inline gint32 transfer_of(const Clock *clock, gint32 rank, const TapeStep *step) {
  return trace_transfer(clock->run->trace, rank, step->work);
}

static inline gint32 lane_transfer(const Clock *clock, gint32 lane) {
  return transfer_of(clock, rank_of(lane), lane_step(clock, lane));
}

static inline gint32 partner_rank(const Clock *clock, gint32 rank, const TapeStep *step) {
  return rank + (tape_step(clock->run->tape, step->meets)->rank - step->rank) * clock->run->stride;
}

static inline gboolean is_flow(const Clock *clock, gint32 transfer) {
  return clock->contention != NULL && clock->run->ways[transfer] != 0;
}

/* --- ends --- */

static inline void let_go(Clock *clock, gint32 rank, gint32 op) {
  const Tape *tape = clock->run->tape;
  guint8 *n_awaited = clock->n_awaited + clock->run->base[rank];
  g_assert(n_awaited[op] == 0);
  n_awaited[op] = OVER;
  clock->n_over++;
  for (gint32 s = tape->first_successor[op]; s < tape->first_successor[op + 1]; s++)
    if (--n_awaited[tape->successors[s]] == 0)
      clock->ready[clock->n_ready++] = (RankOp){rank, tape->successors[s]};
}

/* Ends the lane's op and those chained to it. */
static inline void end(Clock *clock, gint32 lane) {
  while (lane >= 0) {
    Lane *own = &clock->lanes[lane];
    const gint32 rank = rank_of(lane), op = own->op;
    lane = own->chain;
    own->chain = own->op = -1;
    let_go(clock, rank, op);
  }
}

/* The records of the lane and those chained to it have their end. */
static inline void end_at(Clock *clock, gint32 lane, gint64 end_ns) {
  if (end_ns <= clock->horizon_ns)
    end(clock, lane);
  else
    event_queue_add(&clock->queue, end_ns, lane);
}

/* --- taxes: what transfers cost the kernels beside them --- */

static void tax_rank(Clock *clock, gint32 rank, gint32 transfer, gint64 from_ns, gint64 to_ns) {
  TaxedTime *taxed = &clock->taxed[rank];
  const gint32 lane = rank * LANES_PER_RANK + STREAM_COMPUTE;
  tax_add(taxed, tax_span(from_ns, to_ns, clock->run->timing->taxes[transfer]));
  if (clock->lanes[lane].op >= 0 && lane_step(clock, lane)->kind == TAPE_COMPUTE)
    clock->run->trace->end_ns[lane_record(clock, lane)] = tax_end_of_kernel(taxed);
}

/* All members of the transfer of this lane, which begins or ends. */
static void tax_members(Clock *clock, gint32 lane, gint64 from_ns, gint64 to_ns) {
  if (clock->taxed == NULL)
    return;
  const TapeStep *step = lane_step(clock, lane);
  const gint32 transfer = lane_transfer(clock, lane);
  if (step->kind == TAPE_SEND)
    tax_rank(clock, partner_rank(clock, rank_of(lane), step), transfer, from_ns, to_ns);
  for (gint32 member = lane; member >= 0; member = clock->lanes[member].chain)
    tax_rank(clock, rank_of(member), transfer, from_ns, to_ns);
}

/* The kernel of this lane ends later than was known when it was queued. */
static gboolean is_too_early(const Clock *clock, gint32 lane) {
  return clock->taxed != NULL && clock->run->trace->end_ns[lane_record(clock, lane)] > clock->horizon_ns;
}

/* --- transfers --- */

/* The transfer of this lane, a send or a collective, is known to end; of a send the receive ends too, if it is
 * there. */
static void end_transfer_at(Clock *clock, gint32 lane, gint64 end_ns, gint16 early_ticks) {
  const TapeStep *step = lane_step(clock, lane);
  Trace *trace = clock->run->trace;
  gint16 *all_early_ticks = clock->run->simulation->early_ticks;
  for (gint32 member = lane; member >= 0; member = clock->lanes[member].chain) {
    const gsize record = lane_record(clock, member);
    trace->end_ns[record] = end_ns;
    if (all_early_ticks != NULL)
      all_early_ticks[record] = early_ticks;
  }
  if (step->kind == TAPE_SEND) {
    const gint32 receiver = partner_rank(clock, rank_of(lane), step);
    const gsize received = record_of(clock->run, receiver, step->meets);
    const gint64 start_ns = trace->start_ns[received];
    const gint32 receive_lane = lane_of(receiver, tape_step(clock->run->tape, step->meets));
    if (start_ns >= 0)
      trace->end_ns[received] = MAX(end_ns, start_ns);
    if (start_ns > end_ns)
      end_at(clock, receive_lane, start_ns);
    else if (start_ns >= 0)
      clock->lanes[lane].chain = receive_lane;
  }
  end_at(clock, lane, end_ns);
}

/* Begins the flow of this lane: all its members are there. */
static void begin_flow(Clock *clock, gint32 lane, gint64 begin_ns) {
  const TapeStep *step = lane_step(clock, lane);
  const gint32 transfer = lane_transfer(clock, lane);
  clock->lanes[lane].is_begin = FALSE;
  clock->lanes[lane].begin_ns = begin_ns;
  tax_members(clock, lane, begin_ns, add_ns(begin_ns, clock->run->timing->transfers[transfer].run_ns));
  if (step->kind == TAPE_SEND) {
    contention_send(clock->contention, begin_ns, lane, transfer, rank_of(lane),
                    partner_rank(clock, rank_of(lane), step));
    return;
  }
  gint32 n = 0;
  for (gint32 member = lane; member >= 0; member = clock->lanes[member].chain)
    clock->members[n++] = rank_of(member);
  contention_collective(clock->contention, begin_ns, lane, transfer, clock->members, n);
}

/* Beyond the horizon of a run in time order it waits; in one that runs ahead, a flow that begins with a latency is
 * announced at once: it needs no event in the queue. */
static gboolean begins_at_once(const Clock *clock, gint32 transfer, gint64 begin_ns) {
  return clock->horizon_ns == G_MAXINT64 ? contention_may_begin_ahead(clock->contention, transfer)
                                         : begin_ns <= clock->horizon_ns;
}

/* All members of this lane's transfer are there from begin_ns on. */
static void run_transfer(Clock *clock, gint32 lane, gint64 begin_ns) {
  const gint32 transfer = lane_transfer(clock, lane);
  if (!is_flow(clock, transfer)) {
    const gint64 end_ns = add_ns(begin_ns, clock->run->timing->transfers[transfer].run_ns);
    tax_members(clock, lane, begin_ns, end_ns);
    end_transfer_at(clock, lane, end_ns, 0);
  } else if (begins_at_once(clock, transfer, begin_ns)) {
    begin_flow(clock, lane, begin_ns);
  } else {
    clock->lanes[lane].is_begin = TRUE;
    event_queue_add(&clock->queue, begin_ns, lane);
  }
}

/* A member of a collective is there. */
static void arrive(Clock *clock, gint32 lane, const TapeStep *step, gint64 start_ns) {
  const Tape *tape = clock->run->tape;
  const Trace *trace = clock->run->trace;
  if (step->kind == TAPE_COLLECTIVE && trace->folded) {
    run_transfer(clock, lane, start_ns);
    return;
  }
  gint32 n_members;
  const gint32 group = g_array_index(trace->program->transfers, Transfer, step->work).group;
  const gint32 slot =
      step->kind == TAPE_MEETING ? tape->match[step->rank][step->op - tape->first[step->rank]] : step->stream;
  const gint64 run_ns = clock->run->timing->transfers[lane_transfer(clock, lane)].run_ns;
  Meeting *meeting = meetings_at(&clock->meetings, rank_of(lane), group, slot, &n_members);
  meeting->end_ns = MAX(meeting->end_ns, add_ns(start_ns, run_ns));
  clock->lanes[lane].chain = meeting->last;
  meeting->last = lane;
  if (++meeting->n_arrived < n_members)
    return;
  const gint64 end_ns = meeting->end_ns;
  *meeting = (Meeting){.last = -1};
  run_transfer(clock, lane, end_ns - run_ns);
}

/* Rendezvous: both ends complete together, one transfer time after the later of them arrived. Eager: the data leaves
 * when the send arrives, and the receive ends when both it and the data are there. */
static void meet_partner(Clock *clock, gint32 rank, const TapeStep *step, gint64 start_ns) {
  const Run *run = clock->run;
  const TapeStep *partner = tape_step(run->tape, step->meets);
  const gint32 other = partner_rank(clock, rank, step);
  const gsize own_record = record_of(run, rank, step->op), met = record_of(run, other, step->meets);
  const gboolean is_send = step->kind == TAPE_SEND, is_eager = run->eager[transfer_of(clock, rank, step)];
  const gint64 partner_ns = run->trace->start_ns[met];
  if (is_send && is_eager) {
    run_transfer(clock, lane_of(rank, step), start_ns);
  } else if (is_eager) {
    if (run->trace->end_ns[met] < 0) /* the send will find this receive */
      return;
    run->trace->end_ns[own_record] = MAX(start_ns, run->trace->end_ns[met]);
    end_at(clock, lane_of(rank, step), run->trace->end_ns[own_record]);
  } else if (partner_ns >= 0) {
    run_transfer(clock, is_send ? lane_of(rank, step) : lane_of(other, partner), MAX(start_ns, partner_ns));
  }
}

/* --- the run --- */

static void vary(const Clock *clock, gint32 rank, const TapeStep *step, OpTime *time) {
  const Simulation *simulation = clock->run->simulation;
  double factor = simulation->speed != NULL ? simulation->speed[rank] : 1.0;
  if (simulation->jitter > 0)
    factor *= 1.0 + simulation->jitter *
                        variation_normal(simulation->seed, rank, step->op - clock->run->tape->first[step->rank]);
  variation_scale(factor, &time->run_ns, &time->tail_ns);
}

static inline gint64 kernel_end_ns(const Clock *clock, gint32 rank, const TapeStep *step, gint64 ready_ns,
                                   gint64 issue_ns) {
  const Simulation *simulation = clock->run->simulation;
  OpTime time = clock->run->timing->works[work_of(clock, rank, step)];
  if (simulation->speed != NULL || simulation->jitter > 0)
    vary(clock, rank, step, &time);
  const gint64 end_ns = MAX(add_ns(ready_ns, time.run_ns), add_ns(issue_ns, time.tail_ns));
  return clock->taxed != NULL ? tax_begin_kernel(&clock->taxed[rank], MAX(ready_ns, issue_ns), end_ns) : end_ns;
}

static inline void start(Clock *clock, gint32 rank, gint32 op) {
  const Run *run = clock->run;
  const TapeStep *step = tape_step(run->tape, op);
  const gsize record = record_of(run, rank, op);
  const gint32 lane = lane_of(rank, step);
  gint64 issue_ns, ready_ns = run_ready_ns(run, run->base[rank], step, &issue_ns);
  gint64 *start_ns = &run->trace->start_ns[record], *end_ns = &run->trace->end_ns[record];
  run->trace->issue_ns[record] = issue_ns;
  clock->lanes[lane].op = op;
  if (tape_is_transfer(step)) {
    *start_ns = run_transfer_start_ns(run, step, ready_ns, issue_ns);
    if (step->kind >= TAPE_COLLECTIVE)
      arrive(clock, lane, step, *start_ns);
    else
      meet_partner(clock, rank, step, *start_ns);
    return;
  }
  *start_ns = MAX(ready_ns, issue_ns);
  *end_ns = step->kind == TAPE_COMPUTE ? kernel_end_ns(clock, rank, step, ready_ns, issue_ns)
                                       : run_host_end_ns(run, step, *start_ns);
  end_at(clock, lane, *end_ns);
}

static void start_ready(Clock *clock) {
  while (clock->n_ready > 0) {
    const RankOp next = clock->ready[--clock->n_ready];
    start(clock, next.rank, next.op);
  }
}

/* When ranks run ahead, each is followed from the end of its transfer as far as it goes, while its state is still in
 * the cache. In time order, everything that ends now is ended before anything goes on. */
static void end_flows(Clock *clock, const TransferEnd *ended, gint32 n_ended) {
  for (gint32 i = 0; i < n_ended; i++) {
    const gint32 lane = ended[i].lane;
    const OpTime *time = &clock->run->timing->transfers[lane_transfer(clock, lane)];
    tax_members(clock, lane, add_ns(clock->lanes[lane].begin_ns, time->run_ns), ended[i].end_ns);
    end_transfer_at(clock, lane, ended[i].end_ns, ended[i].early_ticks);
    if (clock->horizon_ns == G_MAXINT64)
      start_ready(clock);
  }
}

/* Advances the flows up to the first end, but not beyond the next event of the queue. FALSE: nothing ends. */
static gboolean advance_flows(Clock *clock) {
  gint32 n_ended = 0;
  if (clock->contention == NULL)
    return FALSE;
  const TransferEnd *ended = contention_advance(clock->contention, event_queue_next(&clock->queue), &n_ended);
  end_flows(clock, ended, n_ended);
  return n_ended > 0;
}

/* Takes everything that is due next; FALSE: nothing is. */
static gboolean take_due(Clock *clock) {
  enum { MOST_AT_ONCE = 16 };
  gint32 due[MOST_AT_ONCE];
  const int n_due = event_queue_take_due(&clock->queue, due, MOST_AT_ONCE);
  clock->horizon_ns = MAX(clock->horizon_ns, clock->queue.now);
  for (int i = 0; i < n_due; i++)
    if (clock->lanes[due[i]].is_begin)
      begin_flow(clock, due[i], clock->queue.now);
    else if (is_too_early(clock, due[i]))
      event_queue_add(&clock->queue, clock->run->trace->end_ns[lane_record(clock, due[i])], due[i]);
    else
      end(clock, due[i]);
  return n_due > 0;
}

static void go_on(Clock *clock) {
  do {
    do {
      start_ready(clock);
    } while (advance_flows(clock));
  } while (take_due(clock));
  g_assert(clock->n_over == clock->run->trace->first[clock->run->trace->n_ranks]);
}

void clock_run_all(Clock *clock) {
  const Trace *trace = clock->run->trace;
  clock->horizon_ns = clock->taxed != NULL ? 0 : G_MAXINT64;
  for (int rank = 0; rank < trace->n_ranks; rank++) {
    const Tape *tape = clock->run->tape;
    const int list = trace->pipeline_rank[rank];
    for (gint32 op = tape->first[list + 1]; op-- > tape->first[list];)
      if (clock->n_awaited[record_of(clock->run, rank, op)] == 0)
        clock->ready[clock->n_ready++] = (RankOp){rank, op};
    start_ready(clock);
  }
  go_on(clock);
}

/* Whether the step ended before now_ns. A transfer that moves on its ways until this very moment has left them; a
 * step that takes no time, as a receive of what has arrived, has not begun. */
static gboolean has_ended(const Run *run, const TapeStep *step, gint64 now_ns) {
  const gint64 end_ns = run->trace->end_ns[step->op];
  if (end_ns != now_ns)
    return end_ns >= 0 && end_ns < now_ns;
  return tape_is_transfer(step) && run->ways[step->work] != 0 && run->timing->transfers[step->work].run_ns > 0 &&
         run->trace->start_ns[step->op] < now_ns;
}

static guint8 count_awaited(const Clock *clock, const TapeStep *step) {
  const gint32 *awaited = &clock->run->tape->awaited[step->first_awaited];
  guint8 n_awaited = 0;
  for (int i = 0; i < step->n_awaited; i++)
    n_awaited += clock->n_awaited[awaited[i]] != OVER;
  return n_awaited;
}

void clock_run_from(Clock *clock, gint64 now_ns, gint32 n_made) {
  const Run *run = clock->run;
  const Tape *tape = run->tape;
  gint32 first = n_made; /* that has not ended */
  for (gint32 s = 0; s < n_made; s++) {
    const gint32 op = tape->steps[s].op;
    if (has_ended(run, &tape->steps[s], now_ns)) {
      clock->n_awaited[op] = OVER;
      clock->n_over++;
    } else {
      run->trace->start_ns[op] = run->trace->end_ns[op] = -1;
      first = MIN(first, s);
    }
  }
  for (gint32 s = tape->n_ops; s-- > first;) {
    const TapeStep *step = &tape->steps[s];
    guint8 *n_awaited = &clock->n_awaited[step->op];
    if (*n_awaited != OVER && (*n_awaited = count_awaited(clock, step)) == 0)
      clock->ready[clock->n_ready++] = (RankOp){step->rank, step->op};
  }
  clock->horizon_ns = G_MAXINT64;
  go_on(clock);
}

Clock *clock_new(Run *run) {
  const Tape *tape = run->tape;
  const Trace *trace = run->trace;
  const gsize n_records = trace->first[trace->n_ranks], n_lanes = (gsize)trace->n_ranks * LANES_PER_RANK;
  g_assert(trace->n_ranks < G_MAXINT32 / LANES_PER_RANK);
  Clock *clock = g_new(Clock, 1);
  *clock = (Clock){.run = run,
                   .contention = run->has_ways ? contention_new(trace, (gint32)n_lanes) : NULL,
                   .taxed = run->timing->taxes != NULL ? g_new0(TaxedTime, trace->n_ranks) : NULL,
                   .lanes = g_new(Lane, n_lanes),
                   .n_awaited = g_new(guint8, n_records),
                   .ready = g_new(RankOp, n_lanes),
                   .members = g_new(gint32, trace->n_ranks)};
  meetings_init(&clock->meetings, trace, tape);
  event_queue_init(&clock->queue, n_lanes);
  for (gsize lane = 0; lane < n_lanes; lane++)
    clock->lanes[lane] = (Lane){.op = -1, .chain = -1};
  for (int rank = 0; rank < trace->n_ranks; rank++) {
    const gint32 first = tape->first[trace->pipeline_rank[rank]];
    memcpy(&clock->n_awaited[trace->first[rank]], &tape->n_awaited[first], trace->first[rank + 1] - trace->first[rank]);
  }
  return clock;
}

void clock_free(Clock *clock) {
  if (clock == NULL)
    return;
  contention_free(clock->contention);
  meetings_clear(&clock->meetings);
  for (int rank = 0; clock->taxed != NULL && rank < clock->run->trace->n_ranks; rank++)
    tax_clear(&clock->taxed[rank]);
  g_free(clock->taxed);
  event_queue_clear(&clock->queue);
  g_free(clock->lanes);
  g_free(clock->n_awaited);
  g_free(clock->ready);
  g_free(clock->members);
  g_free(clock);
}
