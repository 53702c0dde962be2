/* Published runs that train adapters alone. */
#include "expert_cases.h"
#include "predict.h"
#include "run_suite.h"

static const double gib = 1 << 30;

static Prediction *fine_tuning(const char *model, const char *options) {
  g_autoptr(Plan) plan = plan_said("%s", options);
  g_autoptr(GError) error = NULL;
  Prediction *prediction = predict(shipped_model(model), shipped_cluster("dgx-h100"), plan, &error);
  ck_assert_msg(prediction != NULL, "%s", error != NULL ? error->message : "");
  return prediction;
}

static void check_near(const char *what, double predicted, double published, double share) {
  ck_assert_msg(fabs(predicted / published - 1) <= share, "%s: %g, published %g", what, predicted, published);
}

/* NVIDIA NeMo AutoModel, docs/performance-summary.md (2026-04), DGX-H100, bf16: rank 16 on all linears. Its TFLOP/s
 * count two passes over frozen products. */
TEST(steps_of_nemo_automodel_are_predicted_within_a_tenth) {
  static const struct {
    const char *model, *options;
    double step_s, tflops;
  } runs[] = {
      {"llama-3-8b", "--gpus 1 --micro-batch 2", 10.51, 402},
      {"qwen2.5-7b", "--gpus 1 --micro-batch 2", 9.29, 423},
      {"llama-3-70b", "--gpus 8 --tp 2 --zero 3 --recompute full --micro-batch 2", 15.00, 316},
      {"llama-3-70b", "--gpus 16 --tp 2 --zero 3 --recompute full --micro-batch 2", 8.32, 285},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(runs); i++) {
    g_autofree char *options = g_strdup_printf("%s --global-batch 32 --seq-len 4096 --train lora:16 --framework "
                                               "nemo-automodel --recipe pure-bf16",
                                               runs[i].options);
    g_autoptr(Prediction) prediction = fine_tuning(runs[i].model, options);
    check_near(runs[i].options, prediction->step_time_s, runs[i].step_s, 0.1);
    /* the convention alone: the same FLOPs in the published time */
    check_near(runs[i].options, prediction->tflops_per_gpu * prediction->step_time_s / runs[i].step_s, runs[i].tflops,
               0.06);
  }
}

/* torchtune's README (2024-10): Llama 3.1 8B, rank 8 on all but k_proj (8B_lora_single_device.yaml), compiled, batches
 * of 2 sequences of 2,048 tokens, chunked loss: with layers recomputed, without, and with 4-bit weights. */
TEST(peaks_of_torchtune_are_predicted_within_a_tenth) {
  static const struct {
    const char *options;
    double peak_gib;
  } runs[] = {{"--recompute full --recipe pure-bf16", 16.2},
              {"--recompute none --recipe pure-bf16", 30.3},
              {"--recompute full --recipe qlora", 7.4}};
  for (gsize i = 0; i < G_N_ELEMENTS(runs); i++) {
    g_autofree char *options =
        g_strdup_printf("%s --gpus 1 --micro-batch 2 --global-batch 2 --seq-len 2048 --loss chunked "
                        "--train lora:8:q_proj+v_proj+o_proj+gate_proj+up_proj+down_proj",
                        runs[i].options);
    g_autoptr(Prediction) prediction = fine_tuning("llama-3-8b", options);
    check_near(runs[i].options, prediction->memory->peak_bytes / gib, runs[i].peak_gib, 0.1);
  }
}

int main(void) {
  return run_tests();
}
