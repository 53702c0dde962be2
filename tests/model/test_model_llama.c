/* Llama's descendants: defaults for keys their configs omit, and what they add to a block. */
#include "model_text.h"
#include "run_suite.h"

/* hidden 64, 2 layers, 4 heads, as many of keys and values unless the keys say otherwise, MLP 96, 100 words. */
static Model *read_type(const char *type, const char *keys) {
  const char *heads = strstr(keys, "num_key_value_heads") != NULL ? "" : "\"num_key_value_heads\": null, ";
  g_autofree char *text = g_strdup_printf("{\"model_type\": \"%s\", %s%s " LLAMA_CORE "}", type, heads, keys);
  return read_text(text);
}

TEST(gemma_has_wide_heads_and_one_table) {
  g_autoptr(Model) m = read_type("gemma", "");
  ck_assert(m->tied && m->gated && !m->qkv_bias && !m->post_norms && !m->capped_logits);
  ck_assert_int_eq(m->head_dim, 256);
  ck_assert_int_eq(m->norm, NORM_RMSNORM);
}

/* What the config names, whichever key it uses; else the family's, which is GELU behind Gemma's gate. */
TEST(activations_are_the_configs_or_the_familys) {
  static const struct {
    const char *type, *keys;
    Activation activation;
  } cases[] = {{"llama", "", ACTIVATION_SILU},
               {"llama", "\"hidden_act\": \"gelu_pytorch_tanh\", ", ACTIVATION_GELU},
               {"llama", "\"hidden_act\": \"mish\", ", ACTIVATION_OTHER},
               {"gemma", "\"hidden_activation\": null, ", ACTIVATION_GELU},
               {"gemma2", "\"hidden_activation\": \"silu\", \"hidden_act\": \"gelu\", ", ACTIVATION_SILU},
               {"nemotron", "", ACTIVATION_SQUARED_RELU},
               {"opt", "\"max_position_embeddings\": 8, ", ACTIVATION_RELU},
               {"opt", "\"max_position_embeddings\": 8, \"activation_function\": \"gelu\", ", ACTIVATION_GELU},
               {"falcon", "\"activation\": \"swish\", ", ACTIVATION_SILU},
               {"starcoder2", "", ACTIVATION_GELU}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Model) m = read_type(cases[i].type, cases[i].keys);
    ck_assert_int_eq(model_activation(m), cases[i].activation);
  }
}

/* Four norms of 64 a layer in place of two; of q and k of Gemma 3 two of 256 besides. */
TEST(gemmas_two_and_three_have_norms_behind_their_branches) {
  g_autoptr(Model) one = read_type("gemma", "");
  g_autoptr(Model) two = read_type("gemma2", "");
  g_autoptr(Model) three = read_type("gemma3_text", "");
  ck_assert_int_eq(model_layer_parameters(two) - model_layer_parameters(one), 2 * 64);
  ck_assert_int_eq(model_layer_parameters(three) - model_layer_parameters(two), 2 * 256);
  ck_assert(two->post_norms && three->post_norms && two->capped_logits && !three->capped_logits);
  g_autoptr(Model) uncapped = read_type("gemma2", "\"final_logit_softcapping\": null, ");
  ck_assert(!uncapped->capped_logits);
}

