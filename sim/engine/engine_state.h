/* The state of a run, private to the engine's files. Each file calls only those above it:
 *
 *     transfers.c    transfers that are flows: how they begin, and what their end means to ops
 *     held.c         what an op waits for
 *     run_ahead.c    how far collectives between kernels may run ahead of the flows
 *     run_alone.c    one rank followed by itself: collectives of tp beside those of dp
 *     lanes.c        ops: held, ready, busy, ended
 *     engine.c       the run: events and flows in time order */
#pragma once
#include "contention.h"
#include "engine.h"
#include "event_queue.h"
#include "saturate.h"
#include "task.h"
#include "tax.h"

/* The number of streams rounded up to a power of two: lane to rank is a shift. */
enum { LANES_PER_RANK = 16 };
G_STATIC_ASSERT((int)N_STREAMS <= (int)LANES_PER_RANK);

typedef enum { LANE_HELD, LANE_READY, LANE_BUSY, LANE_DUE } LaneState;

typedef struct {
  gint64 last_end_ns; /* end of the op before the head; if none: when its rank begins */
  gint32 head;        /* op at the head; −1 when all have ended */
  gint32 chain;       /* next lane whose op ends by the same event; −1 none */
  gint32 awaited;     /* earliest op of this lane that a head in `holds` waits for; NOT_AWAITED */
  guint16 holds;      /* streams of this rank whose heads wait for an op of this lane */
  guint8 state;       /* LaneState */
} Lane;

enum { NOT_AWAITED = G_MAXINT32 };

typedef struct {
  const Task *tasks;
  gint64 *start_ns, *end_ns, *issue_ns; /* this rank's part of the trace */
  const TaskList *list;
} Rank;

/* Until until_ns, and as long as the ops `kernel` and `collective` have not ended, nothing begins, moves or ends on
 * the rank's ways except kernels and one stream of collectives between them. */
typedef struct {
  gint64 until_ns;
  gint32 stream;             /* stream of the collectives; −1: nothing is known */
  gint32 kernel, collective; /* ops that other streams wait for; NOT_AWAITED */
} Undisturbed;

typedef struct {
  const Simulation *simulation;
  const Timing *timing;
  Trace *trace;
  TaskList *lists; /* [pipeline ranks] */
  Meetings meetings;
  EventQueue queue;
  Lane *lanes; /* [rank · LANES_PER_RANK + stream] */
  Rank *ranks;
  TaxedTime *taxed;         /* [ranks]; NULL without taxes */
  Contention *contention;   /* NULL: every transfer takes its own time */
  gint32 *members;          /* [lanes]: scratch, the ranks of a collective that begins */
  gint64 *begin_ns;         /* [lanes]: begin of the flow under way, −1 none; NULL without contention */
  Undisturbed *undisturbed; /* [ranks]; NULL: no collective is run ahead of the flows */
  gint64 **kernels_ns; /* [pipeline ranks][ops + 1] total time of the kernels before each op; only with undisturbed */
  gint32 *ended;       /* stack of the first lanes of chains that end within the horizon */
  gint32 n_ended;
  gboolean runs_ahead; /* the horizon is the end of time; otherwise it is now */
  gboolean is_varied;  /* compute times differ by rank or op */
  gint64 horizon_ns;   /* ops whose end is at or before this time have ended */
  guint64 n_events;
  guint64 n_ahead; /* collectives run ahead of the flows */
} Engine;

static inline gint32 lane_rank(gint32 lane) {
  return (guint32)lane / LANES_PER_RANK;
}

/* The first lane of the same rank. */
static inline gint32 first_lane_of(gint32 lane) {
  return lane & ~(LANES_PER_RANK - 1);
}

static inline void end_at(Engine *engine, gint32 lane, gint64 end_ns) {
  if (end_ns <= engine->horizon_ns)
    engine->ended[engine->n_ended++] = lane;
  else
    event_queue_add(&engine->queue, end_ns, lane);
}

/* Take all lanes in `ended`, including those that are added meanwhile. */
void engine_take_ended(Engine *engine);
/* Take what is due at the head of a lane, its begin or its end; then everything in `ended`. */
void engine_take(Engine *engine, gint32 lane);
/* Asserts that every op has ended; otherwise reports who waits for whom, up to a screenful. */
void engine_assert_all_ended(const Engine *engine);
/* Examine the heads of these streams of a rank and start those that nothing holds. */
void engine_examine_streams(Engine *engine, gint32 first_lane, guint streams);

/* When the host issues an op; the OP_HOST before it must have ended. */
static inline gint64 engine_issue_of(const Rank *state, gint32 op, const Task *task) {
  if (task->flags & TASK_AFTER_HOST)
    return add_ns(task->issue_offset_ns, state->end_ns[state->list->barrier[op]]);
  return task->issue_offset_ns;
}

/* A transfer of this rank, number `transfer` in the program, runs from `from_ns` to `to_ns`, which delays the kernel
 * beside it. Only with taxes. */
void engine_tax(Engine *engine, gint32 rank, gint32 transfer, gint64 from_ns, gint64 to_ns);

/* Sets up `undisturbed`, or leaves it NULL where it does not apply. The three functions after
 * engine_undisturbed_clear() need it. */
void engine_undisturbed_init(Engine *engine);
void engine_undisturbed_clear(Engine *engine);
/* The single-rank collective at the head of the lane begins at begin_ns. Ends it at once if nothing interferes.
 * FALSE: something may. */
gboolean engine_run_ahead(Engine *engine, gint32 lane, const Task *task, gint64 begin_ns);
/* The head of this lane, which is not held, causes no begin, move or end on the rank's ways before the returned time.
 * The streams in `own` (bits) are followed by the caller, and the lane is not one of them. */
gint64 engine_undisturbed_beside(const Engine *engine, gint32 lane, guint own);
/* As engine_run_ahead(), for a collective of tp; then follows everything it triggers on the streams of kernels, tp
 * and dp as long as nothing else happens on the rank. Afterwards all heads of the rank must be examined anew. FALSE:
 * something else may happen; nothing has changed. */
gboolean engine_run_alone(Engine *engine, gint32 lane, const Task *task, gint64 begin_ns);

/* With contention only. The op at the head of the lane is ready and its start recorded. Its flow begins now, or later
 * when its partner (or the last member of its collective) is there; for a collective the lanes of all members are
 * chained. partner_start_ns −1: the partner is not there yet. */
void engine_start_contended(Engine *engine, gint32 lane, gint32 op, const Task *task, gint64 partner_start_ns);
void engine_begin_flow_at(Engine *engine, gint32 lane, gint64 begin_ns);
void engine_begin_flow(Engine *engine, gint32 lane, gint64 now_ns);
/* Ends the flow's ops, including the receive of a send if it is there. */
void engine_end_flow(Engine *engine, const TransferEnd *ended);
