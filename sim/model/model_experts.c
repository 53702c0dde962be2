/* Configs with experts: the keys of Transformers' MixtralConfig, Qwen2MoeConfig, Qwen3MoeConfig, OlmoeConfig,
 * Glm4MoeConfig, DeepseekV2Config, DeepseekV3Config, Ernie4_5_MoeConfig and HunYuanMoEV1Config (v4.46 to v5.0,
 * 2024-2026). A config that names fewer than two experts is dense. */
#include <string.h>

#include "error.h"
#include "model_family.h"

enum { MOST_EXPERTS = 1 << 16, MOST_WIDTH = 1 << 26, MOST_LAYERS = 100000 };

typedef struct {
  const char *key;
  gint64 most;
  gint64 *value;
  gboolean is_required;
} Count;

/* Counts from 1 (required) or 0 to their maximum; null means 0. A count whose key is absent keeps its value. */
static gboolean read_counts(const JsonFile *json, const Count *counts, size_t n, GError **error) {
  for (size_t i = 0; i < n; i++) {
    const Count *count = &counts[i];
    if (json_object_has_member(json->root, count->key))
      *count->value = 0;
    if (!json_file_integer(json, json->root, count->key, (IntegerRange){count->is_required ? 1 : 0, count->most},
                           count->value, error))
      return FALSE;
    if (count->is_required && *count->value == 0)
      return fail_input(error, "%s:1: found no key \"%s\", expected it in a config of this family", json->file,
                        count->key);
  }
  return TRUE;
}

/* The key for the experts per token. */
static const char *per_token_key(const JsonFile *json) {
  static const char *const keys[] = {"num_experts_per_tok", "moe_k", "moe_topk"};
  for (gsize i = 0; i < G_N_ELEMENTS(keys); i++)
    if (json_object_has_member(json->root, keys[i]))
      return keys[i];
  return keys[0];
}

/* Checks and completion once the experts' keys are read. */
static gboolean finish_experts(const JsonFile *json, Model *model, GError **error) {
  ModelExperts *experts = &model->experts;
  if (experts->n < 2) {
    *experts = (ModelExperts){0};
    return TRUE;
  }
  experts->every = MAX(experts->every, 1);
  const char *key = per_token_key(json);
  if (experts->per_token > experts->n)
    return fail_input(error, "%s:%u: %s: found %" G_GINT64_FORMAT ", expected at most the %" G_GINT64_FORMAT " experts",
                      json->file, json_file_line(json, json->root, key), key, experts->per_token, experts->n);
  if (model_dense_layers(model, 0, model->n_layers) == model->n_layers)
    return fail_input(error, "%s: found %" G_GINT64_FORMAT " experts and no layer that has them", json->file,
                      experts->n);
  return TRUE;
}

/* The number of experts. Releases renamed its key in places, in any family. */
static gboolean read_n_experts(const JsonFile *json, ModelExperts *experts, GError **error) {
  static const char *const keys[] = {"num_local_experts", "num_experts", "moe_num_experts", "n_routed_experts"};
  const char *first = NULL;
  for (gsize i = 0; i < G_N_ELEMENTS(keys); i++) {
    gint64 n = experts->n;
    const Count count = {keys[i], MOST_EXPERTS, &n, TRUE};
    if (!json_object_has_member(json->root, keys[i]))
      continue;
    if (!read_counts(json, &count, 1, error))
      return FALSE;
    if (first != NULL && n != experts->n)
      return fail_input(error, "%s:%u: %s: found %" G_GINT64_FORMAT ", expected %" G_GINT64_FORMAT " as %s says",
                        json->file, json_file_line(json, json->root, keys[i]), keys[i], n, experts->n, first);
    experts->n = n;
    first = keys[i];
  }
  return experts->n > 0 || fail_input(error, "%s:1: found no key \"%s\", expected it in a config of this family",
                                      json->file, keys[G_N_ELEMENTS(keys) - 1]);
}

/* Mixtral's, GPT-OSS's, OLMoE's, MiniMax-M2's, Phi-3.5-MoE's and Granite's: all layers have experts, each as wide as
 * intermediate_size. */
