/* Scratches for a pool of predicting threads: one per concurrent thread, so that a job can reuse what earlier jobs
 * left, on any thread. */
#pragma once
#include "predict.h"

typedef struct ScratchPool ScratchPool;
ScratchPool *scratch_pool_new(int n_threads);
/* No job may be running. */
void scratch_pool_free(ScratchPool *pool);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ScratchPool, scratch_pool_free)

/* predict(), predict_numbers() and predict_step(), with the same results; they block while n_threads are
 * predicting. */
Prediction *scratch_pool_predict(ScratchPool *pool, const Model *model, const Cluster *cluster, const Plan *plan,
                                 GError **error);
Prediction *scratch_pool_predict_numbers(ScratchPool *pool, const Model *model, const Cluster *cluster,
                                         const Plan *plan, GError **error);
gboolean scratch_pool_predict_step(ScratchPool *pool, const Model *model, const Cluster *cluster, const Plan *plan,
                                   StepPrediction *step, GError **error);
