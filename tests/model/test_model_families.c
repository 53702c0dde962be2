/* Llama's descendants of 2024 to 2025, most of them with experts: parameter sums of their published configs, defaults
 * of their classes for keys a config omits, and the features particular to each. */
#include "model_text.h"
#include "run_suite.h"

typedef struct {
  const char *text;
  double billions, digits;      /* of all parameters, as printed */
  double active, active_digits; /* of a token's; of a dense model all */
} Published;

#define ERNIE "\"model_type\": \"ernie4_5_moe\", "
#define LLLG "\"model_type\": \"exaone4\", \"sliding_window_pattern\": \"LLLG\", "

/* What the configs of these name: MiniMaxAI/MiniMax-M2.1 (2025-12) and MiniMax-M2 under its first model_type,
 * microsoft/Phi-3.5-MoE-instruct, rednote-hilab/dots.llm1.base, ibm-granite/granite-3.1-3b-a800m-base and
 * -1b-a400m-base, baidu/ERNIE-4.5-21B-A3B-PT, -300B-A47B-PT and -0.3B-PT, tencent/Hunyuan-A13B-Instruct and
 * Hunyuan-7B-Instruct, LGAI-EXAONE/EXAONE-4.0-32B and -1.2B, arcee-ai/AFM-4.5B. As printed in billions: 229 and 10 (the
 * card, which counts a token's without the two tables of 0.6 each), 41.9 and 6.6 (the card), 142 and 14 (arXiv
 * 2506.05767 §1), 3.3 and 0.8, 1.3 and 0.4 (the cards), as their names say of ERNIE, Hunyuan and Arcee (80 and 13 of
 * Hunyuan-A13B), 30.95 and 1.07 of EXAONE (the cards, without tables of 0.524 and 0.21, of which the larger model has
 * two). Not checked against their sources: the sizes of ERNIE's 300B and of Hunyuan-A13B, and the cards' numbers of
 * Granite, EXAONE and Arcee. */
