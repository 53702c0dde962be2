/* Trying one configuration: is it legal, small enough, and what is predicted. */
#pragma once
#include "sweep_row.h"

typedef struct {
  const Space *space;      /* finished; borrowed */
  const SweepTable *table; /* borrowed */
  double price;            /* dollars per GPU-hour; < 0: the cluster's own */
  gboolean prune;          /* skip the run if it cannot fit in memory */
  int n_workers;           /* threads of all ranks on this machine, which share its memory; 0: one */
} SweepProblem;

/* What one thread needs; never fails. */
typedef struct SweepWorker SweepWorker;
SweepWorker *sweep_worker_new(const SweepProblem *problem);
void sweep_worker_free(SweepWorker *worker);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SweepWorker, sweep_worker_free)

/* Initialises and fills `row`; the result does not depend on what was tried before or by which worker. */
void sweep_worker_try(SweepWorker *worker, gint64 index, SweepRow *row);
