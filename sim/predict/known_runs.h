/* A cache of runs. A run is determined by its ops and by how long each work and transfer takes. Plans that differ
 * only in the global batch are run with the same few micro-batches (steady.h), and many options make no difference to
 * a step. So the records of a run are kept and reused for every later run with the same ops and times.
 *
 * For one thread, like the PredictScratch that owns it. */
#pragma once
#include "engine.h"

typedef struct KnownRuns KnownRuns;
/* Keeps up to most_bytes of records (26 bytes each) and keys; when that is exceeded it forgets everything and starts
 * over. */
KnownRuns *known_runs_new(gsize most_bytes);
void known_runs_free(KnownRuns *runs);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(KnownRuns, known_runs_free)

/* Returns what engine_run() would, to the nanosecond, with early_ticks if they are asked for. `runs` may be NULL:
 * nothing is cached. Only folded runs without jitter are kept, of ops lent by a ProgramCache (SharedOps.number). */
Trace *known_runs_run(KnownRuns *runs, const Simulation *simulation, EngineStats *stats);

typedef struct {
  guint64 n_made, n_known; /* runs simulated, and runs taken from the cache */
} KnownRunsStats;
KnownRunsStats known_runs_stats(const KnownRuns *runs);
