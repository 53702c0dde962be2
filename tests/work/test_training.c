/* Adapters beside frozen weights, and weights that are frozen: products, states, what is saved. */
#include "error.h"
#include "run_suite.h"

#include "expert_cases.h"
#include "plan.h"
#include "predict.h"
#include "trained_parameters.h"

/* llama: hidden 1024, Q 1024 and K, V 512 columns, an MLP of 2816; 2 · 512 tokens, 8 micro-batches. */
enum { TOKENS = 2 * 512, HIDDEN = 1024, KV = 512, FFN = 2816, RANK = 16 };
/* in and out of q, k, v, o, gate, up and down */
static const double widths = 2 * HIDDEN + 2 * (HIDDEN + KV) + 2 * HIDDEN + 3 * (HIDDEN + FFN);

G_GNUC_PRINTF(3, 4) static Workload *training(const Model *model, int tp, const char *format, ...) {
  g_autoptr(Plan) plan = plan_of(tp, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  va_list values;
  va_start(values, format);
  g_autofree char *options = g_strdup_vprintf(format, values);
  va_end(values);
  plan_say(plan, "%s", options);
  return workload_new(model, plan, NULL);
}

/* How many of the list's items' names end so. */
static int count_ending(const WorkList *list, const char *ending) {
  int n = 0;
  for (int i = 0; i < list->n_items; i++)
    n += g_str_has_suffix(list->items[i].name, ending);
  return n;
}

/* --- adapters --- */

TEST(adapters_are_the_rank_times_what_goes_in_and_out) {
  g_autoptr(Workload) workload = training(&llama, 1, "--train lora:%d", RANK);
  ck_assert_double_eq((double)workload->trained[PIECE_LAYER], RANK * widths);
  ck_assert_double_eq((double)workload->piece_parameters[PIECE_LAYER],
                      (double)model_layer_parameters(&llama) + RANK * widths);
  ck_assert_int_eq(workload->trained[PIECE_EMBEDDING] + workload->trained[PIECE_HEAD], 0);
  ck_assert_double_eq(trained_parameters(&llama, &workload->method->training, FALSE), 8 * RANK * widths);
}

/* Unsloth and others print 41,943,040 trainable parameters of Llama 3 8B with rank 16 on all products; with rank 8 on
 * q_proj and v_proj PEFT prints 3,407,872. */
TEST(llama_3_8b_has_the_adapters_that_its_users_print) {
  TrainedParts all = {.rank = 16}, two = {.rank = 8, .modules = ADAPTED_BIT(ADAPTED_Q) | ADAPTED_BIT(ADAPTED_V)};
  ck_assert_double_eq(trained_parameters(shipped_model("llama-3-8b"), &all, FALSE), 41943040);
  ck_assert_double_eq(trained_parameters(shipped_model("llama-3-8b"), &two, FALSE), 3407872);
}

/* Of a product cut by columns A is whole, of one cut by rows B: these gradients tp sums. */
TEST(tp_cuts_one_of_both_matrices) {
  g_autoptr(Workload) workload = training(&llama, 4, "--train lora:%d:q_proj+o_proj", RANK);
  const double q = HIDDEN + HIDDEN / 4., o = HIDDEN / 4. + HIDDEN;
  ck_assert_double_eq((double)workload->trained[PIECE_LAYER], RANK * (q + o));
  ck_assert_double_eq((double)workload->stages[0].tp_summed_parameters, 8 * RANK * (HIDDEN + HIDDEN));
}

/* Every expert of a rank has its own: 16 of 512 columns, a shared one of 768. */
TEST(each_expert_has_adapters) {
  const Model model = latent_mixture();
  g_autoptr(Workload) workload = training(&model, 1, "--train lora:%d:down_proj", RANK);
  ck_assert_double_eq((double)workload->trained_experts[PIECE_LAYER], 16. * RANK * (512 + HIDDEN));
  ck_assert_double_eq((double)(workload->trained[PIECE_LAYER] - workload->trained_experts[PIECE_LAYER]),
                      RANK * (768. + HIDDEN));
  ck_assert_double_eq((double)workload->trained[PIECE_DENSE_LAYER], RANK * (2816. + HIDDEN));
  const double all = trained_parameters(&model, &workload->method->training, FALSE);
  ck_assert_double_eq(all, (double)(7 * workload->trained[PIECE_LAYER] + workload->trained[PIECE_DENSE_LAYER]));
}

TEST(adapters_have_two_products_each_way_and_two_gradients) {
  g_autoptr(Workload) workload = training(&llama, 1, "--train lora:%d", RANK);
  const WorkList *forward = &workload->work[PIECE_LAYER][PHASE_F], *back = &workload->work[PIECE_LAYER][PHASE_B];
  ck_assert_int_eq(count_ending(forward, ".lora_a") + count_ending(forward, ".lora_b"), 2 * 7);
  ck_assert_int_eq(count_ending(back, ".lora_a.dgrad") + count_ending(back, ".lora_b.dgrad"), 2 * 7);
  ck_assert_int_eq(count_ending(back, ".wgrad"), 2 * 7);
  ck_assert_int_eq(count_ending(back, "lora_a.wgrad") + count_ending(back, "lora_b.wgrad"), 2 * 7);
  ck_assert_int_eq(count_ending(&workload->work[PIECE_HEAD][PHASE_B], "logits.wgrad"), 0);
  ck_assert_int_eq(workload->work[PIECE_EMBEDDING][PHASE_B].n_items, 0);
  const WorkItem *a = find(forward, "gate_proj.lora_a"), *b = find(back, "down_proj.lora_b.wgrad");
  ck_assert(a->m == TOKENS && a->n == RANK && a->k == HIDDEN);
  ck_assert(b->m == HIDDEN && b->n == RANK && b->k == TOKENS);
}

/* --- frozen weights --- */

TEST(frozen_layers_pass_gradients_only_to_what_is_trained) {
  g_autoptr(Workload) passing = training(&llama, 1, "--freeze layers:3");
  g_autoptr(Workload) ending = training(&llama, 1, "--freeze layers:3+embedding");
  const WorkList *back = &passing->work[PIECE_FROZEN_LAYER][PHASE_B];
  ck_assert_int_eq(count_ending(back, ".wgrad"), 0);
  ck_assert_int_eq(count_ending(back, ".dgrad"), count_ending(&passing->work[PIECE_LAYER][PHASE_B], ".dgrad"));
  ck_assert_int_eq(passing->work[PIECE_FROZEN_LAYER][PHASE_W].n_items, 0);
  ck_assert_int_eq(ending->work[PIECE_FROZEN_LAYER][PHASE_B].n_items, 0);
  ck_assert_int_eq(passing->stages[0].layers.others.n[PIECE_FROZEN_LAYER], 3);
  ck_assert_double_eq(ending->memory[PIECE_FROZEN_LAYER].saved_bytes, 0);
}

/* The inputs of products go; attention's output stays, for flash attention. */
TEST(frozen_layers_keep_no_inputs_of_products) {
  g_autoptr(Workload) workload = training(&llama, 1, "--freeze layers:3");
  const PieceMemory *trained = &workload->memory[PIECE_LAYER], *frozen = &workload->memory[PIECE_FROZEN_LAYER];
  ck_assert_double_eq(trained->saved_bytes - frozen->saved_bytes, 2. * TOKENS * (2 * HIDDEN + FFN));
  ck_assert_double_eq(frozen->released_by_I, frozen->saved_bytes);
  ck_assert_double_eq(frozen->held_for_W, 0);
}

/* With adapters everywhere all inputs stay, and what each A makes of them; with those of q and v alone one input. */
TEST(adapters_keep_the_inputs_of_their_products) {
  g_autoptr(Workload) all = training(&llama, 1, "--train lora:%d", RANK);
  g_autoptr(Workload) two = training(&llama, 1, "--train lora:%d:q_proj+v_proj", RANK);
  g_autoptr(Workload) full = training(&llama, 1, "--train full");
  const double saved = full->memory[PIECE_LAYER].saved_bytes;
  ck_assert_double_eq(all->memory[PIECE_LAYER].saved_bytes, saved + 2. * TOKENS * 7 * RANK);
  ck_assert_double_eq(two->memory[PIECE_LAYER].saved_bytes,
                      saved - 2. * TOKENS * (HIDDEN + FFN) + 2. * TOKENS * 2 * RANK);
}

/* A tied table is frozen on both ends; the final norm is trained still. */
TEST(a_tied_table_is_frozen_once_for_both) {
  Model tied = llama;
  tied.tied = TRUE;
  g_autoptr(Workload) workload = training(&tied, 1, "--freeze embedding");
  ck_assert_int_eq(workload->trained[PIECE_HEAD], HIDDEN);
  ck_assert_int_eq(workload->trained[PIECE_EMBEDDING], 0);
  ck_assert_int_eq(workload->stages[0].trained, workload->stages[0].parameters - tied.vocab * HIDDEN);
  ck_assert_int_eq(count_ending(&workload->work[PIECE_HEAD][PHASE_B], "logits.wgrad"), 0);
}

/* --- counts --- */

/* Every list of every stage, in 8 micro-batches, is what MFU counts: unfused attention has all pairs. */
TEST(flops_of_lists_are_those_of_the_model) {
  static const char *const options[] = {"--train lora:16",
                                        "--train lora:4:k_proj+down_proj",
                                        "--freeze layers:3",
                                        "--freeze embedding",
                                        "--freeze head+embedding",
                                        "--freeze layers:5+embedding",
                                        "--train lora:8 --freeze layers:2"};
  const Model models[] = {llama, latent_mixture(), gpt};
  for (gsize i = 0; i < 3 * G_N_ELEMENTS(options); i++) {
    g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_UNFUSED, RECOMPUTE_NONE);
    plan_say(plan, "--flops megatron %s", options[i / 3]);
    if (!plan_complete(plan, &models[i % 3], NULL, NULL))
      continue; /* gpt's table is tied */
    g_autoptr(Workload) workload = workload_new(&models[i % 3], plan, NULL);
    const StageLayers *layers = &workload->stages[0].layers;
    int counts[N_PIECES] = {[PIECE_EMBEDDING] = 1, [PIECE_HEAD] = 1};
    double listed = 0;
    count_layers(layers->n_layers, layers->n_dense, &layers->others, counts);
    for (Piece piece = 0; piece < N_PIECES; piece++)
      listed += 8 * counts[piece] * (workload->work[piece][PHASE_F].flops + workload->work[piece][PHASE_B].flops);
    const double counted = workload_model_flops(workload);
    ck_assert_msg(fabs(listed - counted) <= 1e-9 * counted, "%s of %s: %g, %g", options[i / 3], models[i % 3].name,
                  listed, counted);
  }
}

