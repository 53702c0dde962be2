#include "model_text.h"
#include "run_suite.h"

/* Refused with `code`, and the message holds every one of the NULL-terminated `parts`. */
static void assert_refused(const char *text, StepsimError code, const char *const *parts) {
  g_autoptr(GError) error = NULL;
  g_autoptr(Model) model = read_bytes(text, strlen(text), &error);
  ck_assert_msg(model == NULL, "was read: %s", text);
  ck_assert_ptr_nonnull(error);
  ck_assert_msg(g_error_matches(error, STEPSIM_ERROR, code), "%s", error->message);
  for (int i = 0; parts[i] != NULL; i++)
    ck_assert_msg(strstr(error->message, parts[i]) != NULL, "\"%s\" is not in: %s", parts[i], error->message);
}

#define ASSERT_INPUT(text, ...) assert_refused(text, STEPSIM_ERROR_INPUT, (const char *const[]){__VA_ARGS__, NULL})
#define ASSERT_IMPOSSIBLE(text, ...)                                                                                   \
  assert_refused(text, STEPSIM_ERROR_IMPOSSIBLE, (const char *const[]){__VA_ARGS__, NULL})

TEST(other_kinds_of_model_are_refused_by_key) {
  ASSERT_IMPOSSIBLE("{\n\"model_type\": \"llama\",\n\"num_local_experts\": 8, " LLAMA_CORE "}",
                    ":3:", "num_local_experts", "mixture-of-experts",
                    "is mixtral, gpt_oss, qwen2_moe, qwen3_moe, deepseek_v2, deepseek_v3, kimi_k2, olmoe, glm4_moe, "
                    "minimax_m2, phimoe, granitemoe, dots1, ernie4_5_moe, hunyuan_v1_moe and llama4_text only");
  ASSERT_IMPOSSIBLE("{\"n_routed_experts\": 256, " LLAMA_CORE "}", "n_routed_experts");
  ASSERT_IMPOSSIBLE("{\"num_experts\": 128, " LLAMA_CORE "}", "num_experts");
  ASSERT_IMPOSSIBLE("{\"model_type\": \"llama\", \"kv_lora_rank\": 512, " LLAMA_CORE "}", "kv_lora_rank", "latent",
                    "is deepseek_v2, deepseek_v3 and kimi_k2 only");
  ASSERT_IMPOSSIBLE("{\"model_type\": \"mixtral\", \"num_local_experts\": 8, \"num_experts_per_tok\": 2, "
                    "\"kv_lora_rank\": 512, " LLAMA_CORE "}",
                    "kv_lora_rank", "latent");
  ASSERT_IMPOSSIBLE("{\"model_type\": \"t5\",\n\"is_encoder_decoder\": true}", ":2:", "is_encoder_decoder");
  ASSERT_IMPOSSIBLE(
      "{\"model_type\": \"gemma3\", \"text_config\": {\"hidden_size\": 64},\n\"vision_config\": {\"a\": 1}}",
      ":2: vision_config", "text_config, in a file of its own");
  ASSERT_IMPOSSIBLE("{\"ffn_config\": {\"moe_num_experts\": 16}, " MPT_CORE "}", "moe_num_experts");
  ASSERT_IMPOSSIBLE("{\"ffn_config\": {\"ffn_type\": \"mb_moe\"}, " MPT_CORE "}", "ffn_type", "mb_moe");
  g_autoptr(Model) one_expert = read_text("{\"num_experts\": 1, \"is_encoder_decoder\": false, " LLAMA_CORE "}");
  ck_assert_ptr_nonnull(one_expert);
}

#define QWEN_MOE                                                                                                       \
  "\"model_type\": \"qwen3_moe\", \"num_experts\": 16, \"moe_intermediate_size\": 32, \"decoder_sparse_step\": 1, "

