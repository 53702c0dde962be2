/* Reads a Hugging Face config.json as it is: its kind (is it modelled?), its family (model_family.c), its dimensions,
 * then what the family adds.
 *
 * n_embd, hidden_size and d_model are the same dimension; any spelling is understood in any family. These files
 * usually have unknown keys, which are ignored. A key that says the model is of an unmodelled kind is refused by
 * name. */
#include "model.h"

#include <string.h>

#include "data_path.h"
#include "error.h"
#include "json_file.h"
#include "model_family.h"
#include "suggest.h"

enum { MOST_SPELLINGS = 7 };

typedef struct {
  const char *what;
  size_t offset; /* of its gint64 in Model */
  gint64 most;
  gboolean loose; /* spellings may disagree (rows of the table, training length): the first counts */
  const char *keys[MOST_SPELLINGS + 1];
} Dimension;

enum { N_REQUIRED = 4, KV_HEADS = 5, N_DIMENSIONS = 8 };

/* The first four are required in every config, except heads and vocabulary if the type has defaults. */
static const Dimension dimensions[N_DIMENSIONS] = {
    {.what = "the number of layers",
     .offset = offsetof(Model, n_layers),
     .most = 100000,
     .keys = {"num_hidden_layers", "n_layer", "n_layers"}},
    {.what = "the hidden size",
     .offset = offsetof(Model, hidden),
     .most = 1 << 24,
     .keys = {"hidden_size", "n_embd", "d_model", "n_embed"}},
    {.what = "the number of attention heads",
     .offset = offsetof(Model, n_heads),
     .most = 1 << 20,
     .keys = {"num_attention_heads", "n_head", "n_heads"}},
    {.what = "the vocabulary size", .offset = offsetof(Model, vocab), .most = 1 << 28, .keys = {"vocab_size"}},
    {.what = "the MLP's hidden size",
     .offset = offsetof(Model, ffn_hidden),
     .most = 1 << 26,
     .keys = {"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"}},
    {.what = "the number of key-value heads",
     .offset = offsetof(Model, n_kv_heads),
     .most = 1 << 20,
     .keys = {"num_key_value_heads", "num_kv_heads", "n_head_kv"}},
    {.what = "the size of a head", .offset = offsetof(Model, head_dim), .most = 1 << 20, .keys = {"head_dim"}},
    {.what = "the number of positions",
     .offset = offsetof(Model, max_positions),
     .most = G_MAXINT32,
     .loose = TRUE,
     .keys = {"max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length"}},
};

/* Keys of what is not modelled; those with `part` are accepted in families that have it. */
static const struct {
  const char *key;
  enum { WHEN_TRUE, WHEN_ABOVE_ONE, WHEN_PRESENT } when;
  const char *kind;
  FamilyPart part;
} refusals[] = {
    {"is_encoder_decoder", WHEN_TRUE, "encoder-decoder models", 0},
    {"add_cross_attention", WHEN_TRUE, "cross-attention", 0},
    {"vision_config", WHEN_PRESENT, "models with a vision part", 0},
    {"num_local_experts", WHEN_ABOVE_ONE, "mixture-of-experts layers", PART_EXPERTS},
    {"n_routed_experts", WHEN_ABOVE_ONE, "mixture-of-experts layers", PART_EXPERTS},
    {"num_experts", WHEN_ABOVE_ONE, "mixture-of-experts layers", PART_EXPERTS},
    {"moe_num_experts", WHEN_ABOVE_ONE, "mixture-of-experts layers", PART_EXPERTS},
    {"kv_lora_rank", WHEN_PRESENT, "multi-head latent attention", PART_LATENT},
};

static gint64 *dimension_of(Model *model, const Dimension *dimension) {
  return (gint64 *)((char *)model + dimension->offset);
}

static gint64 default_of(const ModelDefaults *defaults, const Dimension *dimension) {
  return *(const gint64 *)((const char *)&defaults->model + dimension->offset);
}

/* First spelling present, or NULL. */
static const char *find_spelling(JsonObject *root, const Dimension *dimension) {
  for (int i = 0; dimension->keys[i] != NULL; i++)
    if (json_file_has(root, dimension->keys[i]))
      return dimension->keys[i];
  return NULL;
}