/* Of 26 layers every sixth is whole, 4 of them; of Gemma 2 every second; of OLMo 3 and Command R7B every fourth. */
TEST(windows_come_in_turns_as_the_family_has_them) {
#define LAYERS "\"hidden_size\": 64, \"num_hidden_layers\": 26, \"num_attention_heads\": 4, \"intermediate_size\": 96, "
  static const struct {
    const char *keys;
    gint64 window;
    double windowed; /* layers of 26 */
  } cases[] = {{"\"model_type\": \"gemma3_text\", \"sliding_window\": 512, ", 512, 22},
               {"\"model_type\": \"mistral\", ", 4096, 0}, /* all */
               {"\"model_type\": \"mistral\", \"sliding_window\": null, ", 0, 0},
               {"\"model_type\": \"gemma3_text\", \"sliding_window_pattern\": 2, ", 4096, 13},
               {"\"model_type\": \"gemma2\", ", 4096, 13},
               {"\"model_type\": \"gemma2\", \"sliding_window\": null, ", 0, 0},
               {"\"model_type\": \"olmo3\", \"sliding_window\": 1024, ", 1024, 20},
               {"\"model_type\": \"cohere2\", ", 4096, 20},
               {"\"model_type\": \"gpt_oss\", \"num_experts_per_tok\": 2, ", 128, 13}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text =
        g_strdup_printf("{%s" LAYERS "\"num_key_value_heads\": 4, \"vocab_size\": 100}", cases[i].keys);
    g_autoptr(Model) m = read_text(text);
    ck_assert_int_eq(m->window, cases[i].window);
    ck_assert_double_eq_tol(m->windowed_share, cases[i].windowed / 26, 1e-12);
    ck_assert(!m->some_windowed);
  }
}

TEST(olmo_normalises_all_heads_together) {
  g_autoptr(Model) llama = read_type("llama", "");
  g_autoptr(Model) m = read_type("olmo2", "");
  ck_assert_int_eq(m->qk_norms, QK_NORMS_WHOLE);
  ck_assert_int_eq(model_layer_parameters(m) - model_layer_parameters(llama), 2 * 64);
  g_autoptr(Model) experts = read_type("olmoe", "\"num_experts\": 8, \"num_experts_per_tok\": 2, ");
  ck_assert_int_eq(experts->experts.n, 8);
  ck_assert_int_eq(experts->experts.ffn_hidden, 96);
}

/* Neither scale nor shift: QKV and out 4·64², MLP 3·64·96; two tables of 100 words, no final norm either. */
TEST(olmo_one_has_norms_without_weights) {
  g_autoptr(Model) m = read_type("olmo", "");
  ck_assert(m->gated && !m->tied && !model_has_out_bias(m));
  ck_assert_int_eq(m->norm, NORM_LAYERNORM);
  ck_assert_int_eq(model_parameters(m), 2 * (16384 + 18432) + 2 * 6400);
}

/* Two LayerNorms of scale and shift, one of them where the branches stand side by side; of q and k, 4 heads of 16
 * each, a scale alone; biases of q, k and v, 3·64. */
TEST(stablelm_has_layernorms_and_a_gate) {
  g_autoptr(Model) m = read_type("stablelm", "");
  ck_assert(m->gated && !m->tied && !m->parallel_block && !m->qkv_bias);
  ck_assert_int_eq(model_layer_parameters(m), 16384 + 18432 + 4 * 64);
  g_autoptr(Model) two = read_type("stablelm", "\"use_parallel_residual\": true, \"qk_layernorm\": true, "
                                               "\"use_qkv_bias\": true, ");
  ck_assert(two->parallel_block && !model_has_out_bias(two));
  ck_assert_int_eq(two->qk_norms, QK_NORMS_OWN);
  ck_assert_int_eq(model_layer_parameters(two), 16384 + 18432 + 2 * 64 + 2 * 64 + 3 * 64);
}

TEST(glm_has_biases_of_q_k_and_v_alone) {
  g_autoptr(Model) m = read_type("glm4", "");
  ck_assert(m->qkv_bias && !model_has_out_bias(m) && !model_has_mlp_bias(m) && m->post_norms);
  ck_assert_int_eq(m->head_dim, 128);
  g_autoptr(Model) older = read_type("glm", "");
  ck_assert(older->qkv_bias && !older->post_norms);
  g_autoptr(Model) bare = read_type("glm", "\"attention_bias\": false, ");
  ck_assert(!bare->qkv_bias);
}

#define GLM_EXPERTS                                                                                                    \
  "\"n_routed_experts\": 8, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 16, \"n_shared_experts\": 2, "      \
  "\"first_k_dense_replace\": 1, \"n_group\": 1, \"topk_group\": 1, \"num_key_value_heads\": 4, "