static const Published published[] = {
    {"{\"model_type\": \"minimax_m2\", \"hidden_size\": 3072, \"num_hidden_layers\": 62, \"intermediate_size\": 1536, "
     "\"num_attention_heads\": 48, \"num_key_value_heads\": 8, \"head_dim\": 128, \"num_experts_per_tok\": 8, "
     "\"num_local_experts\": 256, \"rotary_dim\": 64, \"vocab_size\": 200064}",
     229, 0.5, 10, 1.1},
    {"{\"model_type\": \"minimax\", \"architectures\": [\"MiniMaxM2ForCausalLM\"], \"hidden_size\": 3072, "
     "\"num_hidden_layers\": 62}",
     229, 0.5, 10, 1.1},
    {"{\"model_type\": \"phimoe\", \"hidden_size\": 4096, \"num_hidden_layers\": 32, \"attention_bias\": true, "
     "\"lm_head_bias\": true}",
     41.9, 0.05, 6.6, 0.05},
    {"{\"model_type\": \"dots1\", \"hidden_size\": 4096, \"num_hidden_layers\": 62, \"n_routed_experts\": 128, "
     "\"n_shared_experts\": 2, \"num_experts_per_tok\": 6, \"first_k_dense_replace\": 1}",
     142, 1, 14, 1},
    {"{\"model_type\": \"granitemoe\", \"hidden_size\": 1536, \"num_hidden_layers\": 32, \"num_attention_heads\": 24, "
     "\"num_key_value_heads\": 8, \"intermediate_size\": 512, \"num_local_experts\": 40, \"num_experts_per_tok\": 8, "
     "\"tie_word_embeddings\": true, \"vocab_size\": 49152}",
     3.3, 0.05, 0.8, 0.1},
    {"{\"model_type\": \"granitemoe\", \"hidden_size\": 1024, \"num_hidden_layers\": 24, \"num_attention_heads\": 16, "
     "\"num_key_value_heads\": 8, \"intermediate_size\": 512, \"num_local_experts\": 32, \"num_experts_per_tok\": 8, "
     "\"tie_word_embeddings\": true, \"vocab_size\": 49152}",
     1.3, 0.05, 0.4, 0.05},
    {"{" ERNIE "\"hidden_size\": 2560, \"num_hidden_layers\": 28}", 21, 1, 3, 0.5},
    {"{" ERNIE "\"hidden_size\": 8192, \"num_hidden_layers\": 54, \"num_attention_heads\": 64, "
     "\"num_key_value_heads\": 8, \"intermediate_size\": 28672, \"moe_intermediate_size\": 3584, \"moe_k\": 8, "
     "\"moe_num_experts\": 64, \"moe_num_shared_experts\": 0, \"moe_layer_start_index\": 3}",
     300, 1.5, 47, 0.7},
    {"{\"model_type\": \"ernie4_5\", \"hidden_size\": 1024, \"num_hidden_layers\": 18}", 0.36, 0.005, 0.36, 0.005},
    {"{\"model_type\": \"hunyuan_v1_moe\", \"hidden_size\": 4096, \"num_hidden_layers\": 4, \"intermediate_size\": "
     "3072, \"num_key_value_heads\": 8, \"vocab_size\": 128167, \"tie_word_embeddings\": true, \"num_experts\": 64, "
     "\"moe_topk\": [8, 8, 8, 8], \"num_shared_expert\": [1, 1, 1, 1], \"moe_intermediate_size\": [3072, 3072, 3072, "
     "3072]}",
     (80 - 0.5) / 8 + 0.5, 0.1, (13 - 0.5) / 8 + 0.5, 0.1}, /* an eighth of its 32 layers, and the table */
    {"{\"model_type\": \"hunyuan_v1_dense\", \"hidden_size\": 4096, \"num_hidden_layers\": 32, \"intermediate_size\": "
     "14336, \"num_key_value_heads\": 8, \"head_dim\": 128, \"vocab_size\": 128167, \"tie_word_embeddings\": true}",
     7, 0.6, 7, 0.6},
    {"{" LLLG "\"hidden_size\": 5120, \"num_hidden_layers\": 64, \"num_attention_heads\": 40, "
     "\"num_key_value_heads\": 8, \"intermediate_size\": 27392}",
     30.95 + 2 * 0.524, 0.01, 30.95 + 2 * 0.524, 0.01},
    {"{\"model_type\": \"exaone4\", \"sliding_window\": null, \"sliding_window_pattern\": null, \"hidden_size\": 2048, "
     "\"num_hidden_layers\": 30, \"num_key_value_heads\": 8, \"intermediate_size\": 4096, \"tie_word_embeddings\": "
     "true}",
     1.07 + 0.21, 0.005, 1.07 + 0.21, 0.005},
    {"{\"model_type\": \"arcee\", \"hidden_size\": 2560, \"num_hidden_layers\": 36, \"num_attention_heads\": 20, "
     "\"num_key_value_heads\": 4, \"head_dim\": 128, \"vocab_size\": 128005}",
     4.5, 0.15, 4.5, 0.15}};

LOOP_TEST(parameters_are_the_published_ones, G_N_ELEMENTS(published)) {
  g_autoptr(Model) model = read_text(published[_i].text);
  ck_assert_double_eq_tol((double)model_parameters(model) / 1e9, published[_i].billions, published[_i].digits);
  ck_assert_double_eq_tol((double)model_active_parameters(model) / 1e9, published[_i].active,
                          published[_i].active_digits);
}

/* Two of its layers, in bf16, are hf-internal-testing/MiniMax-M2-Small's checkpoint of 17,133,474,240 bytes (2025-11),
 * names and offsets of its some 1,560 tensors in front: a layer's Q, K and V 3072·64·128, out 6144·3072, 256 experts of
 * 3·3072·1536, gate and biases 3073·256, norms 2·3072 and (48 + 8)·128; two tables and a norm. */