/* A member of `root` whose nearest spelling, over all dimensions, belongs to this dimension. */
static const char *find_misspelling(JsonObject *root, const Dimension *dimension) {
  const char *spellings[N_DIMENSIONS * MOST_SPELLINGS + 1];
  int n = 0;
  for (int d = 0; d < N_DIMENSIONS; d++)
    for (int i = 0; dimensions[d].keys[i] != NULL; i++)
      spellings[n++] = dimensions[d].keys[i];
  spellings[n] = NULL;
  g_autoptr(GList) members = json_object_get_members(root);
  for (GList *at = members; at != NULL; at = at->next) {
    const char *nearest = suggest_nearest(at->data, spellings);
    if (nearest != NULL && g_strv_contains(dimension->keys, nearest))
      return at->data;
  }
  return NULL;
}

static gboolean fail_missing(const JsonFile *json, const Dimension *dimension, GError **error) {
  g_autofree char *spellings = g_strjoinv(" or ", (char **)dimension->keys);
  const char *near = find_misspelling(json->root, dimension);
  if (near == NULL)
    return fail_input(error, "%s:1: found no key for %s, expected %s", json->file, dimension->what, spellings);
  return fail_input(error, "%s:%u: found key \"%.80s\" but none for %s, expected %s", json->file,
                    json_file_line(json, json->root, near), near, dimension->what, spellings);
}

/* Two spellings may occur together (GPT-2's n_positions and n_ctx). */
static gboolean read_dimension(const JsonFile *json, const Dimension *dimension, Model *model, GError **error) {
  const char *first = find_spelling(json->root, dimension);
  gint64 *field = dimension_of(model, dimension);
  for (int i = 0; first != NULL && dimension->keys[i] != NULL; i++) {
    const char *key = dimension->keys[i];
    gint64 value = *field;
    if (!json_file_integer(json, json->root, key, (IntegerRange){1, dimension->most}, &value, error))
      return FALSE;
    if (*field != 0 && value != *field && !dimension->loose)
      return fail_input(error,
                        "%s:%u: %s: found %" G_GINT64_FORMAT ", expected %" G_GINT64_FORMAT " as %s (line %u) says",
                        json->file, json_file_line(json, json->root, key), key, value, *field, first,
                        json_file_line(json, json->root, first));
    *field = *field == 0 ? value : *field;
  }
  return TRUE;
}

/* `family` NULL: checks only what no family has. */
static gboolean check_kind(const JsonFile *json, JsonObject *object, const ModelFamily *family, GError **error) {
  for (size_t i = 0; i < G_N_ELEMENTS(refusals); i++) {
    const char *key = refusals[i].key;
    if (refusals[i].part != 0 && (family == NULL || (family->parts & refusals[i].part) != 0))
      continue;
    gboolean flag = refusals[i].when == WHEN_PRESENT && json_file_has(object, key);
    gint64 count = 0;
    if (refusals[i].when == WHEN_TRUE && !json_file_flag(json, object, key, &flag, error))
      return FALSE;
    if (refusals[i].when == WHEN_ABOVE_ONE &&
        !json_file_integer(json, object, key, (IntegerRange){0, G_MAXINT32}, &count, error))
      return FALSE;
    if (!flag && count <= 1)
      continue;
    if (refusals[i].part == 0)
      return fail_impossible(error, "%s:%u: %s: %s are not modelled, only decoder-only transformers%s", json->file,
                             json_file_line(json, object, key), key, refusals[i].kind,
                             json_file_has(object, "text_config") ? "; its text_config, in a file of its own, may be"
                                                                  : "");
    g_autofree char *families = model_family_names(refusals[i].part);
    return fail_impossible(error, "%s:%u: %s: %s are modelled where model_type is %s only", json->file,
                           json_file_line(json, object, key), key, refusals[i].kind, families);
  }
  return TRUE;
}

typedef struct {
  const char *key;
  size_t offset; /* of a double in Model */
} DropoutKey;

/* The family's default counts only if the config names no rate at all. The embedding's rate defaults to the
 * others'. */
