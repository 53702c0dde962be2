/* Defaults are those of Transformers' *Config classes (v4.46 to v4.57, 2024-25); MPT's are those of its published
 * models. */
#include "model_family.h"

#include <string.h>

#include "error.h"
#include "suggest.h"

/* GPT-2 with a single key-value head. */
static gboolean read_bigcode(const JsonFile *json, Model *model, GError **error) {
  gboolean multi_query = TRUE;
  if (!json_file_flag(json, json->root, "multi_query", &multi_query, error))
    return FALSE;
  model->n_kv_heads = multi_query ? 1 : model->n_heads;
  return TRUE;
}

static gboolean read_neox(const JsonFile *json, Model *model, GError **error) {
  gboolean attention_bias = TRUE;
  model->parallel_block = TRUE;
  if (!json_file_flag(json, json->root, "use_parallel_residual", &model->parallel_block, error) ||
      !json_file_flag(json, json->root, "attention_bias", &attention_bias, error))
    return FALSE;
  model_set_biases(model, attention_bias, TRUE);
  return TRUE;
}

/* Scores are divided by the root of the head's size unless the config disables it, and by the layer's number if it
 * enables that. */
static gboolean read_gpt2(const JsonFile *json, Model *model, GError **error) {
  gboolean scales = TRUE;
  if (!json_file_flag(json, json->root, "scale_attn_weights", &scales, error) ||
      !json_file_flag(json, json->root, "scale_attn_by_inverse_layer_idx", &model->factors.by_layer, error))
    return FALSE;
  model->factors.scores = scales || model->head_dim == 1 ? 0 : 1;
  return TRUE;
}

/* Both branches share one norm. Attention's products have no biases, the MLP's and the logits do. CodeGen is the
 * same. */
static gboolean read_gptj(const JsonFile *json, Model *model, GError **error) {
  model->parallel_block = model->head_bias = model->rotates_pairs = TRUE;
  model->n_norms_per_layer = 1;
  model_set_biases(model, FALSE, TRUE);
  return TRUE;
}

/* One norm as well, and biases everywhere. */
static gboolean read_phi(const JsonFile *json, Model *model, GError **error) {
  gboolean qk_norm = FALSE;
  model->parallel_block = model->head_bias = TRUE;
  model->n_norms_per_layer = 1;
  model_set_biases(model, TRUE, TRUE);
  if (!json_file_flag(json, json->root, "qk_layernorm", &qk_norm, error))
    return FALSE;
  model->qk_norms = qk_norm ? QK_NORMS_HEADS : QK_NORMS_NONE;
  return TRUE;
}

/* BLOOM has a LayerNorm after the word table. */
static gboolean read_bloom(const JsonFile *json, Model *model, GError **error) {
  model->embedding_norm = TRUE;
  return TRUE;
}

/* Falcon-7B: one key-value head (whatever num_kv_heads says) and one norm per block. Falcon-40B, the "new decoder
 * architecture": num_kv_heads and two norms. RW models: a sequential block with ordinary heads. */
static gboolean read_falcon(const JsonFile *json, Model *model, GError **error) {
  gboolean is_new = FALSE, multi_query = TRUE, parallel = TRUE, alibi = FALSE, bias = FALSE;
  JsonObject *root = json->root;
  if (!json_file_flag(json, root, "new_decoder_architecture", &is_new, error) ||
      !json_file_flag(json, root, "multi_query", &multi_query, error) ||
      !json_file_flag(json, root, "parallel_attn", &parallel, error) ||
      !json_file_flag(json, root, "alibi", &alibi, error) || !json_file_flag(json, root, "bias", &bias, error))
    return FALSE;
  if (!is_new)
    model->n_kv_heads = multi_query ? 1 : model->n_heads;
  model->parallel_block = is_new || parallel;
  gint64 n_norms = is_new ? 2 : 1; /* in parallel blocks */
  if (!json_file_integer(json, root, "num_ln_in_parallel_attn", (IntegerRange){1, 2}, &n_norms, error))
    return FALSE;
  model->n_norms_per_layer = model->parallel_block ? n_norms : 2;
  model->positions = alibi ? POSITIONS_ALIBI : POSITIONS_ROTARY;
  model_set_biases(model, bias, bias);
  return TRUE;
}