gboolean model_read_plain_experts(const JsonFile *json, Model *model, GError **error) {
  ModelExperts *experts = &model->experts;
  experts->ffn_hidden = model->ffn_hidden;
  const Count counts[] = {{"num_experts_per_tok", MOST_EXPERTS, &experts->per_token, TRUE}};
  return read_n_experts(json, experts, error) && read_counts(json, counts, G_N_ELEMENTS(counts), error) &&
         finish_experts(json, model, error);
}

/* mlp_only_layers lists layers without experts at arbitrary positions; only an empty list is accepted. */
static gboolean check_dense_list(const JsonFile *json, GError **error) {
  static const char key[] = "mlp_only_layers";
  if (!json_file_has(json->root, key))
    return TRUE;
  JsonNode *node = json_object_get_member(json->root, key);
  if (!JSON_NODE_HOLDS_ARRAY(node))
    return fail_input(error, "%s:%u: %s: expected a list", json->file, json_file_line(json, json->root, key), key);
  if (json_array_get_length(json_node_get_array(node)) == 0)
    return TRUE;
  return fail_impossible(error,
                         "%s:%u: %s: single layers without experts are not modelled, only leading ones and every n-th",
                         json->file, json_file_line(json, json->root, key), key);
}

gboolean model_read_qwen_moe(const JsonFile *json, Model *model, GError **error) {
  ModelExperts *experts = &model->experts;
  experts->every = experts->phase = 1;
  const Count counts[] = {{"num_experts_per_tok", MOST_EXPERTS, &experts->per_token, TRUE},
                          {"moe_intermediate_size", MOST_WIDTH, &experts->ffn_hidden, TRUE},
                          {"shared_expert_intermediate_size", MOST_WIDTH, &experts->shared_ffn_hidden, FALSE},
                          {"decoder_sparse_step", MOST_LAYERS, &experts->every, TRUE}};
  if (!read_n_experts(json, experts, error) || !read_counts(json, counts, G_N_ELEMENTS(counts), error) ||
      !check_dense_list(json, error))
    return FALSE;
  experts->shared_gate = experts->shared_ffn_hidden > 0;
  return finish_experts(json, model, error);
}

/* moe_layers, which saved configs have, lists what interleave_moe_layer_step says: each such layer. */
static gboolean check_expert_layers(const JsonFile *json, const Model *model, GError **error) {
  static const char key[] = "moe_layers";
  const gint64 every = model->experts.every;
  if (!json_file_has(json->root, key))
    return TRUE;
  JsonNode *node = json_object_get_member(json->root, key);
  if (!JSON_NODE_HOLDS_ARRAY(node))
    return fail_input(error, "%s:%u: %s: expected a list", json->file, json_file_line(json, json->root, key), key);
  JsonArray *layers = json_node_get_array(node);
  const guint n = json_array_get_length(layers);
  gboolean is_regular = n == model->n_layers / every;
  for (guint i = 0; i < n && is_regular; i++) {
    gint64 layer;
    is_regular = json_node_integer(json_array_get_element(layers, i), (IntegerRange){0, MOST_LAYERS}, &layer) &&
                 layer == (i + 1) * every - 1;
  }
  return is_regular || fail_impossible(error,
                                       "%s:%u: %s: found other layers than every %" G_GINT64_FORMAT
                                       ". (interleave_moe_layer_step): only these are modelled",
                                       json->file, json_file_line(json, json->root, key), key, every);
}

/* The routed and the shared expert are as wide as intermediate_size, layers without experts as intermediate_size_mlp.
 */
gboolean model_read_llama4_experts(const JsonFile *json, Model *model, GError **error) {
  ModelExperts *experts = &model->experts;
  experts->ffn_hidden = experts->shared_ffn_hidden = model->ffn_hidden;
  experts->every = experts->phase = 1;
  model->ffn_hidden = 16384;
  const Count counts[] = {{"num_experts_per_tok", MOST_EXPERTS, &experts->per_token, TRUE},
                          {"intermediate_size_mlp", MOST_WIDTH, &model->ffn_hidden, TRUE},
                          {"interleave_moe_layer_step", MOST_LAYERS, &experts->every, TRUE}};
  return read_n_experts(json, experts, error) && read_counts(json, counts, G_N_ELEMENTS(counts), error) &&
         check_expert_layers(json, model, error) && finish_experts(json, model, error);
}

