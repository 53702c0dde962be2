/* Random steps of many micro-batches, which may be predicted from fewer. */
#pragma once
#include "plan_cases.h"

/* Now and then, adds cp or ep ranks. */
static inline void add_ranks(Case *drawn, GRand *rand) {
  const int more = g_rand_int_range(rand, 0, 8);
  if (more < 2)
    add_cp(drawn);
  else if (more < 4)
    add_experts(drawn);
}

/* A long step that alternates one forward and one backward; now and then in groups of unequal sizes, or one of several
 * steps. */
static inline Case long_case(guint seed) {
  enum { MAX_GPUS = 256 };
  g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
  Case drawn = random_case(seed, case_clusters(), MAX_GPUS);
  Plan *plan = drawn.plan;
  plan_say(plan, "--schedule %s", plan->chunks > 1 ? "interleaved" : "1f1b");
  const int rounds = PICK(rand, 6, 8, 11), over = g_rand_int_range(rand, 0, 5) == 0;
  plan->global_batch = (gint64)plan->micro_batch * plan->dp * (plan->pp * rounds + over);
  plan->n_micro_batches = 0;
  if (coin(rand))
    run_under(plan, draw_framework(rand));
  if (g_rand_int_range(rand, 0, 5) == 0)
    plan->steps = PICK(rand, 2, 3);
  if (plan->steps > 1)
    plan->grad_norm_barrier = coin(rand);
  add_ranks(&drawn, rand);
  return drawn;
}
