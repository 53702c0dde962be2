/* Virtual time: runs a Program with a Timing. A folded run is one pass over the Program's tape (follow.h), but for the
 * time in which transfers slow each other; then, and in other runs, a clock takes discrete events in (time, sequence)
 * order (clock.h). No record depends on which of the two made it.
 *
 * Folded: one rank per op list. The members of a group without pp run in step, so a collective starts when its one
 * recorded member arrives. Unfolded: every rank of the layout, with every member of a group simulated. On symmetric
 * clusters both give the same record to the nanosecond. The event loop stops allocating once its arrays have room for
 * everything under way. Same input, same record. */
#pragma once
#include "omitted.h"
#include "tape.h"
#include "trace.h"

typedef struct {
  Program *program; /* its tape is made if it has none */
  const Timing *timing;
  const Layout *layout; /* may be NULL when folded */
  /* Ranks of dp have micro-batches of their own lengths: their programs, and one behind the other their times in
   * `timing`; NULL: all are alike. `whole`: as Trace.whole; may be NULL */
  Program *const *programs;
  const Layout *whole;
  gboolean folded;
  gint64 eager_bytes;  /* sends up to this many bytes complete without their receiver */
  const double *speed; /* unfolded: [layout ranks] factor on compute time; NULL = all 1. Folded: NULL */
  double jitter;       /* standard deviation of each compute op's time, relative (normal, cut at ±3σ); 0 = none */
  guint64 seed;
  gboolean contended;  /* transfers that share links of a rank slow each other (Timing.loads; contention.h) */
  gint16 *early_ticks; /* [records], zeroed by the caller, filled: ticks by which a flow ended before the nanosecond
                          in its record; NULL: not wanted */
} Simulation;

typedef struct {
  guint64 n_events; /* ends of ops: of those that end together, as members of a collective do, one */
  int n_ranks;
} EngineStats;

/* Adds to `stats` (that of the run) the events that the groups omitted from a folded run would cause. FALSE: with
 * them the run would be too long for transfers to slow each other. */
gboolean engine_add_omitted(const Simulation *simulation, Trace *trace, const Omitted *omitted, EngineStats *stats);

/* Run to the end. The program must have been verified: a stuck run is a broken invariant. */
Trace *engine_run(const Simulation *simulation, EngineStats *stats);
