/* Llama's block, RMSNorm and a gated MLP, and what its descendants change: biases, norms of q and k, norms after the
 * branches, windows, experts, LayerNorm instead of RMSNorm (Cohere, OLMo 1, StableLM), an MLP without a gate
 * (StarCoder2). Defaults are those of Transformers' *Config classes (v4.46 to v4.57, 2024-25). */
#include <math.h>

#include "error.h"
#include "model_family.h"

void model_set_biases(Model *model, gboolean attention, gboolean mlp) {
  model->qkv_bias = attention;
  model->linear_bias = attention && mlp;
  model->lone_bias = attention == mlp ? LONE_BIAS_NONE : attention ? LONE_BIAS_OUT : LONE_BIAS_MLP;
}

/* On all layers, if the config names one. */
static const WindowDefaults plain_window = {0};
/* Transformers' Qwen2Config (2024-26); Qwen3Config and the variants with experts have the same. */
static const WindowDefaults qwen_window = {.n_whole = 28, .is_off = TRUE};

gboolean model_read_biases(const JsonFile *json, Model *model, GError **error) {
  gboolean attention = FALSE, mlp = FALSE;
  if (!json_file_flag(json, json->root, "attention_bias", &attention, error) ||
      !json_file_flag(json, json->root, "mlp_bias", &mlp, error))
    return FALSE;
  model_set_biases(model, attention, mlp);
  return TRUE;
}

/* The window is MistralConfig's default (2023-26); later models set it to null. */
gboolean model_read_mistral(const JsonFile *json, Model *model, GError **error) {
  return model_read_biases(json, model, error) &&
         model_read_window(json, model, (WindowDefaults){.window = 4096}, error);
}

gboolean model_read_llama(const JsonFile *json, Model *model, GError **error) {
  return model_read_biases(json, model, error) && model_read_window(json, model, plain_window, error);
}

/* no_rope_layers: 1 for each layer that rotates, 0 for each that does not. */
static gboolean read_rotated_layers(const JsonFile *json, int *unrotated, guint n, GError **error) {
  static const char key[] = "no_rope_layers";
  JsonNode *node = json_object_get_member(json->root, key);
  JsonArray *layers = JSON_NODE_HOLDS_ARRAY(node) ? json_node_get_array(node) : NULL;
  if (layers == NULL || json_array_get_length(layers) != n)
    return fail_input(error, "%s:%u: %s: expected a list of %u layers", json->file,
                      json_file_line(json, json->root, key), key, n);
  for (guint i = 0; i < n; i++) {
    JsonNode *item = json_array_get_element(layers, i);
    gint64 rotated;
    if (!json_node_integer(item, (IntegerRange){0, 1}, &rotated)) {
      g_autofree char *found = json_node_words(item);
      return fail_input(error, "%s:%u: %s: item %u: found %s, expected 0 or 1", json->file,
                        json_file_line(json, json->root, key), key, i + 1, found);
    }
    unrotated[i] = rotated == 0;
  }
  return TRUE;
}

/* Whether no_rope_layers is there; Llama 4's first configs have an empty list, which counts as none. */
static gboolean lists_rotated_layers(const JsonFile *json) {
  JsonNode *node = json_object_get_member(json->root, "no_rope_layers");
  return json_file_has(json->root, "no_rope_layers") &&
         !(JSON_NODE_HOLDS_ARRAY(node) && json_array_get_length(json_node_get_array(node)) == 0);
}

/* Unless the config lists them, every `every`-th layer does not rotate q and k. */
static gboolean read_unrotated(const JsonFile *json, Model *model, gint64 every, GError **error) {
  const guint n = (guint)model->n_layers;
  g_autofree int *unrotated = g_new(int, n);
  for (guint i = 0; i < n; i++)
    unrotated[i] = (i + 1) % every == 0;
  if (lists_rotated_layers(json) && !read_rotated_layers(json, unrotated, n, error))
    return FALSE;
  for (guint i = 0; i < n; i++)
    if (unrotated[i] && model->unrotated_layers == NULL)
      model->unrotated_layers = model_marked_layers(unrotated, n);
  return TRUE;
}

