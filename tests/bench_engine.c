/* How fast the engine is: 1F1B over 16 stages with 512 micro-batches and their sends and receives, run many times.
 * Reported is the best run, setup included, in actions (F and B of one micro-batch on one stage) and events a second. */
#include "engine.h"
#include "hand_program.h"

#include <stdio.h>
#include <stdlib.h>

enum { N_STAGES = 16, N_MICRO_BATCHES = 512 };

static void report(const char *name, const Simulation *simulation, int n_runs, gint64 n_actions) {
  gint64 best_us = G_MAXINT64;
  EngineStats stats;
  for (int i = 0; i < n_runs; i++) {
    gint64 start_us = g_get_monotonic_time();
    g_autoptr(Trace) trace = engine_run(simulation, &stats);
    best_us = MIN(best_us, g_get_monotonic_time() - start_us);
  }
  printf("%-40s %8.3f ms  %6.2f M actions/s  %6.2f M events/s\n", name, best_us / 1e3, (double)n_actions / best_us,
         (double)stats.n_events / best_us);
}

static void bench_1f1b(const char *name, gint64 eager_bytes, gint64 wire_ns, int n_runs) {
  Hand hand;
  hand_init(&hand, N_STAGES);
  hand_1f1b(&hand, N_MICRO_BATCHES, 1000, 2000);
  hand_finish(&hand);
  for (int i = 0; i < hand.timing.n_transfers; i++)
    hand.timing.transfers[i].run_ns = wire_ns;
  Simulation simulation = {
      .program = hand.program, .timing = &hand.timing, .folded = TRUE, .eager_bytes = eager_bytes};
  report(name, &simulation, n_runs, 2 * N_STAGES * N_MICRO_BATCHES);
  hand_clear(&hand);
}

int main(int argc, char **argv) {
  int n_runs = argc > 1 ? atoi(argv[1]) : 200;
  bench_1f1b("1f1b 16×512, free transfers", 0, 0, n_runs);
  bench_1f1b("1f1b 16×512, rendezvous of 100 ns", -1, 100, n_runs);
  bench_1f1b("1f1b 16×512, eager of 100 ns", 0, 100, n_runs);
  return 0;
}
