/* Trying all configurations of a sweep that are not in its store yet, on threads and, under a launcher, on other
 * processes. */
#pragma once
#include "interrupt.h"
#include "ranks.h"
#include "sweep_facts.h"

/* How it went. */
typedef struct {
  gint64 n_wanted;                /* configurations of the sweep */
  gint64 n_before;                /* of these, in the store when it began */
  gint64 n_now[N_SWEEP_STATUSES]; /* tried and kept since, by what became of them */
  int n_threads, n_ranks;         /* on all ranks together */
  double wall_s;
  int signal; /* that ended it early; 0: none */
} SweepProgress;

/* Who tries configurations. */
typedef struct {
  int n_threads;
  Ranks *ranks;         /* this process is their first; NULL: it is alone */
  Interrupt *interrupt; /* initialised: with a signal that it tells what runs is finished and kept */
} SweepWorkers;

gint64 sweep_progress_n_now(const SweepProgress *progress);
/* "310 ran, 42 out of memory, …". Owned by the caller. */
char *sweep_counts_text(const gint64 counts[N_SWEEP_STATUSES]);

/* Try what is missing and add it to `store`, in no particular order; rows do not depend on the number of threads or
 * ranks. Says how far it is on standard error. FALSE when the store cannot be written or a rank is lost: what was
 * committed is kept. */
gboolean sweep_run(const SweepSetup *setup, const SweepTable *table, ResultStore *store, const SweepWorkers *workers,
                   SweepProgress *progress, GError **error);

/* What another rank than the first does: its setup from the first one, then configurations until there are no more.
 * `n_threads` 0: its share of the machine. Signals are the first rank's business: they must be held up here. FALSE when
 * this or another rank fails; the first rank says why. */
gboolean sweep_serve(Ranks *ranks, const SweepTable *table, int n_threads, GError **error);
/* The first rank tells the others what to sweep and which indices (gint64, ascending) are done, or with NULL that there
 * is nothing to do; FALSE when one of them cannot. */
gboolean sweep_share(Ranks *ranks, const GArray *facts, const GArray *done, GError **error);
/* Threads of a rank: `n_threads`, or with 0 its share of this machine's processors. */
int sweep_threads(const Ranks *ranks, int n_threads);
