#include "model_text.h"
#include "run_suite.h"

/* Published totals: the model cards' safetensors metadata on huggingface.co, or the sum of the checkpoint's tensors
 * where the card has none (gpt2, mpt-7b, falcon, bloom, gpt-neox, gpt-j, phi-2), or counts packed ones (gpt-oss,
 * kimi-k2), or a head that predicts a token further (glm-4.5). */
static const struct {
  const char *name;
  gint64 parameters;
} published[] = {
    {"gpt2", 124439808},
    {"llama-2-7b", 6738415616},
    {"llama-2-13b", 13015864320},
    {"llama-2-70b", 68976648192},
    {"llama-3-8b", 8030261248},
    {"llama-3-70b", 70553706496},
    {"llama-3.1-405b", 405853388800},
    {"mistral-7b", 7241732096},
    {"qwen2.5-7b", 7615616512},
    {"gpt-neox-20b", 20554567680},
    {"gpt-j-6b", 6050882784},
    {"phi-2", 2779683840},
    {"bloom-176b", 176247271424},
    {"mpt-7b", 6649286656},
    {"falcon-7b", 6921720704},
    {"falcon-40b", 41303293952},
    {"falcon-180b", 179522565120},
    {"mixtral-8x7b", 46702792704},
    {"deepseek-v2", 235741434880},
    {"deepseek-v3", 671026419200}, /* without the head that predicts a token further */
    {"qwen3-235b", 235093634560},
    {"qwen3-30b", 30532122624},
    {"qwen3-32b", 32762123264},
    {"gemma-7b", 8537680896},
    {"gemma-2-9b", 9241705984},
    {"gemma-3-1b", 999885952},
    {"phi-3-mini", 3821079552},
    {"phi-4", 14659507200},
    {"olmo-7b", 6888095744},
    {"stablelm-3b", 2795443200},
    {"olmo-2-7b", 7298617344},
    {"olmo-2-32b", 32234279936},
    {"olmoe-1b-7b", 6919161856},
    {"glm-4-9b", 9400279040},
    {"granite-3-8b", 8170848256},
    {"seed-oss-36b", 36151104512},
    {"starcoder", 15517456384},
    {"starcoder2-15b", 15957889024},
    {"command-r", 34980831232},
    {"gpt-oss-20b", 20914757184},
    {"gpt-oss-120b", 116829156672},
    {"kimi-k2", 1026408232448},
    {"minimax-m2", 228689764864},
    {"glm-4.5", 352797829024},
    {"glm-4.5-air", 106852251264},
    {"dots.llm1", 142774381696},
    {"phi-3.5-moe", 41873153344},
};

/* What a token meets, in billions: 12.9 (arXiv 2401.04088 §1), 21 (2405.04434 §1; its Table 1: 21.4), 37 (2412.19437
 * §1), 22 and 3.3 (2505.09388 §2), 32.6 (2507.20534 table 2), 32 and 12 (2508.06471 §2), 1.3 (2409.02060 §2), 10 (the
 * card, without its two tables), 6.6 (2404.14219 §2), 14 (2506.05767 §1), 0.8 (the card), as printed. */
static const struct {
  const char *name;
  double billions, digits;
} active[] = {{"mixtral-8x7b", 12.9, 0.05}, {"deepseek-v2", 21.4, 0.05}, {"deepseek-v3", 37, 0.6},
              {"qwen3-235b", 22, 0.5},      {"qwen3-30b", 3.3, 0.06},    {"kimi-k2", 32.6, 0.5},
              {"gpt-oss-120b", 5.13, 0.6},  {"gpt-oss-20b", 3.61, 0.6},  {"glm-4.5", 32, 1.7},
              {"glm-4.5-air", 12, 2},       {"olmoe-1b-7b", 1.3, 0.05},  {"minimax-m2", 10, 1.1},
              {"phi-3.5-moe", 6.6, 0.05},   {"dots.llm1", 14, 1},        {"granite-3.1-3b-a800m", 0.8, 0.1}};