TEST(two_layers_of_minimax_m2_are_its_checkpoint) {
  g_autoptr(Model) model = read_text("{\"model_type\": \"minimax_m2\", \"hidden_size\": 3072, "
                                     "\"num_hidden_layers\": 2}");
  ck_assert_int_eq(model_parameters(model), 8566633984);
  const double front = 17133474240.0 - 2 * 8566633984.0;
  ck_assert(front > 0 && front < 150 * 1600);
}

static Model *read_type(const char *type, const char *keys) {
  g_autofree char *text = g_strdup_printf("{\"model_type\": \"%s\", %s " LLAMA_CORE "}", type, keys);
  return read_text(text);
}

/* Of 16 columns 4: a quarter. Where the config is silent all are, as the class has it, or what rope_parameters say. */
TEST(minimax_m2_rotates_some_columns_and_normalises_all_heads) {
  g_autoptr(Model) m = read_type("minimax_m2", "\"num_key_value_heads\": 2, \"head_dim\": 16, \"rotary_dim\": 4, ");
  ck_assert_int_eq(m->qk_norms, QK_NORMS_WHOLE);
  ck_assert_double_eq(m->rotary_share, 0.25);
  ck_assert_double_eq(m->rotary_base, 5e6);
  ck_assert(m->experts.biased_scores && !m->experts.softmax_scores && m->experts.shared_ffn_hidden == 0);
  ck_assert_int_eq(m->experts.n, 256);
  ck_assert_int_eq(m->experts.ffn_hidden, 96);
  g_autoptr(Model) all = read_type("minimax_m2", "\"num_key_value_heads\": 2, \"head_dim\": 16, \"rotary_dim\": 16, ");
  ck_assert_double_eq(all->rotary_share, 0);
  g_autoptr(Model) newer = read_type("minimax_m2", "\"num_key_value_heads\": 2, "
                                                   "\"rope_parameters\": {\"partial_rotary_factor\": 0.5}, ");
  ck_assert_double_eq(newer->rotary_share, 0.5);
}

/* As MiniMaxAI/MiniMax-M2's config.json has them; ERNIE's, behind layers with experts, is dense. */
TEST(heads_that_predict_further_are_told_under_each_ones_keys) {
  g_autoptr(Model) two = read_type("minimax_m2", "\"num_key_value_heads\": 2, \"use_mtp\": true, "
                                                 "\"num_mtp_modules\": 2, \"mtp_transformer_layers\": 1, ");
  ck_assert(two->n_next_layers == 2 && !two->other_next_layers);
  g_autoptr(Model) unused = read_type("minimax_m2", "\"num_key_value_heads\": 2, \"use_mtp\": false, "
                                                    "\"num_mtp_modules\": 2, ");
  ck_assert_int_eq(unused->n_next_layers, 0);
  g_autoptr(Model) deep = read_type("minimax_m2", "\"num_key_value_heads\": 2, \"num_mtp_modules\": 1, "
                                                  "\"mtp_transformer_layers\": 2, ");
  ck_assert(deep->n_next_layers == 1 && deep->other_next_layers);
  g_autoptr(Model) ernie = read_type("ernie4_5_moe", "\"num_key_value_heads\": 4, \"num_nextn_predict_layers\": 1, ");
  ck_assert(ernie->n_next_layers == 1 && ernie->other_next_layers);
}

/* QKV and out 4·64², their biases 4·64, two LayerNorms of scale and shift, gate 4·64, 4 experts of 3·64·96; tables of
 * 100 words, the last norm, a bias a word. */
