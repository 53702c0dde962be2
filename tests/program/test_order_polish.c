/* Orders shortened by single moves: what is gained, what must not change. */
#include "error.h"
#include "order_polish.h"
#include "run_suite.h"
#include "schedules.h"
#include <check.h>

enum { MOST_STAGES = 32, N_PROBLEMS = 400 };
static const gint64 ENOUGH_STEPS = 200000;

static Order *order_of(const FlatProblem *flat, const FlatOrder *from, const Placement *placement) {
  Order *order = order_new_empty(placement_copy(placement), flat->n_micro_batches);
  for (int rank = 0; rank < flat->n_ranks; rank++)
    for (gsize at = flat_first(flat, rank); at < flat_first(flat, rank + 1); at++)
      order_add(order, rank, from->actions[at].kind, from->actions[at].stage, from->actions[at].micro_batch);
  return order;
}

/* Two ranks, two micro-batches, F = I = W = 1, sends free. Each W right after its I:
 *
 *     rank 0  F F . I W . I W      8
 *     rank 1    F I W F I W
 *
 * The second I on rank 1 waits for the first W. With that W put off, rank 0 has its second I one sooner, and 7 is the
 * bound: 1 for the ramp, 4 for rank 1's F and I, 1 for the ramp back, 1 for the last W:
 *
 *     rank 0  F F . I W I W        7
 *     rank 1    F I F I W W                                                                                         */
TEST(a_w_in_the_way_is_put_off) {
  const StageCost stages[] = {{1, 1, 1, 1, 0, 1}, {1, 1, 1, 1, 0, 1}};
  static const Action actions[] = {{0, 0, ACTION_F}, {0, 1, ACTION_F}, {0, 0, ACTION_I}, {0, 0, ACTION_W},
                                   {0, 1, ACTION_I}, {0, 1, ACTION_W}, {1, 0, ACTION_F}, {1, 0, ACTION_I},
                                   {1, 0, ACTION_W}, {1, 1, ACTION_F}, {1, 1, ACTION_I}, {1, 1, ACTION_W}};
  g_autoptr(Placement) placement = placement_new(PLACEMENT_LOOP, 2, 1);
  const OrderProblem problem = {.placement = placement, .n_micro_batches = 2, .stages = stages};
  g_auto(FlatProblem) flat;
  flat_problem_init(&flat, &problem);
  g_auto(FlatOrder) order;
  flat_order_init(&order, &flat);
  memcpy(order.actions, actions, sizeof actions);
  g_auto(FlatTimer) timer;
  flat_timer_init(&timer, &flat);
  ck_assert(flat_order_time(&flat, &timer, &order));
  ck_assert_int_eq(order.span_ns, 8);
  ck_assert_int_eq(order_lower_bound(&problem), 7);
  g_autoptr(OrderPolish) polish = order_polish_new(&flat);
  gint64 n_steps = 0;
  ck_assert(order_polish_run(polish, &timer, 7, ENOUGH_STEPS, &order, &n_steps));
  ck_assert_int_eq(order.span_ns, 7);
  ck_assert_int_eq(order.actions[8].kind, ACTION_F); /* rank 1's third */
}

/* A problem drawn from a seed; its arrays live in the struct. */
typedef struct {
  OrderProblem problem;
  Placement *placement;
  StageCost stages[MOST_STAGES];
  double caps[MOST_STAGES];
} Drawn;

static void draw(Drawn *drawn, const ScheduleFacts *schedule, GRand *random) {
  int n_ranks = g_rand_int_range(random, 1, 9);
  drawn->placement = placement_new(schedule->placement, n_ranks, schedule->least_chunks);
  for (int stage = 0; stage < drawn->placement->n_stages; stage++) {
    double held = g_rand_int_range(random, 1, 9), dropped = g_rand_int_range(random, -2, (int)held + 1);
    drawn->stages[stage] = (StageCost){g_rand_int_range(random, 0, 30),
                                       g_rand_int_range(random, 0, 30),
                                       g_rand_int_range(random, 0, 30),
                                       held,
                                       dropped,
                                       held - dropped};
  }
  drawn->problem = (OrderProblem){.placement = drawn->placement,
                                  .n_micro_batches = g_rand_int_range(random, 1, 14),
                                  .stages = drawn->stages,
                                  .send_ns = g_rand_boolean(random) ? 0 : g_rand_int_range(random, 0, 10),
                                  .by_makespan = g_rand_boolean(random)};
}