#define DEEPSEEK                                                                                                       \
  "\"model_type\": \"deepseek_v3\", \"num_experts_per_tok\": 2, \"n_routed_experts\": 16, "                            \
  "\"moe_intermediate_size\": 32, \"kv_lora_rank\": 16, \"qk_nope_head_dim\": 16, \"qk_rope_head_dim\": 8, "           \
  "\"v_head_dim\": 16, \"first_k_dense_replace\": 0, "

TEST(experts_that_make_no_sense_are_refused) {
  ASSERT_INPUT(
      "{\"model_type\": \"gpt_oss\", \"num_key_value_heads\": 4,\n\"layer_types\": [\"full_attention\"], " LLAMA_CORE
      "}",
      ":2: layer_types", "layers");
  ASSERT_INPUT("{" QWEN_MOE "\n\"num_experts_per_tok\": null, " LLAMA_CORE "}", "num_experts_per_tok");
  ASSERT_INPUT("{" QWEN_MOE "\n\"num_local_experts\": 8, " LLAMA_CORE "}", "num_experts: found 16",
               "expected 8 as num_local_experts says");
  ASSERT_INPUT("{\"n_embd\": 64, \"n_layer\": 2, \"n_head\": 4, \"vocab_size\": 100,\n\"multi_query\": true}",
               ":2: multi_query: found no model_type", "gpt_bigcode");
  ASSERT_INPUT("{\n\"query_pre_attn_scalar\": 256, " LLAMA_CORE "}", ":2: query_pre_attn_scalar", "gemma2");
  ASSERT_INPUT("{\n\"partial_rotary_factor\": 0.5, " LLAMA_CORE "}", ":2: partial_rotary_factor", "glm4");
  ASSERT_INPUT("{\"use_sliding_window\": false,\n\"no_rope_layers\": [1, 1], " LLAMA_CORE "}", "smollm3");
  ASSERT_INPUT("{\"model_type\": \"seed_oss\", " LLAMA_CORE "}",
               ":1: found 4 attention heads and no key num_key_value_heads", "8 in this family");
  ASSERT_INPUT("{" QWEN_MOE "\n\"num_experts_per_tok\": 17, " LLAMA_CORE "}", ":2:", "17", "at most the 16");
  ASSERT_IMPOSSIBLE("{" QWEN_MOE "\"num_experts_per_tok\": 2,\n\"mlp_only_layers\": [3], " LLAMA_CORE "}",
                    ":2:", "mlp_only_layers");
  ASSERT_INPUT("{" QWEN_MOE "\"num_experts_per_tok\": 2, \"mlp_only_layers\": 3, " LLAMA_CORE "}", "expected a list");
  ASSERT_INPUT("{\"model_type\": \"kimi_k2\", \"num_experts_per_tok\": 2, " LLAMA_CORE "}", "kv_lora_rank");
  ASSERT_INPUT("{\"model_type\": \"qwen3_moe\", \"num_experts\": 16, \"moe_intermediate_size\": 32, "
               "\"decoder_sparse_step\": 3, \"num_experts_per_tok\": 2, " LLAMA_CORE "}",
               "no layer that has them");
  ASSERT_INPUT("{" DEEPSEEK "\n\"moe_layer_freq\": 0, " LLAMA_CORE "}", ":2: moe_layer_freq", "found 0", "from 1");
  ASSERT_INPUT("{" DEEPSEEK "\n\"n_group\": 3, \"topk_group\": 1, " LLAMA_CORE "}", ":2: n_group", "3", "the 16");
  ASSERT_INPUT("{" DEEPSEEK "\"n_group\": 16,\n\"topk_group\": 1, " LLAMA_CORE "}", ":2: topk_group", "whose 1 experts",
               "fewer than the 2 of a token");
  ASSERT_INPUT("{" DEEPSEEK "\"n_group\": 4,\n\"topk_group\": 5, " LLAMA_CORE "}", ":2: topk_group", "5",
               "at most the 4 groups");
}