TEST(phi_moe_has_layernorms_and_a_bias_on_its_logits) {
  g_autoptr(Model) m = read_type("phimoe", "\"num_key_value_heads\": 4, \"num_local_experts\": 4, "
                                           "\"attention_bias\": true, \"lm_head_bias\": true, ");
  ck_assert_int_eq(m->norm, NORM_LAYERNORM);
  ck_assert(m->qkv_bias && model_has_out_bias(m) && !model_has_mlp_bias(m) && m->head_bias);
  ck_assert_int_eq(model_layer_parameters(m), 16384 + 256 + 256 + 256 + 4 * 18432);
  ck_assert_int_eq(model_head_parameters(m), 128 + 6400 + 100);
  g_autoptr(Model) bare = read_type("phimoe", "\"num_key_value_heads\": 4, ");
  ck_assert(!bare->qkv_bias && !bare->head_bias && bare->window == 0);
  ck_assert_int_eq(bare->experts.n, 16);
}

TEST(dots_has_the_attention_of_qwen3_and_the_experts_of_deepseek) {
  g_autoptr(Model) m = read_type("dots1", "\"num_key_value_heads\": 4, \"n_routed_experts\": 8, \"n_shared_experts\": "
                                          "2, \"num_experts_per_tok\": 2, \"routed_scaling_factor\": 2.5, ");
  ck_assert_int_eq(m->qk_norms, QK_NORMS_HEADS);
  ck_assert_int_eq(m->experts.shared_ffn_hidden, 2 * 1408);
  ck_assert_int_eq(m->experts.n_leading, 0);
  ck_assert_int_eq(m->window, 0); /* which layers from the 63rd on have */
  ck_assert(m->experts.biased_scores && m->factors.experts == 2.5);
}

TEST(granite_with_experts_multiplies_as_granite_does) {
  g_autoptr(Model) m = read_type("granitemoe", "\"attention_multiplier\": 0.25, \"residual_multiplier\": 0.22, "
                                               "\"logits_scaling\": 6, ");
  ck_assert_int_eq(m->experts.n, 8);
  ck_assert_int_eq(m->experts.per_token, 2);
  ck_assert_double_eq(m->factors.branches, 0.22);
  ck_assert_double_eq(m->factors.logits, 1.0 / 6);
  ck_assert_double_eq(m->factors.scores, 0); /* 1/sqrt(16), as others */
}

#define ERNIE_SMALL                                                                                                    \
  "\"num_key_value_heads\": 4, \"moe_num_experts\": 8, \"moe_k\": 2, \"moe_intermediate_size\": 16, "                  \
  "\"moe_num_shared_experts\": 1, "

/* Experts in every layer from the second on; with an interval of 2 in the layers of odd number, from 0. */
TEST(ernie_has_experts_where_its_three_indices_say) {
  g_autoptr(Model) m = read_type("ernie4_5_moe", ERNIE_SMALL);
  ck_assert(m->tied && m->rotates_pairs && m->experts.biased_scores && m->experts.softmax_scores);
  ck_assert_int_eq(m->experts.per_token, 2);
  ck_assert_int_eq(m->experts.shared_ffn_hidden, 16);
  ck_assert_int_eq(model_dense_layers(m, 0, 2), 1);
  g_autoptr(Model) deep =
      read_text("{" ERNIE ERNIE_SMALL "\"hidden_size\": 64, \"num_hidden_layers\": 8, \"num_attention_heads\": 4, "
                "\"moe_layer_start_index\": 2, \"moe_layer_interval\": 2, \"moe_layer_end_index\": 7}");
  const gboolean dense[] = {TRUE, TRUE, TRUE, FALSE, TRUE, FALSE, TRUE, FALSE};
  for (gint64 i = 0; i < 8; i++)
    ck_assert_int_eq(model_dense_layers(deep, i, 1), dense[i]);
  g_autoptr(Model) plain = read_type("ernie4_5", "\"num_key_value_heads\": 4, ");
  g_autoptr(Model) biased = read_type("ernie4_5", "\"num_key_value_heads\": 4, \"use_bias\": true, ");
  ck_assert(plain->tied && !plain->qkv_bias && biased->qkv_bias && biased->linear_bias);
  ck_assert_int_eq(plain->head_dim, 128);
}