/* OPT's position table has two rows more than there are positions. */
static gboolean read_opt(const JsonFile *json, Model *model, GError **error) {
  gboolean bias = TRUE;
  gint64 word_width = model->hidden;
  if (!json_file_flag(json, json->root, "enable_bias", &bias, error) ||
      !json_file_integer(json, json->root, "word_embed_proj_dim", (IntegerRange){1, 1 << 24}, &word_width, error))
    return FALSE;
  if (word_width != model->hidden)
    return fail_impossible(error,
                           "%s:%u: word_embed_proj_dim %" G_GINT64_FORMAT " is not the hidden size %" G_GINT64_FORMAT
                           ": projected embeddings are not modelled",
                           json->file, json_file_line(json, json->root, "word_embed_proj_dim"), word_width,
                           model->hidden);
  model_set_biases(model, bias, bias);
  model->other_embedding_parameters = 2 * model->hidden;
  return TRUE;
}

/* attn_config: { "alibi": …, "rope": …, "attn_type": …, "kv_n_heads": …, "qk_ln": …, "attn_pdrop": …,
 * "softmax_scale": … } */
static gboolean read_mpt_attention(const JsonFile *json, JsonObject *attention, Model *model, GError **error) {
  gboolean alibi = FALSE, rope = FALSE, learned = TRUE, qk_norm = FALSE;
  const char *type = "multihead_attention";
  double dropout = 0;
  if (!json_file_flag(json, attention, "alibi", &alibi, error) ||
      !json_file_flag(json, attention, "rope", &rope, error) ||
      !json_file_flag(json, attention, "qk_ln", &qk_norm, error) ||
      !json_file_flag(json, json->root, "learned_pos_emb", &learned, error) ||
      !json_file_text(json, attention, "attn_type", &type, error) ||
      !json_file_number(json, attention, "attn_pdrop", (RealRange){0, 1}, &dropout, error) ||
      (json_file_has(attention, "softmax_scale") &&
       !json_file_number(json, attention, "softmax_scale", (RealRange){1e-6, 1e6}, &model->factors.scores, error)))
    return FALSE;
  if (strcmp(type, "multiquery_attention") == 0)
    model->n_kv_heads = 1;
  if (!json_file_integer(json, attention, "kv_n_heads", (IntegerRange){1, 1 << 20}, &model->n_kv_heads, error))
    return FALSE;
  model->dropout_rate.attention = MAX(model->dropout_rate.attention, dropout);
  model->positions = alibi ? POSITIONS_ALIBI : rope ? POSITIONS_ROTARY : learned ? POSITIONS_LEARNED : POSITIONS_NONE;
  model->qk_norms = qk_norm ? QK_NORMS_WHOLE : QK_NORMS_NONE;
  return TRUE;
}

/* expansion_ratio was at the top level before ffn_config. */
static gboolean read_mpt_ffn(const JsonFile *json, Model *model, GError **error) {
  double ratio = 4;
  const char *type = "mptmlp", *key = "expansion_ratio";
  JsonObject *ffn = NULL;
  if (!json_file_object(json, json->root, "ffn_config", &ffn, error) ||
      !json_file_number(json, json->root, key, (RealRange){0.01, 1000}, &ratio, error) ||
      (ffn != NULL && (!json_file_number(json, ffn, key, (RealRange){0.01, 1000}, &ratio, error) ||
                       !json_file_text(json, ffn, "ffn_type", &type, error))))
    return FALSE;
  if (strcmp(type, "mptmlp") != 0 && strcmp(type, "mptglu") != 0)
    return fail_impossible(error, "%s:%u: ffn_type: found \"%.80s\", only mptmlp and mptglu are modelled", json->file,
                           json_file_line(json, ffn, "ffn_type"), type);
  model->gated = strcmp(type, "mptglu") == 0;
  model->activation = ACTIVATION_GELU; /* also with a gate */
  if (model->ffn_hidden == 0)
    model->ffn_hidden = (gint64)(ratio * (double)model->hidden);
  return TRUE;
}