static gboolean read_latent(const JsonFile *json, Model *model, GError **error) {
  ModelLatent *latent = &model->latent;
  gint64 plain_dim = latent->v_head_dim; /* both default to 128 */
  const Count counts[] = {{"kv_lora_rank", MOST_WIDTH, &latent->kv_rank, TRUE},
                          {"q_lora_rank", MOST_WIDTH, &latent->q_rank, FALSE},
                          {"qk_nope_head_dim", MOST_WIDTH, &plain_dim, TRUE},
                          {"qk_rope_head_dim", MOST_WIDTH, &latent->rope_dim, TRUE},
                          {"v_head_dim", MOST_WIDTH, &latent->v_head_dim, TRUE}};
  if (!read_counts(json, counts, G_N_ELEMENTS(counts), error))
    return FALSE;
  model->head_dim = plain_dim + latent->rope_dim;
  model->n_kv_heads = model->n_heads;
  return TRUE;
}

/* Experts in groups of equal size, if routing respects them; greedy routing and a single group do not count. */
static gboolean check_groups(const JsonFile *json, gboolean is_greedy, ModelExperts *experts, GError **error) {
  const gint64 n_groups = experts->n_groups;
  if (n_groups < 2 || is_greedy) {
    experts->n_groups = experts->groups_per_token = 0;
    return TRUE;
  }
  if (experts->n % n_groups != 0)
    return fail_input(
        error, "%s:%u: n_group: found %" G_GINT64_FORMAT ", expected a divisor of the %" G_GINT64_FORMAT " experts",
        json->file, json_file_line(json, json->root, "n_group"), n_groups, experts->n);
  if (experts->groups_per_token > n_groups)
    return fail_input(error,
                      "%s:%u: topk_group: found %" G_GINT64_FORMAT ", expected at most the %" G_GINT64_FORMAT " groups",
                      json->file, json_file_line(json, json->root, "topk_group"), experts->groups_per_token, n_groups);
  const gint64 open = experts->groups_per_token * (experts->n / n_groups);
  if (open > 0 && open < experts->per_token)
    return fail_input(error,
                      "%s:%u: topk_group: found %" G_GINT64_FORMAT ", whose %" G_GINT64_FORMAT
                      " experts are fewer than the %" G_GINT64_FORMAT " of a token",
                      json->file, json_file_line(json, json->root, "topk_group"), experts->groups_per_token, open,
                      experts->per_token);
  return TRUE;
}

/* Routed and shared experts after some dense layers, and multi-token-prediction heads, by DeepSeek's keys. */
static gboolean read_routed(const JsonFile *json, Model *model, gboolean is_greedy, GError **error) {
  ModelExperts *experts = &model->experts;
  gint64 n_shared = experts->ffn_hidden > 0 ? experts->shared_ffn_hidden / experts->ffn_hidden : 0;
  experts->every = 1;
  const Count counts[] = {{"num_experts_per_tok", MOST_EXPERTS, &experts->per_token, TRUE},
                          {"moe_intermediate_size", MOST_WIDTH, &experts->ffn_hidden, TRUE},
                          {"n_shared_experts", 1024, &n_shared, FALSE},
                          {"first_k_dense_replace", MOST_LAYERS, &experts->n_leading, FALSE},
                          {"moe_layer_freq", MOST_LAYERS, &experts->every, TRUE},
                          {"n_group", MOST_EXPERTS, &experts->n_groups, FALSE},
                          {"topk_group", MOST_EXPERTS, &experts->groups_per_token, FALSE},
                          {"num_nextn_predict_layers", MOST_LAYERS, &model->n_next_layers, FALSE}};
  if (!read_n_experts(json, experts, error) || !read_counts(json, counts, G_N_ELEMENTS(counts), error) ||
      !check_groups(json, is_greedy, experts, error))
    return FALSE;
  experts->shared_ffn_hidden = n_shared * experts->ffn_hidden;
  return TRUE;
}

/* The factor on the routed experts' outputs. */
static gboolean read_routed_factor(const JsonFile *json, Model *model, GError **error) {
  double factor = model->factors.experts > 0 ? model->factors.experts : 1;
  if (!json_file_number(json, json->root, "routed_scaling_factor", (RealRange){1e-6, 1e6}, &factor, error))
    return FALSE;
  model->factors.experts = factor == 1 ? 0 : factor;
  return TRUE;
}