/* DeepSeek-V2-Lite's config has one group of all experts and says that a token may go to one. */
TEST(one_group_of_experts_limits_nothing) {
  g_autoptr(Model) limited = read_text("{" DEEPSEEK "\"n_group\": 4, \"topk_group\": 2, " LLAMA_CORE "}");
  ck_assert_int_eq(limited->experts.groups_per_token, 2);
  g_autoptr(Model) one = read_text("{" DEEPSEEK "\"n_group\": 1, \"topk_group\": 1, " LLAMA_CORE "}");
  ck_assert_int_eq(one->experts.groups_per_token, 0);
  g_autoptr(Model) greedy =
      read_text("{" DEEPSEEK "\"n_group\": 4, \"topk_group\": 2, \"topk_method\": \"greedy\", " LLAMA_CORE "}");
  ck_assert_int_eq(greedy->experts.groups_per_token, 0);
}

TEST(an_unknown_family_suggests_the_nearest) {
  ASSERT_INPUT("{\n \"model_type\": \"lama\", " LLAMA_CORE "}", ":2: model_type", "\"lama\"",
               "did you mean \"llama\"?");
  ASSERT_INPUT("{}", "model_type", "expected one of");
  ASSERT_INPUT("{\"model_type\": 7}", "model_type: found 7");
}

TEST(a_missing_key_lists_its_spellings_and_the_nearest_there) {
  ASSERT_INPUT("{\"model_type\": \"llama\",\n\"num_hiden_layers\": 2, \"hidden_size\": 64, "
               "\"num_attention_heads\": 4, \"vocab_size\": 100}",
               ":2:", "num_hiden_layers", "the number of layers", "num_hidden_layers or n_layer or n_layers");
  ASSERT_INPUT("{\"num_hidden_layers\": 2, \"hidden_size\": 64, \"num_attention_heads\": 4, \"vocab_size\": 100}",
               "found no key for the MLP's hidden size", "intermediate_size");
  ASSERT_INPUT("{\"n_embd\": 64, \"n_layer\": 2, \"n_head\": 4, \"vocab_size\": 100}", "the number of positions",
               "n_positions");
}

/* A class's default is no guess at what a slip was to say; depth and width have none. */
TEST(a_misspelt_key_is_not_taken_for_one_left_out) {
  ASSERT_INPUT("{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_attention_heads\": 4, \"num_hidden_layers\": 2,"
               "\n\"intermediate_sise\": 96}",
               ":2:", "intermediate_sise", "the MLP's hidden size");
  ASSERT_INPUT("{\"model_type\": \"mistral\", \"hidden_size\": 4096, \"num_hidden_layers\": 2,\n"
               "\"num_key_value_head\": 32}",
               ":2:", "num_key_value_head", "the number of key-value heads");
  ASSERT_INPUT("{\"num_key_value_head\": 2, " LLAMA_CORE "}", "num_key_value_head", "the number of key-value heads");
  ASSERT_INPUT("{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 0}, " LLAMA_CORE "}", "factor: found 0");
  ASSERT_INPUT("{\"rope_scaling\": {\"rope_type\": \"llama3\"}, " LLAMA_CORE "}", "llama3 without a factor");
  ASSERT_INPUT("{\"model_type\": \"mistral\", \"num_hidden_layers\": 2}", "the hidden size");
  ASSERT_INPUT("{\"model_type\": \"mistral\", \"hidden_size\": 4096}", "the number of layers");
}

TEST(an_unknown_architecture_is_not_read_as_llama) {
  ASSERT_INPUT("{\n\"architectures\": [\"InternLMForCausalLM\"], " LLAMA_CORE "}",
               ":2: architectures: found \"InternLMForCausalLM\"", "no model_type", "expected one of");
  ASSERT_INPUT("{\n\"architectures\": [\"Glm4vForConditionalGeneration\"], " LLAMA_CORE "}", ":2: architectures");
}

