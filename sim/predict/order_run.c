#include "order_run.h"

#include <math.h>
#include <string.h>

#include "auto_order.h"
#include "bare_times.h"
#include "error.h"
#include "memory_profile.h"
#include "passes.h"
#include "plan.h"

StageTimes order_run_pass_times(const StageTimes *times, int n_passes) {
  StageTimes pass = {.f_ns = round(times->f_ns / n_passes),
                     .i_ns = round(times->i_ns / n_passes),
                     .w_ns = round(times->w_ns / n_passes),
                     .send_ns = round(times->send_ns)};
  pass.pair_ns = times->pair_ns > 0 ? round(times->pair_ns / n_passes) : pass.f_ns + pass.i_ns + pass.w_ns;
  return pass;
}

static Timing *make_timing(const Program *program, const StageTimes *times) {
  /* a micro-batch goes through the stages of one pipe only */
  const StageTimes pass = order_run_pass_times(times, program->n_stages / program->n_ranks / program->n_pipes);
  g_autofree gint64 *all = g_new(gint64, 4 * program->n_stages);
  gint64 *f = all, *i = f + program->n_stages, *w = i + program->n_stages, *pair = w + program->n_stages;
  for (int stage = 0; stage < program->n_stages; stage++) {
    f[stage] = (gint64)pass.f_ns;
    i[stage] = (gint64)pass.i_ns;
    w[stage] = (gint64)pass.w_ns;
    pair[stage] = (gint64)pass.pair_ns;
  }
  const BareTimes bare = {.f_ns = f, .i_ns = i, .w_ns = w, .pair_ns = pair, .send_ns = (gint64)pass.send_ns};
  return timing_of_bare_times(program, &bare);
}

