/* GPU-hours of a published training run, from its tokens and its plan. */
#include "error.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>

#include "plan.h"
#include "predict.h"

/* DeepSeek-V3 on 2,048 H800 (arXiv 2412.19437): pp 16 under DualPipe, ep 64 over 8 nodes, ZeRO-1, fp8, sequences of
 * 4,096 tokens, 15,360 of them a step (sections 3.2, 4.2), a head that predicts a token further (section 2.2), and
 * norms, up projections of latent attention and SwiGLU's output made again (sections 3.2.3, 3.3.3). */
static Plan *deepseek_plan(void) {
  g_autoptr(GError) error = NULL;
  Framework framework;
  ck_assert_msg(framework_read("deepseek", &framework, &error), "%s", error != NULL ? error->message : "");
  Plan *plan = plan_new();
  plan->gpus = 2048;
  plan->pp = 16;
  plan->ep = 64;
  plan->zero = 1;
  plan->schedule = g_strdup("dualpipe");
  plan->precision = PRECISION_FP8;
  plan->global_batch = 15360;
  plan->seq_len = 4096;
  plan->mtp_layers = 1;
  plan->recompute = RECOMPUTE_SELECTIVE;
  plan->recompute_modules = MODULE_BIT(MODULE_LAYERNORM) | MODULE_BIT(MODULE_MLA_UP_PROJ) | MODULE_BIT(MODULE_MOE_ACT);
  plan_set_framework(plan, "deepseek", &framework);
  ck_assert(recipe_parse("deepseek-v3", &plan->recipe, NULL));
  return plan;
}

/* Table 1 of the report: 2,664,000 H800-hours for pre-training on 14.8e12 tokens (section 4.2). Its smaller first
 * batches are left out: they are 3 % of the tokens. */
TEST(deepseek_v3_costs_what_it_did) {
  g_autoptr(GError) error = NULL;
  g_autoptr(Model) model = model_read("deepseek-v3", &error);
  g_autoptr(Cluster) cluster = cluster_read("h800", &error);
  g_autoptr(Plan) plan = deepseek_plan();
  g_autoptr(Prediction) prediction = predict(model, cluster, plan, &error);
  ck_assert_msg(prediction != NULL, "%s", error != NULL ? error->message : "");
  const double hours = 14.8e12 / prediction->tokens_per_s_per_gpu / 3600;
  ck_assert_msg(fabs(hours / 2.664e6 - 1) < 0.15, "%.3g hours, published 2.664e6", hours);
}

/* It ran in 80 GB; with all that a layer saves it could not have. */
TEST(deepseek_v3_fits_as_it_did_and_only_with_what_it_makes_again) {
  g_autoptr(GError) error = NULL;
  g_autoptr(Model) model = model_read("deepseek-v3", &error);
  g_autoptr(Cluster) cluster = cluster_read("h800", &error);
  g_autoptr(Plan) plan = deepseek_plan();
  const double capacity = cluster->gpu.hbm_bytes - cluster->gpu.reserved_bytes;
  g_autoptr(Prediction) prediction = predict(model, cluster, plan, &error);
  ck_assert_double_lt(prediction->memory->peak_bytes, capacity);
  plan->recompute = RECOMPUTE_NONE;
  plan->recompute_modules = 0;
  g_autoptr(Prediction) whole = predict(model, cluster, plan, &error);
  ck_assert_double_gt(whole->memory->peak_bytes, capacity);
}

int main(void) {
  return run_tests();
}
