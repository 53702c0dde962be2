/* Recomputation of whole layers: groups of them at once, the first ones of a stage, every n-th. */
#include "error.h"
#include "run_suite.h"

#include "expert_cases.h"
#include "plan.h"
#include "predict.h"

/* 2 sequences of 512 tokens, hidden 1024, in 2 bytes: a layer's input. */
static const double input_bytes = 2 * 2 * 512 * 1024.0;

static Workload *recomputing(const Model *model, Recompute recompute, int n_layers, int pp, int chunks) {
  g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, recompute);
  plan->recompute_layers = n_layers;
  plan->pp = plan->gpus = pp;
  plan->chunks = chunks;
  if (chunks > 1)
    plan_say(plan, "--schedule interleaved");
  return workload_new(model, plan, NULL);
}

static void stage_counts(const Workload *workload, int stage, int counts[N_PIECES]) {
  const StageLayers *layers = &workload->stages[stage].layers;
  count_layers(layers->n_layers, layers->n_dense, &layers->others, counts);
}

/* What the 8 layers of a single stage save. */
static double saved_by_layers(const Workload *workload) {
  int counts[N_PIECES];
  double saved = 0;
  stage_counts(workload, 0, counts);
  for (Piece piece = PIECE_EMBEDDING + 1; piece < PIECE_HEAD; piece++)
    saved += counts[piece] * workload->memory[piece].saved_bytes;
  return saved;
}

/* ⌈8/3⌉ groups keep an input; three layers are there again while one runs backward. */
TEST(a_group_of_layers_keeps_one_input) {
  g_autoptr(Workload) none = recomputing(&llama, RECOMPUTE_NONE, 0, 1, 1);
  g_autoptr(Workload) one = recomputing(&llama, RECOMPUTE_FULL, 1, 1, 1);
  g_autoptr(Workload) three = recomputing(&llama, RECOMPUTE_FULL, 3, 1, 1);
  g_autoptr(Workload) all = recomputing(&llama, RECOMPUTE_FULL, 100, 1, 1);
  const double layer = none->memory[PIECE_LAYER].saved_bytes, gradients = none->memory[PIECE_LAYER].transient_bytes;
  ck_assert_double_eq(saved_by_layers(one), 8 * input_bytes);
  ck_assert_double_eq(saved_by_layers(three), 3 * input_bytes);
  ck_assert_double_eq(saved_by_layers(all), input_bytes);
  ck_assert_double_eq(one->memory[PIECE_LAYER].transient_bytes, gradients + layer - input_bytes);
  ck_assert_double_eq(three->memory[PIECE_LAYER].transient_bytes, gradients + 3 * layer - input_bytes);
  ck_assert_double_eq(three->memory[PIECE_LAYER_APART].transient_bytes, gradients + 3 * layer - input_bytes);
  ck_assert_double_eq(all->memory[PIECE_LAYER].transient_bytes, gradients + 8 * layer - input_bytes);
}

TEST(the_first_layers_of_a_stage_keep_inputs_and_the_others_all) {
  g_autoptr(Workload) none = recomputing(&llama, RECOMPUTE_NONE, 0, 1, 1);
  const double layer = none->memory[PIECE_LAYER].saved_bytes;
  for (int n = 1; n <= 9; n++) {
    g_autoptr(Workload) block = recomputing(&llama, RECOMPUTE_BLOCK, n, 1, 1);
    const int again = MIN(n, 8);
    ck_assert_double_eq(saved_by_layers(block), again * input_bytes + (8 - again) * layer);
    ck_assert_double_eq(block->memory[PIECE_LAYER_APART].transient_bytes, none->memory[PIECE_LAYER].transient_bytes);
  }
}

/* Of 8 layers the third and the sixth. */
TEST(every_third_layer_keeps_its_input) {
  g_autoptr(Workload) none = recomputing(&llama, RECOMPUTE_NONE, 0, 1, 1);
  g_autoptr(Workload) every = recomputing(&llama, RECOMPUTE_EVERY, 3, 1, 1);
  ck_assert_double_eq(saved_by_layers(every), 2 * input_bytes + 6 * none->memory[PIECE_LAYER].saved_bytes);
}

/* 8 layers on 2 ranks with 2 chunks each: two layers a stage, of which one. */
TEST(a_block_is_of_each_virtual_stage) {
  g_autoptr(Workload) block = recomputing(&llama, RECOMPUTE_BLOCK, 1, 2, 2);
  for (int stage = 0; stage < 4; stage++) {
    int counts[N_PIECES];
    stage_counts(block, stage, counts);
    ck_assert_int_eq(counts[PIECE_LAYER], 1);
    ck_assert_int_eq(counts[PIECE_LAYER_APART], 1);
  }
}

/* latent_mixture() has one dense layer before 7 with experts. */
TEST(dense_layers_come_first) {
  const Model model = latent_mixture();
  g_autoptr(Workload) block = recomputing(&model, RECOMPUTE_BLOCK, 3, 1, 1);
  int counts[N_PIECES];
  stage_counts(block, 0, counts);
  ck_assert_int_eq(counts[PIECE_DENSE_LAYER], 1);
  ck_assert_int_eq(counts[PIECE_DENSE_APART], 0);
  ck_assert_int_eq(counts[PIECE_LAYER], 2);
  ck_assert_int_eq(counts[PIECE_LAYER_APART], 5);
}