LOOP_TEST(active_parameters_are_the_published_ones, G_N_ELEMENTS(active)) {
  g_autoptr(Model) model = model_read(active[_i].name, NULL);
  ck_assert_ptr_nonnull(model);
  ck_assert_double_eq_tol((double)model_active_parameters(model) / 1e9, active[_i].billions, active[_i].digits);
}

/* Every choice of `groups` of 4 groups and of 3 of their experts is as likely: places that 12 experts lie in, each with
 * as many of them in a row, counted out. */
static double places_counted(int n, int groups) {
  double hits = 0, choices = 0;
  for (int open = 0; open < 16; open++)
    for (int chosen = 0; chosen < 1 << 12 && __builtin_popcount(open) == groups; chosen++) {
      int places = 0;
      gboolean is_open = __builtin_popcount(chosen) == 3;
      for (int expert = 0; expert < 12; expert++)
        if ((chosen & 1 << expert) != 0) {
          is_open = is_open && (open & 1 << expert / 3) != 0;
          places |= 1 << expert / (12 / n);
        }
      choices += is_open;
      hits += is_open ? __builtin_popcount(places) : 0;
    }
  return hits / choices;
}

TEST(a_tokens_experts_lie_in_as_many_places_as_counted_out) {
  const ModelExperts some = {.n = 12, .per_token = 3, .n_groups = 4, .groups_per_token = 2};
  const ModelExperts any = {.n = 12, .per_token = 3};
  const int places[] = {1, 2, 4, 12}; /* both groups of one, one, and parts */
  for (gsize i = 0; i < G_N_ELEMENTS(places); i++) {
    ck_assert_double_eq_tol(model_expert_places(&some, places[i]), places_counted(places[i], 2), 1e-12);
    ck_assert_double_eq_tol(model_expert_places(&any, places[i]), places_counted(places[i], 4), 1e-12);
  }
  ck_assert_double_eq_tol(model_expert_places(&some, 12), 3, 1e-12);
}

/* 5 holders of 12 experts: 3 of two, which 3 of 12 miss by 10·9·8 / (12·11·10), and 2 of three, by 9·8·7 of them. More
 * holders than experts: some have none. */
TEST(holders_that_do_not_divide_the_experts_have_some_of_one_more) {
  const ModelExperts any = {.n = 12, .per_token = 3};
  const double expected = 3 * (1 - 720.0 / 1320) + 2 * (1 - 504.0 / 1320);
  ck_assert_double_eq_tol(model_expert_places(&any, 5), expected, 1e-12);
  ck_assert_double_eq_tol(model_expert_places(&any, 16), 3, 1e-12);
}

/* 3 of 61 layers are dense: of 4 layers one; a model that has some keeps one. */
TEST(a_model_of_fewer_layers_keeps_its_share_of_dense_ones) {
  g_autoptr(Model) model = model_read("deepseek-v3", NULL);
  ck_assert_int_eq(model_dense_layers(model, 0, 61), 3);
  model_cut_depth(model, 30);
  ck_assert_int_eq(model_dense_layers(model, 0, 30), 1);
  g_autoptr(Model) mixtral = model_read("mixtral-8x7b", NULL);
  model_cut_depth(mixtral, 4);
  ck_assert_int_eq(model_dense_layers(mixtral, 0, 4), 0);
}

LOOP_TEST(parameters_are_the_published_totals, G_N_ELEMENTS(published)) {
  g_autoptr(GError) error = NULL;
  g_autoptr(Model) model = model_read(published[_i].name, &error);
  ck_assert_msg(model != NULL, "%s", error == NULL ? "" : error->message);
  ck_assert_msg(model_parameters(model) == published[_i].parameters,
                "%s: %" G_GINT64_FORMAT " instead of %" G_GINT64_FORMAT, published[_i].name, model_parameters(model),
                published[_i].parameters);
}

