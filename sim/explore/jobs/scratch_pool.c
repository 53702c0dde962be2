/* Who predicts takes the scratch that was put back last: it is the warmest. */
#include "scratch_pool.h"

struct ScratchPool {
  GAsyncQueue *idle; /* of PredictScratch *; owned */
};

ScratchPool *scratch_pool_new(int n_threads) {
  ScratchPool *pool = g_new(ScratchPool, 1);
  pool->idle = g_async_queue_new_full((GDestroyNotify)predict_scratch_free);
  for (int i = 0; i < n_threads; i++)
    g_async_queue_push(pool->idle, predict_scratch_new(n_threads));
  return pool;
}

void scratch_pool_free(ScratchPool *pool) {
  if (pool == NULL)
    return;
  g_async_queue_unref(pool->idle);
  g_free(pool);
}

Prediction *scratch_pool_predict(ScratchPool *pool, const Model *model, const Cluster *cluster, const Plan *plan,
                                 GError **error) {
  PredictScratch *scratch = g_async_queue_pop(pool->idle);
  Prediction *prediction = predict_with(scratch, model, cluster, plan, error);
  g_async_queue_push_front(pool->idle, scratch);
  return prediction;
}

Prediction *scratch_pool_predict_numbers(ScratchPool *pool, const Model *model, const Cluster *cluster,
                                         const Plan *plan, GError **error) {
  PredictScratch *scratch = g_async_queue_pop(pool->idle);
  Prediction *prediction = predict_numbers(scratch, model, cluster, plan, error);
  g_async_queue_push_front(pool->idle, scratch);
  return prediction;
}

gboolean scratch_pool_predict_step(ScratchPool *pool, const Model *model, const Cluster *cluster, const Plan *plan,
                                   StepPrediction *step, GError **error) {
  PredictScratch *scratch = g_async_queue_pop(pool->idle);
  const gboolean is_known = predict_step(scratch, model, cluster, plan, step, error);
  g_async_queue_push_front(pool->idle, scratch);
  return is_known;
}
