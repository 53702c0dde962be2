/* How the engine's time grows with ranks: a step of Llama-3.1-405B (tp 8, pp 8 × 16 chunks, 8 micro-batches, ZeRO-1),
 * unfolded, with and without contention, from 64 ranks to 16,384 or to the argument (65,536 take about 5 GB). A rank's
 * list is equally long at every size, so only time per event grows, as data outgrow the caches. Times are CPU times of
 * engine_run alone, one run of each size. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "lowering.h"
#include "plan.h"
#include "predict.h"
#include "timing_model.h"

enum { TP = 8, PP = 8, CHUNKS = 16, MICRO_BATCHES = 8, LEAST_RANKS = 64, USUAL_MOST_RANKS = 16384 };

typedef struct {
  double cpu_s, wall_s;
  guint64 n_events;
  gint64 end_ns;
  gsize record_bytes;
} Run;

static Plan *plan_for(int n_ranks) {
  Plan *plan = plan_new();
  plan->tp = TP;
  plan->pp = PP;
  plan->chunks = CHUNKS;
  plan->dp = n_ranks / (TP * PP);
  plan->gpus = n_ranks;
  plan->global_batch = (gint64)MICRO_BATCHES * plan->dp;
  plan->seq_len = 8192;
  plan->zero = 1;
  plan->sequence_parallel = TRUE;
  return plan;
}

static Run run_once(Program *program, const Timing *timing, const Workload *workload, const Cluster *cluster,
                    gboolean contended) {
  const Simulation simulation = {.program = program,
                                 .timing = timing,
                                 .layout = &workload->layout,
                                 .eager_bytes = cluster->eager_bytes,
                                 .contended = contended};
  const clock_t begin = clock();
  const gint64 begin_us = g_get_monotonic_time();
  EngineStats stats;
  Trace *trace = engine_run(&simulation, &stats);
  Run run = {.cpu_s = (double)(clock() - begin) / CLOCKS_PER_SEC,
             .wall_s = (double)(g_get_monotonic_time() - begin_us) * 1e-6,
             .n_events = stats.n_events,
             .end_ns = trace_end(trace),
             .record_bytes = trace->first[trace->n_ranks] * 3 * sizeof(gint64)};
  trace_free(trace);
  return run;
}

static void run_size(const Model *model, const Cluster *cluster, int n_ranks) {
  g_autoptr(GError) error = NULL;
  g_autoptr(Plan) plan = plan_for(n_ranks);
  g_autoptr(Prediction) folded = predict(model, cluster, plan, &error);
  g_assert_no_error(error);
  g_autoptr(Program) program = program_expand(folded->program, folded->workload);
  g_autoptr(Timing) timing = timing_model(program, folded->workload, cluster, NULL);
  const Run alone = run_once(program, timing, folded->workload, cluster, FALSE);
  const Run contended = run_once(program, timing, folded->workload, cluster, TRUE);
  g_assert(contended.end_ns == folded->metrics->step_ns); /* folded as unfolded */
  printf("%7d %8.2f M %9.2f s %7.1f ns %9.2f s %7.1f ns %9.2f s %8.0f MB\n", n_ranks, (double)contended.n_events * 1e-6,
         alone.cpu_s, alone.cpu_s * 1e9 / (double)alone.n_events, contended.cpu_s,
         contended.cpu_s * 1e9 / (double)contended.n_events, contended.wall_s, (double)contended.record_bytes * 1e-6);
  fflush(stdout);
}

int main(int argc, char **argv) {
  const int most = argc > 1 ? atoi(argv[1]) : USUAL_MOST_RANKS;
  g_autoptr(GError) error = NULL;
  g_autoptr(Model) model = model_read("llama-3.1-405b", &error);
  g_assert_no_error(error);
  g_autoptr(Cluster) cluster = cluster_read("llama3-h100", &error);
  g_assert_no_error(error);
  cluster->max_gpus = 0; /* 65,536 of the same */
  printf("%7s %10s %11s %10s %11s %10s %11s %11s\n", "ranks", "events", "alone, cpu", "an event", "contended",
         "an event", "wall", "records");
  for (int n_ranks = LEAST_RANKS; n_ranks <= most; n_ranks *= 4)
    run_size(model, cluster, n_ranks);
  return 0;
}
