/* lower() does not verify what it makes of generated orders; here it is proved over random plans of every schedule and
 * framework, and ones that differ from these in one thing that ops may depend on.
 *
 * `test_generated_programs N` draws N batches of plans instead of the suite's few. */
#include "passes.h"
#include "plan_cases.h"
#include "run_suite.h"
#include "verify.h"

#include <stdlib.h>

enum { BATCHES = 12, PLANS_PER_BATCH = 25, LIKENESSES = 4, MAX_GPUS = 4096 };

/* Counts what a schedule of the table is lowered to. A plan that cannot be has none. */
static void assert_proved(const Case *drawn, int *n_proved) {
  g_autoptr(Workload) workload = workload_complete(&drawn->model, drawn->cluster, drawn->plan, NULL);
  g_autoptr(Order) order = workload != NULL ? method_order(workload->method, NULL) : NULL;
  if (order == NULL)
    return;
  ck_assert(order->is_generated);
  g_autoptr(GError) error = NULL;
  const Lowering lowering = {.order = order, .workload = workload, .n_steps = workload->method->steps};
  g_autoptr(Program) program = lower(&lowering, NULL, NULL, &error);
  g_autoptr(Program) expanded = program != NULL ? program_expand(program, workload) : NULL;
  CASE_ASSERT(drawn, program != NULL && program_verify(program, &error) && program_verify(expanded, &error), "%s",
              error->message);
  (*n_proved)++;
}

static void set_framework(GRand *rand, Plan *plan) {
  run_under(plan, draw_framework(rand));
  if (coin(rand))
    plan->overlap_p2p = -1; /* as the framework and the schedule have it */
}

/* Sequences cut over some of the ranks of dp, or over more. */
static void draw_context(GRand *rand, Case *drawn) {
  Plan *plan = plan_copy(drawn->plan);
  plan->cp = PICK(rand, 2, 2, 4);
  plan->cp_comm = (CpComm)g_rand_int_range(rand, 0, N_CP_COMMS);
  plan->dp = PICK(rand, plan->dp, 1, 2);
  plan->gpus = 0;
  plan->zero_ranks = PICK(rand, 0, 0, 4);
  plan->global_batch = plan->micro_batch * plan->dp * PICK(rand, 1, 2, 5);
  take_if_possible(drawn, plan);
}

/* Other sizes, often of the same structure. */
static void change_sizes(GRand *rand, Case *drawn) {
  Plan *plan = drawn->plan;
  plan->seq_len = PICK(rand, 64, 256, 1024, 2048);
  draw_recompute(rand, plan);
  plan->attention = (Attention)g_rand_int_range(rand, 0, N_ATTENTIONS);
  recipe_parse(recipe_names()[g_rand_int_range(rand, 0, 3)], &plan->recipe, NULL);
  plan->gpus = 0;
  plan->tp = PICK(rand, plan->tp, plan->tp, 1, 2, 4);
  drawn->model.tied ^= g_rand_int_range(rand, 0, 4) == 0;
  drawn->model.ffn_hidden *= PICK(rand, 1, 1, 2);
}

/* One thing that ops may depend on. */
static void change_structure(GRand *rand, Case *drawn) {
  static const char *const changes[] = {
      "--zero 0 --zero-ranks 0",
      "--zero 1 --zero-ranks 0",
      "--zero 2 --zero-ranks 0",
      "--zero 3 --zero-ranks 0",
      "--cp 1 --zero-ranks 0",
      "--cp 2 --zero-ranks 0",
      "--cp 4 --zero-ranks 0",
      "--micro-batch-group 1",
      "--micro-batch-group 5",
      "--overlap-p2p on",
      "--overlap-p2p off",
      "--overlap-grad on",
      "--overlap-grad off",
      "--overlap-param on",
      "--overlap-param off",
      "--grad-norm-barrier on",
      "--grad-norm-barrier off",
      "--sequence-parallel on",
      "--sequence-parallel off",
      "--prefetch 0",
      "--prefetch 1",
      "--prefetch 2",
      "--prefetch 3",
      "--bucket 1",
      "--bucket 10000000",
      "--bucket 30000000",
      "--steps 1",
      "--steps 2",
      "--steps 3",
  };
  enum { N_CHANGES = G_N_ELEMENTS(changes) };
  Plan *plan = drawn->plan;
  const int i = g_rand_int_range(rand, 0, N_CHANGES + 4);
  plan->gpus = 0;
  if (i < N_CHANGES)
    plan_say(plan, "%s", changes[i]);
  else if (i < N_CHANGES + 2)
    set_framework(rand, plan);
  else
    plan->global_batch += plan->micro_batch * plan->dp;
}

/* State and activations in the host's memory, or on drives. */
static void draw_offload(GRand *rand, Case *drawn) {
  Plan *plan = plan_copy(drawn->plan);
  plan->offload.optimizer = (MemoryTier)g_rand_int_range(rand, 0, N_TIERS);
  plan->offload.weights = (MemoryTier)g_rand_int_range(rand, 0, N_TIERS);
  plan->offload.share =
      plan->offload.optimizer == TIER_HOST && g_rand_boolean(rand) ? g_rand_double_range(rand, 0.01, 1) : 0;
  plan->offload.activations = (MemoryTier)g_rand_int_range(rand, 0, N_TIERS);
  take_if_possible(drawn, plan);
}

START_TEST(programs_of_random_plans_are_proved) {
  int n_proved = 0;
  for (guint seed = 0; seed < PLANS_PER_BATCH; seed++) {
    guint number = (guint)_i * PLANS_PER_BATCH + seed;
    g_autoptr(GRand) rand = g_rand_new_with_seed(number);
    g_auto(Case) drawn = random_case(number, case_clusters(), MAX_GPUS);
    draw_schedule(rand, &drawn);
    if (coin(rand)) {
      Plan *plan = plan_copy(drawn.plan);
      set_framework(rand, plan);
      take_if_possible(&drawn, plan);
    }
    if (seed % 3 == 0)
      draw_context(rand, &drawn);
    if (seed % 4 == 0)
      add_experts(&drawn);
    if (seed % 5 == 0)
      draw_offload(rand, &drawn);
    assert_proved(&drawn, &n_proved);
    for (int i = 0; i < LIKENESSES; i++) {
      change_sizes(rand, &drawn);
      assert_proved(&drawn, &n_proved);
      change_structure(rand, &drawn);
      assert_proved(&drawn, &n_proved);
    }
  }
  ck_assert_int_gt(n_proved, PLANS_PER_BATCH * LIKENESSES);
}

int main(int argc, char **argv) {
  tcase_add_loop_test(listed_tests(), programs_of_random_plans_are_proved, 0, argc > 1 ? atoi(argv[1]) : BATCHES);
  return run_tests();
}