static gboolean read_mpt(const JsonFile *json, Model *model, GError **error) {
  gboolean no_bias = TRUE;
  JsonObject *attention = NULL;
  if (!json_file_flag(json, json->root, "no_bias", &no_bias, error) ||
      !json_file_object(json, json->root, "attn_config", &attention, error) || !read_mpt_ffn(json, model, error))
    return FALSE;
  model->bare_norms = no_bias;
  model_set_biases(model, !no_bias, !no_bias);
  return attention == NULL || read_mpt_attention(json, attention, model, error);
}

#define LLAMA_BLOCK .norm = NORM_RMSNORM, .positions = POSITIONS_ROTARY, .gated = TRUE
#define NEOX_BLOCK .norm = NORM_LAYERNORM, .positions = POSITIONS_ROTARY
#define BLOOM_BLOCK .norm = NORM_LAYERNORM, .tied = TRUE, .qkv_bias = TRUE, .linear_bias = TRUE, .ffn_multiple = 4
#define GPT2_BLOCK BLOOM_BLOCK, .positions = POSITIONS_LEARNED, .dropout = TRUE

/* Without model_type the first family with a mark in the file is taken; the common dialect comes last. */
static const ModelFamily families[] = {
    {.types = {"mpt"},
     .marks = {"attn_config", "d_model", "expansion_ratio"},
     .norm = NORM_LAYERNORM,
     .positions = POSITIONS_ALIBI,
     .tied = TRUE,
     .ffn_multiple = 0,
     .read_details = read_mpt},
    {.types = {"gpt2"}, .marks = {"n_embd", "n_inner"}, GPT2_BLOCK, .read_details = read_gpt2},
    {.types = {"gpt_bigcode"}, GPT2_BLOCK, .read_details = read_bigcode},
    {.types = {"gpt_neox"},
     .marks = {"use_parallel_residual", "rotary_pct"},
     NEOX_BLOCK,
     .rotary_share = 0.25,
     .read_details = read_neox},
    {.types = {"gptj", "codegen"}, .marks = {"rotary_dim"}, NEOX_BLOCK, .ffn_multiple = 4, .read_details = read_gptj},
    {.types = {"phi"}, NEOX_BLOCK, .rotary_share = 0.5, .read_details = read_phi},
    {.types = {"falcon", "RefinedWeb", "RefinedWebModel"},
     .marks = {"multi_query", "new_decoder_architecture", "parallel_attn"},
     NEOX_BLOCK,
     .tied = TRUE,
     .ffn_multiple = 4,
     .read_details = read_falcon},
    {.types = {"bloom"},
     .marks = {"n_embed", "apply_residual_connection_post_layernorm"},
     BLOOM_BLOCK,
     .positions = POSITIONS_ALIBI,
     .read_details = read_bloom},
    {.types = {"opt"},
     .marks = {"ffn_dim", "word_embed_proj_dim"},
     .norm = NORM_LAYERNORM,
     .positions = POSITIONS_LEARNED,
     .tied = TRUE,
     .activation = ACTIVATION_RELU,
     .dropout = TRUE,
     .read_details = read_opt},
    {.types = {"qwen2"},
     .marks = {"use_sliding_window"},
     LLAMA_BLOCK,
     .qkv_bias = TRUE,
     .read_details = model_read_qwen2},
    {.types = {"qwen3"}, LLAMA_BLOCK, .read_details = model_read_qwen3},
    {.types = {"mixtral"}, LLAMA_BLOCK, .parts = PART_EXPERTS, .read_details = model_read_windowed_mixtral},
    {.types = {"gpt_oss"}, LLAMA_BLOCK, .parts = PART_EXPERTS, .read_details = model_read_gpt_oss},
    {.types = {"qwen2_moe"},
     LLAMA_BLOCK,
     .qkv_bias = TRUE,
     .parts = PART_EXPERTS,
     .read_details = model_read_qwen2_moe},
    {.types = {"qwen3_moe"}, LLAMA_BLOCK, .parts = PART_EXPERTS, .read_details = model_read_qwen3_moe},
    {.types = {"deepseek_v2", "deepseek_v3", "kimi_k2"},
     .marks = {"kv_lora_rank"},
     LLAMA_BLOCK,
     .parts = PART_EXPERTS | PART_LATENT,
     .read_details = model_read_deepseek},
    {.types = {"gemma"}, LLAMA_BLOCK, .tied = TRUE, .activation = ACTIVATION_GELU, .read_details = model_read_gemma},
    {.types = {"gemma2"}, LLAMA_BLOCK, .tied = TRUE, .activation = ACTIVATION_GELU, .read_details = model_read_gemma2},
    {.types = {"gemma3_text"},
     LLAMA_BLOCK,
     .tied = TRUE,
     .activation = ACTIVATION_GELU,
     .read_details = model_read_gemma3},
    {.types = {"olmo"}, NEOX_BLOCK, .gated = TRUE, .read_details = model_read_olmo},
    {.types = {"stablelm"}, NEOX_BLOCK, .gated = TRUE, .rotary_share = 0.25, .read_details = model_read_stablelm},
    {.types = {"olmo2"}, LLAMA_BLOCK, .read_details = model_read_olmo2},
    {.types = {"olmo3"}, LLAMA_BLOCK, .read_details = model_read_olmo3},
    {.types = {"olmoe"}, LLAMA_BLOCK, .parts = PART_EXPERTS, .read_details = model_read_olmoe},
    {.types = {"glm"}, LLAMA_BLOCK, .qkv_bias = TRUE, .rotary_share = 0.5, .read_details = model_read_glm},
    {.types = {"glm4"}, LLAMA_BLOCK, .qkv_bias = TRUE, .rotary_share = 0.5, .read_details = model_read_glm4},
    {.types = {"glm4_moe"},
     LLAMA_BLOCK,
     .rotary_share = 0.5,
     .parts = PART_EXPERTS,
     .read_details = model_read_glm4_moe},
    {.types = {"smollm3"}, LLAMA_BLOCK, .tied = TRUE, .read_details = model_read_smollm3},
    {.types = {"seed_oss"}, LLAMA_BLOCK, .dropout = TRUE, .read_details = model_read_seed_oss},
    {.types = {"minimax_m2"}, LLAMA_BLOCK, .parts = PART_EXPERTS, .read_details = model_read_minimax_m2},
    {.types = {"phimoe"}, NEOX_BLOCK, .gated = TRUE, .parts = PART_EXPERTS, .read_details = model_read_phimoe},
    {.types = {"granitemoe"}, LLAMA_BLOCK, .parts = PART_EXPERTS, .read_details = model_read_granite_moe},
    {.types = {"dots1"}, LLAMA_BLOCK, .parts = PART_EXPERTS, .read_details = model_read_dots1},
    {.types = {"ernie4_5"}, LLAMA_BLOCK, .tied = TRUE, .read_details = model_read_ernie},
    {.types = {"ernie4_5_moe"}, LLAMA_BLOCK, .tied = TRUE, .parts = PART_EXPERTS, .read_details = model_read_ernie_moe},
    {.types = {"hunyuan_v1_dense"}, LLAMA_BLOCK, .read_details = model_read_hunyuan},
    {.types = {"hunyuan_v1_moe"}, LLAMA_BLOCK, .parts = PART_EXPERTS, .read_details = model_read_hunyuan_moe},
    {.types = {"arcee"},
     .norm = NORM_RMSNORM,
     .positions = POSITIONS_ROTARY,
     .activation = ACTIVATION_SQUARED_RELU,
     .read_details = model_read_llama},
    {.types = {"exaone4"}, LLAMA_BLOCK, .read_details = model_read_exaone4},
    {.types = {"cohere"}, NEOX_BLOCK, .gated = TRUE, .tied = TRUE, .read_details = model_read_cohere},
    {.types = {"cohere2"}, NEOX_BLOCK, .gated = TRUE, .tied = TRUE, .read_details = model_read_cohere2},
    {.types = {"starcoder2"}, NEOX_BLOCK, .tied = TRUE, .read_details = model_read_starcoder2},
    {.types = {"nemotron"},
     NEOX_BLOCK,
     .activation = ACTIVATION_SQUARED_RELU,
     .rotary_share = 0.5,
     .read_details = model_read_biases},
    {.types = {"granite"}, LLAMA_BLOCK, .read_details = model_read_granite},
    {.types = {"mistral"}, LLAMA_BLOCK, .read_details = model_read_mistral},
    {.types = {"baichuan"}, LLAMA_BLOCK, .read_details = model_read_baichuan},
    {.types = {"qwen"}, LLAMA_BLOCK, .qkv_bias = TRUE, .read_details = model_read_qwen},
    {.types = {"llama4_text"}, LLAMA_BLOCK, .parts = PART_EXPERTS, .read_details = model_read_llama4},
    {.types = {"llama", "phi3"}, .marks = {"hidden_size"}, LLAMA_BLOCK, .read_details = model_read_llama},
};