/* One layer at a time is full recompute, in however many words. */
TEST(all_layers_by_themselves_are_full_recompute) {
  g_autoptr(Workload) full = recomputing(&llama, RECOMPUTE_FULL, 0, 1, 1);
  const struct {
    Recompute recompute;
    int n;
  } same[] = {{RECOMPUTE_FULL, 1}, {RECOMPUTE_BLOCK, 8}, {RECOMPUTE_EVERY, 1}};
  for (gsize i = 0; i < G_N_ELEMENTS(same); i++) {
    g_autoptr(Workload) other = recomputing(&llama, same[i].recompute, same[i].n, 1, 1);
    ck_assert_double_eq(saved_by_layers(other), saved_by_layers(full));
    ck_assert_double_eq(workload_hardware_flops(other), workload_hardware_flops(full));
    ck_assert_double_eq(other->memory[PIECE_LAYER].transient_bytes, full->memory[PIECE_LAYER].transient_bytes);
  }
}

/* What lists make again in 8 micro-batches is what HFU counts above MFU. */
TEST(flops_made_again_are_those_of_the_lists) {
  const Model models[] = {llama, latent_mixture()};
  for (int i = 0; i < 2 * 3 * 3; i++) {
    g_autoptr(Workload) workload =
        recomputing(&models[i % 2], (Recompute)(RECOMPUTE_FULL + i / 2 % 3), 1 + 2 * (i / 6), 1, 1);
    int counts[N_PIECES];
    double listed = 0;
    stage_counts(workload, 0, counts);
    for (Piece piece = PIECE_EMBEDDING + 1; piece < PIECE_HEAD; piece++)
      listed += 8 * counts[piece] * workload->work[piece][PHASE_B].recompute_flops;
    const double counted = workload_hardware_flops(workload) - workload_model_flops(workload);
    ck_assert_msg(fabs(listed - counted) <= 1e-9 * counted, "%d: %g, %g", i, listed, counted);
  }
}

/* --- steps --- */

static Prediction *step(const char *recompute) {
  g_autoptr(Plan) plan = plan_said("--gpus 8 --tp 8 --dp 1 --pp 1 --micro-batch 1 --global-batch 4 --seq-len 4096 "
                                   "--sequence-parallel on --recompute %s",
                                   recompute);
  g_autoptr(GError) error = NULL;
  Prediction *prediction = predict(shipped_model("llama-3-8b"), shipped_cluster("dgx-h100"), plan, &error);
  ck_assert_msg(prediction != NULL, "%s", error != NULL ? error->message : "");
  return prediction;
}

/* Of 32 layers 8, 16 and all 32 cost 1 : 2 : 4, and leave ever less to hold. */
TEST(each_recomputed_layer_costs_the_same) {
  g_autoptr(Prediction) none = step("none"), eight = step("block:8"), half = step("every:2"), all = step("full");
  const double layers_s = (all->step_time_s - none->step_time_s) / 32;
  ck_assert_double_eq_tol(eight->step_time_s, none->step_time_s + 8 * layers_s, 1e-6);
  ck_assert_double_eq_tol(half->step_time_s, none->step_time_s + 16 * layers_s, 1e-6);
  ck_assert_double_gt(none->memory->peak_bytes, eight->memory->peak_bytes);
  ck_assert_double_gt(eight->memory->peak_bytes, half->memory->peak_bytes);
  ck_assert_double_gt(half->memory->peak_bytes, all->memory->peak_bytes);
}

/* √32 is about 6 layers: groups take as long as single layers, and hold less than ones of 1 or 32. */
TEST(groups_of_the_root_of_the_layers_hold_less) {
  g_autoptr(Prediction) root = step("sqrt"), one = step("full"), all = step("full:32");
  ck_assert_int_eq(root->workload->method->recompute_layers, 6);
  ck_assert_double_eq(root->step_time_s, one->step_time_s);
  ck_assert_double_gt(all->memory->peak_bytes, root->memory->peak_bytes);
}

TEST(a_number_of_layers_needs_what_counts_them) {
  static const struct {
    Recompute recompute;
    int n;
    const char *says;
  } wrong[] = {{RECOMPUTE_NONE, 2, "recompute-num-layers 2 needs --recompute full, block or every: found none"},
               {RECOMPUTE_SELECTIVE, 1, "found selective"},
               {RECOMPUTE_SQRT, 2, "found sqrt"},
               {RECOMPUTE_BLOCK, 0, "recompute block needs --recompute-num-layers, or block:N"},
               {RECOMPUTE_EVERY, 0, "every:N"}};
  for (gsize i = 0; i < G_N_ELEMENTS(wrong); i++) {
    g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, wrong[i].recompute);
    g_autoptr(GError) error = NULL;
    plan->recompute_layers = wrong[i].n;
    ck_assert(!plan_complete(plan, &llama, NULL, &error));
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE));
    ck_assert_msg(strstr(error->message, wrong[i].says) != NULL, "%s", error->message);
  }
}

TEST(a_number_may_stand_behind_the_word) {
  g_autoptr(Plan) plan = plan_said("--recompute uniform:4");
  ck_assert(plan->recompute == RECOMPUTE_FULL && plan->recompute_layers == 4);
  static const char *const wrong[] = {"none:2", "sqrt:3", "block:0", "block:x", "blocks:2"};
  for (gsize i = 0; i < G_N_ELEMENTS(wrong); i++) {
    PlanTarget target = {.plan = plan};
    g_autoptr(GError) error = NULL;
    ck_assert(!plan_field_set(plan_field(plan_field_find("recompute")), &target, wrong[i], &error));
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
  }
}

int main(void) {
  return run_tests();
}