/* The window, if any, is on the layers without rotation: every no_rope_layer_interval-th. */
gboolean model_read_smollm3(const JsonFile *json, Model *model, GError **error) {
  WindowDefaults window = {.period = 4, .is_last_only = TRUE, .is_off = TRUE};
  return json_file_integer(json, json->root, "no_rope_layer_interval", (IntegerRange){1, G_MAXINT32}, &window.period,
                           error) &&
         read_unrotated(json, model, window.period, error) && model_read_biases(json, model, error) &&
         model_read_window(json, model, window, error);
}

/* By default every other layer has the window. Its configs say
 * "silu" for the clamped and scaled activation (Transformers' GptOssExperts, 2025). */
gboolean model_read_gpt_oss(const JsonFile *json, Model *model, GError **error) {
  gboolean attention_bias = TRUE;
  if (!json_file_flag(json, json->root, "attention_bias", &attention_bias, error) ||
      !model_read_plain_experts(json, model, error) ||
      !model_read_window(json, model, (WindowDefaults){.window = 128, .period = 2}, error))
    return FALSE;
  model->activation = ACTIVATION_BOUNDED_GELU;
  model->experts.has_biases = TRUE;
  model->has_sinks = TRUE;
  model_set_biases(model, attention_bias, FALSE);
  return TRUE;
}

enum { MOST_FACTOR = 1000000 };

/* A factor of ModelFactors; `*factor` holds the config's default. Set to 0 if it equals the usual one. */
static gboolean read_factor(const JsonFile *json, const char *key, double usual, double *factor, GError **error) {
  if (!json_file_number(json, json->root, key, (RealRange){1.0 / MOST_FACTOR, MOST_FACTOR}, factor, error))
    return FALSE;
  *factor = fabs(*factor - usual) > 1e-6 * usual ? *factor : 0;
  return TRUE;
}

gboolean model_read_granite(const JsonFile *json, Model *model, GError **error) {
  ModelFactors factors = {1, 1, 1, 1};
  if (!read_factor(json, "embedding_multiplier", 1, &factors.embedding, error) ||
      !read_factor(json, "attention_multiplier", 1 / sqrt((double)model->head_dim), &factors.scores, error) ||
      !read_factor(json, "residual_multiplier", 1, &factors.branches, error) ||
      !read_factor(json, "logits_scaling", 1, &factors.logits, error))
    return FALSE;
  factors.logits = factors.logits > 0 ? 1 / factors.logits : 0; /* logits are divided by it */
  model->factors = factors;
  return model_read_llama(json, model, error);
}

gboolean model_read_qwen2(const JsonFile *json, Model *model, GError **error) {
  return model_read_window(json, model, qwen_window, error);
}

/* q and k of every head are normalised, with one scale vector each, shared by all heads. */
gboolean model_read_qwen3(const JsonFile *json, Model *model, GError **error) {
  model->qk_norms = QK_NORMS_HEADS;
  return model_read_biases(json, model, error) && model_read_window(json, model, qwen_window, error);
}

gboolean model_read_windowed_mixtral(const JsonFile *json, Model *model, GError **error) {
  return model_read_plain_experts(json, model, error) && model_read_window(json, model, plain_window, error);
}

gboolean model_read_qwen2_moe(const JsonFile *json, Model *model, GError **error) {
  return json_file_flag(json, json->root, "qkv_bias", &model->qkv_bias, error) &&
         model_read_qwen_moe(json, model, error) && model_read_window(json, model, qwen_window, error);
}

gboolean model_read_qwen3_moe(const JsonFile *json, Model *model, GError **error) {
  return model_read_qwen_moe(json, model, error) && model_read_qwen3(json, model, error);
}

gboolean model_read_gemma(const JsonFile *json, Model *model, GError **error) {
  model->factors.embedding = sqrt((double)model->hidden);
  return model_read_biases(json, model, error);
}

/* One norm before each branch and one after; scores divided by the root of a number of their own; capped logits. */
static gboolean read_normed_gemma(const JsonFile *json, Model *model, WindowDefaults window, double cap,
                                  GError **error) {
  static const char cap_key[] = "final_logit_softcapping";
  cap = json_object_has_member(json->root, cap_key) ? 0 : cap;
  model->post_norms = TRUE;
  double divisor = 256;
  if (!model_read_gemma(json, model, error) || !model_read_window(json, model, window, error) ||
      !json_file_number(json, json->root, cap_key, (RealRange){0, 1e6}, &cap, error) ||
      !read_factor(json, "query_pre_attn_scalar", (double)model->head_dim, &divisor, error))
    return FALSE;
  model->factors.scores = divisor > 0 ? 1 / sqrt(divisor) : 0;
  model->capped_logits = cap > 0;
  return TRUE;
}