TEST(glm_has_experts_as_deepseek_without_its_attention) {
  g_autoptr(Model) m = read_type("glm4_moe", GLM_EXPERTS "\"num_nextn_predict_layers\": 1, ");
  ck_assert_int_eq(m->latent.kv_rank, 0);
  ck_assert_int_eq(m->qk_norms, QK_NORMS_NONE);
  ck_assert_int_eq(m->n_next_layers, 1);
  ck_assert_int_eq(m->experts.shared_ffn_hidden, 32);
  ck_assert_int_eq(m->experts.n_groups, 0);
  ck_assert_int_eq(model_dense_layers(m, 0, 2), 1);
  /* QKV and out 4·64·64, two norms, a gate of 8·64 and 8 biases, 8 experts and a shared one of 3·64·(8·16 + 32) */
  ck_assert_int_eq(model_layer_parameters(m), 16384 + 128 + 520 + 30720);
  g_autoptr(Model) normed = read_type("glm4_moe", GLM_EXPERTS "\"use_qk_norm\": true, ");
  ck_assert_int_eq(model_layer_parameters(normed) - model_layer_parameters(m), 2 * 16);
}

/* 4096 wide in 2 layers of 32 heads: key-value heads where the key is not there, and where it is null. */
TEST(key_value_heads_that_are_not_named_are_the_family_s) {
  static const struct {
    const char *type;
    gint64 silent;
  } cases[] = {{"llama", 32},      {"phi3", 32},
               {"mistral", 8},     {"mixtral", 8},
               {"qwen2", 32},      {"qwen2_moe", 16},
               {"qwen3", 32},      {"qwen3_moe", 4},
               {"gpt_oss", 8},     {"gemma", 16},
               {"gemma2", 4},      {"gemma3_text", 4},
               {"starcoder2", 2},  {"stablelm", 32},
               {"glm", 2},         {"glm4", 2},
               {"glm4_moe", 8},    {"smollm3", 4},
               {"seed_oss", 8},    {"cohere", 32},
               {"granite", 32},    {"deepseek_v3", 32},
               {"ernie4_5", 2},    {"exaone4", 32},
               {"arcee", 32},      {"hunyuan_v1_dense", 32},
               {"minimax_m2", 8},  {"phimoe", 8},
               {"granitemoe", 32}, {"ernie4_5_moe", 4}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    static const char *const keys[] = {"", "\"num_key_value_heads\": null, ", "\"num_key_value_heads\": 1, "};
    const gint64 expected[] = {cases[i].silent, 32, strcmp(cases[i].type, "deepseek_v3") == 0 ? 32 : 1};
    for (gsize j = 0; j < G_N_ELEMENTS(keys); j++) {
      g_autofree char *text =
          g_strdup_printf("{\"model_type\": \"%s\", %s\"hidden_size\": 4096, \"num_hidden_layers\": 4, "
                          "\"num_attention_heads\": 32}",
                          cases[i].type, keys[j]);
      g_autoptr(Model) m = read_text(text);
      ck_assert_int_eq(m->n_kv_heads, expected[j]);
    }
  }
}

/* Without the keys GLM-4.5's class has one shared expert and one dense layer. */
TEST(experts_that_are_not_named_are_the_family_s) {
  g_autoptr(Model) m = read_type("glm4_moe", "\"num_key_value_heads\": 4, \"n_routed_experts\": 8, "
                                             "\"num_experts_per_tok\": 2, \"moe_intermediate_size\": 16, ");
  ck_assert_int_eq(m->experts.shared_ffn_hidden, 16);
  ck_assert_int_eq(m->experts.n_leading, 1);
  g_autoptr(Model) renamed = read_type("qwen3_moe", "\"num_local_experts\": 16, ");
  ck_assert_int_eq(renamed->experts.n, 16);
  ck_assert_int_eq(renamed->experts.per_token, 8);
  g_autoptr(Model) direct = read_type("deepseek_v3", "\"q_lora_rank\": null, \"first_k_dense_replace\": 0, ");
  ck_assert_int_eq(direct->latent.q_rank, 0);
  ck_assert_int_eq(direct->head_dim, 192);
}