gboolean order_run_check_size(int n_ranks, int n_chunks, gint64 n_micro_batches, int n_steps, GError **error) {
  double passes = (double)n_ranks * n_chunks * n_micro_batches, looks = passes * n_ranks;
  if (passes * n_steps <= PLAN_MOST_PASSES && looks <= PLAN_MOST_LOOKS)
    return TRUE;
  return fail_input(error,
                    "--pp %d × --chunks %d × %" G_GINT64_FORMAT " micro-batches × --steps %d = %.4g forward passes: "
                    "at most %d are run, with --pp %d at most %d in a step",
                    n_ranks, n_chunks, n_micro_batches, n_steps, passes * n_steps, PLAN_MOST_PASSES, n_ranks,
                    MIN(PLAN_MOST_PASSES, PLAN_MOST_LOOKS / n_ranks));
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

/* --- auto --- */

/* How the orders for given costs are judged. */
typedef struct {
  const OrderSetting *setting;
  OrderProblem problem; /* for any placement of this many ranks and stages; borrows its arrays */
  gboolean is_run;      /* judged by running; otherwise by evaluation, which ignores that sends wait for each other
                           and that pairs gain time */
} Contest;

/* The same rounding slack as for sums of memory. */
static const double CAP_SLACK = 1e-9;

static gboolean fits(const Contest *contest, const double *peak) {
  for (int rank = 0; contest->problem.cap != NULL && rank < contest->problem.placement->n_ranks; rank++)
    if (peak[rank] > contest->problem.cap[rank] * (1 + CAP_SLACK))
      return FALSE;
  return TRUE;
}

static OrderRun *run_one_step(const Order *order, const OrderSetting *setting) {
  OrderSetting one_step = *setting;
  one_step.n_steps = 1;
  return order_run_in(order, &one_step, NULL, NULL, NULL);
}

static gint64 cost_of_run(const OrderRun *run, const OrderSetting *setting) {
  return setting->barrier ? trace_end(run->trace) : run->metrics->span_ns;
}

static gint64 cost_as_run(const Contest *contest, const Order *order) {
  g_autoptr(OrderRun) run = run_one_step(order, contest->setting);
  g_autoptr(MemoryProfile) memory = run != NULL ? memory_profile_new(run->trace) : NULL;
  if (memory == NULL || !fits(contest, memory->rank_peak))
    return G_MAXINT64;
  return cost_of_run(run, contest->setting);
}

/* Span, or makespan with a barrier; G_MAXINT64 when it does not fit. */
static gint64 cost_of(const Contest *contest, const Order *order) {
  if (contest->is_run)
    return cost_as_run(contest, order);
  OrderProblem problem = contest->problem;
  problem.placement = order->placement;
  g_auto(OrderCost) cost = {0};
  if (!order_evaluate(order, &problem, &cost, NULL) || !fits(contest, cost.peak))
    return G_MAXINT64;
  return problem.by_makespan ? cost.makespan_ns : cost.span_ns;
}

static gboolean is_same_placement(const Placement *a, const Placement *b) {
  return memcmp(a->stage_rank, b->stage_rank, sizeof *a->stage_rank * (gsize)a->n_stages) == 0;
}

/* `best`, or a built-in schedule that is better. The search behind `best` has seen none on another placement, and
 * none of them as it runs. Takes over `best`. */
static Order *best_with_table(const Contest *contest, Order *best) {
  const Placement *placement = contest->problem.placement;
  const OrderShape shape = {placement->n_ranks, placement->n_stages / placement->n_ranks,
                            contest->problem.n_micro_batches, 0};
  gint64 least = cost_of(contest, best);
  for (const char *const *name = schedule_names(); *name != NULL; name++) {
    const ScheduleFacts *info = schedule_find(*name, NULL);
    g_autoptr(Order) order = info->placement != PLACEMENT_BIDIRECTIONAL ? order_new(info, shape, NULL) : NULL;
    if (order == NULL || (!contest->is_run && is_same_placement(order->placement, placement)))
      continue;
    gint64 cost = cost_of(contest, order);
    if (cost >= least)
      continue;
    least = cost;
    order_free(best);
    best = g_steal_pointer(&order);
  }
  return best;
}

/* With the given chunks. *cost_ns: as it runs. */
static Order *auto_on(OrderShape shape, const OrderSetting *setting, double cap, gint64 *cost_ns, GError **error) {
  g_autoptr(Placement) placement = schedule_auto_placement(shape.n_ranks, shape.n_chunks);
  const int n_passes = placement->n_stages / placement->n_ranks / placement->n_pipes;
  const StageTimes pass = order_run_pass_times(&setting->times, n_passes);
  const HeldShares *held = setting->held;
  const StageCost cost = {(gint64)pass.f_ns,        (gint64)pass.i_ns,        (gint64)pass.w_ns,
                          held->f_holds / n_passes, held->i_drops / n_passes, held->w_drops / n_passes};
  g_autofree StageCost *costs = g_new(StageCost, placement->n_stages);
  g_autofree double *caps = g_new(double, placement->n_ranks);
  for (int stage = 0; stage < placement->n_stages; stage++)
    costs[stage] = cost;
  for (int rank = 0; rank < placement->n_ranks; rank++)
    caps[rank] = cap;
  const Contest contest = {.setting = setting,
                           .problem = {.placement = placement,
                                       .n_micro_batches = shape.n_micro_batches,
                                       .stages = costs,
                                       .send_ns = (gint64)pass.send_ns,
                                       .cap = cap > 0 ? caps : NULL,
                                       .by_makespan = setting->barrier},
                           /* as long as no pass is shorter than a send, no send waits for another */
                           .is_run = pass.send_ns > MIN(pass.f_ns, pass.i_ns) ||
                                     pass.pair_ns < pass.f_ns + pass.i_ns + pass.w_ns};
  Order *best = auto_order_new(&contest.problem, NULL, error);
  if (best == NULL)
    return NULL;
  best = best_with_table(&contest, best);
  g_autoptr(OrderRun) run = run_one_step(best, setting);
  *cost_ns = cost_of_run(run, setting);
  return best;
}

Order *order_run_auto(OrderShape shape, const OrderSetting *setting, double cap, GError **error) {
  const gboolean is_open = shape.n_chunks == 0;
  shape.n_chunks = MAX(shape.n_chunks, 1);
  gint64 least_ns, cost_ns;
  g_autoptr(Order) best = auto_on(shape, setting, cap, &least_ns, error);
  if (best == NULL || !is_open || shape.n_ranks == 1)
    return g_steal_pointer(&best);
  shape.n_chunks = AUTO_CHUNKS;
  const gboolean is_small =
      order_run_check_size(shape.n_ranks, shape.n_chunks, shape.n_micro_batches, setting->n_steps, NULL);
  g_autoptr(Order) other = is_small ? auto_on(shape, setting, cap, &cost_ns, NULL) : NULL;
  return other != NULL && cost_ns < least_ns ? g_steal_pointer(&other) : g_steal_pointer(&best);
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
