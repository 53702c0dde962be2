/* Schedule auto as it is run: sends that wait for each other, pairs that save time and what a plan's backward hides
 * count as for the schedules of the table, and no schedule of the table that fits is better. */
#include "error.h"
#include "memory_profile.h"
#include "order_run.h"
#include "plan_cases.h"
#include "run_suite.h"

enum { N_PROBLEMS = 60, N_PLANS = 60, MAX_GPUS = 64 };

typedef struct {
  OrderShape shape;
  OrderSetting setting;
  HeldShares held;
  double cap; /* 0: none */
} Problem;

static double draw_ns(GRand *random) {
  return 2 * g_rand_int_range(random, 1, 20);
}

/* Few micro-batches, on which loops beat the V of two chunks; sends of up to twice the longest pass; a pair from F + I
 * + W down to the longer of F and B. */
static void draw_problem(Problem *problem, GRand *random) {
  /* chunks are left open, one or two */
  const double f = draw_ns(random), i = draw_ns(random), w = draw_ns(random);
  const double longer = MAX(f, i + w), gain = g_rand_double(random) < 0.5 ? 0 : f + i + w - longer;
  const double send = g_rand_double(random) < 0.5 ? 0 : 2 * draw_ns(random);
  *problem = (Problem){
      .shape = {g_rand_int_range(random, 1, 9), g_rand_int_range(random, 0, 3), g_rand_int_range(random, 1, 13), 0},
      .setting = {.times = {f, i, w, send, f + i + w - gain}, .n_steps = 1, .barrier = g_rand_boolean(random)},
      .held = {1, 0.25, 0.75}};
  problem->setting.held = &problem->held;
  problem->cap = g_rand_boolean(random) ? problem->shape.n_ranks + g_rand_int_range(random, 0, 3) : 0;
}

/* Span, or makespan with a barrier; G_MAXINT64 when a rank holds more than the cap. */
static gint64 cost_ns(const Problem *problem, const Order *order) {
  g_autoptr(GError) error = NULL;
  g_autoptr(OrderRun) run = order_run_in(order, &problem->setting, NULL, NULL, &error);
  if (run == NULL)
    ck_abort_msg("%s", error->message);
  g_autoptr(MemoryProfile) memory = memory_profile_new(run->trace);
  if (problem->cap > 0 && memory->peak_bytes > problem->cap * (1 + 1e-9))
    return G_MAXINT64;
  return problem->setting.barrier ? trace_end(run->trace) : run->metrics->span_ns;
}

static gint64 best_of_table(const Problem *problem, const char **name) {
  gint64 least = G_MAXINT64;
  for (const char *const *candidate = schedule_names(); *candidate != NULL; candidate++) {
    const ScheduleFacts *info = schedule_find(*candidate, NULL);
    OrderShape shape = problem->shape;
    if (shape.n_chunks == 0)
      shape.n_chunks = schedule_default_chunks(info, shape.n_ranks);
    g_autoptr(Order) order = info->placement != PLACEMENT_BIDIRECTIONAL ? order_new(info, shape, NULL) : NULL;
    gint64 ns = order != NULL ? cost_ns(problem, order) : G_MAXINT64;
    if (ns < least)
      *name = *candidate;
    least = MIN(least, ns);
  }
  return least;
}

TEST(no_schedule_of_the_table_runs_better) {
  g_autoptr(GRand) random = g_rand_new_with_seed(5);
  int n_moved = 0;
  for (int k = 0; k < N_PROBLEMS; k++) {
    Problem problem;
    draw_problem(&problem, random);
    const OrderShape *shape = &problem.shape;
    g_autoptr(Placement) placement = schedule_auto_placement(shape->n_ranks, 2);
    g_autoptr(Order) order = order_run_auto(*shape, &problem.setting, problem.cap, NULL);
    const char *name = "none";
    const gint64 table = best_of_table(&problem, &name), found = order != NULL ? cost_ns(&problem, order) : G_MAXINT64;
    if (order == NULL || found == G_MAXINT64 || found > table)
      ck_abort_msg("problem %d, p=%d v=%d m=%d: auto %g, %s %g", k, shape->n_ranks, shape->n_chunks,
                   shape->n_micro_batches, (double)found, name, (double)table);
    n_moved += order->placement->n_stages == placement->n_stages &&
               order->placement->stage_rank[placement->n_stages - 1] != placement->stage_rank[placement->n_stages - 1];
  }
  ck_assert_int_gt(n_moved, 0); /* … from the V to a loop */
}

/* The same of a plan: what a whole backward hides and I apart does not counts too, and ranks that differ. Each schedule
 * of the table is run under its own name. */
static gint64 best_of_plan(const Case *drawn) {
  gint64 least = G_MAXINT64;
  g_autoptr(Plan) plan = plan_copy(drawn->plan);
  for (const char *const *name = schedule_names(); *name != NULL; name++) {
    plan_say(plan, "--schedule %s", *name);
    g_autoptr(Prediction) prediction = predict(&drawn->model, drawn->cluster, plan, NULL);
    if (prediction != NULL && prediction->fits &&
        (plan->memory_cap == 0 || prediction->memory->peak_bytes <= plan->memory_cap))
      least = MIN(least, prediction->metrics->step_ns);
  }
  return least;
}

