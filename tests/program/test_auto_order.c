/* Orders made for given costs: they run, stay within the given memory, and lose to no schedule of the table. */
#include "auto_order.h"
#include "error.h"
#include "order_csv.h"
#include "order_run.h"
#include "peer_scheduler.h"
#include "run_suite.h"
#include <check.h>

enum { N_PROBLEMS = 150, MOST_STAGES = 32 };

/* A problem drawn from a seed; its arrays live in the struct. */
typedef struct {
  OrderProblem problem;
  Placement *placement;
  StageCost stages[MOST_STAGES];
  double caps[MOST_STAGES];
} Drawn;

static void draw(Drawn *drawn, GRand *random) {
  gboolean is_v = g_rand_boolean(random);
  int n_ranks = g_rand_int_range(random, 1, 7), n_chunks = is_v ? 2 : g_rand_int_range(random, 1, 4);
  drawn->placement = placement_new(is_v ? PLACEMENT_V : PLACEMENT_LOOP, n_ranks, n_chunks);
  gboolean is_uniform = g_rand_boolean(random);
  for (int stage = 0; stage < drawn->placement->n_stages; stage++) {
    if (stage > 0 && is_uniform) {
      drawn->stages[stage] = drawn->stages[0];
      continue;
    }
    double held = g_rand_int_range(random, 1, 9), dropped = g_rand_int_range(random, -2, (int)held + 1);
    drawn->stages[stage] = (StageCost){g_rand_int_range(random, 0, 1000),
                                       g_rand_int_range(random, 0, 1000),
                                       g_rand_int_range(random, 0, 1000),
                                       held,
                                       dropped,
                                       held - dropped};
  }
  double cap = g_rand_double_range(random, 20, 400);
  for (int rank = 0; rank < n_ranks; rank++)
    drawn->caps[rank] = cap;
  drawn->problem = (OrderProblem){.placement = drawn->placement,
                                  .n_micro_batches = g_rand_int_range(random, 1, 20),
                                  .stages = drawn->stages,
                                  .send_ns = g_rand_boolean(random) ? 0 : g_rand_int_range(random, 0, 300),
                                  .cap = g_rand_boolean(random) ? drawn->caps : NULL,
                                  .by_makespan = g_rand_boolean(random)};
}

static gint64 objective(const OrderProblem *problem, const OrderCost *cost) {
  return problem->by_makespan ? cost->makespan_ns : cost->span_ns;
}

static gboolean fits(const OrderProblem *problem, const OrderCost *cost) {
  for (int rank = 0; problem->cap != NULL && rank < problem->placement->n_ranks; rank++)
    if (cost->peak[rank] > problem->cap[rank] * (1 + 1e-9))
      return FALSE;
  return TRUE;
}

static gboolean same_placement(const Placement *a, const Placement *b) {
  return a->n_stages == b->n_stages && a->n_pipes == b->n_pipes &&
         memcmp(a->stage_rank, b->stage_rank, sizeof(int) * (gsize)a->n_stages) == 0;
}

/* The best of the table's schedules that fit; G_MAXINT64 when none does. */
static gint64 best_of_table(const OrderProblem *problem, const char **name) {
  gint64 best = G_MAXINT64;
  int n_ranks = problem->placement->n_ranks, n_chunks = problem->placement->n_stages / n_ranks;
  for (const char *const *at = schedule_names(); *at != NULL; at++) {
    g_autoptr(Order) order =
        order_new(schedule_find(*at, NULL), (OrderShape){n_ranks, n_chunks, problem->n_micro_batches, 0}, NULL);
    g_auto(OrderCost) cost = {0};
    if (order == NULL || !same_placement(order->placement, problem->placement))
      continue;
    if (!order_evaluate(order, problem, &cost, NULL))
      ck_abort_msg("%s cannot be evaluated", *at);
    if (fits(problem, &cost) && objective(problem, &cost) < best) {
      best = objective(problem, &cost);
      *name = *at;
    }
  }
  return best;
}

