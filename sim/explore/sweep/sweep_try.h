/* Trying one configuration: is it legal, small enough, and what is predicted. */
#pragma once
#include "predict.h"
#include "sweep_setup.h"

/* What one thread needs; never fails. Borrows both. */
typedef struct SweepWorker SweepWorker;
SweepWorker *sweep_worker_new(const SweepSetup *setup, const SweepTable *table);
void sweep_worker_free(SweepWorker *worker);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SweepWorker, sweep_worker_free)

/* Initialises and fills `row`; the result does not depend on what was tried before or by which worker. */
void sweep_worker_try(SweepWorker *worker, gint64 index, SweepRow *row);

/* What was predicted of `plan`, or of a twin of it that has the same numbers. `price`: dollars per GPU-hour; < 0: the
 * cluster's own. */
void sweep_row_set_prediction(SweepRow *row, const SweepTable *table, const Prediction *prediction, const Plan *plan,
                              double price);