static gboolean read_dropout(const JsonFile *json, const ModelFamily *family, Model *model, GError **error) {
  static const DropoutKey keys[] = {{"attn_pdrop", offsetof(Model, dropout_rate.attention)},
                                    {"attn_dropout_prob", offsetof(Model, dropout_rate.attention)},
                                    {"attention_dropout", offsetof(Model, dropout_rate.attention)},
                                    {"resid_pdrop", offsetof(Model, dropout_rate.hidden)},
                                    {"hidden_dropout", offsetof(Model, dropout_rate.hidden)},
                                    {"residual_dropout", offsetof(Model, dropout_rate.hidden)},
                                    {"dropout", offsetof(Model, dropout_rate.hidden)}};
  static const double default_rate = 0.1; /* of all families that have one (model_family.c) */
  gboolean named = FALSE;
  for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) {
    double rate = 0, *to = (double *)(void *)((char *)model + keys[i].offset);
    if (!json_file_number(json, json->root, keys[i].key, (RealRange){0, 1}, &rate, error))
      return FALSE;
    named = named || json_file_has(json->root, keys[i].key);
    *to = MAX(*to, rate);
  }
  if (!named && family->dropout)
    model->dropout_rate.attention = model->dropout_rate.hidden = default_rate;
  model->dropout_rate.embedding = model->dropout_rate.hidden;
  return json_file_number(json, json->root, "embd_pdrop", (RealRange){0, 1}, &model->dropout_rate.embedding, error) &&
         json_file_number(json, json->root, "emb_dropout_prob", (RealRange){0, 1}, &model->dropout_rate.embedding,
                          error) &&
         json_file_number(json, json->root, "embedding_dropout", (RealRange){0, 1}, &model->dropout_rate.embedding,
                          error) &&
         json_file_number(json, json->root, "emb_pdrop", (RealRange){0, 1}, &model->dropout_rate.embedding, error);
}

/* A key that nearly matches one of the dimension's spellings, or NULL. In short names a letter or two can mean
 * something else. */
static const char *find_slip(JsonObject *root, const Dimension *dimension) {
  enum { LONG_NAME = 8 };
  g_autoptr(GList) members = json_object_get_members(root);
  for (GList *at = members; at != NULL; at = at->next)
    for (int i = 0; dimension->keys[i] != NULL; i++)
      if (strlen(dimension->keys[i]) >= LONG_NAME && suggest_is_slip(at->data, dimension->keys[i]))
        return at->data;
  return NULL;
}

/* The type's own default if no spelling is present; for a null the family's rule holds. */
static gboolean take_default(const JsonFile *json, const Dimension *dimension, gint64 value, Model *model,
                             GError **error) {
  for (int i = 0; dimension->keys[i] != NULL; i++)
    if (json_object_has_member(json->root, dimension->keys[i]))
      return TRUE;
  if (find_slip(json->root, dimension) != NULL)
    return fail_missing(json, dimension, error);
  *dimension_of(model, dimension) = value;
  return TRUE;
}

/* As many as heads, if not yet known. */
static gboolean set_kv_heads(const JsonFile *json, Model *model, GError **error) {
  static const Dimension *const dimension = &dimensions[KV_HEADS];
  if (model->n_kv_heads == 0 && find_slip(json->root, dimension) != NULL)
    return fail_missing(json, dimension, error);
  if (model->n_kv_heads == 0)
    model->n_kv_heads = model->n_heads;
  return model->n_heads % model->n_kv_heads == 0 || find_spelling(json->root, dimension) != NULL ||
         fail_input(error,
                    "%s:1: found %" G_GINT64_FORMAT " attention heads and no key %s, which is %" G_GINT64_FORMAT
                    " in this family where it is not named: expected it named",
                    json->file, model->n_heads, dimension->keys[0], model->n_kv_heads);
}

/* All dimensions from the config or, where it does not say, from `defaults`; NULL: the config must name the required
 * ones. */
static gboolean read_named(const JsonFile *json, const ModelDefaults *defaults, Model *model, GError **error) {
  for (int i = 0; i < N_DIMENSIONS; i++) {
    const gint64 value = defaults != NULL ? default_of(defaults, &dimensions[i]) : 0;
    if (!read_dimension(json, &dimensions[i], model, error) ||
        (value > 0 && !take_default(json, &dimensions[i], value, model, error)))
      return FALSE;
    if (i < N_REQUIRED && *dimension_of(model, &dimensions[i]) == 0)
      return fail_missing(json, &dimensions[i], error);
  }
  return TRUE;
}

static gboolean read_dimensions(const JsonFile *json, const ModelFamily *family, const ModelDefaults *defaults,
                                Model *model, GError **error) {
  if (!read_named(json, defaults, model, error))
    return FALSE;
  if (model->ffn_hidden == 0)
    model->ffn_hidden = family->ffn_multiple * model->hidden;
  if (!set_kv_heads(json, model, error))
    return FALSE;
  if (model->head_dim == 0 && model->hidden % model->n_heads != 0)
    return fail_input(error,
                      "%s: found hidden size %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT
                      " attention heads, expected heads that divide it (or head_dim)",
                      json->file, model->hidden, model->n_heads);
  if (model->head_dim == 0)
    model->head_dim = model->hidden / model->n_heads;
  return TRUE;
}

