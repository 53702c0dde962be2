/* Steps whose gradients are compressed before data-parallel ranks sum them. */
#include "compression_cost.h"
#include "error.h"
#include "lowering.h"
#include "plan_cases.h"
#include "program_text.h"
#include "run_suite.h"
#include "verify.h"

#include <math.h>
#include <string.h>

static const char *const methods[] = {"bf16", "topk:0.01", "onebit", "powersgd:4"};

/* On three nodes, over NICs, with a data-parallel sum that is longer than a backward. */
static Prediction *predict_with(const char *options, const char *how) {
  g_autoptr(Plan) plan =
      plan_said("--seq-len 512 --recipe megatron --bucket 10000000 %s --compress-grad %s", options, how);
  return predict_plan(&llama, shipped_cluster("selene"), plan);
}

static double charged_s(const Prediction *prediction, BreakdownKind kind) {
  return prediction->metrics->mean_s[kind];
}

/* Of all sums of a step of the only pipeline rank. */
static double kernels_s(const Prediction *prediction) {
  const OpList *list = &prediction->program->ranks[0];
  gint64 sum_ns = 0;
  for (int i = 0; i < list->n_ops; i++)
    if (list->ops[i].action == ACTION_REDUCE_GRAD)
      sum_ns += prediction->timing->kernels_ns[list->ops[i].work];
  return 1e-9 * (double)sum_ns;
}

TEST(without_overlap_a_step_is_longer_by_kernels_and_what_is_sent) {
  g_autoptr(Prediction) plain = predict_with("--dp 16 --overlap-grad off", "none");
  for (gsize i = 0; i < G_N_ELEMENTS(methods); i++) {
    g_autoptr(Prediction) step = predict_with("--dp 16 --overlap-grad off", methods[i]);
    ck_assert_double_eq_tol(charged_s(step, BREAKDOWN_COMPUTE), charged_s(plain, BREAKDOWN_COMPUTE), 1e-9);
    ck_assert_double_gt(charged_s(step, BREAKDOWN_DP), kernels_s(step));
    /* the host issues kernels one by one */
    ck_assert_double_eq_tol(step->step_time_s - charged_s(step, BREAKDOWN_DP) - charged_s(step, BREAKDOWN_HOST),
                            plain->step_time_s - charged_s(plain, BREAKDOWN_DP) - charged_s(plain, BREAKDOWN_HOST),
                            1e-8);
  }
}

/* One sum of n gradients: the all-gathers of k·4 bytes of values and of places from each of 16 ranks on 2 nodes, and
 * kernels that read and write (3 + 2 + 5 + 1)·4·n bytes and a little for what is chosen. */
TEST(a_sum_takes_its_kernels_and_its_collectives) {
  const Cluster *cluster = shipped_cluster("selene");
  g_autoptr(Prediction) step = predict_with("--dp 16 --overlap-grad off", "topk:0.01");
  const Workload *workload = step->workload;
  const OpList *list = &step->program->ranks[0];
  const Op *op = list->ops;
  while (op->action != ACTION_REDUCE_GRAD)
    op++;
  const Transfer *transfer = &g_array_index(step->program->transfers, Transfer, op->work);
  const double n = transfer->bytes / 4, k = ceil(0.01 * n);
  const GroupShape shape = layout_group_shape(&workload->layout, cluster, AXIS_BIT(AXIS_DP));
  const double calls_s = 2 * collective_cost(cluster, COLLECTIVE_ALL_GATHER, &shape, 16 * k * 4, -1).time_s;
  const OpTime *time = &step->timing->transfers[op->work];
  const double kernels = 1e-9 * (double)step->timing->kernels_ns[op->work];
  ck_assert_double_eq_tol(1e-9 * (double)time->run_ns - kernels, calls_s, 1e-8);
  const double dense_s = 11 * 4 * n / (cluster->gpu.hbm_Bps * 0.8);
  ck_assert_double_gt(kernels, 0.9 * dense_s);
  ck_assert_double_lt(kernels, 1.5 * dense_s);
}

/* Beside backward, kernels of either keep the other's from running: no more is hidden than what is sent. */
TEST(with_overlap_kernels_still_take_their_time) {
  g_autoptr(Prediction) alone = predict_with("--dp 1", "none");
  for (gsize i = 0; i < G_N_ELEMENTS(methods); i++) {
    g_autoptr(Prediction) apart = predict_with("--dp 16 --overlap-grad off", methods[i]);
    g_autoptr(Prediction) beside = predict_with("--dp 16", methods[i]);
    ck_assert_double_le(beside->step_time_s, 1.05 * apart->step_time_s); /* more launches, beside those of backward */
    ck_assert_double_gt(beside->step_time_s, alone->step_time_s + 0.9 * kernels_s(beside));
  }
}