/* Frozen: 2 bytes; adapters: 16. QLoRA: products' weights in 4.127 bits, the rest in 2 bytes, adapters 12. */
TEST(states_are_of_adapters_alone) {
  g_autoptr(Workload) lora = training(&llama, 1, "--train lora:%d", RANK);
  g_autoptr(Workload) qlora = training(&llama, 1, "--train lora:%d --recipe qlora", RANK);
  const double base = (double)model_parameters(&llama), adapters = 8 * RANK * widths;
  const double products = 8. * HIDDEN * (2 * HIDDEN + 2 * KV + 3 * FFN);
  const StateBytes state = workload_stage_state(lora, 0, 0), narrow = workload_stage_state(qlora, 0, 0);
  ck_assert_double_eq(state.weights_bytes, 2 * (base + adapters));
  ck_assert_double_eq(state.gradients_bytes, 2 * adapters);
  ck_assert_double_eq(state.optimizer_bytes, 12 * adapters);
  const double nf4 = (4 + 8. / 64 + 32. / (64 * 256)) / 8;
  ck_assert_double_eq(narrow.weights_bytes, round(nf4 * products + 2 * (base - products) + 2 * adapters));
  ck_assert_double_eq(narrow.optimizer_bytes, 8 * adapters);
  /* ZeRO-3 cuts frozen weights, too */
  g_autoptr(Workload) cut = training(&llama, 1, "--train lora:%d --dp 8 --gpus 8 --zero 3", RANK);
  ck_assert_double_eq(workload_stage_state(cut, 0, 3).weights_bytes, round((base + adapters) / 8 * 2));
}