/* A class's own defaults are those of the model that it was made for: depth and width are enough to say which. */
TEST(a_config_that_leaves_all_to_its_class_is_the_class_s_model) {
  static const struct {
    const char *type, *same_as;
    int hidden, n_layers;
  } cases[] = {{"llama", "llama-2-7b", 4096, 32},       {"mistral", "mistral-7b", 4096, 32},
               {"mixtral", "mixtral-8x7b", 4096, 32},   {"gemma", "gemma-7b", 3072, 28},
               {"gpt_oss", "gpt-oss-120b", 2880, 36},   {"glm4", "glm-4-9b", 4096, 40},
               {"stablelm", "stablelm-3b", 2560, 32},   {"olmo", "olmo-7b", 4096, 32},
               {"phi3", "phi-3-mini", 3072, 32},        {"seed_oss", "seed-oss-36b", 5120, 64},
               {"cohere", "command-r", 8192, 40},       {"gpt_neox", "gpt-neox-20b", 6144, 44},
               {"gptj", "gpt-j-6b", 4096, 28},          {"gpt2", "gpt2", 768, 12},
               {"deepseek_v3", "deepseek-v3", 7168, 61}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = g_strdup_printf("{\"model_type\": \"%s\", \"hidden_size\": %d, \"num_hidden_layers\": %d}",
                                            cases[i].type, cases[i].hidden, cases[i].n_layers);
    g_autofree char *file = g_strdup_printf(STEPSIM_SOURCE_DATA "/models/%s.json", cases[i].same_as);
    g_autoptr(Model) silent = read_text(text);
    g_autoptr(Model) named = model_read(file, NULL);
    ck_assert_msg(model_parameters(silent) == model_parameters(named),
                  "%s: %" G_GINT64_FORMAT " parameters, %" G_GINT64_FORMAT " of %s", cases[i].type,
                  model_parameters(silent), model_parameters(named), cases[i].same_as);
    ck_assert_int_eq(model_active_parameters(silent), model_active_parameters(named));
  }
}

/* The text_config of Gemma-3-4B names no more than this. A layer: q and out 2·2560·2048, k and v 2·2560·1024, MLP
 * 3·2560·10240, norms 4·2560 + 2·256; one table of 262208 words, a norm behind all. */
TEST(the_text_part_of_a_gemma_is_read_from_the_few_keys_it_names) {
  g_autoptr(Model) m = read_text("{\"hidden_size\": 2560, \"intermediate_size\": 10240, "
                                 "\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 34, "
                                 "\"rope_scaling\": {\"factor\": 8.0, \"rope_type\": \"linear\"}, "
                                 "\"sliding_window\": 1024}");
  ck_assert_int_eq(model_parameters(m), 34 * 94382592LL + 262208LL * 2560 + 2560);
}

TEST(architectures_tell_the_family_where_model_type_does_not) {
  static const struct {
    const char *architecture;
    gint64 n_kv_heads, head_dim;
  } cases[] = {{"LlamaForCausalLM", 32, 128},  {"LLaMAForCausalLM", 32, 128},
               {"Glm4ForCausalLM", 2, 128},    {"GlmModel", 2, 128},
               {"Gemma2ForCausalLM", 4, 256},  {"MistralForSequenceClassification", 8, 128},
               {"Qwen3MoeForCausalLM", 4, 128}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = g_strdup_printf("{\"architectures\": [\"%s\"], \"hidden_size\": 4096, "
                                            "\"num_hidden_layers\": 2, \"num_attention_heads\": 32}",
                                            cases[i].architecture);
    g_autoptr(Model) m = read_text(text);
    ck_assert_int_eq(m->n_kv_heads, cases[i].n_kv_heads);
    ck_assert_int_eq(m->head_dim, cases[i].head_dim);
  }
  g_autoptr(Model) behind = read_text("{\"architectures\": [\"Glm4ForCausalLM\"], \"partial_rotary_factor\": 0.5, "
                                      "\"num_key_value_heads\": 4, " LLAMA_CORE "}");
  ck_assert(behind->post_norms && behind->qkv_bias);
}