/* Keys that contradict a family found by marks: `type` is that family, NULL any. */
static const struct {
  const char *key, *type, *expected; /* values of model_type whose configs have the key */
} misleading[] = {
    {"multi_query", "gpt2", "gpt_bigcode"},
    {"final_logit_softcapping", NULL, "gemma2 or gemma3_text"},
    {"query_pre_attn_scalar", NULL, "gemma2 or gemma3_text"},
    {"sliding_window_pattern", NULL, "gemma3_text, cohere2 or exaone4"},
    {"partial_rotary_factor", NULL, "glm, glm4, glm4_moe, phi, stablelm or nemotron"},
    {"no_rope_layer_interval", NULL, "smollm3 or llama4_text"},
    {"no_rope_layers", NULL, "smollm3 or llama4_text"},
    {"attention_chunk_size", NULL, "llama4_text"},
    {"kv_channels", NULL, "qwen"},
    {"use_qk_norm", NULL, "cohere, glm4_moe, minimax_m2 or hunyuan_v1_moe"},
    {"residual_multiplier", NULL, "granite or granitemoe"},
};

/* Values of model_type with layers of another kind, and what those are (Transformers, v4.46 to v5.0, 2024-26). */
static const struct {
  const char *type, *kind;
} other_kinds[] = {
    {"minimax", "linear attention in most layers"},
    {"qwen3_next", "linear attention (gated delta nets) in most layers"},
    {"kimi_linear", "linear attention in most layers"},
    {"mamba", "state spaces in place of attention"},
    {"mamba2", "state spaces in place of attention"},
    {"falcon_mamba", "state spaces in place of attention"},
    {"jamba", "state spaces in most layers"},
    {"bamba", "state spaces in most layers"},
    {"zamba", "state spaces in most layers"},
    {"zamba2", "state spaces in most layers"},
    {"nemotron_h", "state spaces in most layers"},
    {"granitemoehybrid", "state spaces in most layers"},
    {"falcon_h1", "state spaces beside attention"},
    {"recurrent_gemma", "recurrence in most layers"},
    {"rwkv", "recurrence in place of attention"},
    {"lfm2", "convolutions in most layers"},
    {"gemma3n_text", "key-value heads that layers share"},
};