/* In billions, embedding (two matrices of 256,000 words) and all else: 3.2 and 12.5 (arXiv 2402.16819 §2), 9.4 and
 * 331.6 (arXiv 2406.11704 §2.1), as printed. */
TEST(nemotron_models_have_the_printed_parameters) {
  static const struct {
    const char *name;
    double embedding, others;
  } printed[] = {{"nemotron-15b", 3.2, 12.5}, {"nemotron-340b", 9.4, 331.6}};
  for (gsize i = 0; i < G_N_ELEMENTS(printed); i++) {
    g_autoptr(Model) model = model_read(printed[i].name, NULL);
    ck_assert_ptr_nonnull(model);
    const double embedding = 2.0 * (double)(model->vocab * model->hidden);
    ck_assert_double_eq_tol(embedding / 1e9, printed[i].embedding, 0.06);
    ck_assert_double_eq_tol(((double)model_parameters(model) - embedding) / 1e9, printed[i].others, 0.06);
    ck_assert(!model->tied && !model->gated && model->positions == POSITIONS_ROTARY && !model->linear_bias);
  }
}

/* arXiv 2104.04473 equation (2): P = 12·l·h²·(1 + 13/(12·h) + (V + s)/(12·l·h)), with V = 51,200 and s = 2,048; it
 * leaves out the last norm's 2·h. The table prints the result in billions with one decimal. */
static const struct {
  const char *name;
  double billions, layers, hidden;
} megatron[] = {
    {"megatron-1.7b", 1.7, 24, 2304},    {"megatron-3.6b", 3.6, 30, 3072},    {"megatron-7.5b", 7.5, 36, 4096},
    {"megatron-18b", 18.4, 40, 6144},    {"megatron-39b", 39.1, 48, 8192},    {"megatron-76b", 76.1, 60, 10240},
    {"megatron-145b", 145.6, 80, 12288}, {"megatron-310b", 310.1, 96, 16384}, {"megatron-530b", 529.6, 105, 20480},
    {"megatron-1t", 1008.0, 128, 25600}, {"megatron-22b", 22.1, 48, 6144},    {"megatron-175b", 174.6, 96, 12288},
};

LOOP_TEST(megatron_models_follow_the_papers_formula, G_N_ELEMENTS(megatron)) {
  g_autoptr(Model) model = model_read(megatron[_i].name, NULL);
  ck_assert_ptr_nonnull(model);
  double l = megatron[_i].layers, h = megatron[_i].hidden;
  double formula = 12 * l * h * h * (1 + 13 / (12 * h) + (51200 + 2048) / (12 * l * h));
  ck_assert_double_eq_tol((double)model_parameters(model), formula + 2 * h, 1);
  ck_assert_double_eq_tol((double)model_parameters(model) / 1e9, megatron[_i].billions, 0.05);
  ck_assert(model->dropout_rate.attention > 0 && model->dropout_rate.hidden > 0);
}

/* 4096.0 is the integer 4096, as JSON has no other kind of number. */
static void assert_same_with_points(const Model *model, const char *text) {
  g_autoptr(GRegex) integer = g_regex_new("[:\\[,]\\s*-?\\d+(?=\\s*[,\\]}\n])", 0, 0, NULL);
  g_autofree char *points = g_regex_replace(integer, text, -1, 0, "\\0.0", 0, NULL);
  ck_assert_str_ne(points, text);
  g_autoptr(Model) other = read_text(points);
  ck_assert_int_eq(model_parameters(other), model_parameters(model));
  ck_assert_int_eq(model_expert_parameters(other), model_expert_parameters(model));
  ck_assert_int_eq(model_active_parameters(other), model_active_parameters(model));
  ck_assert_int_eq(other->window, model->window);
  ck_assert_int_eq(other->max_positions, model->max_positions);
  ck_assert_int_eq(other->n_next_layers, model->n_next_layers);
  ck_assert_int_eq(other->experts.n_groups, model->experts.n_groups);
  ck_assert_int_eq(other->experts.n_leading, model->experts.n_leading);
  ck_assert_pstr_eq(other->windowed_layers, model->windowed_layers);
  ck_assert_pstr_eq(other->unrotated_layers, model->unrotated_layers);
}

