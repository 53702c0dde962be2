/* A job on several kinds of GPU runs at the pace of the slowest wherever its ranks meet. */
#include "error.h"
#include "plan_said.h"
#include "predict.h"
#include "run_suite.h"
#include "text_file.h"

static Prediction *predict_text(const char *text, int pp, GError **error) {
  g_autoptr(Model) model = model_read("llama-2-7b", error);
  g_autoptr(Cluster) cluster = cluster_parse(STEPSIM_SOURCE_DATA "/topologies/mixed.yaml", text, error);
  ck_assert(model != NULL && cluster != NULL);
  g_autoptr(Plan) plan = plan_said("--gpus 16 --tp 8 --pp %d --global-batch 16 --seq-len 2048 --fold off", pp);
  Prediction *prediction = predict(model, cluster, plan, error);
  if (prediction != NULL)
    prediction->cluster = NULL; /* it ends here */
  return prediction;
}

static char *cluster_text(const char *file) {
  g_autofree char *path = g_strdup_printf(STEPSIM_SOURCE_DATA "/topologies/%s.yaml", file);
  return text_file_read(path);
}

/* Node 1 of two has GPU `other`; NULL: none has. */
static Prediction *predict_on(const char *file, const char *other, int pp, GError **error) {
  g_autofree char *text = cluster_text(file);
  g_autofree char *range =
      other != NULL ? g_strdup_printf("\nother_gpus: [{nodes: 1, gpu: %s}]\n", other) : g_strdup("");
  g_autofree char *whole = g_strconcat(text, range, NULL);
  return predict_text(whole, pp, error);
}

/* dgx-h100's links with GPU `gpu` on all nodes. */
static Prediction *predict_alone(const char *gpu, int pp) {
  g_autofree char *text = cluster_text("dgx-h100");
  g_auto(GStrv) parts = g_strsplit(text, "gpu: gpus/h100-sxm5-80gb.yaml", 2);
  ck_assert_uint_eq(g_strv_length(parts), 2);
  g_autofree char *key = g_strdup_printf("gpu: %s", gpu), *whole = g_strjoinv(key, parts);
  GError *error = NULL;
  Prediction *prediction = predict_text(whole, pp, &error);
  ck_assert_msg(prediction != NULL, "%s", error != NULL ? error->message : "?");
  return prediction;
}

static double step_s(const char *file, const char *other, int pp) {
  GError *error = NULL;
  g_autoptr(Prediction) prediction = predict_on(file, other, pp, &error);
  ck_assert_msg(prediction != NULL, "%s", error != NULL ? error->message : "?");
  return prediction->step_time_s;
}

TEST(naming_the_same_kind_again_changes_nothing) {
  ck_assert_double_eq(step_s("dgx-h100", "h100-sxm5-80gb", 1), step_s("dgx-h100", NULL, 1));
}

/* dp 2, a replica per node: both compute as much and meet at the gradients. With the links of dgx-h100 throughout, the
 * mixed step lies between those of either kind alone and within 3 % of the slower's: what is not a layer (embedding,
 * head, optimizer) is scaled by the layers' factor, and collectives go by the first kind's architecture. */
TEST(replicas_go_at_the_pace_of_the_slower) {
  const double fast_s = step_s("dgx-h100", NULL, 1), mixed_s = step_s("dgx-h100", "a100-sxm4-80gb", 1);
  ck_assert_double_gt(mixed_s, 1.5 * fast_s); /* 989 against 312 TFLOP/s */
  g_autoptr(Prediction) alone = predict_alone("a100-sxm4-80gb", 1);
  ck_assert_double_eq_tol(mixed_s / alone->step_time_s, 1, 0.03);
}

/* pp 2, a stage per node, 16 micro-batches of S on the slow stage: 16 S and the fast stage's S/2.8 at the ends against
 * 17 S when both are slow, 0.96 of it; nearer to 1 by what is not computing. */
TEST(stages_of_different_kinds_lie_between_either_alone) {
  const double fast_s = step_s("dgx-h100", NULL, 2), mixed_s = step_s("dgx-h100", "a100-sxm4-80gb", 2);
  g_autoptr(Prediction) slow = predict_alone("a100-sxm4-80gb", 2);
  ck_assert_double_gt(mixed_s, 1.2 * fast_s);
  ck_assert_double_lt(mixed_s, 0.99 * slow->step_time_s);
}

TEST(the_peak_is_the_mean_and_the_names_are_all_there) {
  GError *error = NULL;
  g_autoptr(Prediction) prediction = predict_on("dgx-h100", "a100-sxm4-80gb", 1, &error);
  ck_assert_double_eq_tol(prediction->peak_flops, (989.4e12 + 312e12) / 2, 1e12); /* 8 of each */
  ck_assert_str_eq(prediction->gpu_names, "h100-sxm5-80gb and a100-sxm4-80gb (nodes 1 to 1)");
}

TEST(a_kind_without_the_format_is_refused) {
  GError *error = NULL;
  ck_assert_ptr_null(predict_on("dgx-h100", "v100-sxm2-32gb", 1, &error)); /* no bf16 */
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE));
  ck_assert_msg(strstr(error->message, "v100-sxm2-32gb") != NULL, "%s", error->message);
  g_error_free(error);
}

int main(void) {
  return run_tests();
}