static Prediction *step(const char *options) {
  g_autoptr(Plan) plan = plan_said("--gpus 8 --dp 8 --global-batch 16 --seq-len 2048 %s", options);
  g_autoptr(GError) error = NULL;
  Prediction *prediction = predict(shipped_model("llama-3-8b"), shipped_cluster("dgx-h100"), plan, &error);
  ck_assert_msg(prediction != NULL, "%s", error != NULL ? error->message : "");
  return prediction;
}

/* Bytes of an action's collectives on the first rank. */
static double moved(const Prediction *prediction, ActionKind action) {
  const Program *program = prediction->program;
  double bytes = 0;
  for (int i = 0; i < program->ranks[0].n_ops; i++) {
    const Op *op = &program->ranks[0].ops[i];
    if (op->kind == OP_COLLECTIVE && op->action == action)
      bytes += g_array_index(program->transfers, Transfer, op->work).bytes;
  }
  return bytes;
}

TEST(dp_moves_gradients_of_adapters_alone) {
  g_autoptr(Prediction) lora = step("--train lora:16"), sharded = step("--train lora:16 --zero 1"),
                        fsdp = step("--train lora:16 --zero 3"), ending = step("--zero 3 --freeze embedding+layers:32");
  const double adapters = 41943040, base = (double)model_parameters(shipped_model("llama-3-8b"));
  ck_assert_double_eq(moved(lora, ACTION_REDUCE_GRAD), 2 * adapters);
  ck_assert_double_eq(moved(sharded, ACTION_REDUCE_GRAD), 2 * adapters);
  ck_assert_double_eq(moved(sharded, ACTION_UNSHARD), 2 * adapters);
  /* two micro-batches, each reduced; weights gathered for each F, and for each B but the embedding's */
  ck_assert_double_eq(moved(fsdp, ACTION_REDUCE_GRAD), 2 * 2 * adapters);
  const double table = 128256 * 4096.;
  ck_assert_double_eq(moved(fsdp, ACTION_UNSHARD), 2 * 2 * (2 * (base + adapters) - table));
  /* … and for no layer where nothing is trained */
  ck_assert_double_eq(moved(ending, ACTION_UNSHARD), 2 * 2 * (base + table + 4096));
}