TEST(every_shipped_model_reads_and_names_its_source) {
  g_autofree char *folder = g_build_filename(STEPSIM_SOURCE_DATA, "models", NULL);
  g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
  ck_assert_ptr_nonnull(dir);
  int n_models = 0;
  for (const char *entry; (entry = g_dir_read_name(dir)) != NULL; n_models++) {
    g_autofree char *path = g_build_filename(folder, entry, NULL);
    g_autofree char *text = NULL;
    g_autoptr(GError) error = NULL;
    g_autoptr(Model) model = model_read(path, &error);
    ck_assert_msg(model != NULL, "%s", error == NULL ? "" : error->message);
    ck_assert(g_file_get_contents(path, &text, NULL, NULL));
    ck_assert_msg(strstr(text, "\"_source\": \"") != NULL, "%s says no source", entry);
    ck_assert_int_gt(model_parameters(model), 0);
    ck_assert_str_eq(model->file, path);
    assert_same_with_points(model, text);
  }
  ck_assert_int_ge(n_models, 30);
}

TEST(a_bare_name_and_its_path_are_one_file) {
  g_autoptr(Model) bare = model_read("llama-3-8b", NULL);
  g_autoptr(Model) path = model_read("models/llama-3-8b.json", NULL);
  g_autoptr(Model) file = model_read("llama-3-8b.json", NULL);
  ck_assert(bare != NULL && path != NULL && file != NULL);
  ck_assert_str_eq(bare->name, "llama-3-8b");
  ck_assert_str_eq(path->name, "llama-3-8b");
  ck_assert_int_eq(model_parameters(bare), model_parameters(path));
  ck_assert_int_eq(model_parameters(bare), model_parameters(file));
}

TEST(an_unknown_name_suggests_the_nearest) {
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(model_read("lama-3-8b", &error));
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
  ck_assert_ptr_nonnull(strstr(error->message, "did you mean \"llama-3-8b\"?"));
  ck_assert_ptr_null(model_read("", NULL));
  ck_assert_ptr_null(model_read(NULL, NULL));
  ck_assert_ptr_null(model_read("/", NULL));
  ck_assert_ptr_null(model_read("no/such/folder/x.json", NULL));
  ck_assert_ptr_null(model_read("/dev/zero", NULL));
}

TEST(a_copy_is_equal_and_apart) {
  g_autoptr(Model) model = model_read("gpt2", NULL);
  g_autoptr(Model) copy = model_copy(model);
  ck_assert_str_eq(copy->name, model->name);
  ck_assert_ptr_ne(copy->name, model->name);
  ck_assert_int_eq(model_parameters(copy), model_parameters(model));
  model_free(NULL);
}

/* --- families --------------------------------------------------------------------------------------------------- */

TEST(gpt2_spelling_defaults) {
  g_autoptr(Model) m = read_text("{\"model_type\": \"gpt2\", \"n_embd\": 64, \"n_layer\": 2, \"n_head\": 4, "
                                 "\"n_inner\": null, \"vocab_size\": 100, \"n_positions\": 32, \"n_ctx\": 32}");
  ck_assert(m->tied && m->qkv_bias && m->linear_bias && m->dropout_rate.embedding > 0 && !m->gated &&
            !m->parallel_block);
  ck_assert_int_eq(m->positions, POSITIONS_LEARNED);
  ck_assert_int_eq(m->norm, NORM_LAYERNORM);
  ck_assert_int_eq(m->ffn_hidden, 256);
  ck_assert_int_eq(m->n_kv_heads, 4);
  ck_assert_int_eq(m->head_dim, 16);
  /* layer 12·64² + 13·64 = 49,984; tables (100 + 32)·64 = 8,448; last norm 128; the head is tied */
  ck_assert_int_eq(model_layer_parameters(m), 49984);
  ck_assert_int_eq(model_embedding_parameters(m), 8448);
  ck_assert_int_eq(model_head_parameters(m), 128);
  ck_assert_int_eq(model_parameters(m), 2 * 49984 + 8448 + 128);
}