/* partial_rotary_factor, at the top level or with the other RoPE keys (2025 on), or GPT-NeoX's rotary_pct. */
static gboolean read_rotary_share(const JsonFile *json, const ModelFamily *family, Model *model, GError **error) {
  static const char key[] = "partial_rotary_factor";
  double share = family->rotary_share > 0 ? family->rotary_share : 1;
  JsonObject *rope = NULL;
  if (!json_file_object(json, json->root, "rope_parameters", &rope, error) ||
      !json_file_number(json, json->root, "rotary_pct", (RealRange){0, 1}, &share, error) ||
      !json_file_number(json, json->root, key, (RealRange){0, 1}, &share, error) ||
      (rope != NULL && !json_file_number(json, rope, key, (RealRange){0, 1}, &share, error)))
    return FALSE;
  model->rotary_share = share < 1 ? share : 0;
  return TRUE;
}

static gboolean read_norm_epsilon(const JsonFile *json, Model *model, GError **error) {
  static const char *const keys[] = {"rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps", "norm_epsilon",
                                     "norm_eps"};
  for (gsize i = 0; i < G_N_ELEMENTS(keys); i++)
    if (!json_file_number(json, json->root, keys[i], (RealRange){0, 1}, &model->norm_epsilon, error))
      return FALSE;
  return TRUE;
}

/* YaRN multiplies by attention_factor; else by the ratio of what mscale and mscale_all_dim give for `factor`; else by
 * the value for `factor` alone (transformers, modeling_rope_utils.py, 2024-25). */
static gboolean read_attention_factor(const JsonFile *json, JsonObject *rope, double factor, Model *model,
                                      GError **error) {
  double attention = 0, mscale = 0, all = 0;
  if (!json_file_number(json, rope, "attention_factor", (RealRange){0, 1e3}, &attention, error) ||
      !json_file_number(json, rope, "mscale", (RealRange){0, 1e3}, &mscale, error) ||
      !json_file_number(json, rope, "mscale_all_dim", (RealRange){0, 1e3}, &all, error))
    return FALSE;
  const gboolean has_ratio = mscale > 0 && all > 0;
  model->scaled_rotation = attention > 0 ? attention != 1 : factor > 1 && !(has_ratio && mscale == all);
  return TRUE;
}

/* rope_scaling, or rope_parameters since 2025, in some models per kind of layer: how RoPE is stretched for longer
 * sequences. */
static gboolean read_rope_scaling(const JsonFile *json, JsonObject *rope, Model *model, GError **error) {
  const char *type = NULL;
  double factor = 0;
  if (!json_file_text(json, rope, "type", &type, error) || !json_file_text(json, rope, "rope_type", &type, error) ||
      !json_file_number(json, rope, "factor", (RealRange){0.01, 1e6}, &factor, error))
    return FALSE;
  if (g_strcmp0(type, "llama3") == 0 && factor == 0)
    return fail_input(error, "%s:%u: rope_scaling: found rope_type llama3 without a factor, expected one", json->file,
                      json_file_line(json, rope, json_object_has_member(rope, "rope_type") ? "rope_type" : "type"));
  if (g_strcmp0(type, "llama3") == 0)
    model->llama3_rope_factor = factor;
  else if (type != NULL && strcmp(type, "default") != 0)
    model->scales_rope = TRUE;
  return g_strcmp0(type, "yarn") != 0 || read_attention_factor(json, rope, factor, model, error);
}

static gboolean read_rope(const JsonFile *json, const ModelDefaults *defaults, Model *model, GError **error) {
  static const char *const objects[] = {"rope_scaling", "rope_parameters"};
  static const char base_key[] = "rope_theta";
  double *base = &model->rotary_base;
  if (defaults != NULL)
    *base = defaults->model.rotary_base;
  if (!json_file_number(json, json->root, "rotary_emb_base", (RealRange){1, 1e12}, base, error) ||
      !json_file_number(json, json->root, base_key, (RealRange){1, 1e12}, base, error))
    return FALSE;
  for (gsize i = 0; i < G_N_ELEMENTS(objects); i++) {
    JsonObject *rope = NULL;
    if (!json_file_object(json, json->root, objects[i], &rope, error) ||
        (rope != NULL && !json_file_object(json, rope, "full_attention", &rope, error)) ||
        (rope != NULL && (!json_file_number(json, rope, base_key, (RealRange){1, 1e12}, base, error) ||
                          !read_rope_scaling(json, rope, model, error))))
      return FALSE;
  }
  return TRUE;
}

