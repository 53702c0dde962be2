/* A model's memory, parameters and FLOPs under a plan. */
#include "run_suite.h"
#include "small_workloads.h"
#include <stdlib.h>

#include "data_path.h"
#include "plan.h"

/* Saved bytes of a GPT layer in units of s·b·h. */
static double saved_per_sbh(int tp, gboolean sequence_parallel, Recompute recompute) {
  g_autoptr(Workload) workload = workload_of(&gpt, tp, sequence_parallel, ATTENTION_UNFUSED, recompute);
  return workload->memory[PIECE_LAYER].saved_bytes / (512.0 * 2 * 1024);
}

TEST(activations_are_those_of_korthikanti_table_2) {
  const double as_over_h = 16.0 * 512 / 1024; /* a·s/h */
  ck_assert_double_eq(saved_per_sbh(1, FALSE, RECOMPUTE_NONE), 34 + 5 * as_over_h);
  ck_assert_double_eq(saved_per_sbh(8, FALSE, RECOMPUTE_NONE), 10 + 24.0 / 8 + 5 * as_over_h / 8);
  ck_assert_double_eq(saved_per_sbh(8, TRUE, RECOMPUTE_NONE), 34.0 / 8 + 5 * as_over_h / 8);
  ck_assert_double_eq(saved_per_sbh(8, FALSE, RECOMPUTE_SELECTIVE), 10 + 24.0 / 8);
  ck_assert_double_eq(saved_per_sbh(8, TRUE, RECOMPUTE_SELECTIVE), 34.0 / 8);
  ck_assert_double_eq(saved_per_sbh(8, FALSE, RECOMPUTE_FULL), 2);
}

TEST(ends_keep_what_korthikanti_section_4_3_counts) {
  g_autoptr(Workload) workload = workload_of(&gpt, 8, TRUE, ATTENTION_FLASH, RECOMPUTE_NONE);
  const double sbh = 512.0 * 2 * 1024;
  /* head: 4·s·b·h/t·(1 + v/h); embedding: dropout mask s·b·h/t */
  ck_assert_double_eq(workload->memory[PIECE_HEAD].saved_bytes, 4 * sbh / 8 * (1 + 51200.0 / 1024));
  ck_assert_double_eq(workload->memory[PIECE_EMBEDDING].saved_bytes, sbh / 8);
}

TEST(flash_keeps_nothing_quadratic_in_the_sequence) {
  g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  g_autoptr(Workload) two_short = workload_new(&llama, plan, NULL);
  plan->micro_batch = 1, plan->seq_len = 1024;
  g_autoptr(Workload) one_long = workload_new(&llama, plan, NULL);
  ck_assert_double_eq(one_long->memory[PIECE_LAYER].saved_bytes, two_short->memory[PIECE_LAYER].saved_bytes);
  /* Per token: inputs of two norms and two linears 2·1024 each, Q K V (16 + 16)·64, attention's output 1024, gate and
   * up 2·2816, their product 2816, all in 2 bytes; one fp32 per head. */
  const double per_token = 2 * (4 * 1024 + 32 * 64 + 1024 + 3 * 2816) + 4 * 16;
  ck_assert_double_eq(one_long->memory[PIECE_LAYER].saved_bytes, 1024 * per_token);
}