TEST(llama_spelling_defaults) {
  g_autoptr(Model) m = read_text("{\"model_type\": \"llama\", " LLAMA_CORE ", \"num_key_value_heads\": 2}");
  ck_assert(!m->tied && !m->qkv_bias && !m->linear_bias && m->dropout_rate.hidden == 0 && m->gated);
  ck_assert_int_eq(m->positions, POSITIONS_ROTARY);
  ck_assert_int_eq(m->norm, NORM_RMSNORM);
  ck_assert_int_eq(m->max_positions, 0);
  /* QKV 64·(4 + 2·2)·16 = 8,192; out 64² = 4,096; MLP 3·64·96 = 18,432; two norms 128 */
  ck_assert_int_eq(model_layer_parameters(m), 8192 + 4096 + 18432 + 128);
  ck_assert_int_eq(model_head_parameters(m), 64 + 6400);
}

TEST(llama_biases_count_where_they_are) {
  g_autoptr(Model) none = read_text("{\"model_type\": \"llama\", " LLAMA_CORE "}");
  g_autoptr(Model) attention = read_text("{\"model_type\": \"llama\", \"attention_bias\": true, " LLAMA_CORE "}");
  g_autoptr(Model) mlp = read_text("{\"model_type\": \"llama\", \"mlp_bias\": true, " LLAMA_CORE "}");
  g_autoptr(Model) both =
      read_text("{\"model_type\": \"llama\", \"attention_bias\": true, \"mlp_bias\": true, " LLAMA_CORE "}");
  gint64 base = model_layer_parameters(none);
  /* q, k, v and out: 4·64; gate and up 2·96, down 64 */
  ck_assert_int_eq(model_layer_parameters(attention) - base, 256);
  ck_assert_int_eq(model_layer_parameters(mlp) - base, 256);
  ck_assert_int_eq(model_layer_parameters(both) - base, 512);
  ck_assert(model_has_out_bias(attention) && !model_has_mlp_bias(attention) && attention->qkv_bias);
  ck_assert(!model_has_out_bias(mlp) && model_has_mlp_bias(mlp) && !mlp->qkv_bias);
}

TEST(head_dim_may_differ_from_hidden_over_heads) {
  g_autoptr(Model) m = read_text("{\"model_type\": \"llama\", \"head_dim\": 32, " LLAMA_CORE "}");
  /* QKV 64·12·32, out 4·32·64 */
  ck_assert_int_eq(model_layer_parameters(m), 24576 + 8192 + 18432 + 128);
}

TEST(qwen3_has_norms_on_q_and_k) {
  g_autoptr(Model) m = read_text("{\"model_type\": \"qwen3\", \"num_key_value_heads\": 4, " LLAMA_CORE "}");
  ck_assert_int_eq(m->head_dim, 128);
  /* QKV 64·12·128, out 4·128·64, MLP 3·64·96, norms 2·64, q and k norms 2·128 */
  ck_assert_int_eq(model_layer_parameters(m), 98304 + 32768 + 18432 + 128 + 256);
  ck_assert_int_eq(m->qk_norms, QK_NORMS_HEADS);
}

