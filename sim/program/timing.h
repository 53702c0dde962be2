/* How long each distinct item of a Program takes, and what follows from that under the Program's rules for one rank
 * without interference. Filled by an executor's cost model; read by the engine and by reports. Pure arithmetic: no
 * clock here.
 *
 * A compute op is a list of items on four in-order streams (compute, tp, cp, ep), issued one by one by the host. With
 * s the time the streams are free and h the time the host begins to issue,
 *
 *     issued(i) = h + Σ_{j≤i} launch_j
 *     end(i)    = max(end of the previous item on its stream (or s), end(after_i), issued(i)) + duration_i
 *
 * every end is a maximum of sums, so two numbers describe the whole list (max-plus algebra):
 *
 *     end(list) = max(s + run, h + tail),   host done at h + host
 *
 * and lists join by  run = run₁ + run₂,  host = host₁ + host₂,  tail = max(tail₁ + run₂, host₁ + tail₂).  That is why
 * a folded run can treat an op as a whole and still agree with an expanded one to the nanosecond, launch-bound steps
 * included. */
#pragma once
#include "program.h"

typedef struct {
  gint64 run_ns;  /* from streams free to end, with the host far ahead */
  gint64 tail_ns; /* from the host's first issue to end, with the streams free */
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

/* A stretch of time, split by what the compute stream does. */
typedef struct {
  gint64 charged_ns[N_CHARGES];  /* sums to the length of the stretch */
  gint64 hidden_ns[N_ITEM_AXES]; /* collective time per axis, overlapped with running kernels */
} ChargeSplit;

typedef struct {
  TimedItem *items; /* borrowed from the Timing */
  int n_items;
  OpTime time;       /* (computed) */
  ChargeSplit split; /* (computed) split of run_ns, with the host far ahead */
  gint64 lead_ns;    /* (computed) see timing_host_lead() */
} TimedList;

/* The share of the ways out of and into a rank that a transfer uses when nothing competes with it. A way is a kind of
 * link of which each rank has its own share: its scale-up links, its part of the NICs and of each fabric tier above
 * them. The last way is its part of the node's memory, which copies read and write, both directions combined. */
enum { TIMING_MAX_WAYS = 9, TIMING_HOST_WAY = TIMING_MAX_WAYS - 1, TIMING_WHOLE_WAY = 1000 };

typedef struct {
  gint64 latency_ns;              /* part of run_ns before bytes move */
  guint16 share[TIMING_MAX_WAYS]; /* out of TIMING_WHOLE_WAY; a send's: out of its source and into its target, a
                                     collective's: both ways at each member */
} WayLoad;

typedef struct {
  TimedList lists[N_PIECES][N_PHASES];
  TimedItem *items;                            /* of all lists, one after another; owned */
  TimedList (*of_lengths)[N_PIECES][N_PHASES]; /* [micro-batches with lengths of their own]; owned; NULL: none */
  /* Where ranks of dp have micro-batches of other lengths, the times of the first are followed by those of the second,
   * in the same order, and so on (Trace.variant). */
  OpTime *works; /* [program works]; owned */
  int n_works;
  OpTime *transfers; /* [program transfers]: run = time on the wire once both (all) sides have arrived; host = launch;
                        owned */
  int n_transfers;
  WayLoad *loads;        /* [program transfers + 1] how a rank's transfers share its ways; NULL: freely; owned */
  guint8 *server_routes; /* [program transfers]: CopyRoute on which it shares servers with the same of all other ranks,
                            each of which takes run_ns alone; NULL: none does. Owned */
  double server_capacity[N_ROUTE_BITS]; /* by bit of a route: how many that are alone the servers carry at once */
  double *taxes; /* [program transfers]: seconds of kernel time lost per second of overlap with it; NULL: none. If set,
                    the program must be expanded, so that compute ops are kernel time only. Owned */
  gint64 *kernels_ns; /* [program transfers]: part of their time that is kernels, of what compresses gradients; NULL:
                         none; owned */
  WayLoad tp; /* ways that a collective of tp alone uses at its members, inside compute ops or concurrent with them; 0:
                 none, or unknown */
  OpTime host_sync; /* OP_HOST without a work: run = host time once its dependencies have ended */
  gint64 step_ns;   /* extra time of an OP_HOST that ends a step */
  int n_measured, n_interpolated, n_modelled; /* distinct matrix products, by the source of their time */
} Timing;

/* The list of a work's piece. */
static inline const TimedList *timing_list(const Timing *timing, const Work *work, int piece) {
  return work->lengths > 0 ? &timing->of_lengths[work->lengths - 1][piece][work->phase]
                           : &timing->lists[piece][work->phase];
}

/* Adds the times of another rank of dp behind those that are there. */
void timing_append(Timing *timing, const Timing *other);
void timing_free(Timing *timing);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Timing, timing_free)

/* Time of an OP_HOST, given its work as from program_host_work(). */
static inline const OpTime *timing_of_host(const Timing *timing, gint32 work) {
  return work >= 0 ? &timing->works[work] : &timing->host_sync;
}
/* Its duration once its dependencies have ended. */
static inline gint64 timing_host_run_ns(const Timing *timing, gint32 work) {
  return timing_of_host(timing, work)->run_ns + (work == HOST_WORK_STEP ? timing->step_ns : 0);
}

OpTime op_time_join(OpTime first, OpTime second);
OpTime op_time_repeat(OpTime time, int n); /* n ≥ 0 times in a row; 0 gives zeros; both are public for tests */

/* Fills the (computed) fields. */
void timed_list_finish(TimedList *list);
/* Time of a Program's work, from finished lists: pieces joined in the phase's order, or an expanded run. Not for
 * PHASE_OPTIMIZER or bare orders. */
OpTime timing_of_work(const Timing *timing, const Work *work);

/* How long a work's collectives of an axis take alone, one after the other; *latency_ns: the part of that before bytes
 * move. A run of kernels has none. */
gint64 timing_collectives_ns(const Timing *timing, const Work *work, Axis axis, gint64 *latency_ns);

/* How long before the streams are free the host must begin to issue a work so that every item starts as if the host
 * were far ahead; may be negative. */
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
/* Splits [start_ns, end) of such a replay (end = the replay's end) and adds it to `split`. While the compute stream
 * is idle, the time is charged to the collective it waits for if that is running, and to the host if that has yet to
 * be launched. Fast when the host is ahead. */
void timing_charge(const Timing *timing, const Work *work, gint64 start_ns, gint64 issue_ns, gint64 end_ns,
                   ChargeSplit *split);
/* The same for [from_ns, to_ns), a part of the replay. */
void timing_charge_part(const Timing *timing, const Work *work, gint64 start_ns, gint64 issue_ns, gint64 from_ns,
                        gint64 to_ns, ChargeSplit *split);