/* Three layers with a window that rotate and one without that does not, the last never with one. */
TEST(exaone_rotates_where_it_has_a_window) {
  static const struct {
    const char *keys, *windowed, *unrotated;
  } cases[] = {{"", "11101110111", "00010001000"},
               {"\"sliding_window_pattern\": \"LG\", ", "10101010100", "01010101011"},
               {"\"sliding_window_pattern\": 2, ", "10101010101", "01010101010"},
               {"\"sliding_window\": null, ", NULL, NULL}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = g_strdup_printf("{\"model_type\": \"exaone4\", %s\"hidden_size\": 64, "
                                            "\"num_hidden_layers\": 11, \"num_attention_heads\": 32}",
                                            cases[i].keys);
    g_autoptr(Model) m = read_text(text);
    ck_assert(m->norms_behind && m->qk_norms == QK_NORMS_HEADS);
    ck_assert_pstr_eq(m->windowed_layers, cases[i].windowed);
    ck_assert_pstr_eq(m->unrotated_layers, cases[i].unrotated);
    ck_assert_int_eq(m->window, cases[i].windowed != NULL ? 4096 : 0);
  }
}

TEST(hunyuan_has_a_shared_mlp_beside_its_experts) {
  g_autoptr(Model) m = read_type("hunyuan_v1_moe", "\"num_experts\": 8, \"moe_topk\": [2, 2], ");
  ck_assert(m->norms_rotated && m->qk_norms == QK_NORMS_HEADS && !m->experts.shared_gate);
  ck_assert_int_eq(m->experts.per_token, 2);
  ck_assert_int_eq(m->experts.ffn_hidden, 96);
  ck_assert_int_eq(m->experts.shared_ffn_hidden, 96);
  g_autoptr(Model) own = read_type("hunyuan_v1_moe", "\"num_experts\": [8, 8], \"moe_intermediate_size\": 32, "
                                                     "\"num_shared_expert\": 2, \"moe_layer_num_skipped\": 1, ");
  ck_assert_int_eq(own->experts.per_token, 1);
  ck_assert_int_eq(own->experts.ffn_hidden, 32);
  ck_assert_int_eq(own->experts.shared_ffn_hidden, 192);
  ck_assert_int_eq(model_dense_layers(own, 0, 2), 1);
}

/* Two products, not three. */
TEST(arcee_has_no_gate) {
  g_autoptr(Model) m = read_type("arcee", "");
  ck_assert_int_eq(model_activation(m), ACTIVATION_SQUARED_RELU);
  ck_assert_int_eq(m->norm, NORM_RMSNORM);
  ck_assert_int_eq(model_layer_parameters(m), 16384 + 2 * 64 * 96 + 128);
}

/* Baichuan's 7B names its positions and rotates, 13B has ALiBi. Qwen's width 96 is of gate and companion together:
 * QKV and out 4·64², biases of QKV 3·64, MLP 3·64·48, two norms. */
TEST(the_first_baichuan_and_qwen_are_llamas_with_other_keys) {
  g_autoptr(Model) small = read_type("baichuan", "\"max_position_embeddings\": 4096, ");
  g_autoptr(Model) large = read_type("baichuan", "\"model_max_length\": 4096, ");
  ck_assert(small->positions == POSITIONS_ROTARY && large->positions == POSITIONS_ALIBI);
  ck_assert(small->gated && small->norm == NORM_RMSNORM && !small->qkv_bias);
  g_autoptr(Model) qwen = read_type("qwen", "\"kv_channels\": 16, \"attn_dropout_prob\": 0.1, ");
  ck_assert_int_eq(model_layer_parameters(qwen), 16384 + 192 + 9216 + 128);
  ck_assert(qwen->dropout_rate.attention == 0.1 && qwen->dropout_rate.embedding == 0);
  g_autoptr(Model) biased = read_type("qwen", "\"no_bias\": false, \"kv_channels\": 32, ");
  ck_assert(biased->linear_bias && biased->head_dim == 32);
}