/* The cap is what the order itself holds on each rank, so there is nothing to spare. */
static void cap_at_own_peaks(Drawn *drawn, const Order *order) {
  g_auto(OrderCost) cost = {0};
  ck_assert(order_evaluate(order, &drawn->problem, &cost, NULL));
  for (int rank = 0; rank < drawn->placement->n_ranks; rank++)
    drawn->caps[rank] = cost.peak[rank];
  drawn->problem.cap = drawn->caps;
}

/* What is wrong with the polished order of a problem; NULL: nothing. Adds 1 to *n_shorter if it is shorter. */
static const char *polish_one(const Drawn *drawn, const Order *from, int *n_shorter) {
  const OrderProblem *problem = &drawn->problem;
  g_auto(FlatProblem) flat;
  flat_problem_init(&flat, problem);
  g_auto(FlatOrder) order;
  flat_order_init(&order, &flat);
  flat_order_of(&flat, from, &order);
  g_auto(FlatTimer) timer;
  flat_timer_init(&timer, &flat);
  if (!flat_order_time(&flat, &timer, &order) || order.excess > 0)
    return "does not fit to begin with";
  gint64 before = flat_objective(&flat, &order), n_steps = 0, bound_ns = order_lower_bound(problem);
  g_autoptr(OrderPolish) polish = order_polish_new(&flat);
  gboolean has_changed = order_polish_run(polish, &timer, bound_ns, ENOUGH_STEPS, &order, &n_steps);
  gint64 after = flat_objective(&flat, &order);
  g_autoptr(Order) polished = order_of(&flat, &order, drawn->placement);
  g_auto(OrderCost) cost = {0};
  if (!order_evaluate(polished, problem, &cost, NULL))
    return "cannot run";
  if (cost.span_ns != order.span_ns || cost.makespan_ns != order.makespan_ns)
    return "is not as long as it says";
  if (after > before || after < bound_ns || (after < before && !has_changed))
    return "is longer than it was, or shorter than any can be, or changed unsaid";
  for (int rank = 0; problem->cap != NULL && rank < flat.n_ranks; rank++)
    if (cost.peak[rank] > problem->cap[rank] * (1 + 1e-9))
      return "holds more than the cap";
  *n_shorter += after < before;
  return NULL;
}

LOOP_TEST(no_order_gets_longer_invalid_or_holds_more_than_the_cap, 3) {
  g_autoptr(GRand) random = g_rand_new_with_seed((guint32)_i + 1);
  const char *const *names = schedule_names();
  int n_tried = 0, n_shorter = 0;
  for (int i = 0; i < N_PROBLEMS; i++) {
    const ScheduleFacts *schedule =
        schedule_find(names[g_rand_int_range(random, 0, (gint32)g_strv_length((char **)names))], NULL);
    if (schedule->placement == PLACEMENT_BIDIRECTIONAL)
      continue;
    Drawn drawn;
    draw(&drawn, schedule, random);
    g_autoptr(Placement) placement = drawn.placement;
    OrderShape shape = {placement->n_ranks, schedule->least_chunks, drawn.problem.n_micro_batches, 0};
    g_autoptr(Order) order = order_new(schedule, shape, NULL);
    if (order == NULL)
      continue;
    if (g_rand_boolean(random))
      cap_at_own_peaks(&drawn, order);
    const char *wrong = polish_one(&drawn, order, &n_shorter);
    if (wrong != NULL)
      ck_abort_msg("problem %d, %s: the polished order %s", i, schedule->name, wrong);
    n_tried++;
  }
  ck_assert_int_gt(n_tried, N_PROBLEMS / 2);
  ck_assert_int_gt(n_shorter, n_tried / 4);
}

int main(void) {
  return run_tests();
}