TEST(values_of_another_type_are_refused_with_their_line) {
  const char *bad[][2] = {{"\"64\"", "found \"64\""},
                          {"64.5", "found 64.5"},
                          {"-64", "found -64"},
                          {"0", "found 0"},
                          {"1e300", "found 1e+300"},
                          {"true", "found true"},
                          {"[64]", "found a list"},
                          {"{}", "found an object"},
                          {"17000000", "found 17000000"},
                          {"-64.0", "found -64.0"},
                          {"64.0000001", "found 64.0000001"},
                          {"16777216.5", "found 16777216.5"},
                          {"17000000.0", "found 17000000.0"}};
  for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
    g_autofree char *text = g_strdup_printf("{\"model_type\": \"llama\",\n\n\"num_hidden_layers\": 2,\n"
                                            "\"hidden_size\": %s,\n\"num_attention_heads\": 4}",
                                            bad[i][0]);
    ASSERT_INPUT(text, ":4: hidden_size", bad[i][1], "expected an integer from 1 to 16777216");
  }
  ASSERT_INPUT("{\"tie_word_embeddings\": \"yes\", " LLAMA_CORE "}", "tie_word_embeddings: found \"yes\"",
               "true or false");
  ASSERT_INPUT("{\"attention_dropout\": 1.5, " LLAMA_CORE "}", "attention_dropout: found 1.5");
  ASSERT_INPUT("{\"attention_dropout\": 1.0000001, " LLAMA_CORE "}", "attention_dropout: found 1.0000001");
  ASSERT_INPUT("{\"attn_config\": 3, " MPT_CORE "}", "attn_config: found 3", "object");
  ASSERT_INPUT("{\"attn_config\": {\"kv_n_heads\": -1}, " MPT_CORE "}", "kv_n_heads: found -1");
}

/* Letters are EXAONE 4's: Gemma 3's class divides by a number. */
TEST(letters_of_windows_are_of_the_family_that_has_them) {
  ASSERT_INPUT("{\"model_type\": \"gemma3_text\", \"sliding_window_pattern\": \"LLLG\", " LLAMA_CORE "}",
               "sliding_window_pattern", "expected an integer");
}

TEST(contradictions_are_refused) {
  ASSERT_INPUT("{\"n_layer\": 3, " LLAMA_CORE "}", "n_layer", "found 3", "expected 2 as num_hidden_layers");
  ASSERT_INPUT("{\"num_key_value_heads\": 3, " LLAMA_CORE "}", "4 attention heads and 3 key-value heads");
  ASSERT_INPUT("{\"hidden_size\": 65, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
               "\"intermediate_size\": 96, \"vocab_size\": 100}",
               "hidden size 65", "4 attention heads");
  ASSERT_INPUT("{\n\"vocab_size\": 100,\n\"vocab_size\": 101}", ":3:", "\"vocab_size\" a second time");
}

TEST(sizes_that_would_overflow_are_refused) {
  ASSERT_INPUT("{\"hidden_size\": 16777216, \"num_hidden_layers\": 100000, \"num_attention_heads\": 1, "
               "\"intermediate_size\": 67108864, \"vocab_size\": 100}",
               "parameters", "at most");
  ASSERT_INPUT("{\"hidden_size\": 18446744073709551617}", "18 digits");
}

TEST(what_is_not_json_is_refused_with_its_line) {
  ASSERT_INPUT("", ":1:");
  ASSERT_INPUT("  \n ", ":2:", "found the end of the file");
  ASSERT_INPUT("[1, 2]", "expected a JSON object");
  ASSERT_INPUT("3", "expected a JSON object");
  ASSERT_INPUT("{\"hidden_size\": NaN}", ":1:", "expected JSON");
  ASSERT_INPUT("{\"hidden_size\":\n 0x40}", ":2:", "\"x\"");
  ASSERT_INPUT("{\n\"a\": 1, // why\n\"b\": 2}", ":2:", "comment");
  ASSERT_INPUT("{\"a\": 1,}", ":1:");
  ASSERT_INPUT("{\"a\": 1}\n{\"a\": 2}", ":2:", "trailing garbage");
  ASSERT_INPUT("{\"a\": \"\xff\"}", ":1:", "found byte 0xff, expected JSON in UTF-8");
}

