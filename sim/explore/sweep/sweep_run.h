/* Tries all configurations of a sweep that are not yet in its store, on threads and, under a launcher, in other
 * processes. */
#pragma once
#include "interrupt.h"
#include "ranks.h"
#include "sweep_setup.h"

/* The outcome. */
typedef struct {
  gint64 n_wanted;                /* configurations of the sweep */
  gint64 n_before;                /* of these, already in the store at the start */
  gint64 n_now[N_SWEEP_STATUSES]; /* tried and stored since, by outcome */
  int n_threads, n_ranks;         /* on all ranks together */
  double wall_s;
  int signal; /* signal that ended it early; 0: none */
} SweepProgress;

/* Who tries configurations. */
typedef struct {
  int n_threads;
  const Ranks *ranks;   /* this process is one of these; NULL: it is alone */
  Interrupt *interrupt; /* initialised: on a signal, running configurations are finished and stored */
} SweepWorkers;

gint64 sweep_progress_n_now(const SweepProgress *progress);
/* "310 ran, 42 out of memory, …". Owned by the caller. */
char *sweep_counts_text(const gint64 counts[N_SWEEP_STATUSES]);

/* Try what is not among `done` (indices, ascending) and add it to `store`, in no particular order; rows do not depend
 * on the number of threads or ranks. The first rank has the rows of all in the end, and reports progress on standard
 * error. FALSE if the store cannot be written or a rank is lost; committed rows are kept. */
gboolean sweep_run(const SweepSetup *setup, const SweepTable *table, ResultStore *store, const GArray *done,
                   const SweepWorkers *workers, SweepProgress *progress, GError **error);

/* Every rank but the first: receives its setup from the first, then tries configurations until there are none left.
 * Ranks read the same files, and say so before anything runs if theirs differ. `n_threads` 0: its share of the machine.
 * Signals are handled by the first rank and must be blocked here. FALSE if this or another rank fails; the first rank
 * reports why. */
gboolean sweep_serve(const Ranks *ranks, const SweepTable *table, int n_threads, GError **error);
/* The first rank tells the others what to sweep and which indices are done, or with NULL that there is nothing to do;
 * FALSE if one of them cannot take part. */
gboolean sweep_share(const Ranks *ranks, const SweepTable *table, const GArray *facts, const GArray *done,
                     GError **error);
/* Threads of a rank: `n_threads`, or if that is 0 its share of this machine's processors. */
int sweep_threads(const Ranks *ranks, int n_threads);