TEST(split_backward_keeps_inputs_and_output_gradients_of_linears) {
  g_autoptr(Workload) workload = workload_of(&llama, 1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  const PieceMemory *memory = &workload->memory[PIECE_LAYER];
  /* inputs: qkv, mlp_up and attn_out h each, mlp_down f; output gradients: (16 + 16)·64, h, 2f, h; in 2 bytes */
  ck_assert_double_eq(memory->saved_bytes - memory->released_by_I, 1024.0 * 2 * (3 * 1024 + 2816));
  ck_assert_double_eq(memory->held_for_W, 1024.0 * 2 * (2048 + 2 * 1024 + 2 * 2816));
  g_autoptr(Workload) full = workload_of(&llama, 1, FALSE, ATTENTION_FLASH, RECOMPUTE_FULL);
  const PieceMemory *again = &full->memory[PIECE_LAYER];
  ck_assert_double_eq(again->released_by_I, again->saved_bytes);
  ck_assert_double_eq(again->held_for_W, memory->held_for_W + memory->saved_bytes - memory->released_by_I);
  /* all but the input, which was kept, is alive again while B runs */
  ck_assert_double_eq(again->transient_bytes - memory->transient_bytes, memory->saved_bytes - again->saved_bytes);
}

TEST(branches_side_by_side_have_one_output_gradient) {
  Model sequential = neox();
  const Model beside = neox();
  sequential.parallel_block = FALSE;
  g_autoptr(Workload) one = workload_of(&beside, 1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  g_autoptr(Workload) two = workload_of(&sequential, 1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  ck_assert_double_eq(two->memory[PIECE_LAYER].held_for_W - one->memory[PIECE_LAYER].held_for_W, 1024.0 * 2 * 1024);
}

TEST(memory_never_frees_more_than_it_holds) {
  for (int i = 0; i < N_COMBINATIONS; i++) {
    g_autoptr(Workload) workload = combination(i);
    for (Piece piece = 0; piece < N_PIECES; piece++) {
      const PieceMemory *memory = &workload->memory[piece];
      ck_assert_double_ge(memory->released_by_I, 0);
      ck_assert_double_le(memory->released_by_I, memory->saved_bytes);
      ck_assert_double_ge(memory->held_for_W, 0);
      ck_assert_double_ge(memory->transient_bytes, 0);
    }
  }
}

TEST(pieces_have_the_parameters_of_the_model) {
  const Model models[] = {gpt, llama, neox(), falcon()};
  for (int i = 0; i < 4; i++) {
    g_autoptr(Workload) workload = workload_of(&models[i], 1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
    ck_assert_int_eq(workload->piece_parameters[PIECE_LAYER], model_layer_parameters(&models[i]));
    ck_assert_int_eq(workload->piece_parameters[PIECE_EMBEDDING], model_embedding_parameters(&models[i]));
    ck_assert_int_eq(workload->stages[0].parameters, model_parameters(&models[i])); /* tied: once */
  }
}

/* One rank holds all that the model's file says, or with half of the experts that much less. */
TEST(layers_of_every_shipped_model_have_its_parameters) {
  g_auto(GStrv) names = data_path_list("models", ".json");
  int n_models = 0, n_with_experts = 0;
  for (char **name = names; *name != NULL; name++, n_models++) {
    g_autoptr(Model) model = model_read(*name, NULL);
    ck_assert_ptr_nonnull(model);
    g_autoptr(Workload) workload = workload_of(model, 1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
    ck_assert_msg(workload->piece_parameters[PIECE_LAYER] == model_layer_parameters(model), "%s", *name);
    if (!model_has_experts(model))
      continue;
    n_with_experts++;
    const gint64 n_dense = model_dense_layers(model, 0, model->n_layers),
                 experts = model_expert_parameters(model) / (model->n_layers - n_dense);
    ck_assert_msg(workload->expert_parameters[PIECE_LAYER] == experts, "%s", *name);
    g_autoptr(Plan) halved = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
    halved->dp = halved->ep = halved->gpus = 2;
    g_autoptr(Workload) half = workload_new(model, halved, NULL);
    ck_assert_msg(half->piece_parameters[PIECE_LAYER] == model_layer_parameters(model) - experts / 2, "%s", *name);
  }
  ck_assert_int_ge(n_models, 30);
  ck_assert_int_ge(n_with_experts, 10);
}

TEST(tensor_parallelism_cuts_matrices_and_copies_norms) {
  g_autoptr(Workload) workload = workload_of(&gpt, 8, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  const gint64 h = 1024;
  /* matrices 12h², biases of qkv 3h and mlp_up 4h cut; biases of attn_out and mlp_down h, norms 2·2h whole */
  ck_assert_int_eq(workload->piece_parameters[PIECE_LAYER], (12 * h * h + 7 * h) / 8 + 6 * h);
  ck_assert_int_eq(workload->piece_parameters[PIECE_EMBEDDING], 51200 * h / 8 + 2048 * h);
  ck_assert_int_eq(workload->piece_parameters[PIECE_HEAD], 51200 * h / 8 + 2 * h);
}

TEST(key_and_value_heads_fewer_than_ranks_are_held_by_several) {
  Model model = llama;
  model.n_kv_heads = 2;
  g_autoptr(Workload) workload = workload_of(&model, 8, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  /* 16/8 query heads and one head each of K and V: 4 heads of 64 columns */
  ck_assert_int_eq(find(&workload->work[PIECE_LAYER][PHASE_F], "qkv")->n, 4 * 64);
}

TEST(vocabulary_is_padded_to_128_times_tp) {
  Model model = gpt;
  model.vocab = 50257;
  g_autoptr(Workload) workload = workload_of(&model, 8, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  /* 50257 / 1024 = 49.08 → 50·1024 = 51200 */
  ck_assert_int_eq(find(&workload->work[PIECE_HEAD][PHASE_F], "logits")->n, 51200 / 8);
}

TEST(stages_hold_the_model_and_a_copy_of_the_tied_matrix) {
  const Model *models[] = {&gpt, &llama};
  for (int i = 0; i < 2; i++) {
    g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
    plan->pp = 2, plan->chunks = 2, plan->gpus = 2;
    g_autoptr(Workload) workload = workload_new(models[i], plan, NULL);
    gint64 total = 0;
    for (int stage = 0; stage < workload->n_stages; stage++)
      total += workload->stages[stage].parameters;
    ck_assert_int_eq(workload->n_stages, 4);
    ck_assert_int_eq(workload->tied_parameters, models[i]->tied ? 51200 * 1024 : 0);
    ck_assert_int_eq(total, model_parameters(models[i]) + workload->tied_parameters);
  }
}

TEST(stages_send_the_residual_stream) {
  g_autoptr(Workload) whole = workload_of(&gpt, 4, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  g_autoptr(Workload) sequence = workload_of(&gpt, 4, TRUE, ATTENTION_FLASH, RECOMPUTE_NONE);
  ck_assert_double_eq(whole->boundary_bytes, 2.0 * 512 * 1024 * 2);
  ck_assert_double_eq(sequence->boundary_bytes, whole->boundary_bytes / 4);
}

TEST(adam_moves_every_state_it_updates) {
  g_autoptr(Workload) workload = workload_of(&gpt, 1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  /* bf16+master: gradient 2 read; master 4 and moments 8 read and written; weights 2 written: 2 + 24 + 2 */
  ck_assert_double_eq(workload_optimizer_item(workload, 1000).bytes, 28000);
}

TEST(zero_shares_the_optimizer_among_a_shard_group) {
  g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  plan->dp = 8, plan->gpus = 8, plan->zero_ranks = 4;
  g_autoptr(Workload) whole = workload_new(&llama, plan, NULL);
  ck_assert_double_eq(workload_optimizer_parameters(whole, 0), (double)model_parameters(&llama));
  plan->zero = 1;
  g_autoptr(Workload) shared = workload_new(&llama, plan, NULL);
  ck_assert_double_eq(workload_optimizer_parameters(shared, 0), model_parameters(&llama) / 4.0);
}

static double step_flops(const Model *model, FlopsConvention convention, Recompute recompute, gboolean hardware) {
  g_autoptr(Plan) plan = plan_of(4, FALSE, ATTENTION_UNFUSED, recompute);
  plan->flops = convention;
  g_autoptr(Workload) workload = workload_new(model, plan, NULL);
  return hardware ? workload_hardware_flops(workload) : workload_model_flops(workload);
}

TEST(megatron_convention_is_the_papers_formula) {
  const double B = 16, s = 512, l = 8, h = 1024, V = 51200;
  ck_assert_double_eq_tol(step_flops(&gpt, FLOPS_MEGATRON, RECOMPUTE_FULL, FALSE) /
                              (72 * B * s * l * h * h * (1 + s / (6 * h) + V / (12 * l * h))),
                          1, 1e-12);
  /* with full recompute the hardware runs the layers, not the logits, four times */
  ck_assert_double_eq_tol(step_flops(&gpt, FLOPS_MEGATRON, RECOMPUTE_FULL, TRUE) /
                              (96 * B * s * l * h * h * (1 + s / (6 * h) + V / (16 * l * h))),
                          1, 1e-12);
  ck_assert_double_eq(step_flops(&gpt, FLOPS_MEGATRON, RECOMPUTE_NONE, TRUE),
                      step_flops(&gpt, FLOPS_MEGATRON, RECOMPUTE_NONE, FALSE));
}

TEST(causal_convention_counts_the_pairs_below_the_diagonal) {
  /* Attention in full is 4·h·s FLOPs per token and layer; the triangle holds (s + 1)/(2s) of the pairs. */
  const double tokens = 16 * 512, full = 3 * tokens * 8 * 4 * 1024.0 * 512;
  const double less =
      step_flops(&gpt, FLOPS_MEGATRON, RECOMPUTE_NONE, FALSE) - step_flops(&gpt, FLOPS_CAUSAL, RECOMPUTE_NONE, FALSE);
  ck_assert_double_eq_tol(less, full * (1 - 513.0 / 1024), 1e-9 * full);
}

TEST(six_n_convention_is_six_per_parameter_and_token) {
  ck_assert_double_eq(step_flops(&llama, FLOPS_6N, RECOMPUTE_NONE, FALSE), 6.0 * model_parameters(&llama) * 16 * 512);
}

TEST(items_of_a_step_sum_to_its_hardware_flops) {
  /* Unfused attention computes every pair, as the megatron convention counts it; 8 micro-batches of 2 sequences. */
  for (Recompute recompute = RECOMPUTE_NONE; recompute <= RECOMPUTE_FULL; recompute++) {
    g_autoptr(Plan) plan = plan_of(4, TRUE, ATTENTION_UNFUSED, recompute);
    plan->flops = FLOPS_MEGATRON;
    g_autoptr(Workload) workload = workload_new(&llama, plan, NULL);
    double flops = 0;
    for (Phase phase = PHASE_F; phase <= PHASE_W; phase++)
      flops += llama.n_layers * workload->work[PIECE_LAYER][phase].flops + workload->work[PIECE_HEAD][phase].flops;
    ck_assert_double_eq_tol(flops * 4 * 8 / workload_hardware_flops(workload), 1, 1e-12);
  }
}

int main(void) {
  return run_tests();
}