/* The activation between an MLP's products, by the names of Transformers' ACT2FN (activations.py, v4.46 to v4.57). */
/* "gelu_new", "gelu_pytorch_tanh", "quick_gelu", "gelu_fast" … are different approximations of GELU. */
static Activation activation_of(const char *text) {
  if (strcmp(text, "silu") == 0 || strcmp(text, "swish") == 0)
    return ACTIVATION_SILU;
  if (strstr(text, "gelu") != NULL)
    return ACTIVATION_GELU;
  if (strcmp(text, "relu") == 0)
    return ACTIVATION_RELU;
  return strcmp(text, "relu2") == 0 ? ACTIVATION_SQUARED_RELU : ACTIVATION_OTHER;
}

static gboolean read_activation(const JsonFile *json, const ModelFamily *family, Model *model, GError **error) {
  static const char *const keys[] = {"hidden_activation", "activation_function", "hidden_act", "activation"};
  const char *text = NULL;
  for (gsize i = 0; i < G_N_ELEMENTS(keys) && text == NULL; i++)
    if (!json_file_text(json, json->root, keys[i], &text, error))
      return FALSE;
  model->activation = text != NULL ? activation_of(text) : family->activation;
  return TRUE;
}

static gboolean read_family(const JsonFile *json, const ModelFamily *family, const ModelDefaults *defaults,
                            Model *model, GError **error) {
  model->norm = family->norm;
  model->positions = family->positions;
  model->gated = family->gated;
  model->tied = family->tied;
  model->qkv_bias = family->qkv_bias;
  model->linear_bias = family->linear_bias;
  model->n_norms_per_layer = 2;
  if (defaults != NULL) {
    model->experts = defaults->model.experts;
    model->latent = defaults->model.latent;
    model->factors.experts = defaults->model.factors.experts;
  }
  return read_dimensions(json, family, defaults, model, error) &&
         json_file_flag(json, json->root, "tie_word_embeddings", &model->tied, error) &&
         read_dropout(json, family, model, error) && read_rotary_share(json, family, model, error) &&
         read_norm_epsilon(json, model, error) && read_rope(json, defaults, model, error) &&
         read_activation(json, family, model, error) &&
         (family->read_details == NULL || family->read_details(json, model, error));
}

/* Checks that need everything to be read. */
static gboolean check_complete(const JsonFile *json, const Model *model, GError **error) {
  if (model->ffn_hidden < 1)
    return fail_missing(json, &dimensions[N_REQUIRED], error);
  if (model->positions == POSITIONS_LEARNED && model->max_positions == 0)
    return fail_missing(json, &dimensions[N_DIMENSIONS - 1], error);
  return model_check(model, json->file, error);
}

static gboolean read_config(const JsonFile *json, Model *model, GError **error) {
  JsonObject *ffn = NULL;
  if (!check_kind(json, json->root, NULL, error))
    return FALSE;
  const ModelDefaults *defaults = NULL;
  const ModelFamily *family = model_family_find(json, &defaults, error);
  if (family == NULL || !check_kind(json, json->root, family, error) ||
      !json_file_object(json, json->root, "ffn_config", &ffn, error) ||
      (ffn != NULL && !check_kind(json, ffn, family, error)))
    return FALSE;
  return read_family(json, family, defaults, model, error) && check_complete(json, model, error);
}

static char *name_of(const char *path) {
  char *name = g_path_get_basename(path);
  if (g_str_has_suffix(name, ".json"))
    name[strlen(name) - strlen(".json")] = '\0';
  return name;
}

Model *model_read(const char *file, GError **error) {
  g_autofree char *path = data_path_find("models", file, ".json", error);
  if (path == NULL)
    return NULL;
  g_autoptr(JsonFile) json = json_file_read(path, error);
  if (json == NULL)
    return NULL;
  g_autoptr(Model) model = g_new0(Model, 1);
  model->name = name_of(path);
  model->file = g_strdup(path);
  return read_config(json, model, error) ? g_steal_pointer(&model) : NULL;
}