TEST(seed_oss_has_biases_of_q_k_and_v_unless_it_says_more) {
  g_autoptr(Model) m = read_type("seed_oss", "\"num_key_value_heads\": 4, ");
  ck_assert(m->qkv_bias && !model_has_out_bias(m) && !model_has_mlp_bias(m) && m->dropout_rate.hidden > 0);
  g_autoptr(Model) out =
      read_type("seed_oss", "\"num_key_value_heads\": 4, \"attention_bias\": false, \"attention_out_bias\": true, "
                            "\"residual_dropout\": 0, \"attention_dropout\": 0.0, ");
  ck_assert(!out->qkv_bias && model_has_out_bias(out) && !model_has_mlp_bias(out) && out->dropout_rate.hidden == 0);
}

TEST(command_r_has_one_norm_for_both_branches) {
  g_autoptr(Model) m = read_type("cohere", "");
  ck_assert(m->parallel_block && m->bare_norms && m->gated && m->tied);
  ck_assert_int_eq(m->norm, NORM_LAYERNORM);
  /* QKV and out 4·64², MLP 3·64·96, one norm */
  ck_assert_int_eq(model_layer_parameters(m), 16384 + 18432 + 64);
  g_autoptr(Model) normed = read_type("cohere", "\"use_qk_norm\": true, ");
  ck_assert_int_eq(model_layer_parameters(normed) - model_layer_parameters(m), 2 * 64);
  ck_assert_int_eq(normed->qk_norms, QK_NORMS_OWN);
}

/* Of scores 1/sqrt(16) is what others have, and 1 what Granite's class has where the config is silent. */
TEST(numbers_of_its_own_that_a_model_multiplies_by_are_noticed) {
  static const struct {
    const char *type, *keys;
    gboolean has_any;
  } cases[] = {{"granite", "", TRUE},
               {"granite", "\"attention_multiplier\": 0.25, ", FALSE},
               {"granite", "\"attention_multiplier\": 0.25, \"embedding_multiplier\": 12.0, ", TRUE},
               {"granite", "\"attention_multiplier\": 0.25, \"residual_multiplier\": 0.22, ", TRUE},
               {"granite", "\"attention_multiplier\": 0.25, \"logits_scaling\": 16, ", TRUE},
               {"gemma", "", TRUE},
               {"cohere", "", TRUE},
               {"cohere2", "\"logit_scale\": 1, ", FALSE},
               {"llama", "", FALSE}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Model) m = read_type(cases[i].type, cases[i].keys);
    ck_assert_int_eq(model_has_factors(m), cases[i].has_any);
  }
  g_autoptr(Model) granite = read_type("granite", "\"residual_multiplier\": 0.22, \"logits_scaling\": 16, ");
  ck_assert_double_eq(granite->factors.branches, 0.22);
  ck_assert_double_eq(granite->factors.logits, 1.0 / 16); /* which it divides by */
  ck_assert_double_eq(granite->factors.scores, 1);
  /* 64 columns; a divisor of its own, whatever a head has */
  g_autoptr(Model) gemma = read_type("gemma2", "\"head_dim\": 16, ");
  ck_assert_double_eq(gemma->factors.embedding, 8);
  ck_assert_double_eq(gemma->factors.scores, 1.0 / 16);
  g_autoptr(Model) narrow = read_type("gemma2", "\"head_dim\": 16, \"query_pre_attn_scalar\": 16, ");
  ck_assert_double_eq(narrow->factors.scores, 0); /* as others */
  g_autoptr(Model) by_layer = read_type("gpt2", "\"scale_attn_by_inverse_layer_idx\": true, ");
  g_autoptr(Model) plain = read_type("gpt2", "\"scale_attn_weights\": false, ");
  g_autoptr(Model) gpt2 = read_type("gpt2", "");
  ck_assert(by_layer->factors.by_layer && model_has_factors(by_layer) && !model_has_factors(gpt2));
  ck_assert_double_eq(plain->factors.scores, 1);
  ck_assert(!plain->factors.by_layer);
  g_autoptr(Model) mpt = read_type("mpt", "\"attn_config\": {\"softmax_scale\": 0.5}, ");
  g_autoptr(Model) usual = read_type("mpt", "\"attn_config\": {\"softmax_scale\": null}, ");
  ck_assert_double_eq(mpt->factors.scores, 0.5);
  ck_assert_double_eq(usual->factors.scores, 0);
  /* the third version's class has 2.5 */
  g_autoptr(Model) v3 = read_type("deepseek_v3", "\"first_k_dense_replace\": 0, ");
  g_autoptr(Model) one = read_type("deepseek_v3", "\"first_k_dense_replace\": 0, \"routed_scaling_factor\": 1, ");
  ck_assert_double_eq(v3->factors.experts, 2.5);
  ck_assert_double_eq(one->factors.experts, 0);
  g_autoptr(Model) glm = read_type("glm4_moe", "");
  ck_assert(glm->experts.biased_scores && glm->factors.experts == 0);
}

