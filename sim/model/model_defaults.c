/* Defaults of Transformers' *Config classes, src/transformers/models/<type>/configuration_<type>.py, in some release
 * of v4.46 to v5.0 (2024-26). Values known to differ between releases (RoPE bases of Cohere and OLMo 3) are left out.
 * RefinedWeb's are Falcon's. max_positions is given only where positions are learned.
 *
 * Qwen 1's and Baichuan's are published with their weights (2023), not in Transformers. Kimi-K2's class is in no
 * release: its configs name everything. DeepSeek-V2's class has no default for the experts per token. */
#include "model_defaults.h"

#include <string.h>

#define LATENT .latent = {.kv_rank = 512, .q_rank = 1536, .rope_dim = 64, .v_head_dim = 128}

/* Vocabulary, attention heads and MLP. */
#define SIZES(words, heads, ffn) .vocab = (words), .n_heads = (heads), .ffn_hidden = (ffn)

static const ModelDefaults defaults[] = {
    {"mpt", "MPT", {SIZES(50368, 16, 0), .max_positions = 2048}},
    {"gpt2", "GPT2", {SIZES(50257, 12, 0), .max_positions = 1024}},
    {"gpt_bigcode", "GPTBigCode", {SIZES(50257, 12, 0), .max_positions = 1024}},
    {"gpt_neox", "GPTNeoX", {SIZES(50432, 64, 24576)}},
    {"gptj", "GPTJ", {SIZES(50400, 16, 0)}},
    {"codegen", "CodeGen", {SIZES(50400, 16, 0)}},
    {"phi", "Phi", {SIZES(51200, 32, 8192)}},
    {"falcon", "Falcon", {SIZES(65024, 71, 0)}},
    {"RefinedWeb", "RW", {SIZES(65024, 71, 0)}},
    {"RefinedWebModel", NULL, {SIZES(65024, 71, 0)}},
    {"bloom", "Bloom", {SIZES(250880, 8, 0)}},
    {"opt", "OPT", {SIZES(50272, 12, 3072), .max_positions = 2048}},
    {"qwen2", "Qwen2", {SIZES(151936, 32, 22016), .n_kv_heads = 32}},
    {"qwen3", "Qwen3", {SIZES(151936, 32, 22016), .n_kv_heads = 32, .head_dim = 128}},
    {"mixtral",
     "Mixtral",
     {SIZES(32000, 32, 14336), .rotary_base = 1e6, .n_kv_heads = 8, .experts = {.n = 8, .per_token = 2}}},
    {"gpt_oss",
     "GptOss",
     {SIZES(201088, 64, 2880), .rotary_base = 150000, .n_kv_heads = 8, .head_dim = 64,
      .experts = {.n = 128, .per_token = 4}}},
    {"qwen2_moe",
     "Qwen2Moe",
     {SIZES(151936, 16, 5632), .n_kv_heads = 16,
      .experts = {.n = 60, .per_token = 4, .ffn_hidden = 1408, .shared_ffn_hidden = 5632}}},
    {"qwen3_moe",
     "Qwen3Moe",
     {SIZES(151936, 32, 6144), .n_kv_heads = 4, .experts = {.n = 128, .per_token = 8, .ffn_hidden = 768}}},
    {"deepseek_v2",
     "DeepseekV2",
     {SIZES(32000, 32, 11008), LATENT, .experts = {.n = 64, .ffn_hidden = 1407, .shared_ffn_hidden = 2 * 1407}}},
    {"deepseek_v3",
     "DeepseekV3",
     {SIZES(129280, 128, 18432), LATENT,
      .experts = {.n = 256,
                  .per_token = 8,
                  .ffn_hidden = 2048,
                  .shared_ffn_hidden = 2048,
                  .n_groups = 8,
                  .groups_per_token = 4,
                  .biased_scores = TRUE,
                  .n_leading = 3},
      .factors = {.experts = 2.5}}},
    {"gemma", "Gemma", {SIZES(256000, 16, 24576), .n_kv_heads = 16, .head_dim = 256}},
    {"gemma2", "Gemma2", {SIZES(256000, 8, 9216), .n_kv_heads = 4, .head_dim = 256}},
    {"gemma3_text", "Gemma3", {SIZES(262208, 8, 9216), .rotary_base = 1e6, .n_kv_heads = 4, .head_dim = 256}},
    {"olmo", "Olmo", {SIZES(50304, 32, 11008)}},
    {"olmo2", "Olmo2", {SIZES(50304, 32, 11008)}},
    {"olmo3", "Olmo3", {SIZES(50304, 32, 11008)}},
    {"olmoe", "Olmoe", {SIZES(50304, 16, 2048), .experts = {.n = 64, .per_token = 8}}},
    {"minimax_m2",
     "MiniMaxM2",
     {SIZES(200064, 48, 1536), .rotary_base = 5e6, .n_kv_heads = 8, .head_dim = 128,
      .experts = {.n = 256, .per_token = 8, .biased_scores = TRUE}}},
    {"phimoe",
     "Phimoe",
     {SIZES(32064, 32, 6400), .rotary_base = 1e6, .n_kv_heads = 8, .experts = {.n = 16, .per_token = 2}}},
    {"granitemoe", "GraniteMoe", {SIZES(32000, 32, 11008), .experts = {.n = 8, .per_token = 2}}},
    {"dots1",
     "Dots1",
     {SIZES(152064, 32, 10944), .n_kv_heads = 32, .experts = {.ffn_hidden = 1408, .biased_scores = TRUE}}},
    {"ernie4_5", "Ernie4_5", {SIZES(103424, 16, 3072), .rotary_base = 500000, .n_kv_heads = 2, .head_dim = 128}},
    {"ernie4_5_moe",
     "Ernie4_5_Moe",
     {SIZES(103424, 20, 12288), .rotary_base = 500000, .n_kv_heads = 4,
      .experts = {.n = 64,
                  .per_token = 6,
                  .ffn_hidden = 1536,
                  .shared_ffn_hidden = 2 * 1536,
                  .n_leading = 1,
                  .biased_scores = TRUE,
                  .softmax_scores = TRUE}}},
    {"hunyuan_v1_dense", "HunYuanDenseV1", {SIZES(290943, 32, 11008)}},
    {"hunyuan_v1_moe", "HunYuanMoEV1", {SIZES(290943, 32, 11008), .experts = {.per_token = 1}}},
    {"arcee", "Arcee", {SIZES(32000, 32, 18432)}},
    {"exaone4", "Exaone4", {SIZES(102400, 32, 16384), .n_kv_heads = 32}},
    {"stablelm", "StableLm", {SIZES(50304, 32, 6912), .n_kv_heads = 32}},
    {"glm", "Glm", {SIZES(151552, 32, 13696), .n_kv_heads = 2, .head_dim = 128}},
    {"glm4", "Glm4", {SIZES(151552, 32, 13696), .n_kv_heads = 2, .head_dim = 128}},
    {"glm4_moe",
     "Glm4Moe",
     {SIZES(151552, 96, 10944), .n_kv_heads = 8,
      .experts = {.n = 128,
                  .per_token = 8,
                  .ffn_hidden = 1408,
                  .shared_ffn_hidden = 1408,
                  .n_leading = 1,
                  .biased_scores = TRUE}}},
    {"smollm3", "SmolLM3", {SIZES(128256, 16, 11008), .rotary_base = 2e6, .n_kv_heads = 4}},
    {"seed_oss", "SeedOss", {SIZES(155136, 80, 27648), .n_kv_heads = 8, .head_dim = 128}},
    {"cohere", "Cohere", {SIZES(256000, 64, 22528)}},
    {"cohere2", "Cohere2", {SIZES(256000, 64, 22528)}},
    {"starcoder2", "Starcoder2", {SIZES(49152, 24, 12288), .n_kv_heads = 2}},
    {"nemotron", "Nemotron", {SIZES(256000, 48, 24576)}},
    {"granite", "Granite", {SIZES(32000, 32, 11008)}},
    {"baichuan", "Baichuan", {.n_layers = 0}}, /* two classes, whose defaults differ */
    {"qwen", "QWen", {SIZES(151936, 32, 22016)}},
    {"llama4_text",
     "Llama4",
     {SIZES(202048, 40, 8192), .rotary_base = 500000, .n_kv_heads = 8, .head_dim = 128,
      .experts = {.n = 16, .per_token = 1}}},
    {"llama", "Llama", {SIZES(32000, 32, 11008)}},
    {"mistral", "Mistral", {SIZES(32000, 32, 14336), .n_kv_heads = 8}},
    {"phi3", "Phi3", {SIZES(32064, 32, 8192)}},
};

const ModelDefaults *model_defaults_of(const char *type) {
  for (gsize i = 0; i < G_N_ELEMENTS(defaults); i++)
    if (g_strcmp0(type, defaults[i].type) == 0)
      return &defaults[i];
  return NULL;
}

const ModelDefaults *model_defaults_of_architecture(const char *name) {
  static const char *const ends[] = {"For", "Model", "LMHead", "PreTrained"};
  for (gsize i = 0; i < G_N_ELEMENTS(defaults); i++) {
    const char *start = defaults[i].architecture;
    if (start == NULL || g_ascii_strncasecmp(name, start, strlen(start)) != 0)
      continue;
    for (gsize j = 0; j < G_N_ELEMENTS(ends); j++)
      if (g_str_has_prefix(name + strlen(start), ends[j]))
        return &defaults[i];
  }
  return NULL;
}