gboolean model_read_gemma2(const JsonFile *json, Model *model, GError **error) {
  return read_normed_gemma(json, model, (WindowDefaults){.window = 4096, .period = 2}, 30, error);
}

gboolean model_read_gemma3(const JsonFile *json, Model *model, GError **error) {
  model->qk_norms = QK_NORMS_HEADS;
  return read_normed_gemma(json, model, (WindowDefaults){.window = 4096, .period = 6}, 0, error);
}

/* LayerNorms without weights. Clipping of q, k and v is not modelled. */
gboolean model_read_olmo(const JsonFile *json, Model *model, GError **error) {
  model->fixed_norms = TRUE;
  return model_read_biases(json, model, error);
}

/* Each head's q and k may have norms with their own scales. Parallel branches share one norm. */
gboolean model_read_stablelm(const JsonFile *json, Model *model, GError **error) {
  gboolean qk_norm = FALSE;
  if (!json_file_flag(json, json->root, "use_qkv_bias", &model->qkv_bias, error) ||
      !json_file_flag(json, json->root, "qk_layernorm", &qk_norm, error) ||
      !json_file_flag(json, json->root, "use_parallel_residual", &model->parallel_block, error))
    return FALSE;
  model->qk_norms = qk_norm ? QK_NORMS_OWN : QK_NORMS_NONE;
  model->bare_qk_norms = qk_norm;
  model->n_norms_per_layer = model->parallel_block ? 1 : 2;
  return TRUE;
}

/* Its two norms come after the branches instead of before them: same number, same size. */
gboolean model_read_olmo2(const JsonFile *json, Model *model, GError **error) {
  model->norms_behind = TRUE;
  model->qk_norms = QK_NORMS_WHOLE;
  return model_read_llama(json, model, error);
}

gboolean model_read_olmo3(const JsonFile *json, Model *model, GError **error) {
  model->norms_behind = TRUE;
  model->qk_norms = QK_NORMS_WHOLE;
  return model_read_biases(json, model, error) &&
         model_read_window(json, model, (WindowDefaults){.window = 4096, .period = 4}, error);
}

gboolean model_read_olmoe(const JsonFile *json, Model *model, GError **error) {
  model->qk_norms = QK_NORMS_WHOLE;
  return model_read_plain_experts(json, model, error) && model_read_biases(json, model, error);
}

/* GLM's attention_bias does not cover the output product. */
gboolean model_read_glm(const JsonFile *json, Model *model, GError **error) {
  model->rotates_pairs = TRUE;
  return json_file_flag(json, json->root, "attention_bias", &model->qkv_bias, error);
}

gboolean model_read_glm4(const JsonFile *json, Model *model, GError **error) {
  model->post_norms = TRUE;
  return model_read_glm(json, model, error);
}

gboolean model_read_glm4_moe(const JsonFile *json, Model *model, GError **error) {
  gboolean qk_norm = FALSE;
  if (!model_read_glm(json, model, error) || !json_file_flag(json, json->root, "use_qk_norm", &qk_norm, error))
    return FALSE;
  model->rotates_pairs = FALSE; /* GLM-4.5 rotates halves, like NeoX */
  model->qk_norms = qk_norm ? QK_NORMS_HEADS : QK_NORMS_NONE;
  return model_read_glm_experts(json, model, error);
}

/* Multi-token-prediction heads by MiniMax-M2's keys (its config.json, 2025-10). Each is assumed to be built like
 * DeepSeek-V3's. */
static gboolean read_minimax_next_layers(const JsonFile *json, Model *model, GError **error) {
  gint64 n_layers = 1;
  gboolean is_used = TRUE;
  if (!json_file_flag(json, json->root, "use_mtp", &is_used, error) ||
      !json_file_integer(json, json->root, "num_mtp_modules", (IntegerRange){0, model->n_layers}, &model->n_next_layers,
                         error) ||
      !json_file_integer(json, json->root, "mtp_transformer_layers", (IntegerRange){1, model->n_layers}, &n_layers,
                         error))
    return FALSE;
  model->n_next_layers = is_used ? model->n_next_layers : 0;
  model->other_next_layers = n_layers > 1;
  return TRUE;
}