/* IMPOSSIBLE if `type` is one of them. */
static gboolean check_other_kinds(const JsonFile *json, const char *type, GError **error) {
  for (gsize i = 0; i < G_N_ELEMENTS(other_kinds); i++)
    if (strcmp(type, other_kinds[i].type) == 0)
      return fail_impossible(error, "%s:%u: model_type: %s has %s, which is not modelled, only softmax attention is",
                             json->file, json_file_line(json, json->root, "model_type"), type, other_kinds[i].kind);
  return TRUE;
}

/* `marked`, or NULL with INPUT if the config may belong to another family. */
static const ModelFamily *check_marked(const JsonFile *json, const ModelFamily *marked, GError **error) {
  for (size_t i = 0; i < G_N_ELEMENTS(misleading); i++) {
    const char *key = misleading[i].key;
    if (!json_object_has_member(json->root, key) ||
        (misleading[i].type != NULL && strcmp(misleading[i].type, marked->types[0]) != 0))
      continue;
    fail_input(error, "%s:%u: %s: found no model_type beside it, expected one, such as %s", json->file,
               json_file_line(json, json->root, key), key, misleading[i].expected);
    return NULL;
  }
  return marked;
}

static const ModelFamily *find_by_marks(JsonObject *root) {
  for (size_t i = 0; i < G_N_ELEMENTS(families); i++)
    for (int j = 0; families[i].marks[j] != NULL; j++)
      if (json_object_has_member(root, families[i].marks[j]))
        return &families[i];
  return NULL;
}