TEST(neox_blocks_are_parallel_unless_it_says_no) {
  g_autoptr(Model) m = read_text("{\"model_type\": \"gpt_neox\", " LLAMA_CORE "}");
  g_autoptr(Model) sequential =
      read_text("{\"model_type\": \"gpt_neox\", \"use_parallel_residual\": false, " LLAMA_CORE "}");
  ck_assert(m->parallel_block && !m->gated && !m->tied && m->qkv_bias && m->linear_bias);
  ck_assert(!sequential->parallel_block);
  ck_assert_int_eq(m->n_norms_per_layer, 2);
}

TEST(gptj_and_phi_share_a_norm_and_differ_in_biases) {
  g_autoptr(Model) gptj = model_read("gpt-j-6b", NULL);
  g_autoptr(Model) phi = model_read("phi-2", NULL);
  g_autoptr(Model) unnamed = read_text("{\"rotary_dim\": 64, " LLAMA_CORE "}");
  ck_assert(gptj->parallel_block && phi->parallel_block && unnamed->head_bias);
  ck_assert_int_eq(gptj->n_norms_per_layer, 1);
  ck_assert_int_eq(phi->n_norms_per_layer, 1);
  ck_assert(gptj->head_bias && phi->head_bias);
  ck_assert(!gptj->qkv_bias && !model_has_out_bias(gptj) && model_has_mlp_bias(gptj));
  ck_assert(phi->qkv_bias && model_has_out_bias(phi) && model_has_mlp_bias(phi));
  ck_assert_int_eq(phi->qk_norms, QK_NORMS_NONE);
}

TEST(mpt_attention_decides_positions) {
  g_autoptr(Model) alibi = read_text("{\"model_type\": \"mpt\", " MPT_CORE ", \"attn_config\": {\"alibi\": true}}");
  g_autoptr(Model) rope = read_text("{\"model_type\": \"mpt\", " MPT_CORE ", \"attn_config\": {\"rope\": true}}");
  g_autoptr(Model) learned = read_text("{\"model_type\": \"mpt\", " MPT_CORE ", \"attn_config\": {}}");
  g_autoptr(Model) none =
      read_text("{\"model_type\": \"mpt\", " MPT_CORE ", \"learned_pos_emb\": false, \"attn_config\": {}}");
  ck_assert_int_eq(alibi->positions, POSITIONS_ALIBI);
  ck_assert_int_eq(rope->positions, POSITIONS_ROTARY);
  ck_assert_int_eq(learned->positions, POSITIONS_LEARNED);
  ck_assert_int_eq(none->positions, POSITIONS_NONE);
  ck_assert(alibi->bare_norms && !alibi->linear_bias && alibi->tied);
  ck_assert_int_eq(alibi->ffn_hidden, 256);
}

TEST(mpt_groups_heads_and_gates_by_nested_keys) {
  g_autoptr(Model) m = read_text("{\"model_type\": \"mpt\", " MPT_CORE ", \"no_bias\": false, "
                                 "\"attn_config\": {\"kv_n_heads\": 2, \"attn_pdrop\": 0.1}, "
                                 "\"ffn_config\": {\"ffn_type\": \"mptglu\", \"expansion_ratio\": 3}}");
  g_autoptr(Model) single =
      read_text("{\"model_type\": \"mpt\", " MPT_CORE ", \"attn_config\": {\"attn_type\": \"multiquery_attention\"}}");
  ck_assert_int_eq(m->n_kv_heads, 2);
  ck_assert(m->gated && m->dropout_rate.attention + m->dropout_rate.hidden > 0 && m->linear_bias && !m->bare_norms);
  ck_assert_int_eq(m->ffn_hidden, 192);
  ck_assert_int_eq(single->n_kv_heads, 1);
}