LOOP_TEST(no_schedule_of_the_table_that_fits_is_better, 2) {
  g_autoptr(GRand) random = g_rand_new_with_seed((guint32)_i + 1);
  int n_found = 0;
  for (int i = 0; i < N_PROBLEMS; i++) {
    Drawn drawn;
    draw(&drawn, random);
    g_autoptr(Placement) placement = drawn.placement;
    ck_assert_ptr_nonnull(placement);
    g_autoptr(GError) error = NULL;
    g_auto(OrderCost) told = {0}, cost = {0};
    g_autoptr(Order) order = auto_order_new(&drawn.problem, &told, &error);
    const char *name = "";
    gint64 table = best_of_table(&drawn.problem, &name);
    if (order == NULL) {
      if (table < G_MAXINT64 || !g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE))
        ck_abort_msg("problem %d: refused (%s), but %s fits", i, error->message, name);
      continue;
    }
    n_found++;
    if (!order_evaluate(order, &drawn.problem, &cost, &error))
      ck_abort_msg("problem %d: %s", i, error->message);
    gint64 found = objective(&drawn.problem, &cost);
    if (!fits(&drawn.problem, &cost) || found > table || found < order_lower_bound(&drawn.problem) ||
        told.span_ns != cost.span_ns || told.makespan_ns != cost.makespan_ns)
      ck_abort_msg("problem %d: found %d, %s takes %d, bound %d, fits %d", i, (int)found, name, (int)table,
                   (int)order_lower_bound(&drawn.problem), fits(&drawn.problem, &cost));
  }
  ck_assert_int_gt(n_found, N_PROBLEMS / 2);
}

/* With free sends the engine runs an order exactly as order_evaluate() counts it; the Program has been verified. */
TEST(orders_run_as_they_were_evaluated) {
  g_autoptr(GRand) random = g_rand_new_with_seed(7);
  for (int i = 0; i < 40; i++) {
    int p = g_rand_int_range(random, 1, 7), v = g_rand_int_range(random, 1, 3), m = g_rand_int_range(random, 1, 25);
    StageTimes times = {v * g_rand_int_range(random, 1, 900), v * g_rand_int_range(random, 1, 900),
                        v * g_rand_int_range(random, 1, 900)};
    HeldShares held = {1, 0.25, 0.75};
    OrderSetting setting = {times, 1, FALSE, &held};
    g_autoptr(Placement) placement = placement_new(v == 2 ? PLACEMENT_V : PLACEMENT_LOOP, p, v);
    g_autoptr(GError) error = NULL;
    g_autoptr(Order) order = order_run_auto((OrderShape){p, v, m, 0}, &setting, p + 1, &error);
    ck_assert_msg(order != NULL, "%s", error != NULL ? error->message : "");
    g_autoptr(OrderRun) run = order_run_in(order, &setting, NULL, NULL, &error);
    ck_assert_msg(run != NULL, "%s", error != NULL ? error->message : "");
    StageCost stages[MOST_STAGES];
    for (int stage = 0; stage < p * v; stage++)
      stages[stage] = (StageCost){(gint64)(times.f_ns / v), (gint64)(times.i_ns / v), (gint64)(times.w_ns / v),
                                  held.f_holds / v,         held.i_drops / v,         held.w_drops / v};
    OrderProblem problem = {.placement = placement, .n_micro_batches = m, .stages = stages};
    g_auto(OrderCost) cost = {0};
    ck_assert(order_evaluate(order, &problem, &cost, NULL));
    ck_assert_int_eq(run->metrics->span_ns, cost.span_ns);
    ck_assert_int_eq(trace_end(run->trace), cost.makespan_ns);
  }
}

TEST(the_same_problem_has_the_same_order) {
  g_autoptr(GRand) random = g_rand_new_with_seed(11);
  for (int i = 0; i < 10; i++) {
    Drawn drawn;
    draw(&drawn, random);
    drawn.problem.cap = NULL;
    g_autoptr(Placement) placement = drawn.placement;
    ck_assert_ptr_nonnull(placement);
    g_autoptr(Order) once = auto_order_new(&drawn.problem, NULL, NULL),
                     again = auto_order_new(&drawn.problem, NULL, NULL);
    g_autofree char *a = order_to_csv(once), *b = order_to_csv(again);
    ck_assert_str_eq(a, b);
  }
}

