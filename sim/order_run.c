#include "order_run.h"

#include <math.h>

#include "auto_order.h"
#include "error.h"
#include "passes.h"
#include "timing_model.h"

/* Each forward pass comes with its backward, sends and receives, some 600 bytes in all; placing the sends looks at
 * every rank for every pass. */
static const double MAX_PASSES = 4e6, MAX_LOOKS = 5e8;

static Timing *make_timing(const Program *program, const StageTimes *times) {
  /* a micro-batch goes through the stages of one pipe only */
  int n_chunks = program->n_stages / program->n_ranks / program->n_pipes;
  g_autofree gint64 *all = g_new(gint64, 4 * program->n_stages);
  gint64 *f = all, *i = f + program->n_stages, *w = i + program->n_stages, *pair = w + program->n_stages;
  for (int stage = 0; stage < program->n_stages; stage++) {
    f[stage] = llround(times->f_ns / n_chunks);
    i[stage] = llround(times->i_ns / n_chunks);
    w[stage] = llround(times->w_ns / n_chunks);
    pair[stage] = times->pair_ns > 0 ? llround(times->pair_ns / n_chunks) : f[stage] + i[stage] + w[stage];
  }
  return timing_of_pair_times(program, f, i, w, pair, llround(times->send_ns));
}

gboolean order_run_check_size(int n_ranks, int n_chunks, gint64 n_micro_batches, int n_steps, GError **error) {
  double passes = (double)n_ranks * n_chunks * n_micro_batches, looks = passes * n_ranks;
  if (passes * n_steps <= MAX_PASSES && looks <= MAX_LOOKS)
    return TRUE;
  return fail_input(error,
                    "--pp %d × --chunks %d × %" G_GINT64_FORMAT " micro-batches × --steps %d = %.4g forward passes: "
                    "at most %.0f are run, with --pp %d at most %.0f in a step",
                    n_ranks, n_chunks, n_micro_batches, n_steps, passes * n_steps, MAX_PASSES, n_ranks,
                    MIN(MAX_PASSES, floor(MAX_LOOKS / n_ranks)));
}

OrderRun *order_run_new(const Order *order, const StageTimes *times, int n_steps, const char *dump_after, char **dump,
                        GError **error) {
  const OrderSetting setting = {.times = *times, .n_steps = n_steps};
  return order_run_in(order, &setting, dump_after, dump, error);
}

OrderRun *order_run_in(const Order *order, const OrderSetting *setting, const char *dump_after, char **dump,
                       GError **error) {
  Lowering lowering = {.order = order, .n_steps = setting->n_steps, .held = setting->held, .barrier = setting->barrier};
  Program *program = lower(&lowering, dump_after, dump, error);
  if (program == NULL)
    return NULL;
  OrderRun *run = g_new0(OrderRun, 1);
  run->program = program;
  run->timing = make_timing(program, &setting->times);
  Simulation simulation = {.program = program, .timing = run->timing, .folded = TRUE};
  EngineStats stats;
  run->trace = engine_run(&simulation, &stats);
  run->metrics = metrics_new(run->trace);
  return run;
}

Order *order_run_auto(const Placement *placement, int n_micro_batches, const OrderSetting *setting, double cap,
                      GError **error) {
  const double n_chunks = (double)placement->n_stages / placement->n_ranks / placement->n_pipes;
  const StageTimes *times = &setting->times;
  const HeldShares *held = setting->held;
  const StageCost cost = {llround(times->f_ns / n_chunks), llround(times->i_ns / n_chunks),
                          llround(times->w_ns / n_chunks), held->f_holds / n_chunks,
                          held->i_drops / n_chunks,        held->w_drops / n_chunks};
  g_autofree StageCost *costs = g_new(StageCost, placement->n_stages);
  g_autofree double *caps = g_new(double, placement->n_ranks);
  for (int stage = 0; stage < placement->n_stages; stage++)
    costs[stage] = cost;
  for (int rank = 0; rank < placement->n_ranks; rank++)
    caps[rank] = cap;
  const OrderProblem problem = {.placement = placement,
                                .n_micro_batches = n_micro_batches,
                                .stages = costs,
                                .send_ns = llround(times->send_ns),
                                .cap = cap > 0 ? caps : NULL,
                                .by_makespan = setting->barrier};
  return auto_order_new(&problem, NULL, error);
}

void order_run_free(OrderRun *run) {
  if (run == NULL)
    return;
  metrics_free(run->metrics);
  trace_free(run->trace);
  timing_free(run->timing);
  program_free(run->program);
  g_free(run);
}

double order_run_bubble_fraction(const OrderRun *run) {
  const Metrics *metrics = run->metrics;
  return metrics->span_ns > 0 ? (double)metrics->span_bubble_ns / metrics->span_ns : 0;
}