/* Some leave open what a schedule decides: its chunks, whether a rank computes while it sends, whether a step waits for
 * the one before. */
static void draw_setting(Case *drawn, guint seed) {
  Plan *plan = drawn->plan;
  if (seed % 2 == 0) {
    plan->chunks = plan->steps = 0;
    plan->overlap_p2p = plan->grad_norm_barrier = -1;
  }
  if (seed % 7 == 0)
    plan_say(plan, "--slow-rank %d=1.5", plan->gpus - 1);
  if (seed % 11 == 0)
    plan->jitter = 0.05;
  g_autoptr(Prediction) given = predict_case(drawn);
  if (seed % 3 == 0) /* what an order holds that is made for one chunk */
    plan->memory_cap = given->memory->peak_bytes;
}

TEST(no_schedule_of_the_table_makes_a_plan_faster) {
  int n_named = 0, n_made = 0;
  for (guint seed = 0; n_named + n_made < N_PLANS; seed++) {
    g_auto(Case) drawn = random_case(seed, case_clusters(), MAX_GPUS);
    if (drawn.plan->pp == 1)
      continue;
    draw_setting(&drawn, seed);
    const gint64 least = best_of_plan(&drawn);
    plan_say(drawn.plan, "--schedule auto");
    g_autoptr(Prediction) prediction = predict(&drawn.model, drawn.cluster, drawn.plan, NULL);
    const gint64 step_ns = prediction != NULL ? prediction->metrics->step_ns : G_MAXINT64;
    const char *named = prediction != NULL ? prediction->workload->plan->schedule : "none";
    CASE_ASSERT(&drawn, step_ns <= least, "%s: %g ns, best of the table %g", named, (double)step_ns, (double)least);
    n_named += g_str_has_prefix(named, "auto: ");
    n_made += strcmp(named, "auto") == 0;
  }
  ck_assert_int_gt(n_named, 0);
  ck_assert_int_gt(n_made, 0);
}

/* Caps from what a schedule of the table holds down to a fifth of its activations. */
TEST(a_plan_holds_no_more_than_its_cap) {
  int n_kept = 0;
  for (guint seed = 0; n_kept < N_PLANS / 2; seed++) {
    g_auto(Case) drawn = random_case(seed, case_clusters(), MAX_GPUS);
    g_autoptr(Prediction) free_of_cap = drawn.plan->pp > 1 ? predict_case(&drawn) : NULL;
    if (free_of_cap == NULL)
      continue;
    const MemorySample *held = &free_of_cap->memory->at_peak;
    double cap = free_of_cap->memory->peak_bytes - held->bytes[MEMORY_ACTIVATIONS] * (seed % 5) / 5;
    plan_say(drawn.plan, "--schedule auto");
    drawn.plan->memory_cap = cap;
    g_autoptr(GError) error = NULL;
    g_autoptr(Prediction) prediction = predict(&drawn.model, drawn.cluster, drawn.plan, &error);
    if (prediction == NULL && !g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE))
      ck_abort_msg("seed %u: %s", seed, error->message);
    if (prediction == NULL)
      continue;
    n_kept++;
    ck_assert_double_eq(prediction->workload->plan->memory_cap, cap); /* what was asked for is what is reported */
    CASE_ASSERT(&drawn, prediction->memory->peak_bytes <= cap, "holds %.12g of %.12g bytes",
                prediction->memory->peak_bytes, cap);
  }
}

/* Llama-3-70B on 8 pipeline ranks, from the least memory that an order was found for. Orders hold whole micro-batches
 * of some GB, and what one is made for is not what it holds: under some caps (66 and 76 GB) one made for a little less
 * is the same one. */
TEST(more_memory_is_never_refused) {
  g_autoptr(Plan) plan =
      plan_said("--tp 4 --pp 8 --chunks 1 --zero 1 --global-batch 32 --seq-len 8192 --schedule auto");
  gint64 last_ns = G_MAXINT64;
  for (int gb = 56; gb <= 80; gb += 2) {
    g_autoptr(GError) error = NULL;
    plan->memory_cap = 1e9 * gb;
    g_autoptr(Prediction) prediction = predict(shipped_model("llama-3-70b"), shipped_cluster("dgx-h100"), plan, &error);
    if (prediction == NULL && last_ns == G_MAXINT64)
      continue; /* not yet enough */
    ck_assert_msg(prediction != NULL, "%d GB: %s", gb, error != NULL ? error->message : "");
    ck_assert_double_le(prediction->memory->peak_bytes, plan->memory_cap);
    ck_assert_double_le((double)prediction->metrics->step_ns, 1.001 * (double)last_ns); /* orders are made by rules */
    last_ns = prediction->metrics->step_ns;
  }
  ck_assert_int_lt(last_ns, G_MAXINT64);
}

int main(void) {
  return run_tests();
}