gboolean model_read_deepseek(const JsonFile *json, Model *model, GError **error) {
  const ModelExperts *experts = &model->experts;
  const char *method = experts->biased_scores ? "noaux_tc" : experts->n > 0 ? "greedy" : "group_limited_greedy";
  if (!read_routed_factor(json, model, error) || !read_latent(json, model, error) ||
      !json_file_text(json, json->root, "topk_method", &method, error) ||
      !read_routed(json, model, strcmp(method, "greedy") == 0, error))
    return FALSE;
  model->experts.biased_scores = strcmp(method, "noaux_tc") == 0;
  return finish_experts(json, model, error);
}

gboolean model_read_glm_experts(const JsonFile *json, Model *model, GError **error) {
  return read_routed_factor(json, model, error) && read_routed(json, model, FALSE, error) &&
         finish_experts(json, model, error);
}

/* Experts from moe_layer_start_index on, in every moe_layer_interval-th layer; moe_layer_end_index is the last layer
 * that may have them, -1 for the model's last. The multi-token-prediction head has a dense layer (vLLM's
 * ernie_mtp.py, 2025). */
gboolean model_read_ernie_experts(const JsonFile *json, Model *model, GError **error) {
  static const char end_key[] = "moe_layer_end_index";
  ModelExperts *experts = &model->experts;
  gint64 n_shared = experts->shared_ffn_hidden / experts->ffn_hidden, end = -1;
  experts->every = experts->phase = 1;
  const Count counts[] = {{"num_experts_per_tok", MOST_EXPERTS, &experts->per_token, TRUE},
                          {"moe_k", MOST_EXPERTS, &experts->per_token, TRUE},
                          {"moe_intermediate_size", MOST_WIDTH, &experts->ffn_hidden, TRUE},
                          {"moe_num_shared_experts", 1024, &n_shared, FALSE},
                          {"moe_layer_start_index", MOST_LAYERS, &experts->n_leading, FALSE},
                          {"moe_layer_interval", MOST_LAYERS, &experts->every, TRUE},
                          {"num_nextn_predict_layers", MOST_LAYERS, &model->n_next_layers, FALSE}};
  if (!read_n_experts(json, experts, error) || !read_counts(json, counts, G_N_ELEMENTS(counts), error) ||
      !json_file_integer(json, json->root, end_key, (IntegerRange){-1, MOST_LAYERS}, &end, error))
    return FALSE;
  if (end >= 0 && end < model->n_layers - 1)
    return fail_impossible(error,
                           "%s:%u: %s: found %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT
                           " layers: dense layers behind those with experts are not modelled, only leading ones",
                           json->file, json_file_line(json, json->root, end_key), end_key, end, model->n_layers);
  experts->shared_ffn_hidden = n_shared * experts->ffn_hidden;
  model->other_next_layers = TRUE;
  return finish_experts(json, model, error);
}

/* A count, or a list with the same count for every layer. Absent or null: the value is kept. */
static gboolean read_layers_count(const JsonFile *json, const Model *model, const char *key, gint64 most, gint64 *value,
                                  GError **error) {
  JsonNode *node = json_object_get_member(json->root, key);
  if (node == NULL || !JSON_NODE_HOLDS_ARRAY(node))
    return json_file_integer(json, json->root, key, (IntegerRange){0, most}, value, error);
  JsonArray *list = json_node_get_array(node);
  const guint n = json_array_get_length(list), line = json_file_line(json, json->root, key);
  for (guint i = 0; i < n; i++) {
    JsonNode *item = json_array_get_element(list, i);
    gint64 found;
    if (!json_node_integer(item, (IntegerRange){0, most}, &found)) {
      g_autofree char *words = json_node_words(item);
      return fail_input(error, "%s:%u: %s: item %u: found %s, expected an integer from 0 to %" G_GINT64_FORMAT,
                        json->file, line, key, i + 1, words, most);
    }
    if (i > 0 && found != *value)
      return fail_impossible(error,
                             "%s:%u: %s: item %u: found %" G_GINT64_FORMAT " behind %" G_GINT64_FORMAT
                             ": layers with different experts are not modelled",
                             json->file, line, key, i + 1, found, *value);
    *value = found;
  }
  return n == model->n_layers ||
         fail_input(error,
                    "%s:%u: %s: found %u items, expected an integer or one item for each of %" G_GINT64_FORMAT
                    " layers",
                    json->file, line, key, n, model->n_layers);
}