/* rotary_dim columns of each head are rotated; q and k are normalised over all heads. */
gboolean model_read_minimax_m2(const JsonFile *json, Model *model, GError **error) {
  gint64 rotated = 0;
  model->qk_norms = QK_NORMS_WHOLE;
  if (!json_file_integer(json, json->root, "rotary_dim", (IntegerRange){1, model->head_dim}, &rotated, error) ||
      !read_minimax_next_layers(json, model, error))
    return FALSE;
  if (rotated > 0)
    model->rotary_share = rotated < model->head_dim ? (double)rotated / (double)model->head_dim : 0;
  return model_read_plain_experts(json, model, error);
}

/* Mixtral with LayerNorms, attention biases and a bias on the logits. */
gboolean model_read_phimoe(const JsonFile *json, Model *model, GError **error) {
  return json_file_flag(json, json->root, "lm_head_bias", &model->head_bias, error) &&
         model_read_biases(json, model, error) && model_read_windowed_mixtral(json, model, error);
}

/* Qwen3's attention and DeepSeek-V3's experts in a single group. */
gboolean model_read_dots1(const JsonFile *json, Model *model, GError **error) {
  model->qk_norms = QK_NORMS_HEADS;
  return model_read_biases(json, model, error) && model_read_glm_experts(json, model, error) &&
         model_read_window(json, model, (WindowDefaults){.window = 4096, .n_whole = 62}, error);
}

gboolean model_read_granite_moe(const JsonFile *json, Model *model, GError **error) {
  return model_read_granite(json, model, error) && model_read_plain_experts(json, model, error);
}

gboolean model_read_ernie(const JsonFile *json, Model *model, GError **error) {
  gboolean bias = FALSE;
  if (!json_file_flag(json, json->root, "use_bias", &bias, error))
    return FALSE;
  model->rotates_pairs = TRUE;
  model_set_biases(model, bias, bias);
  return TRUE;
}

gboolean model_read_ernie_moe(const JsonFile *json, Model *model, GError **error) {
  if (!model_read_ernie(json, model, error))
    return FALSE;
  if (model->linear_bias)
    return fail_impossible(error, "%s:%u: use_bias: biases of experts are not modelled in this family", json->file,
                           json_file_line(json, json->root, "use_bias"));
  return model_read_ernie_experts(json, model, error);
}

/* OLMo 2's norms after the branches, and norms of each head's q and k. If some layers have a window, the others do
 * not rotate. */
gboolean model_read_exaone4(const JsonFile *json, Model *model, GError **error) {
  const guint n = (guint)model->n_layers;
  model->norms_behind = TRUE;
  model->qk_norms = QK_NORMS_HEADS;
  if (!model_read_window(json, model, (WindowDefaults){.window = 4096, .period = 4, .has_letters = TRUE}, error))
    return FALSE;
  if (model->windowed_layers == NULL)
    return TRUE;
  g_autofree int *unrotated = g_new(int, n);
  for (guint i = 0; i < n; i++)
    unrotated[i] = model->windowed_layers[i] == '0';
  model->unrotated_layers = model_marked_layers(unrotated, n);
  return TRUE;
}

gboolean model_read_hunyuan(const JsonFile *json, Model *model, GError **error) {
  static const char shared_key[] = "use_cla";
  gboolean shares_kv = FALSE;
  model->qk_norms = QK_NORMS_HEADS;
  model->norms_rotated = TRUE;
  if (!json_file_flag(json, json->root, shared_key, &shares_kv, error))
    return FALSE;
  if (shares_kv)
    return fail_impossible(error, "%s:%u: %s: key-value heads that layers share are not modelled", json->file,
                           json_file_line(json, json->root, shared_key), shared_key);
  return model_read_biases(json, model, error);
}

gboolean model_read_hunyuan_moe(const JsonFile *json, Model *model, GError **error) {
  return model_read_hunyuan(json, model, error) && model_read_hunyuan_experts(json, model, error);
}

gboolean model_read_seed_oss(const JsonFile *json, Model *model, GError **error) {
  gboolean qkv = TRUE, out = FALSE, mlp = FALSE;
  if (!json_file_flag(json, json->root, "attention_bias", &qkv, error) ||
      !json_file_flag(json, json->root, "attention_out_bias", &out, error) ||
      !json_file_flag(json, json->root, "mlp_bias", &mlp, error))
    return FALSE;
  model_set_biases(model, out, mlp);
  model->qkv_bias = qkv;
  return TRUE;
}