/* --- refusals --- */

TEST(what_cannot_be_trained_is_refused) {
  static const struct {
    const char *options, *says;
    gboolean is_tied;
  } wrong[] = {{"--freeze layers:9", "freeze layers:9 is more than the 8 layers of model llama"},
               {"--freeze layers:8+embedding+head", "leaves nothing of model llama to train"},
               {"--train lora:4 --freeze layers:8", "leaves nothing"},
               {"--freeze head", "expected freeze embedding+head", TRUE},
               {"--train lora:4 --precision fp8", "not modelled with products in fp8"},
               {"--recipe qlora", "expected --train lora:RANK or --freeze"},
               {"--train lora:4 --zero 3 --offload-optimizer host", "offload-optimizer host"}};
  for (gsize i = 0; i < G_N_ELEMENTS(wrong); i++) {
    Model model = llama;
    model.tied = wrong[i].is_tied;
    g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
    g_autoptr(GError) error = NULL;
    plan_say(plan, "%s", wrong[i].options);
    ck_assert_msg(!plan_complete(plan, &model, NULL, &error), "%s", wrong[i].options);
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE));
    ck_assert_msg(strstr(error->message, wrong[i].says) != NULL, "%s", error->message);
  }
}

TEST(a_gate_must_be_there_to_be_adapted) {
  g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  g_autoptr(GError) error = NULL;
  plan_say(plan, "--train lora:4:gate_proj");
  ck_assert(!plan_complete(plan, &gpt, NULL, &error));
  ck_assert_msg(strstr(error->message, "model gpt has no gate_proj") != NULL, "%s", error->message);
}

TEST(words_that_are_none_are_refused) {
  static const struct {
    const char *option, *text, *says;
  } wrong[] = {{"train", "lora", "lora:RANK such as lora:16"},
               {"train", "full:3", "expected full"},
               {"train", "lora:0", "found \"0\""},
               {"train", "lora:4:q_pro", "did you mean \"q_proj\""},
               {"train", "lora:4:q_proj+q_proj", "q_proj stands twice"},
               {"freeze", "layers", "layers:N"},
               {"freeze", "embedding:2", "layers:N"},
               {"freeze", "embeddings", "expected none, or embedding"},
               {"freeze", "head+head", "head stands twice"}};
  for (gsize i = 0; i < G_N_ELEMENTS(wrong); i++) {
    g_autoptr(Plan) plan = plan_new();
    PlanTarget target = {.plan = plan};
    g_autoptr(GError) error = NULL;
    ck_assert(!plan_field_set(plan_field(plan_field_find(wrong[i].option)), &target, wrong[i].text, &error));
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
    ck_assert_msg(strstr(error->message, wrong[i].says) != NULL, "%s", error->message);
  }
}

int main(void) {
  return run_tests();
}