TEST(memory_for_no_micro_batch_is_refused_with_the_rank) {
  const StageCost stages[] = {{1, 1, 1, 4, 1, 3}, {1, 1, 1, 6, 1, 5}};
  const double caps[] = {5, 5};
  g_autoptr(Placement) placement = placement_new(PLACEMENT_LOOP, 2, 1);
  OrderProblem problem = {.placement = placement, .n_micro_batches = 3, .stages = stages, .cap = caps};
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(auto_order_new(&problem, NULL, &error));
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE));
  ck_assert_ptr_nonnull(strstr(error->message, "rank 1"));
}

/* On each row of times that the zero-bubble authors profiled, under each of their schedules' memory (peer_scheduler.h
 * has both, and the rates that their own scheduler, v0.1.0, reaches: 1 − work / span to 4 digits, whence the 5e-5). */
LOOP_TEST(the_zero_bubble_scheduler_is_not_better_on_its_own_profiles, G_N_ELEMENTS(peer_rows)) {
  const PeerRow *row = &peer_rows[_i];
  for (int schedule = 0; schedule < N_PEER_SCHEDULES; schedule++) {
    PeerProblem peer = peer_problem(row, schedule);
    g_auto(OrderCost) cost = {0};
    g_autoptr(Order) order = auto_order_new(&peer.problem, &cost, NULL);
    ck_assert_ptr_nonnull(order);
    double rate = 1 - (double)peer.work_ns / (double)cost.span_ns;
    if (rate > row->rates[schedule] + 5e-5 || !fits(&peer.problem, &cost))
      ck_abort_msg("%d ranks, %d micro-batches, %s: idle %.4f of the span, theirs %.4f; fits %d", row->p, row->m,
                   peer_schedule_names[schedule], rate, row->rates[schedule], fits(&peer.problem, &cost));
    peer_problem_clear(&peer);
  }
}

/* 8 ranks, 32 micro-batches, F, I, W of 10, 11, 8 ms, on the last rank 5/4 of it; sends of 0.3 ms; room for 16. The
 * last rank works 32 · 5/4 · 29 = 1160 ms. Rank 0 needs no more only if the last rank puts its W off: it waits
 *
 *     the ramp      7 · (10 + 0.3)            =   72.1 ms
 *     F and I       32 · 5/4 · (10 + 11)      =  840 ms on the last rank
 *     the ramp back 7 · (11 + 0.3)            =   79.1 ms
 *     a W           8                         =    8 ms
 *
 * in all 999.2 ms. That leaves 160.8 ms for W of the last rank before its last I, 16 of 10 ms: the other 16 come after
 * it, and the step takes the 1160 ms that none can beat. */
TEST(a_heavy_last_rank_puts_its_w_off) {
  enum { P = 8, M = 32 };
  StageCost stages[P];
  double caps[P];
  for (int stage = 0; stage < P; stage++) {
    stages[stage] = (StageCost){10000000, 11000000, 8000000, 1, 0.4, 0.6};
    caps[stage] = 2 * P;
  }
  stages[P - 1] = (StageCost){12500000, 13750000, 10000000, 1, 0.4, 0.6};
  g_autoptr(Placement) placement = placement_new(PLACEMENT_LOOP, P, 1);
  const OrderProblem problem = {placement, M, stages, 300000, caps, FALSE};
  g_auto(OrderCost) cost = {0};
  g_autoptr(Order) order = auto_order_new(&problem, &cost, NULL);
  ck_assert_int_eq(cost.span_ns, 1160000000);
  const GArray *last = order->actions[P - 1];
  int n_behind = 0; /* W after the last I */
  while (g_array_index(last, Action, last->len - 1 - (guint)n_behind).kind == ACTION_W)
    n_behind++;
  ck_assert_int_ge(n_behind, M - 160800000 / 10000000);
}

int main(void) {
  return run_tests();
}
