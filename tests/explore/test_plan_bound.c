/* The lower bound of a plan's step time against its simulation, with expert parallelism; dense models are in
 * test_planner.c. */
#include "expert_cases.h"
#include "framework.h"
#include "plan.h"
#include "plan_bound.h"
#include "run_suite.h"

static const char *const schedules[] = {"1f1b", "gpipe", "interleaved", "zb-h1", "dualpipe-v"};

/* 16 experts over 4 ranks, of whatever the rest of the plan is; its number of GPUs follows. */
static Plan *plan_with_experts(int i) {
  Plan *plan = plan_new();
  const char *schedule = schedules[i % 5];
  plan->tp = 1 + i / 5 % 2;
  plan->dp = 4;
  plan->pp = 2;
  plan->ep = 4;
  plan->expert_tp = i / 10 % 2;
  plan->sequence_parallel = plan->tp > 1;
  plan->recompute = i / 20 % 2 == 0 ? RECOMPUTE_NONE : RECOMPUTE_FULL;
  plan->zero = i / 40 % 2 == 0 ? 1 : 3;
  plan->schedule = g_strdup(schedule);
  plan->chunks = strcmp(schedule, "interleaved") == 0 ? 2 : 0;
  plan->global_batch = 32;
  plan->seq_len = 1024;
  plan->gpus = plan->tp * plan->pp * plan->dp;
  return plan;
}
enum { N_PLANS = 80 };

/* Above no step, and where no pass may hide its exchanges behind another, with them: the rank that works most has them
 * in its bound. */
TEST(the_bound_of_a_plan_with_experts_is_above_no_step) {
  const Model models[] = {mixture(), latent_mixture()};
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  for (int i = 0; i < 4 * N_PLANS; i++) {
    Case drawn = {.model = models[i / N_PLANS % 2], .cluster = cluster, .plan = plan_with_experts(i % N_PLANS)};
    if (i >= 2 * N_PLANS)
      run_under(drawn.plan,
                "megatron-bridge"); /* in interleaved a forward and a backward hide each other's exchanges */
    g_autoptr(Prediction) prediction = predict_case(&drawn);
    const gint64 bound_ns = plan_bound_step_ns(prediction->workload, cluster, FALSE, NULL);
    g_autofree char *text = case_text(&drawn);
    if (bound_ns <= 0 || bound_ns > prediction->metrics->step_ns)
      ck_abort_msg("%s\nbound %g s, step %g s", text, 1e-9 * (double)bound_ns, prediction->step_time_s);
    case_clear(&drawn);
  }
}

/* One rank of a pipeline: kernels and exchanges of 16 micro-batches, to a hundredth (the gaps between them). */
TEST(exchanges_that_nothing_hides_are_in_the_bound) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  Case drawn = {.model = mixture(), .cluster = cluster, .plan = plan_with_experts(0)};
  drawn.plan->pp = 1;
  drawn.plan->gpus = 4;
  drawn.plan->global_batch = 64;
  g_autoptr(Prediction) prediction = predict_case(&drawn);
  const double *mean_s = prediction->metrics->mean_s;
  const double bound_s = 1e-9 * (double)plan_bound_step_ns(prediction->workload, cluster, FALSE, NULL);
  ck_assert_double_gt(mean_s[BREAKDOWN_EP], 0.05 * prediction->step_time_s);
  ck_assert_double_ge(bound_s, 0.99 * (mean_s[BREAKDOWN_COMPUTE] + mean_s[BREAKDOWN_EP]));
  case_clear(&drawn);
}

int main(void) {
  return run_tests();
}
