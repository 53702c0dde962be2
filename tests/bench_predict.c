/* Whole predictions per second: GPT-3 175B class plans, folded, event-level, memory included, one core. */
#include <stdio.h>

#include "predict.h"

typedef struct {
  const char *name;
  int tp, pp, dp, chunks, global_batch, zero;
} Case;

static const Case cases[] = {
    {"tp 8, pp 8, 1f1b, m 16", 8, 8, 16, 1, 256, 1},
    {"tp 8, pp 16, 1f1b, m 64", 8, 16, 8, 1, 512, 1},
    {"tp 8, pp 8, interleaved 4 chunks, m 32", 8, 8, 8, 4, 256, 1},
    {"tp 8, dp 64, ZeRO-3, m 4", 8, 1, 64, 1, 256, 3},
};

static double seconds_per_prediction(const Model *model, const Cluster *cluster, const Plan *plan) {
  gint64 begin_us = g_get_monotonic_time(), end_us = begin_us;
  int n = 0;
  while (end_us - begin_us < 500 * 1000) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Prediction) prediction = predict(model, cluster, plan, &error);
    g_assert_no_error(error);
    n++;
    end_us = g_get_monotonic_time();
  }
  return (end_us - begin_us) * 1e-6 / n;
}

int main(void) {
  g_autoptr(GError) error = NULL;
  g_autoptr(Model) model = model_read("megatron-175b", &error);
  g_assert_no_error(error);
  g_autoptr(Cluster) cluster = cluster_read("selene", &error);
  g_assert_no_error(error);
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    const Case *c = &cases[i];
    g_autoptr(Plan) plan = plan_new();
    plan->tp = c->tp;
    plan->pp = c->pp;
    plan->dp = c->dp;
    plan->chunks = c->chunks;
    plan->zero = c->zero;
    plan->global_batch = c->global_batch;
    plan->sequence_parallel = TRUE;
    double seconds = seconds_per_prediction(model, cluster, plan);
    printf("%-42s %8.0f us/prediction  %8.0f predictions/s\n", c->name, seconds * 1e6, 1 / seconds);
  }
  return 0;
}