#define LLAMA4                                                                                                         \
  "{\"model_type\": \"llama4_text\", \"hidden_size\": 64, \"num_attention_heads\": 4, \"num_key_value_heads\": 4, "    \
  "\"head_dim\": 16, \"intermediate_size\": 96, \"intermediate_size_mlp\": 160, \"num_hidden_layers\": 8, "

/* Each second layer has experts, the others a wider MLP; each fourth attends to all before it and does not rotate. */
TEST(llama_four_alternates_experts_and_chunks) {
  g_autoptr(Model) m =
      read_text(LLAMA4 "\"no_rope_layers\": [], \"interleave_moe_layer_step\": 2, \"vocab_size\": 100, "
                       "\"moe_layers\": [1, 3, 5, 7]}");
  ck_assert_int_eq(model_dense_layers(m, 0, 8), 4);
  ck_assert_int_eq(model_dense_layers(m, 0, 1), 1);
  ck_assert(m->ffn_hidden == 160 && m->experts.ffn_hidden == 96 && m->experts.shared_ffn_hidden == 96);
  ck_assert(m->experts.n == 16 && m->experts.per_token == 1);
  ck_assert_pstr_eq(m->windowed_layers, "11101110");
  ck_assert_pstr_eq(m->unrotated_layers, "00010001");
  ck_assert(m->is_chunked && m->window == 8192 && m->windowed_share == 0.75 && !m->some_windowed);
  ck_assert_int_eq(model_qk_norm_parameters(m), 0);
  ck_assert(m->qk_norms == QK_NORMS_HEADS);
  g_autoptr(Model) whole = read_text(LLAMA4 "\"attention_chunk_size\": null, \"use_qk_norm\": false}");
  ck_assert(!whole->is_chunked && whole->window == 0 && whole->qk_norms == QK_NORMS_NONE);
  g_autoptr(Model) said = read_text(LLAMA4 "\"layer_types\": [\"chunked_attention\", \"full_attention\", "
                                           "\"chunked_attention\", \"full_attention\", \"chunked_attention\", "
                                           "\"full_attention\", \"chunked_attention\", \"full_attention\"]}");
  ck_assert_double_eq(said->windowed_share, 0.5);
}