/* Both branches share one norm without bias; logits are scaled; each head's q and k may have norms with their own
 * weights. */
gboolean model_read_cohere(const JsonFile *json, Model *model, GError **error) {
  gboolean qk_norm = FALSE;
  model->parallel_block = model->bare_norms = model->rotates_pairs = TRUE;
  model->n_norms_per_layer = 1;
  model->factors.logits = 0.0625;
  if (!read_factor(json, "logit_scale", 1, &model->factors.logits, error) || !model_read_biases(json, model, error) ||
      !json_file_flag(json, json->root, "use_qk_norm", &qk_norm, error))
    return FALSE;
  model->qk_norms = qk_norm ? QK_NORMS_OWN : QK_NORMS_NONE;
  return TRUE;
}

gboolean model_read_cohere2(const JsonFile *json, Model *model, GError **error) {
  return model_read_cohere(json, model, error) &&
         model_read_window(json, model, (WindowDefaults){.window = 4096, .period = 4}, error);
}

/* LayerNorms and no gate. */
gboolean model_read_starcoder2(const JsonFile *json, Model *model, GError **error) {
  gboolean bias = TRUE;
  if (!json_file_flag(json, json->root, "use_bias", &bias, error))
    return FALSE;
  model_set_biases(model, bias, bias);
  return model_read_window(json, model, plain_window, error);
}

/* One W_pack for q, k and v. The class of 7B has max_position_embeddings and rotates, that of 13B, whose configs have
 * model_max_length alone, has ALiBi (modeling_baichuan.py of Baichuan-7B, Baichuan-13B-Base and both Baichuan2, 2023).
 */
gboolean model_read_baichuan(const JsonFile *json, Model *model, GError **error) {
  model->positions = json_file_has(json->root, "max_position_embeddings") ? POSITIONS_ROTARY : POSITIONS_ALIBI;
  model->n_kv_heads = model->n_heads;
  return model->positions == POSITIONS_ROTARY ||
         json_file_integer(json, json->root, "model_max_length", (IntegerRange){1, G_MAXINT32}, &model->max_positions,
                           error);
}

/* intermediate_size counts gate and its companion together, kv_channels is the size of a head, and c_attn alone always
 * has biases (modeling_qwen.py of Qwen-7B, 2023). */
gboolean model_read_qwen(const JsonFile *json, Model *model, GError **error) {
  gboolean no_bias = TRUE;
  if (!json_file_flag(json, json->root, "no_bias", &no_bias, error) ||
      !json_file_integer(json, json->root, "kv_channels", (IntegerRange){1, 1 << 20}, &model->head_dim, error))
    return FALSE;
  if (model->ffn_hidden % 2 != 0)
    return fail_input(error,
                      "%s: found %" G_GINT64_FORMAT " as the width of gate and MLP together, expected an even one",
                      json->file, model->ffn_hidden);
  model->ffn_hidden /= 2;
  model->n_kv_heads = model->n_heads;
  model_set_biases(model, !no_bias, !no_bias);
  model->qkv_bias = TRUE;
  return TRUE;
}

/* Most layers rotate q and k, neighbouring columns, then normalise them without weights, and attend within chunks;
 * every fourth does none of it (Llama4TextAttention of Transformers, 2025-26). Norms are counted in all layers. */
gboolean model_read_llama4(const JsonFile *json, Model *model, GError **error) {
  gboolean qk_norm = TRUE;
  gint64 interval = 4;
  model->rotates_pairs = TRUE;
  if (!json_file_flag(json, json->root, "use_qk_norm", &qk_norm, error) ||
      !json_file_integer(json, json->root, "no_rope_layer_interval", (IntegerRange){1, G_MAXINT32}, &interval, error) ||
      !read_unrotated(json, model, interval, error) || !model_read_biases(json, model, error))
    return FALSE;
  model->qk_norms = qk_norm ? QK_NORMS_HEADS : QK_NORMS_NONE;
  model->fixed_qk_norms = model->norms_rotated = qk_norm;
  return model_read_chunks(json, model, error) && model_read_llama4_experts(json, model, error);
}
