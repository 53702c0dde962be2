/* Time that a framework adds: the keys of its file, and their effect on kernels, passes and the host. */
#include "error.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <string.h>

#include "collective_cost.h"
#include "framework_cost.h"
#include "kernel_cost.h"
#include "plan.h"
#include "plan_cases.h"
#include "predict.h"
#include "quirks.h"

static gboolean parse(const char *text, FrameworkTime *time, GError **error) {
  g_autoptr(YamlFile) file = yaml_file_parse("f.yaml", text, strlen(text), error);
  ck_assert_ptr_nonnull(file);
  Framework framework = {0};
  const gboolean ok = quirks_read(yaml_file_root(file), "time", &framework, error);
  *time = framework.time;
  return ok;
}

TEST(bad_files_are_refused) {
  static const struct {
    const char *text, *expected;
  } cases[] = {
      {"sneds: synchronous\n", "sends"},
      {"sends: sometimes\n", "synchronous"},
      {"arrival_spread: 5\n", "unit"},
      {"host: {collective: 1 us}\n", "layer"},
      {"expert_host: {forward: 1 us, backward: 1 us}\n", "launch"},
      {"expert_host: {forward: 1 us, backward: 1 us, launch: 0 us}\n", "launch"},
      {"expert_counts: hots\n", "host"},
      {"expert_operations: singel\n", "single"},
      {"scaled_rotation: singel\n", "single"},
      {"rates:\n  hoper: {products: 0.9}\n", "hopper"},
      {"rates:\n  hopper: {products: 1.9}\n", "products"},
      {"tensor_parallel_hidden: 0.5\n", "fused"},
      {"norm_rate: 0.5\n", "plain"},
      {"gradient_add_bytes: 18\n", "apart"},
      {"tensor_parallel_exchanges: each\n", "\"qkv_linears: apart\" or \"gate_linears: apart\""},
      {"strided_rate: 1.5\n", "strided_rate"},
      {"attention_copies: {forward: 17}\n", "backward"},
      {"data_parallel: never\n", "alone"},
      {"context: ring\n", "passed"},
      {"context_exchanges: alone\n", "blocks"},
      {"zero3_tensors: {list_entry: 8 us}\n", "memory_passes"},
      {"zero3_tensors: {list_entry: 8, memory_passes: 3, live_parameters: 1e6}\n", "unit"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    FrameworkTime time;
    g_autoptr(GError) error = NULL;
    ck_assert_msg(!parse(cases[i].text, &time, &error), "%s was taken", cases[i].text);
    ck_assert_msg(strstr(error->message, cases[i].expected) != NULL, "%s", error->message);
    ck_assert_msg(strstr(error->message, "f.yaml:") != NULL, "%s", error->message);
  }
}

TEST(every_shipped_framework_is_read) {
  g_auto(GStrv) names = framework_names();
  ck_assert_uint_ge(g_strv_length(names), 6);
  for (char **name = names; *name != NULL; name++) {
    Framework framework;
    g_autoptr(GError) error = NULL;
    ck_assert_msg(framework_read(*name, &framework, &error), "%s", error != NULL ? error->message : "");
  }
}

/* Expected largest of n standard normal numbers: 0.5642, 1.4236, 2.5076 for n = 2, 8, 100 (Harter 1961, tables); Blom's
 * formula is within 5 %. */
TEST(the_last_rank_is_as_late_as_order_statistics_say) {
  const FrameworkTime time = {.arrival_spread_s = 1};
  ck_assert_double_eq(framework_collective_s(&time, 0, 1), 0);
  ck_assert_double_eq_tol(framework_collective_s(&time, 0, 2), 0.5642, 0.03);
  ck_assert_double_eq_tol(framework_collective_s(&time, 0, 8), 1.4236, 0.03);
  ck_assert_double_eq_tol(framework_collective_s(&time, 0, 100), 2.5076, 0.03);
}

TEST(a_fused_collective_shows_what_is_not_hidden) {
  const FrameworkTime fused = {.tensor_parallel.reduction = TP_FUSED, .tensor_parallel.hidden = 0.75};
  const FrameworkTime alone = {.tensor_parallel.reduction = TP_ALONE};
  ck_assert_double_eq_tol(framework_collective_s(&fused, 8e-3, 4), 2e-3, 1e-15);
  ck_assert_double_eq_tol(framework_collective_s(&alone, 8e-3, 4), 8e-3, 1e-15);
}

TEST(rates_are_of_the_gpu_generation) {
  FrameworkTime time = {0};
  time.rates[ARCHITECTURE_HOPPER] =
      (FrameworkRates){.products = 0.5, .weight_gradients = 0.7, .attention_forward = 0.3};
  Gpu gpu = {.architecture = ARCHITECTURE_HOPPER,
             .under_load = 0.8,
             .attention_forward = 0.6,
             .attention_backward = 0.4,
             .attention_ramp_forward = 300,
             .attention_ramp_backward = 300};
  gpu.under_load_of[NUMBER_FP8] = 0.6;
  Gpu reached = framework_gpu(&time, &gpu);
  ck_assert_double_eq_tol(reached.under_load, 0.4, 1e-15);
  ck_assert_double_eq_tol(reached.under_load_of[NUMBER_FP8], 0.3, 1e-15);
  ck_assert_double_eq(reached.under_load_of[NUMBER_BF16], 0);
  ck_assert_double_eq(reached.weight_gradient_rate, 0.7);
  ck_assert_double_eq(reached.attention_forward, 0.3);
  ck_assert_double_eq(reached.attention_backward, 0.4);
  ck_assert_double_eq(reached.attention_ramp_forward, 0); /* the rate is of other kernels than the GPU file's */
  ck_assert_double_eq(reached.attention_ramp_backward, 300);
  gpu.attention_of_generation = 0.5; /* a part with less power: of the framework's rate, not of its own */
  reached = framework_gpu(&time, &gpu);
  ck_assert_double_eq_tol(reached.attention_forward, 0.15, 1e-15);
  ck_assert_double_eq(reached.attention_backward, 0.4);
  gpu.architecture = ARCHITECTURE_AMPERE;
  ck_assert_double_eq(framework_gpu(&time, &gpu).under_load, 0.8);
  ck_assert_double_eq(framework_gpu(&time, &gpu).attention_ramp_forward, 300);
}

/* A norm is fused or not as the framework has it, or as the plan asks; bytes go by the rate. */
TEST(a_plain_norm_goes_by_its_own_rate) {
  Plan *plan = plan_new();
  ck_assert(!plan_has_plain_norm(plan));
  plan->time.kernels = FRAMEWORK_KERNELS_PLAIN;
  ck_assert(plan_has_plain_norm(plan));
  plan->norm_kernel = FRAMEWORK_KERNELS_FUSED;
  ck_assert(!plan_has_plain_norm(plan));
  plan_free(plan);
  const FrameworkTime time = {.norm_rate = 0.5};
  Gpu gpu = {.hbm_Bps = 1e12, .hbm_efficiency = 1, .under_load = 1};
  const Gpu reached = framework_gpu(&time, &gpu);
  const WorkItem norm = {.kind = ITEM_MEMORY, .bytes = 1e9, .is_plain = TRUE},
                 other = {.kind = ITEM_MEMORY, .bytes = 1e9};
  ck_assert_double_eq_tol(kernel_cost_s(&reached, &norm, NULL), 2e-3, 1e-12);
  ck_assert_double_eq_tol(kernel_cost_s(&reached, &other, NULL), 1e-3, 1e-12);
  ck_assert_double_eq_tol(kernel_cost_s(&gpu, &norm, NULL), 1e-3, 1e-12);
}

/* gpt2 on one GPU, one micro-batch, with a host far slower than its kernels: the step is the host's time. 12 layers,
 * embedding and head: forward 2·1 + 12·10 ms, backward 2·1 + 12·20 ms, with full recompute 12·5 ms more. */
static double host_bound_step_s(Recompute recompute, guint modules, Attention attention, int tp) {
  g_autoptr(Model) model = model_read("gpt2", NULL);
  g_autoptr(Cluster) cluster = cluster_read("vtrain-a100", NULL);
  g_autoptr(Plan) plan = plan_new();
  Framework slow = {.time = {.host = {.is_stated = TRUE,
                                      .layer_forward_s = 10e-3,
                                      .layer_again_s = 5e-3,
                                      .layer_backward_s = 20e-3,
                                      .ends_forward_s = 1e-3,
                                      .ends_backward_s = 1e-3}}};
  plan_set_framework(plan, "slow", &slow);
  plan->gpus = plan->tp = tp;
  plan->global_batch = 1;
  plan->seq_len = 128;
  plan->attention = attention;
  plan->recompute = recompute;
  plan->recompute_modules = modules;
  g_autoptr(GError) error = NULL;
  g_autoptr(Prediction) prediction = predict(model, cluster, plan, &error);
  ck_assert_msg(prediction != NULL, "%s", error != NULL ? error->message : "");
  return prediction->step_time_s;
}

TEST(a_step_of_small_kernels_takes_the_hosts_time) {
  double plain_s = host_bound_step_s(RECOMPUTE_NONE, 0, ATTENTION_FLASH, 1),
         again_s = host_bound_step_s(RECOMPUTE_FULL, 0, ATTENTION_FLASH, 1);
  ck_assert_double_eq_tol(plain_s, 0.364, 0.01); /* and the last kernels and the optimizer */
  ck_assert_double_eq_tol(again_s - plain_s, 0.060, 0.001);
  /* the MLP has 3 of a layer's 10 kernels */
  const double mlp_s = host_bound_step_s(RECOMPUTE_SELECTIVE, MODULE_BIT(MODULE_MLP), ATTENTION_FLASH, 1);
  ck_assert_double_eq_tol(mlp_s - plain_s, 0.018, 0.001);
  /* attention as products has 4 of 13: scores, softmax, dropout, context */
  const double unfused_s = host_bound_step_s(RECOMPUTE_NONE, 0, ATTENTION_UNFUSED, 1),
               core_s = host_bound_step_s(RECOMPUTE_SELECTIVE, 0, ATTENTION_UNFUSED, 1);
  ck_assert_double_eq_tol(core_s - unfused_s, 12 * 4.0 / 13 * 5e-3, 0.001);
}

/* Two GPUs, otherwise as above: 12 layers, each passed over forward and back, or once more to recompute it. */
static double hooks_s(int zero, Recompute recompute) {
  g_autoptr(Model) model = model_read("gpt2", NULL);
  g_autoptr(Cluster) cluster = cluster_read("vtrain-a100", NULL);
  double step_s[2];
  for (int has_hooks = 0; has_hooks < 2; has_hooks++) {
    g_autoptr(Plan) plan = plan_said("--gpus 2 --zero %d --global-batch 2 --seq-len 128", zero);
    plan->recompute = recompute;
    plan->time.host = (FrameworkHost){.is_stated = TRUE,
                                      .layer_forward_s = 10e-3,
                                      .layer_again_s = 10e-3,
                                      .layer_backward_s = 10e-3,
                                      .zero3_s = has_hooks * 4e-3};
    g_autoptr(Prediction) prediction = predict(model, cluster, plan, NULL);
    step_s[has_hooks] = prediction->step_time_s;
  }
  return step_s[1] - step_s[0];
}

TEST(hooks_of_zero_3_take_their_time_in_each_pass_over_a_layer) {
  ck_assert_double_eq_tol(hooks_s(3, RECOMPUTE_NONE), 12 * 2 * 4e-3, 1e-3);
  ck_assert_double_eq_tol(hooks_s(3, RECOMPUTE_FULL), 12 * 3 * 4e-3, 1e-3);
  ck_assert_double_eq(hooks_s(2, RECOMPUTE_FULL), 0);
}

/* Of 12 heads a rank of two has 6, no groups of four: the softmax is five operations of PyTorch, each as long to issue
 * as one of the layer's 13 kernels forward, 25 backward: 12 layers · (4/13 · 10 ms + 4/25 · 20 ms). */
TEST(the_host_issues_each_operation_of_a_softmax_that_cannot_be_fused) {
  double fused_s = host_bound_step_s(RECOMPUTE_NONE, 0, ATTENTION_UNFUSED, 1);
  double single_s = host_bound_step_s(RECOMPUTE_NONE, 0, ATTENTION_UNFUSED, 2);
  ck_assert_double_eq_tol(single_s - fused_s, 0.0753, 0.001);
}

/* Seconds of a step of gpt2 on one A100, as its HBM streams: 124,439,808 parameters. */
static double bytes_per_parameter(Precision precision, const char *recipe, const FrameworkTime *time) {
  g_autoptr(Model) model = model_read("gpt2", NULL);
  g_autoptr(Cluster) cluster = cluster_read("vtrain-a100", NULL);
  g_autoptr(Plan) plan = plan_new();
  plan->gpus = plan->global_batch = 1;
  plan->precision = precision;
  plan->time = *time;
  ck_assert(recipe_parse(recipe, &plan->recipe, NULL));
  g_autoptr(GError) error = NULL;
  g_autoptr(Prediction) prediction = predict(model, cluster, plan, &error);
  ck_assert_msg(prediction != NULL, "%s", error != NULL ? error->message : "");
  return prediction->step_time_s * cluster->gpu.hbm_Bps * cluster->gpu.hbm_efficiency / 124439808.0;
}

TEST(passes_over_the_gradients_take_the_time_of_their_bytes) {
  const FrameworkTime none = {.gradient_passes = 0}, three = {.gradient_passes = 3};
  const double bytes = bytes_per_parameter(PRECISION_BF16, "bf16+master", &three) -
                       bytes_per_parameter(PRECISION_BF16, "bf16+master", &none);
  ck_assert_double_eq_tol(bytes, 3 * 2, 0.1);
}

/* fp16: the copy is written (4) and read by Adam (4), read and written by the division (8), and each pass has 4 bytes,
 * not 2. Gradients of fp32 need no copy; those of bf16 no division. */
TEST(fp16_gradients_are_copied_and_unscaled_before_they_are_passed_over) {
  const FrameworkTime held = {.gradient_passes = 3};
  const FrameworkTime copied = {.gradient_passes = 3, .fp16_gradients = FP16_GRADIENTS_COPIED};
  const struct {
    Precision precision;
    const char *recipe;
    double bytes;
  } cases[] = {{PRECISION_FP16, "bf16+master", 4 + 4 + 8 + 3 * 2},
               {PRECISION_FP16, "megatron", 8},
               {PRECISION_FP16, "no-master", 0},
               {PRECISION_BF16, "bf16+master", 0}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    const double more = bytes_per_parameter(cases[i].precision, cases[i].recipe, &copied) -
                        bytes_per_parameter(cases[i].precision, cases[i].recipe, &held);
    ck_assert_double_eq_tol(more, cases[i].bytes, 0.02 * cases[i].bytes + 1e-9);
  }
}

/* What the fullest of `gpus` GPUs holds per parameter, more with copies than without, while each trains gpt2
 * (124,475,904 parameters, its words padded) on one short sequence: too little is saved for backward to be the peak. */
static double copied_bytes(int gpus, int zero, const char *recipe, Precision precision, gboolean offloads) {
  g_autoptr(Model) model = model_read("gpt2", NULL);
  g_autoptr(Cluster) cluster = cluster_read("dgx-a100-40gb", NULL);
  double peak_bytes[2];
  for (int copied = 0; copied < 2; copied++) {
    g_autoptr(Plan) plan = plan_new();
    plan->gpus = plan->global_batch = gpus;
    plan->seq_len = 16;
    plan->zero = zero;
    plan->precision = precision;
    plan->recompute = RECOMPUTE_FULL;
    plan->offload.optimizer = offloads ? TIER_HOST : TIER_GPU;
    plan->time.fp16_gradients = copied;
    ck_assert(recipe_parse(recipe, &plan->recipe, NULL));
    g_autoptr(GError) error = NULL;
    g_autoptr(Prediction) prediction = predict(model, cluster, plan, &error);
    ck_assert_msg(prediction != NULL, "%s", error != NULL ? error->message : "");
    peak_bytes[copied] = prediction->memory->peak_bytes;
    if (copied && peak_bytes[1] > peak_bytes[0]) /* 20 bytes of 16: Megatron-LM's dist_optimizer.md, 2026 */
      ck_assert_double_eq_tol(prediction->memory->at_peak.bytes[MEMORY_BUFFERS], 4 * 124475904.0 / (zero ? gpus : 1),
                              1);
  }
  return (peak_bytes[1] - peak_bytes[0]) / 124475904;
}

TEST(copies_of_fp16_gradients_take_memory_while_the_optimizer_runs) {
  const double more = copied_bytes(1, 0, "bf16+master", PRECISION_FP16, FALSE);
  ck_assert_msg(more > 3.5 && more <= 4, "%g bytes", more); /* less what the peak without them had of activations */
  ck_assert_double_eq(copied_bytes(1, 0, "megatron", PRECISION_FP16, FALSE), 0); /* fp32 already */
  ck_assert_double_eq(copied_bytes(1, 0, "bf16+master", PRECISION_BF16, FALSE), 0);
  ck_assert_double_eq(copied_bytes(1, 0, "bf16+master", PRECISION_FP16, TRUE), 0); /* the host's */
  const double sharded = copied_bytes(2, 1, "bf16+master", PRECISION_FP16, FALSE);
  ck_assert_msg(sharded > 1.5 && sharded <= 2, "%g bytes", sharded);
}

int main(void) {
  return run_tests();
}