TEST(what_these_families_cannot_have_is_refused) {
  static const struct {
    const char *text;
    StepsimError code;
    const char *parts[2];
  } cases[] = {
      {"{\n\"model_type\": \"minimax\", " LLAMA_CORE "}",
       STEPSIM_ERROR_IMPOSSIBLE,
       {":2: model_type: minimax", "linear attention"}},
      {"{\"model_type\": \"mamba2\"}", STEPSIM_ERROR_IMPOSSIBLE, {"mamba2", "state spaces"}},
      {"{\"model_type\": \"gemma3n_text\"}", STEPSIM_ERROR_IMPOSSIBLE, {"gemma3n_text", "layers share"}},
      {"{\"model_type\": \"minimax_m2\", \"num_key_value_heads\": 2,\n\"rotary_dim\": 256, " LLAMA_CORE "}",
       STEPSIM_ERROR_INPUT,
       {":2: rotary_dim: found 256", "from 1 to 128"}},
      {"{" ERNIE ERNIE_SMALL "\n\"use_bias\": true, " LLAMA_CORE "}",
       STEPSIM_ERROR_IMPOSSIBLE,
       {":2: use_bias", "biases of experts"}},
      {"{" ERNIE ERNIE_SMALL "\n\"moe_layer_end_index\": 0, " LLAMA_CORE "}",
       STEPSIM_ERROR_IMPOSSIBLE,
       {":2: moe_layer_end_index: found 0 of 2 layers", "dense layers behind"}},
      {"{" ERNIE "\"num_key_value_heads\": 4, \"moe_num_experts\": 4,\n\"moe_k\": 5, " LLAMA_CORE "}",
       STEPSIM_ERROR_INPUT,
       {":2: moe_k: found 5", "at most the 4"}},
      {"{\"model_type\": \"exaone4\", \"num_key_value_heads\": 4,\n\"sliding_window_pattern\": \"LXG\", " LLAMA_CORE
       "}",
       STEPSIM_ERROR_INPUT,
       {":2: sliding_window_pattern: found \"LXG\"", "letters L"}},
      {"{\"model_type\": \"hunyuan_v1_dense\",\n\"use_cla\": true, " LLAMA_CORE "}",
       STEPSIM_ERROR_IMPOSSIBLE,
       {":2: use_cla", "layers share"}},
      {"{\"model_type\": \"hunyuan_v1_moe\", \"num_experts\": 8,\n\"moe_topk\": [2, 4], " LLAMA_CORE "}",
       STEPSIM_ERROR_IMPOSSIBLE,
       {":2: moe_topk: item 2: found 4 behind 2", "different experts"}},
      {"{\"model_type\": \"hunyuan_v1_moe\", \"num_experts\": 8,\n\"moe_topk\": [2, \"4\"], " LLAMA_CORE "}",
       STEPSIM_ERROR_INPUT,
       {":2: moe_topk: item 2", "an integer"}},
      {"{\"model_type\": \"hunyuan_v1_moe\", \"num_experts\": 8,\n\"moe_topk\": [], " LLAMA_CORE "}",
       STEPSIM_ERROR_INPUT,
       {":2: moe_topk: found 0 items", "one item for each of 2 layers"}},
      {"{\"model_type\": \"hunyuan_v1_moe\", \"num_experts\": 8,\n\"moe_topk\": [2, 2, 2], " LLAMA_CORE "}",
       STEPSIM_ERROR_INPUT,
       {":2: moe_topk: found 3 items", "one item for each of 2 layers"}},
      {"{\"model_type\": \"hunyuan_v1_moe\", " LLAMA_CORE "}", STEPSIM_ERROR_INPUT, {"found 0 experts", "at least 2"}},
      {LLAMA4 "\n\"moe_layers\": [0, 4]}", STEPSIM_ERROR_IMPOSSIBLE, {":2: moe_layers", "every 1. (interleave_moe"}},
      {LLAMA4 "\n\"layer_types\": [\"sliding_attention\", \"\", \"\", \"\", \"\", \"\", \"\", \"\"]}",
       STEPSIM_ERROR_INPUT,
       {":2: layer_types: item 1", "chunked_attention"}},
      {"{\"model_type\": \"qwen3_next\"}", STEPSIM_ERROR_IMPOSSIBLE, {"qwen3_next", "gated delta nets"}},
      {"{\"model_type\": \"qwen\", \"kv_channels\": 16, \"intermediate_size\": 97, \"hidden_size\": 64, "
       "\"num_hidden_layers\": 2}",
       STEPSIM_ERROR_INPUT,
       {"found 97", "an even one"}},
      {"{\"model_type\": \"dots1\", \"num_key_value_heads\": 4, " LLAMA_CORE "}",
       STEPSIM_ERROR_INPUT,
       {"no key \"n_routed_experts\"", "expected it"}},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Model) model = read_bytes(cases[i].text, strlen(cases[i].text), &error);
    ck_assert_msg(model == NULL, "was read: %s", cases[i].text);
    ck_assert_msg(g_error_matches(error, STEPSIM_ERROR, cases[i].code), "%s", error->message);
    for (gsize j = 0; j < G_N_ELEMENTS(cases[i].parts); j++)
      ck_assert_msg(strstr(error->message, cases[i].parts[j]) != NULL, "\"%s\" is not in: %s", cases[i].parts[j],
                    error->message);
  }
}

int main(void) {
  return run_tests();
}