TEST(falcon_architectures_differ_in_heads_and_norms) {
  g_autoptr(Model) old = model_read("falcon-7b", NULL);
  g_autoptr(Model) new = model_read("falcon-40b", NULL);
  g_autoptr(Model) rw = read_text("{\"model_type\": \"falcon\", \"multi_query\": false, \"parallel_attn\": false, "
                                  "\"alibi\": true, \"bias\": true, \"num_ln_in_parallel_attn\": 1, " LLAMA_CORE "}");
  ck_assert(rw->tied); /* a config that is silent: PretrainedConfig's default, which FalconConfig keeps */
  ck_assert_int_eq(old->n_kv_heads, 1);
  ck_assert_int_eq(old->n_norms_per_layer, 1);
  ck_assert_int_eq(new->n_kv_heads, 8);
  ck_assert_int_eq(new->n_norms_per_layer, 2);
  ck_assert(old->parallel_block && new->parallel_block && !rw->parallel_block);
  ck_assert_int_eq(rw->n_kv_heads, 4);
  ck_assert_int_eq(rw->n_norms_per_layer, 2); /* it is not parallel */
  ck_assert_int_eq(rw->positions, POSITIONS_ALIBI);
  ck_assert(rw->linear_bias && rw->qkv_bias);
}

/* facebook/opt-125m: 125,239,296 (its checkpoint's tensors; position table of 2,048 + 2 rows). */
TEST(opt_125m_is_read) {
  g_autoptr(Model) m = read_text("{\"model_type\": \"opt\", \"hidden_size\": 768, \"num_hidden_layers\": 12, "
                                 "\"num_attention_heads\": 12, \"ffn_dim\": 3072, \"vocab_size\": 50272, "
                                 "\"max_position_embeddings\": 2048, \"word_embed_proj_dim\": 768}");
  ck_assert_int_eq(model_parameters(m), 125239296);
}

TEST(without_model_type_keys_tell_the_family) {
  g_autoptr(Model) llama = read_text("{" LLAMA_CORE "}");
  g_autoptr(Model) mpt = read_text("{" MPT_CORE "}");
  g_autoptr(Model) neox = read_text("{\"rotary_pct\": 0.25, " LLAMA_CORE "}");
  ck_assert_int_eq(llama->norm, NORM_RMSNORM);
  ck_assert(mpt->bare_norms);
  ck_assert(neox->parallel_block);
}

TEST(dropout_is_what_the_rates_say) {
  g_autoptr(Model) off = read_text("{\"n_embd\": 64, \"n_layer\": 2, \"n_head\": 4, \"vocab_size\": 100, "
                                   "\"n_positions\": 8, \"attn_pdrop\": 0, \"resid_pdrop\": 0.0}");
  g_autoptr(Model) on = read_text("{\"attention_dropout\": 0.1, " LLAMA_CORE "}");
  ck_assert(off->dropout_rate.attention == 0 && off->dropout_rate.hidden == 0 && off->dropout_rate.embedding == 0);
  ck_assert(on->dropout_rate.attention == 0.1 && on->dropout_rate.hidden == 0 && on->dropout_rate.embedding == 0);
  g_autoptr(Model) gpt2 = read_text("{\"model_type\": \"gpt2\", \"n_positions\": 8, " LLAMA_CORE "}");
  ck_assert(gpt2->dropout_rate.attention == 0.1 && gpt2->dropout_rate.hidden == 0.1);
  g_autoptr(Model) apart = read_text("{\"n_positions\": 8, \"resid_pdrop\": 0.2, \"embd_pdrop\": 0.3, " LLAMA_CORE "}");
  ck_assert(apart->dropout_rate.attention == 0 && apart->dropout_rate.hidden == 0.2 &&
            apart->dropout_rate.embedding == 0.3);
  g_autoptr(Model) alike = read_text("{\"hidden_dropout\": 0.2, " LLAMA_CORE "}");
  ck_assert(alike->dropout_rate.embedding == 0.2);
}

TEST(tying_is_what_the_config_says) {
  g_autoptr(Model) m = read_text("{\"tie_word_embeddings\": true, " LLAMA_CORE "}");
  ck_assert_int_eq(model_head_parameters(m), 64);
}

int main(void) {
  return run_tests();
}
