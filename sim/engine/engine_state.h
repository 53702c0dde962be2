/* The state of a run, which the files of the engine share; not for others. Each calls those before it:
 *
 *     transfers.c    transfers that are flows: how they begin, what their end is to ops
 *     held.c         what an op waits for
 *     quiet.c        how far collectives between kernels may be run ahead of the flows
 *     alone.c        a rank followed by itself, collectives of tp beside those of dp
 *     lanes.c        ops: held, ready, busy, ended
 *     engine.c       the run: events and flows in time order */
#pragma once
#include "contention.h"
#include "engine.h"
#include "event_queue.h"
#include "saturate.h"
#include "task.h"
#include "tax.h"

/* Streams rounded up to a power of two: from lane to rank is a shift. */
enum { LANES_PER_RANK = 16 };
G_STATIC_ASSERT((int)N_STREAMS <= (int)LANES_PER_RANK);

typedef enum { LANE_HELD, LANE_READY, LANE_BUSY, LANE_DUE } LaneState;

typedef struct {
  gint64 last_end_ns; /* of the op before the head; none: when its rank begins */
  gint32 head;        /* op at the head; −1 when all have ended */
  gint32 chain;       /* next lane whose op ends by the same event; −1 none */
  gint32 awaited;     /* earliest op of this lane that a head of `holds` waits for; NOT_AWAITED */
  guint16 holds;      /* streams of this rank whose heads wait for an op of this lane */
  guint8 state;       /* LaneState */
} Lane;

enum { NOT_AWAITED = G_MAXINT32 };

typedef struct {
  const Task *tasks;
  gint64 *start_ns, *end_ns, *issue_ns; /* of the trace, this rank's part */
  const TaskList *list;
} Rank;

/* Nothing but kernels and one stream of collectives between them begins, moves or ends on a rank's ways before
 * until_ns, as long as these ops have not ended. */
typedef struct {
  gint64 until_ns;
  gint32 stream;             /* of the collectives; −1: nothing is known */
  gint32 kernel, collective; /* others wait for these; NOT_AWAITED */
} Quiet;

typedef struct {
  const Simulation *simulation;
  const Timing *timing;
  Trace *trace;
  TaskList *lists; /* [pipeline ranks] */
  Meetings meetings;
  EventQueue queue;
  Lane *lanes; /* [rank · LANES_PER_RANK + stream] */
  Rank *ranks;
  TaxedTime *taxed;       /* [ranks]; NULL without taxes */
  Contention *contention; /* NULL: all transfers take their own times */
  gint32 *members;        /* [lanes]: ranks of a collective that begins */
  gint64 *begin_ns;       /* [lanes]: of the flow under way, −1 none; NULL without contention */
  Quiet *quiet;           /* [ranks]; NULL: no collective is run ahead of the flows */
  gint64 **kernels_ns;    /* [pipeline ranks][ops + 1] sum of the times of the kernels before each op; with quiet */
  gint32 *ended;          /* first lanes of chains that end within the horizon, last in first out */
  gint32 n_ended;
  gboolean runs_ahead; /* the horizon is the end of time, else now */
  gboolean is_varied;  /* compute times differ by rank or op */
  gint64 horizon_ns;   /* ends up to here have come to pass */
  guint64 n_events;
  guint64 n_ahead; /* collectives run ahead of the flows */
} Engine;

static inline gint32 lane_rank(gint32 lane) {
  return (guint32)lane / LANES_PER_RANK;
}

/* Of the same rank. */
static inline gint32 first_lane_of(gint32 lane) {
  return lane & ~(LANES_PER_RANK - 1);
}

static inline void end_at(Engine *engine, gint32 lane, gint64 end_ns) {
  if (end_ns <= engine->horizon_ns)
    engine->ended[engine->n_ended++] = lane;
  else
    event_queue_add(&engine->queue, end_ns, lane);
}

/* Take all lanes of `ended`, and those that end meanwhile. */
void engine_take_ended(Engine *engine);
/* What is due at the head of a lane, its end or its beginning; then all that has ended. */
void engine_take(Engine *engine, gint32 lane);
/* Every op must have ended; if not, say who waits for whom, as far as it fits a screen. */
void engine_assert_all_ended(const Engine *engine);
/* Look at the heads of these streams of a rank: those that nothing holds start now. */
void engine_examine_streams(Engine *engine, gint32 first_lane, guint streams);
/* The op's record has its start: it arrives at its collective. Returns whether it is the last; the lanes of all are
 * then chained, and *end_ns is when it ends alone. */
gboolean engine_arrive(Engine *engine, gint32 lane, gint32 op, const Task *task, gint64 *end_ns);

/* When the host issues an op, once the OP_HOST before it has ended. */
static inline gint64 engine_issue_of(const Rank *state, gint32 op, const Task *task) {
  if (task->flags & TASK_AFTER_HOST)
    return add_ns(task->issue_offset_ns, state->end_ns[state->list->barrier[op]]);
  return task->issue_offset_ns;
}

/* Of all ops, which have ended: a run that runs ahead leaves it to the end. */
void engine_record_issues(const Engine *engine);

/* A transfer of this rank, of the program's number `transfer`, runs from `from_ns` to `to_ns`: the kernel beside it
 * ends later. Only with taxes. */
void engine_tax(Engine *engine, gint32 rank, gint32 transfer, gint64 from_ns, gint64 to_ns);

/* With quiet only. What the run needs for it, or nothing where it would not do. */
void engine_quiet_init(Engine *engine);
void engine_quiet_clear(Engine *engine);
/* The collective at the head of the lane, of its rank alone, begins then: it ends at once where nothing gets in its
 * way. FALSE: something may. */
gboolean engine_run_ahead(Engine *engine, gint32 lane, const Task *task, gint64 begin_ns);
/* Nothing begins, moves or ends on the rank's ways before then that comes of the head of this lane, which is not held:
 * not one of the streams `own` (bits), which are followed. */
gint64 engine_quiet_beside(const Engine *engine, gint32 lane, guint own);
/* With quiet only: as engine_run_ahead(), of tp, and on with all that follows from it on the streams of kernels, tp and
 * dp, as long as nothing else happens on the rank; whatever its heads wait for is to be looked at anew. FALSE:
 * something else may happen, and nothing has changed. */
gboolean engine_run_alone(Engine *engine, gint32 lane, const Task *task, gint64 begin_ns);

/* With contention only. The op at the head of the lane is ready, its start recorded: it begins now or later, when its
 * partner (the last member of its collective) is there; of a collective the lanes of all members are chained.
 * partner_start_ns: −1, it is not there. */
void engine_start_contended(Engine *engine, gint32 lane, gint32 op, const Task *task, gint64 partner_start_ns);
void engine_begin_flow_at(Engine *engine, gint32 lane, gint64 begin_ns);
void engine_begin_flow(Engine *engine, gint32 lane, gint64 now_ns);
/* Its ops end, and the receive of a send if it is there. */
void engine_end_flow(Engine *engine, const TransferEnd *ended);