char *model_family_names(FamilyPart part) {
  const char *names[G_N_ELEMENTS(families) * G_N_ELEMENTS(families[0].types)];
  gsize n = 0;
  for (gsize i = 0; i < G_N_ELEMENTS(families); i++)
    for (int j = 0; (families[i].parts & part) != 0 && families[i].types[j] != NULL; j++)
      names[n++] = families[i].types[j];
  g_autoptr(GString) text = g_string_new(names[0]);
  for (gsize i = 1; i < n; i++)
    g_string_append_printf(text, "%s%s", i + 1 < n ? ", " : " and ", names[i]);
  return g_string_free(g_steal_pointer(&text), FALSE);
}

static const ModelFamily *find_by_type(const char *type) {
  for (size_t i = 0; i < G_N_ELEMENTS(families); i++)
    for (int j = 0; families[i].types[j] != NULL; j++)
      if (g_strcmp0(type, families[i].types[j]) == 0)
        return &families[i];
  return NULL;
}

/* "expected one of …" with all types. */
static char *expected_types(const char *type) {
  const char *names[G_N_ELEMENTS(families) * G_N_ELEMENTS(families[0].types) + 1];
  gsize n = 0;
  for (size_t i = 0; i < G_N_ELEMENTS(families); i++)
    for (int j = 0; families[i].types[j] != NULL; j++)
      names[n++] = families[i].types[j];
  names[n] = NULL;
  return suggest_message(type, names);
}

/* The first entry of the list `architectures`, borrowed; NULL: none. */
static const char *first_architecture(JsonObject *root) {
  JsonNode *node = json_object_get_member(root, "architectures");
  if (node == NULL || !JSON_NODE_HOLDS_ARRAY(node) || json_array_get_length(json_node_get_array(node)) == 0)
    return NULL;
  JsonNode *first = json_array_get_element(json_node_get_array(node), 0);
  return json_node_get_value_type(first) == G_TYPE_STRING ? json_node_get_string(first) : NULL;
}

/* The family of a config without model_type. */
static const ModelFamily *find_without_type(const JsonFile *json, const ModelDefaults **defaults, GError **error) {
  const char *architecture = first_architecture(json->root);
  *defaults = architecture != NULL ? model_defaults_of_architecture(architecture) : NULL;
  if (*defaults != NULL)
    return find_by_type((*defaults)->type);
  const ModelFamily *marked = architecture == NULL ? find_by_marks(json->root) : NULL;
  if (marked != NULL)
    return check_marked(json, marked, error);
  g_autofree char *expected = expected_types(NULL);
  if (architecture != NULL)
    fail_input(error, "%s:%u: architectures: found \"%.80s\", which is not known, and no model_type beside it; %s",
               json->file, json_file_line(json, json->root, "architectures"), architecture, expected);
  else
    fail_input(error, "%s:1: found neither model_type nor a key that tells the family (such as hidden_size); %s",
               json->file, expected);
  return NULL;
}

const ModelFamily *model_family_find(const JsonFile *json, const ModelDefaults **defaults, GError **error) {
  const char *type = NULL;
  if (!json_file_text(json, json->root, "model_type", &type, error))
    return NULL;
  if (type == NULL)
    return find_without_type(json, defaults, error);
  const char *architecture = first_architecture(json->root);
  if (strcmp(type, "minimax") == 0 && architecture != NULL && g_str_has_prefix(architecture, "MiniMaxM2"))
    type = "minimax_m2"; /* first published under its predecessor's name (2025-10) */
  *defaults = model_defaults_of(type);
  const ModelFamily *family = find_by_type(type);
  if (family != NULL)
    return family;
  if (!check_other_kinds(json, type, error))
    return NULL;
  g_autofree char *expected = expected_types(type);
  fail_input(error, "%s:%u: model_type: found \"%.80s\", %s", json->file,
             json_file_line(json, json->root, "model_type"), type, expected);
  return NULL;
}