TEST(starcoders_have_layernorms_and_biases) {
  g_autoptr(Model) two = read_type("starcoder2", "\"num_key_value_heads\": 2, \"residual_dropout\": 0.2, ");
  ck_assert(!two->gated && two->tied && two->qkv_bias && two->linear_bias && two->dropout_rate.hidden > 0);
  ck_assert_double_eq(two->dropout_rate.hidden, 0.2);
  ck_assert_int_eq(two->positions, POSITIONS_ROTARY);
  g_autoptr(Model) bare = read_type("starcoder2", "\"use_bias\": false, ");
  ck_assert(!bare->qkv_bias && !bare->linear_bias && bare->dropout_rate.hidden == 0);
  g_autoptr(Model) one = read_text("{\"model_type\": \"gpt_bigcode\", \"n_embd\": 64, \"n_layer\": 2, \"n_head\": 4, "
                                   "\"n_inner\": null, \"vocab_size\": 100, \"n_positions\": 32}");
  ck_assert_int_eq(one->n_kv_heads, 1);
  ck_assert_int_eq(one->ffn_hidden, 256);
  g_autoptr(Model) all = read_text("{\"model_type\": \"gpt_bigcode\", \"n_embd\": 64, \"n_layer\": 2, \"n_head\": 4, "
                                   "\"multi_query\": false, \"vocab_size\": 100, \"n_positions\": 32}");
  ck_assert_int_eq(all->n_kv_heads, 4);
}

/* YaRN's factor is 1 where it says so, where its two scales are the same, and where nothing is stretched. */
TEST(yarn_multiplies_what_it_rotates_by) {
  static const struct {
    const char *rope;
    gboolean scaled;
  } cases[] = {
      {"\"type\": \"yarn\", \"factor\": 32.0", TRUE},
      {"\"rope_type\": \"yarn\", \"factor\": 4.0, \"mscale\": 0.707, \"mscale_all_dim\": 0.707", FALSE},
      {"\"rope_type\": \"yarn\", \"factor\": 4.0, \"mscale\": 1.0, \"mscale_all_dim\": 0.707", TRUE},
      {"\"rope_type\": \"yarn\", \"factor\": 4.0, \"attention_factor\": 1.0", FALSE},
      {"\"rope_type\": \"yarn\", \"factor\": 1.0", FALSE},
      {"\"rope_type\": \"linear\", \"factor\": 8.0", FALSE},
      {"\"rope_type\": \"llama3\", \"factor\": 8.0", FALSE},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = g_strdup_printf("{\"rope_scaling\": {%s}, " LLAMA_CORE "}", cases[i].rope);
    g_autoptr(Model) model = read_text(text);
    ck_assert_msg(model->scaled_rotation == cases[i].scaled, "%s", cases[i].rope);
  }
}

int main(void) {
  return run_tests();
}
