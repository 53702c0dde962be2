/* Mistakes seen in other simulators that no test of a single part would find. */
#include "plan_cases.h"
#include "run_suite.h"

#include <math.h>

/* SimAI divides by the share that is hidden: none at all is no time, or no end of it (Layer.cc, 2025). */
TEST(nothing_hidden_exposes_all_and_no_more) {
  const Cluster *cluster = shipped_cluster("dgx-h100");
  const Model *model = shipped_model("llama-3-8b");
  g_autoptr(Plan) plan = plan_said("--gpus 64 --zero 1 --global-batch 128");
  g_autoptr(Prediction) hidden = predict_plan(model, cluster, plan);
  plan->overlap_grad = plan->overlap_param = FALSE;
  g_autoptr(Prediction) exposed = predict_plan(model, cluster, plan);
  const Metrics *with = hidden->metrics, *without = exposed->metrics;
  ck_assert(isfinite(exposed->step_time_s));
  /* what was hidden comes to light, a whole collective at a time: no more than all of it */
  const double appeared_s = exposed->step_time_s - hidden->step_time_s;
  ck_assert_double_gt(appeared_s, 0.3 * with->hidden_s[AXIS_DP]);
  ck_assert_double_le(appeared_s, 1.05 * with->hidden_s[AXIS_DP]);
  ck_assert_double_le(without->hidden_s[AXIS_DP], 1e-9);
}

/* A V has its last stage where its first is: embedding, head and final norm are one rank's (zero-bubble issue 36). */
TEST(a_v_holds_embedding_and_head_on_one_rank) {
  const Cluster *cluster = shipped_cluster("dgx-h100");
  const Model *model = shipped_model("llama-3-8b");
  static const char *const schedules[] = {"zb-v", "v-half", "v-min", "dualpipe-v"};
  for (gsize i = 0; i < G_N_ELEMENTS(schedules); i++) {
    g_autoptr(Plan) plan = plan_said("--pp 8 --schedule %s --global-batch 32", schedules[i]);
    g_autoptr(Prediction) prediction = predict_plan(model, cluster, plan);
    const OpList *ranks = prediction->program->ranks;
    /* 4 of 32 layers are each rank's; in bf16 two matrices of 128,256 × 4,096 and a norm of 4,096 besides */
    const double ends_bytes = 2 * (2 * 128256.0 * 4096 + 4096);
    ck_assert_double_eq(ranks[0].resident[MEMORY_WEIGHTS] - ranks[1].resident[MEMORY_WEIGHTS], ends_bytes);
    for (int rank = 2; rank < 8; rank++)
      ck_assert_double_eq(ranks[rank].resident[MEMORY_WEIGHTS], ranks[1].resident[MEMORY_WEIGHTS]);
  }
}

/* ASTRA-sim's step of a Llama 70B got shorter with slower GPUs at 256 ranks (seen with its analytical back end, 2026);
 * here every tenth slower never helps, at any size. */
TEST(slower_gpus_lengthen_steps_at_every_size) {
  for (int gpus = 8; gpus <= 1024; gpus *= 2) {
    double before_s = 0;
    for (int slower = 0; slower < 4; slower++) {
      g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
      cluster->gpu.under_load *= 1 - 0.1 * slower;
      g_autoptr(Plan) plan = plan_said("--gpus %d --tp 4 --pp 2 --zero 1 --global-batch %d", gpus, gpus);
      g_autoptr(Prediction) prediction = predict_plan(shipped_model("llama-3-8b"), cluster, plan);
      ck_assert_double_gt(prediction->step_time_s, before_s);
      before_s = prediction->step_time_s;
    }
  }
}

int main(void) {
  return run_tests();
}
