/* Scratches for the threads of a pool of jobs that predict: one for each thread that may run at once, so that a job
 * finds what earlier ones left, whoever ran them. */
#pragma once
#include "predict.h"

typedef struct ScratchPool ScratchPool;
ScratchPool *scratch_pool_new(int n_threads);
/* No job may be under way. */
void scratch_pool_free(ScratchPool *pool);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ScratchPool, scratch_pool_free)

/* predict(), predict_numbers() and predict_step(), with the same results; they wait while more than n_threads predict.
 */
Prediction *scratch_pool_predict(ScratchPool *pool, const Model *model, const Cluster *cluster, const Plan *plan,
                                 GError **error);
Prediction *scratch_pool_predict_numbers(ScratchPool *pool, const Model *model, const Cluster *cluster,
                                         const Plan *plan, GError **error);
gboolean scratch_pool_predict_step(ScratchPool *pool, const Model *model, const Cluster *cluster, const Plan *plan,
                                   StepPrediction *step, GError **error);