/* A shared MLP beside the experts, both as wide as intermediate_size. Separate widths and numbers and leading dense
 * layers follow the class published with the weights (tencent/Hunyuan-A13B-Instruct, 2025-06). */
gboolean model_read_hunyuan_experts(const JsonFile *json, Model *model, GError **error) {
  ModelExperts *experts = &model->experts;
  gint64 n_shared = 1;
  experts->ffn_hidden = model->ffn_hidden;
  experts->every = 1;
  if (!read_layers_count(json, model, "num_experts", MOST_EXPERTS, &experts->n, error) ||
      !read_layers_count(json, model, "moe_topk", MOST_EXPERTS, &experts->per_token, error) ||
      !read_layers_count(json, model, "moe_intermediate_size", MOST_WIDTH, &experts->ffn_hidden, error) ||
      !read_layers_count(json, model, "num_shared_expert", 1024, &n_shared, error) ||
      !json_file_integer(json, json->root, "moe_layer_num_skipped", (IntegerRange){0, MOST_LAYERS}, &experts->n_leading,
                         error))
    return FALSE;
  if (experts->n < 2 || experts->per_token < 1 || experts->ffn_hidden < 1)
    return fail_input(error,
                      "%s: found %" G_GINT64_FORMAT " experts (num_experts), %" G_GINT64_FORMAT
                      " of a token (moe_topk), %" G_GINT64_FORMAT " wide; expected at least 2, 1 and 1",
                      json->file, experts->n, experts->per_token, experts->ffn_hidden);
  experts->shared_ffn_hidden = n_shared * model->ffn_hidden;
  return finish_experts(json, model, error);
}

/* Of `n` things `left_out` are excluded: the chance that `picks` of the n hit none of the excluded. */
static double chance_of_none(gint64 n, gint64 left_out, gint64 picks) {
  double chance = 1;
  for (gint64 i = 0; i < picks; i++)
    chance *= MAX((double)(n - left_out - i), 0) / (double)(n - i);
  return chance;
}

/* The chance that exactly `hits` of `picks` out of `n` are among `marked` (hypergeometric). */
static double hit_chance(gint64 n, gint64 marked, gint64 picks, gint64 hits) {
  if (hits > marked || picks - hits > n - marked)
    return 0;
  double chance = chance_of_none(n - hits, marked - hits, picks - hits); /* the other picks, given the hits */
  for (gint64 i = 0; i < hits; i++)
    chance *= (double)(marked - i) * (picks - i) / ((double)(n - i) * (i + 1));
  return chance;
}

/* Chance that a token goes to a holder of `held` experts, which are whole groups or part of one: 1 − the chance of
 * missing them, summed over how many of the holder's groups are among the token's. */
static double chance_of_some(const ModelExperts *experts, gint64 held) {
  const gint64 picks = experts->per_token;
  const gint64 of_group = experts->n_groups > 0 ? experts->n / experts->n_groups : experts->n;
  const gboolean is_whole = held % of_group == 0;
  if (held == 0)
    return 0;
  if (experts->groups_per_token == 0 || (!is_whole && of_group % held != 0))
    return 1 - chance_of_none(experts->n, held, picks);
  const gint64 groups = is_whole ? held / of_group : 1, open = experts->groups_per_token * of_group;
  double missed = 0;
  for (gint64 i = 0; i <= MIN(groups, experts->groups_per_token); i++)
    missed += hit_chance(experts->n_groups, groups, experts->groups_per_token, i) *
              chance_of_none(open, i * MIN(held, of_group), picks);
  return 1 - missed;
}

double model_expert_places(const ModelExperts *experts, gint64 n) {
  const gint64 held = experts->n / n, n_larger = experts->n % n;
  double places = (double)(n - n_larger) * chance_of_some(experts, held);
  if (n_larger > 0)
    places += (double)n_larger * chance_of_some(experts, held + 1);
  return places;
}
