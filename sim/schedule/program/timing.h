/* How long each distinct thing of a Program takes, and what follows from that under the Program's rules for one rank
 * left alone. Filled by an executor's cost model; read by the engine and by reports. Pure arithmetic: no clock here.
 *
 * A compute op is a list of items on four in-order streams (compute, tp, cp, ep), issued one by one by the host. With s
 * the time the streams are free and h the time the host begins to issue,
 *
 *     issued(i) = h + Σ_{j≤i} launch_j
 *     end(i)    = max(end of the item before it on its stream (or s), end(after_i), issued(i)) + duration_i
 *
 * every end is a maximum of sums, so the whole list is two numbers (max-plus algebra):
 *
 *     end(list) = max(s + run, h + tail),   host done at h + host
 *
 * and lists join by  run = run₁ + run₂,  host = host₁ + host₂,  tail = max(tail₁ + run₂, host₁ + tail₂).  That is why a
 * folded run can take an op whole and still agree with an expanded one to the nanosecond, launch-bound steps included.
 */
#pragma once
#include "program.h"

typedef struct {
  gint64 run_ns;  /* from streams free to end, the host far ahead */
  gint64 tail_ns; /* from the host's first issue to end, the streams free */
  gint64 host_ns; /* host time to issue all of it */
} OpTime;

typedef enum { CHARGE_COMPUTE, CHARGE_RECOMPUTE, CHARGE_TP, CHARGE_CP, CHARGE_EP, CHARGE_HOST, N_CHARGES } Charge;

typedef struct {
  const char *name;     /* static */
  gint64 duration_ns;   /* on its stream */
  gint64 launch_ns;     /* host time to issue it */
  gint32 after;         /* as WorkItem.after */
  guint8 is_collective; /* on the stream of its axis */
  guint8 recompute;
  guint8 axis;       /* of a collective: as WorkItem.axis */
  gint64 latency_ns; /* of a collective's duration: before bytes move */
} TimedItem;

/* A stretch of time by what the compute stream does in it. */
typedef struct {
  gint64 charged_ns[N_CHARGES];  /* sums to its length */
  gint64 hidden_ns[N_ITEM_AXES]; /* collective time of each axis beside running kernels */
} ChargeSplit;

typedef struct {
  TimedItem *items; /* owned by the Timing */
  int n_items;
  OpTime time;       /* (computed) */
  ChargeSplit split; /* (computed) of run_ns, with the host far ahead */
  gint64 lead_ns;    /* (computed) see timing_host_lead() */
} TimedList;

/* What a transfer takes of the ways out of and into a rank while it has them to itself. A way is a kind of link on
 * which a rank has a share of its own: its scale-up links, its part of the NICs and of each tier of the fabric above;
 * the last one is its part of its node's memory, which copies read and write, both directions together. */
enum { TIMING_MAX_WAYS = 9, TIMING_HOST_WAY = TIMING_MAX_WAYS - 1, TIMING_WHOLE_WAY = 1000 };

typedef struct {
  gint64 latency_ns;              /* of run_ns: before bytes move */
  guint16 share[TIMING_MAX_WAYS]; /* in TIMING_WHOLE_WAY; a send's out of its source and into its target, a collective's
                                      both ways at each member */
} WayLoad;

typedef struct {
  TimedList lists[N_PIECES][N_PHASES];
  OpTime *works; /* [program works]; owned */
  int n_works;
  OpTime *transfers; /* [program transfers]: run = on the wire from the moment both (all) sides are there; host =
                        launch; owned */
  int n_transfers;
  WayLoad *loads; /* [program transfers + 1]: transfers of a rank share its ways; NULL: they do not disturb each other;
                     owned */
  double *taxes;  /* [program transfers]: seconds of kernels lost per second of it beside them; NULL: all are free. Then
                     the program must be expanded, so that a kernel is not longer than it is. Owned */
  WayLoad tp;     /* what a collective of tp alone takes of its members' ways, inside compute ops or beside them; 0:
                     nothing, or not known */
  OpTime host_sync;                           /* OP_HOST without a work: run = time the host takes after what it waits
                                                 for */
  gint64 step_ns;                             /* that an OP_HOST which ends a step takes besides */
  int n_measured, n_interpolated, n_modelled; /* distinct matrix products by where their time came from */
} Timing;

void timing_free(Timing *timing);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Timing, timing_free)

/* Of an OP_HOST, by its work as program_host_work() has it. */
static inline const OpTime *timing_of_host(const Timing *timing, gint32 work) {
  return work >= 0 ? &timing->works[work] : &timing->host_sync;
}
/* How long it takes after what it waits for. */
static inline gint64 timing_host_run_ns(const Timing *timing, gint32 work) {
  return timing_of_host(timing, work)->run_ns + (work == HOST_WORK_STEP ? timing->step_ns : 0);
}

OpTime op_time_join(OpTime first, OpTime second);
OpTime op_time_repeat(OpTime time, int n); /* n ≥ 0 in a row; 0 gives zeros */

/* Fill the (computed) fields. */
void timed_list_finish(TimedList *list);
/* The time of a Program's work from finished lists: pieces joined in the phase's order, or an expanded run. Not for
 * PHASE_OPTIMIZER nor bare orders. */
OpTime timing_of_work(const Timing *timing, const Work *work);

/* How long before the streams are free the host must begin to issue a work, for every item of it to start as with the
 * host far ahead; may be negative. */
gint64 timing_host_lead(const Timing *timing, const Work *work);

/* One item of a replayed op. */
typedef struct {
  const TimedItem *item;
  Piece piece;
  gint64 start_ns, end_ns;
} ItemSpan;
/* Replay a work's items from s = `start_ns` and h = `issue_ns`; calls `visit` in list order. Returns the end. */
gint64 timing_replay(const Timing *timing, const Work *work, gint64 start_ns, gint64 issue_ns,
                     void (*visit)(const ItemSpan *span, gpointer data), gpointer data);
/* Splits [start_ns, end) of such a replay (end = the replay's end) and adds it to `split`. An idle compute stream is
 * charged to the collective it waits for while that runs, and to the host while that waits for its launch. Fast where
 * the host is ahead. */
void timing_charge(const Timing *timing, const Work *work, gint64 start_ns, gint64 issue_ns, gint64 end_ns,
                   ChargeSplit *split);
/* The same of [from_ns, to_ns), a part of the replay. */
void timing_charge_part(const Timing *timing, const Work *work, gint64 start_ns, gint64 issue_ns, gint64 from_ns,
                        gint64 to_ns, ChargeSplit *split);
