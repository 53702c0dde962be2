/* Runs made before. What a run is follows from the ops and from how long each work and transfer takes: plans that
 * differ in the global batch alone are run with the same few micro-batches (steady.h), and many an option makes no
 * difference to a step. So the records of a run are kept, and are those of every later one of the same ops and times.
 *
 * For one thread, as the PredictScratch that has it. */
#pragma once
#include "engine.h"

typedef struct KnownRuns KnownRuns;
/* Keeps up to so many bytes of records (26 each) and keys; then it forgets all and begins anew. */
KnownRuns *known_runs_new(gsize most_bytes);
void known_runs_free(KnownRuns *runs);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(KnownRuns, known_runs_free)

/* What engine_run() gives, to the nanosecond, and early_ticks where they are asked for. `runs` may be NULL: nothing is
 * known. Runs are kept of what is folded, of ops that a ProgramCache lent (SharedOps.number) and without jitter. */
Trace *known_runs_run(KnownRuns *runs, const Simulation *simulation, EngineStats *stats);

typedef struct {
  guint64 n_made, n_known; /* runs made, and taken from one before */
} KnownRunsStats;
KnownRunsStats known_runs_stats(const KnownRuns *runs);
