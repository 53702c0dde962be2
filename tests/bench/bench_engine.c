/* Engine speed on bare orders: folded, 1F1B over 16 stages with 512 micro-batches and their sends and receives;
 * unfolded, 1F1B on 16,384 ranks. Reports the best of several runs, setup included, in actions (one F or B of one
 * micro-batch on one rank) and events per second. Optional argument: runs of each folded case. */
#include "bare_times.h"
#include "engine.h"
#include "passes.h"
#include "schedules.h"

#include <stdio.h>
#include <stdlib.h>

enum { N_STAGES = 16, F_NS = 1000, I_NS = 1000, W_NS = 1000 };

typedef struct {
  const char *name;
  int n_micro_batches;
  gint64 eager_bytes; /* transfers of bare orders have 0 bytes: −1 makes all of them rendezvous */
  gint64 wire_ns;
  int tp, dp;
  int runs_share; /* one in so many of the runs asked for */
} Case;

static const Case cases[] = {
    {"folded, m 512, free transfers", 512, 0, 0, 1, 1, 1},
    {"folded, m 512, rendezvous of 100 ns", 512, -1, 100, 1, 1, 1},
    {"folded, m 512, eager of 100 ns", 512, 0, 100, 1, 1, 1},
    {"16,384 ranks, m 64, rendezvous of 100 ns", 64, -1, 100, 8, 128, 100},
};

static Program *lower_1f1b(int n_micro_batches) {
  g_autoptr(GError) error = NULL;
  const ScheduleFacts *schedule = schedule_find("1f1b", &error);
  g_assert_no_error(error);
  g_autoptr(Order) order = order_new(schedule, (OrderShape){N_STAGES, 1, n_micro_batches, 0}, &error);
  g_assert_no_error(error);
  Lowering lowering = {.order = order, .n_steps = 1};
  Program *program = lower(&lowering, NULL, NULL, &error);
  g_assert_no_error(error);
  return program;
}

static Timing *uniform_timing(const Program *program, gint64 wire_ns) {
  gint64 f_ns[N_STAGES], i_ns[N_STAGES], w_ns[N_STAGES];
  for (int stage = 0; stage < N_STAGES; stage++) {
    f_ns[stage] = F_NS;
    i_ns[stage] = I_NS;
    w_ns[stage] = W_NS;
  }
  return timing_of_bare_times(program, &(BareTimes){f_ns, i_ns, w_ns, .send_ns = wire_ns});
}

static void run_case(const Case *c, int n_runs) {
  g_autoptr(Program) program = lower_1f1b(c->n_micro_batches);
  g_autoptr(Timing) timing = uniform_timing(program, c->wire_ns);
  Layout layout = {.size = {[AXIS_TP] = c->tp, [AXIS_CP] = 1, [AXIS_EP] = 1, [AXIS_DP] = c->dp, [AXIS_PP] = N_STAGES},
                   .stride = {1, c->tp, c->tp, c->tp, c->tp * c->dp},
                   .dp_shard = c->dp,
                   .n_ranks = c->tp * c->dp * N_STAGES};
  Simulation simulation = {.program = program,
                           .timing = timing,
                           .layout = &layout,
                           .folded = layout.n_ranks == N_STAGES,
                           .eager_bytes = c->eager_bytes};
  gint64 best_us = G_MAXINT64;
  EngineStats stats;
  for (int i = 0; i < MAX(n_runs / c->runs_share, 1); i++) {
    gint64 start_us = g_get_monotonic_time();
    Trace *trace = engine_run(&simulation, &stats);
    best_us = MIN(best_us, g_get_monotonic_time() - start_us);
    trace_free(trace);
  }
  double n_actions = 2.0 * c->n_micro_batches * stats.n_ranks;
  printf("%-42s %10.3f ms  %6.2f M actions/s  %6.2f M events/s\n", c->name, best_us / 1e3, n_actions / best_us,
         (double)stats.n_events / best_us);
}

int main(int argc, char **argv) {
  int n_runs = argc > 1 ? atoi(argv[1]) : 200;
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
    run_case(&cases[i], n_runs);
  return 0;
}