TEST(deep_nesting_is_refused_without_recursing) {
  gsize n = 1000000;
  g_autofree char *lists = g_strnfill(n, '[');
  g_autofree char *member = g_strconcat("{\"a\":", lists, NULL);
  ASSERT_INPUT(member, "deeper than 64");
  g_autoptr(GString) objects = g_string_new(NULL);
  for (gsize i = 0; i < n; i++)
    g_string_append(objects, "{\"a\":");
  ASSERT_INPUT(objects->str, "deeper than 64");
}

/* Cut anywhere before the closing brace it is an error; with the brace, whatever white space follows, it is the model.
 */
LOOP_TEST(a_config_cut_at_any_byte_is_an_error_or_whole, 2) {
  g_autofree char *path =
      g_build_filename(STEPSIM_SOURCE_DATA, "models", _i == 0 ? "llama-3-8b.json" : "mpt-125m.json", NULL);
  g_autofree char *text = NULL;
  gsize length;
  ck_assert(g_file_get_contents(path, &text, &length, NULL));
  gsize whole = (gsize)(strrchr(text, '}') - text) + 1;
  for (gsize cut = 0; cut <= length; cut++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Model) model = read_bytes(text, cut, &error);
    ck_assert_msg((model != NULL) == (cut >= whole), "cut at %zu of %zu", cut, length);
    ck_assert((error == NULL) == (model != NULL));
  }
}

/* One byte replaced at every place: read or refused, never worse. */
TEST(a_config_with_any_byte_broken_does_no_harm) {
  g_autofree char *path = g_build_filename(STEPSIM_SOURCE_DATA, "models", "falcon-7b.json", NULL);
  g_autofree char *text = NULL;
  gsize length;
  ck_assert(g_file_get_contents(path, &text, &length, NULL));
  const char replacements[] = {'\0', '"', '{', '9', '-', '\\', '\x80'};
  int n_refused = 0;
  for (gsize at = 0; at < length; at++) {
    char kept = text[at];
    g_autoptr(GError) error = NULL;
    text[at] = replacements[at % sizeof replacements];
    g_autoptr(Model) model = read_bytes(text, length, &error);
    ck_assert((error == NULL) == (model != NULL));
    n_refused += model == NULL;
    text[at] = kept;
  }
  ck_assert_int_gt(n_refused, (int)length / 4);
}

TEST(noise_is_refused) {
  gsize length = 10 << 20;
  g_autofree char *noise = g_malloc(length);
  g_autoptr(GRand) random = g_rand_new_with_seed(1);
  for (int only_json_bytes = 0; only_json_bytes < 2; only_json_bytes++) {
    for (gsize i = 0; i < length; i++) {
      guint32 r = g_rand_int(random);
      noise[i] = only_json_bytes ? "{}[]:,\"1e-. \n"[r % 13] : (char)r;
    }
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(read_bytes(noise, length, &error));
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
  }
}

TEST(too_many_values_are_refused_at_once) {
  g_autoptr(GString) list = g_string_new("{\"a\": [1");
  for (int i = 0; i < 2000000; i++)
    g_string_append(list, ",1");
  g_string_append(list, "]}");
  ASSERT_INPUT(list->str, "more than 200,000 values");
}

TEST(a_file_beyond_the_limit_is_refused) {
  gsize length = (64 << 20) + 1;
  g_autofree char *spaces = g_strnfill(length, ' ');
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(read_bytes(spaces, length, &error));
  ck_assert_ptr_nonnull(strstr(error->message, "larger than 64 MiB"));
}

int main(void) {
  return run_tests();
}
