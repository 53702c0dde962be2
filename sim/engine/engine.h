/* The virtual clock: runs a Program under its semantics with a Timing, by discrete events in (time, sequence) order.
 *
 * Folded: one rank per op list; groups without pp have their members in step, so a collective starts when its one
 * recorded member arrives. Unfolded: every rank of the layout, every group's members apart. On symmetric clusters both
 * give the same record to the nanosecond. Unfolded, each rank is followed as far ahead of the others as its inputs are
 * known: the record does not depend on it. Folded runs of shared Programs need the clock only where transfers slow each
 * other (follow.h): the same record again. Nothing allocates in the event loop once its arrays have room for all that
 * is under way. Same input, same record. */
#pragma once
#include "omitted.h"
#include "trace.h"

typedef struct {
  const Program *program;
  const Timing *timing;
  const Layout *layout; /* may be NULL when folded */
  gboolean folded;
  const gint64 *begin_ns; /* folded, without taxes: [pipeline ranks] nothing of a rank starts, nor does its host issue
                             anything, before; NULL: all begin at 0 */
  gint64 eager_bytes;     /* sends up to this many bytes complete without their receiver */
  const double *speed;    /* unfolded: [layout ranks] factor on compute time; NULL = all 1. Folded: NULL */
  double jitter;          /* standard deviation of each compute op's time as a share (normal, cut at ±3σ); 0 = none */
  guint64 seed;
  gboolean contended;  /* transfers that share links of a rank slow each other (Timing.loads; contention.h) */
  gint16 *early_ticks; /* [records], zeroed, filled: by how much a flow ended before the nanosecond its record ends at;
                          NULL: nobody asks */
} Simulation;

/* Whether some of its sends complete without their receiver. */
gboolean simulation_has_eager_sends(const Simulation *simulation);

typedef struct {
  guint64 n_events;
  guint64 n_ahead; /* of these: ends of collectives that were known ahead of the flows (quiet.c, alone.c) */
  int n_ranks;
} EngineStats;

/* What the clock has to do with the groups that a folded run leaves out: more events in `stats`, that of the run.
 * FALSE: with them it would be too long for transfers to slow each other. */
gboolean engine_add_omitted(const Simulation *simulation, const Trace *trace, const Omitted *omitted,
                            EngineStats *stats);

/* The same where it is one of `n_steps` steps, which all have as many events as in `stats`. */
gboolean engine_add_steps(const Simulation *simulation, const Trace *trace, int n_steps, EngineStats *stats);

/* Run to the end. The program must have been verified: a stuck run is a broken invariant. */
Trace *engine_run(const Simulation *simulation, EngineStats *stats);