TEST(what_a_step_spends_sums_to_it) {
  static const char *const plans[] = {"--dp 8", "--dp 4 --tp 2", "--dp 4 --pp 2 --global-batch 32",
                                      "--dp 2 --pp 2 --chunks 2 --schedule interleaved --global-batch 16",
                                      "--dp 2 --cp 2 --overlap-grad off"};
  for (gsize p = 0; p < G_N_ELEMENTS(plans); p++)
    for (gsize i = 0; i < G_N_ELEMENTS(methods); i++) {
      g_autoptr(Prediction) step = predict_with(plans[p], methods[i]);
      double sum_s = 0;
      for (int kind = 0; kind < N_BREAKDOWN; kind++)
        sum_s += charged_s(step, kind);
      ck_assert_double_eq_tol(sum_s, step->step_time_s, 1e-9);
    }
}

TEST(ranks_apart_take_as_long_as_folded_ones) {
  for (gsize i = 0; i < G_N_ELEMENTS(methods); i++) {
    g_autoptr(Prediction) folded = predict_with("--dp 4 --pp 2 --global-batch 16", methods[i]);
    g_autoptr(Prediction) apart = predict_with("--dp 4 --pp 2 --global-batch 16 --fold off", methods[i]);
    ck_assert_double_eq_tol(apart->step_time_s, folded->step_time_s, 2e-9);
  }
}

TEST(its_program_is_proved_and_read_back) {
  g_autoptr(Prediction) step = predict_with("--dp 8", "powersgd:4");
  GError *error = NULL;
  ck_assert_msg(program_verify(step->program, &error), "%s", error != NULL ? error->message : "?");
  g_autofree char *text = program_to_text(step->program);
  g_autoptr(Program) again = program_from_text(text, "again", &error);
  ck_assert_msg(again != NULL, "%s", error != NULL ? error->message : "?");
  /* read back, its sums are compressed as before */
  const Transfer *transfers = (const Transfer *)(void *)again->transfers->data;
  int n_compressed = 0;
  for (guint i = 0; i < again->transfers->len; i++)
    n_compressed += transfer_is_compressed(step->workload, &transfers[i]);
  ck_assert_int_gt(n_compressed, 0);
}

static const struct {
  const char *options, *how, *message;
} refused[] = {
    {"--zero 1", "onebit", "zero 1 clash"},
    {"--zero 3", "topk:0.1", "zero 3 clash"},
    {"--recipe bf16+master", "bf16", "in 2 bytes already"},
    {"--train lora:8", "powersgd:2", "--train lora"},
};

TEST(what_is_not_defined_is_refused) {
  for (gsize i = 0; i < G_N_ELEMENTS(refused); i++) {
    g_autoptr(Plan) plan =
        plan_said("--dp 8 --compress-grad %s --recipe megatron %s", refused[i].how, refused[i].options);
    g_autoptr(GError) error = NULL;
    g_autoptr(Prediction) none = predict(&llama, shipped_cluster("selene"), plan, &error);
    ck_assert_ptr_null(none);
    ck_assert_msg(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE) &&
                      strstr(error->message, refused[i].message) != NULL,
                  "%s", error->message);
  }
}

/* 1-bit Adam (arXiv 2102.02888, 2021) on 64 V100 over 4.1 Gb/s Ethernet, 16 sequences of 128 tokens each: BERT-Large's
 * 336 million gradients in fp16 are summed in 2.275 s (table 1). Its speed-up of a whole training is 3.3, and 5 times
 * less is sent: so a share w of the steps is not compressed, w + (1 − w)/16 = 1/5. Here a decoder as deep and wide,
 * with 355 million. */
TEST(one_bit_adam_over_ethernet_is_predicted_within_a_fifth) {
  static const char options[] = "--gpus 64 --dp 64 --micro-batch 16 --global-batch 1024 --seq-len 128 --precision fp16 "
                                "--overlap-grad off";
  const double w = (1. / 5 - 1. / 16) / (1 - 1. / 16);
  const Cluster *cluster = shipped_cluster(CASES_FIXTURES "/ethernet-v100.yaml");
  g_autoptr(Plan) plain_plan = plan_said("%s", options);
  g_autoptr(Plan) onebit_plan = plan_said("%s --compress-grad onebit", options);
  g_autoptr(Prediction) plain = predict_plan(shipped_model("mpt-350m"), cluster, plain_plan);
  g_autoptr(Prediction) onebit = predict_plan(shipped_model("mpt-350m"), cluster, onebit_plan);
  const double sum_s = charged_s(plain, BREAKDOWN_DP) * 336e6 / model_parameters(shipped_model("mpt-350m"));
  ck_assert_msg(fabs(sum_s / 2.275 - 1) < 0.2, "a sum of %g s", sum_s);
  const double faster = 1 / (w + (1 - w) * onebit->step_time_s / plain->step_time_s);
  ck_assert_msg(fabs(faster / 3.3 - 1) < 0.2, "%g times as fast", faster);
}

int main(void) {
  return run_tests();
}
