/* How long it takes to evaluate a folded step: metrics and memory profile of 1F1B over 16 stages with 64 micro-batches,
 * their sends and receives, gradient buckets and optimizer. Reports the best of many runs. */
#include "memory_profile.h"
#include "metrics.h"
#include "plan.h"
#include "predict.h"

#include <stdio.h>
#include <stdlib.h>

static gint64 best_us(const Trace *trace, int n_runs, gboolean memory) {
  gint64 best = G_MAXINT64;
  for (int i = 0; i < n_runs; i++) {
    gint64 start_us = g_get_monotonic_time();
    if (memory) {
      g_autoptr(MemoryProfile) profile = memory_profile_new(trace);
      g_assert(profile != NULL);
    } else {
      g_autoptr(Metrics) metrics = metrics_new(trace);
      g_assert(metrics != NULL);
    }
    best = MIN(best, g_get_monotonic_time() - start_us);
  }
  return best;
}

int main(int argc, char **argv) {
  int n_runs = argc > 1 ? atoi(argv[1]) : 1000;
  g_autoptr(GError) error = NULL;
  g_autoptr(Model) model = model_read("gpt3-175b", &error);
  g_autoptr(Cluster) cluster = model ? cluster_read("selene", &error) : NULL;
  g_autoptr(Plan) plan = plan_new();
  plan->tp = 8;
  plan->pp = 16;
  plan->gpus = 1024;
  plan->micro_batch = 1;
  plan->global_batch = 512;
  g_autoptr(Prediction) prediction = cluster ? predict(model, cluster, plan, &error) : NULL;
  if (!prediction) {
    fprintf(stderr, "%s\n", error->message);
    return 1;
  }
  const Trace *trace = prediction->trace;
  printf("%zu records: metrics %" G_GINT64_FORMAT " us, memory profile %" G_GINT64_FORMAT " us\n",
         trace->first[trace->n_ranks], best_us(trace, n_runs, FALSE), best_us(trace, n_runs, TRUE));
  return 0;
}
