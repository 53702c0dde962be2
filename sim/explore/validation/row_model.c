#include "row_model.h"

#include <string.h>

#include "data_path.h"
#include "error.h"

enum { DEFAULT_VOCAB = 51200, DEFAULT_SEQ_LEN = 2048, FFN_MULTIPLE = 256 };

/* Letters and digits alone, lower case; owned by the caller. "DEEPSEEK_V3", "deepseekv3" and "deepseek-v3-l4" all begin
 * with what is left of deepseek-v3: deepseekv3. */
static char *bare_name(const char *name) {
  GString *bare = g_string_new(NULL);
  for (const char *at = name; *at != '\0'; at++)
    if (g_ascii_isalnum(*at))
      g_string_append_c(bare, g_ascii_tolower(*at));
  return g_string_free(bare, FALSE);
}

GPtrArray *shipped_models_read(GError **error) {
  g_autoptr(GPtrArray) models = g_ptr_array_new_with_free_func((GDestroyNotify)model_free);
  g_auto(GStrv) names = data_path_list("models", ".json");
  for (int i = 0; names[i] != NULL; i++) {
    Model *model = model_read(names[i], error);
    if (model == NULL)
      return NULL;
    g_ptr_array_add(models, model);
  }
  return g_steal_pointer(&models);
}

const Model *shipped_models_find(const GPtrArray *models, const char *name, gint64 hidden, gint64 n_heads) {
  g_autofree char *wanted = bare_name(name);
  const Model *best = NULL;
  for (guint i = 0; i < models->len; i++) {
    const Model *model = g_ptr_array_index(models, i);
    g_autofree char *bare = bare_name(model->name);
    if (model->hidden == hidden && model->n_heads == n_heads && g_str_has_prefix(wanted, bare) &&
        (best == NULL || strlen(model->name) > strlen(best->name)))
      best = model;
  }
  return best;
}

static const char *const *positions(void) {
  static const char *const names[] = {[POSITIONS_ROTARY] = "rotary",
                                      [POSITIONS_LEARNED] = "learned",
                                      [POSITIONS_ALIBI] = "alibi",
                                      [POSITIONS_NONE] = "none",
                                      NULL};
  return names;
}

#define COUNT(column, low, high)                                                                                       \
  { #column, offsetof(ModelCells, column), low, high, NULL }
#define WORD(column, names)                                                                                            \
  { #column, offsetof(ModelCells, column), 0, 0, names }

static const struct {
  const char *name;
  size_t offset; /* of its gint64 */
  gint64 least, most;
  const char *const *(*words)(void); /* NULL: a count */
} columns[] = {
    COUNT(layers, 1, 100000),
    COUNT(hidden, 1, 1 << 24),
    COUNT(heads, 1, 1 << 20),
    COUNT(kv_heads, 1, 1 << 20),
    COUNT(ffn_hidden, 1, 1 << 26),
    WORD(gated, row_cells_switches),
    COUNT(vocab, 1, 1 << 28),
    WORD(tied, row_cells_switches),
    WORD(positions, positions),
    COUNT(experts, 0, 1 << 16),
    COUNT(experts_per_token, 1, 1 << 16),
    COUNT(moe_ffn_hidden, 1, 1 << 26),
};

gboolean model_cells_read(const MeasuredRow *row, ModelCells *cells, GError **error) {
  gboolean is_read = TRUE;
  for (gsize i = 0; i < G_N_ELEMENTS(columns); i++) {
    gint64 *value = (gint64 *)((char *)cells + columns[i].offset);
    GError **place = is_read ? error : NULL;
    *value = CELL_UNKNOWN;
    is_read &= columns[i].words != NULL
                   ? row_cells_word(row, columns[i].name, columns[i].words(), value, place)
                   : row_cells_count(row, columns[i].name, columns[i].least, columns[i].most, value, place);
  }
  return is_read;
}

gboolean model_cells_have(const char *column) {
  for (gsize i = 0; i < G_N_ELEMENTS(columns); i++)
    if (strcmp(columns[i].name, column) == 0)
      return TRUE;
  return FALSE;
}

void model_cells_append_run(const MeasuredRow *row, GString *run) {
  for (gsize i = 0; i < G_N_ELEMENTS(columns); i++)
    g_string_append_printf(run, "%s\n", measured_row_cell(row, columns[i].name));
}

/* Llama's: two thirds of four times the hidden size, rounded up. */
static gint64 default_ffn(const Model *model) {
  if (!model->gated)
    return 4 * model->hidden;
  gint64 width = 8 * model->hidden / 3;
  return (width + FFN_MULTIPLE - 1) / FFN_MULTIPLE * FFN_MULTIPLE;
}

static void set_family(const ModelCells *cells, const Framework *framework, Model *model) {
  model->gated = or_else(cells->gated, cells->positions == POSITIONS_ROTARY);
  model->positions = or_else(cells->positions, model->gated ? POSITIONS_ROTARY : POSITIONS_LEARNED);
  model->tied = or_else(cells->tied, model->positions != POSITIONS_ROTARY);
  model->norm = model->gated ? NORM_RMSNORM : NORM_LAYERNORM;
  model->qkv_bias = model->linear_bias = !model->gated;
  const gboolean drops = !model->gated && model->positions != POSITIONS_ROTARY &&
                         (framework == NULL || framework->dropout == DROPOUT_USUAL);
  const double rate = drops ? 0.1 : 0; /* as GPT-2 */
  model->dropout_rate = (DropoutRates){.embedding = rate, .attention = rate, .hidden = rate};
  model->n_norms_per_layer = 2;
}

static gboolean check_known(const ModelCells *cells, GError **error) {
  const struct {
    const char *column;
    gint64 value;
  } needed[] = {{"layers", cells->layers}, {"hidden", cells->hidden}, {"heads", cells->heads}};
  for (gsize i = 0; i < G_N_ELEMENTS(needed); i++)
    if (needed[i].value == CELL_UNKNOWN)
      return fail_impossible(error, "the row does not say %s", needed[i].column);
  return TRUE;
}

/* All layers have the experts that the columns say. */
static gboolean set_experts(const ModelCells *cells, Model *model, GError **error) {
  if (cells->experts_per_token == CELL_UNKNOWN || cells->experts_per_token > cells->experts)
    return fail_impossible(error, "the row says experts %" G_GINT64_FORMAT " but no experts_per_token up to that",
                           cells->experts);
  model->experts = (ModelExperts){.n = cells->experts,
                                  .per_token = cells->experts_per_token,
                                  .ffn_hidden = or_else(cells->moe_ffn_hidden, model->ffn_hidden),
                                  .every = 1};
  return TRUE;
}

/* A shipped model with experts, as deep as the row says. */
static Model *named_model(const ModelCells *cells, const Model *shipped, GError **error) {
  g_autoptr(Model) model = model_copy(shipped);
  model_cut_depth(model, cells->layers);
  model->vocab = or_else(cells->vocab, model->vocab);
  return model_check(model, "the row", error) ? g_steal_pointer(&model) : NULL;
}

enum { MOST_PADDING = 10 }; /* % of a vocabulary */

/* The row's, or that of the model it is named for (NULL: none) where the two are further apart than padding makes them:
 * then the table has a default in its place. */
static gint64 vocabulary(const Model *shipped, const ModelCells *cells) {
  const gint64 own = or_else(cells->vocab, DEFAULT_VOCAB);
  if (shipped == NULL || model_has_experts(shipped) || shipped->n_layers != cells->layers)
    return own;
  return 100 * ABS(own - shipped->vocab) > MOST_PADDING * shipped->vocab ? shipped->vocab : own;
}

/* What no column says, as the dense model that the row is named for has it. */
static void take_unsaid(const Model *shipped, Model *model) {
  model->head_dim = shipped->head_dim;
  model->qk_norms = shipped->qk_norms;
  model->bare_qk_norms = shipped->bare_qk_norms;
  model->parallel_block = shipped->parallel_block;
  model->n_norms_per_layer = shipped->n_norms_per_layer;
  model->norms_behind = shipped->norms_behind;
  model->post_norms = shipped->post_norms;
}

Model *row_model_new(MeasuredRow *row, const ModelCells *cells, const Framework *framework, gint64 seq_len,
                     GError **error) {
  if (!check_known(cells, error))
    return NULL;
  const char *name = measured_row_cell(row, "model_name");
  const Model *shipped = row->shipped;
  if (shipped != NULL && model_has_experts(shipped) &&
      (cells->experts == CELL_UNKNOWN || cells->experts == shipped->experts.n))
    return named_model(cells, shipped, error);
  g_autoptr(Model) model = g_new0(Model, 1);
  model->name = g_strdup(*name != '\0' ? name : "of the row");
  model->n_layers = cells->layers;
  model->hidden = cells->hidden;
  model->n_heads = cells->heads;
  model->n_kv_heads = or_else(cells->kv_heads, cells->heads);
  model->head_dim = cells->hidden / cells->heads;
  model->vocab = vocabulary(shipped, cells);
  if (cells->vocab != CELL_UNKNOWN && model->vocab != cells->vocab)
    row->unused_vocab = cells->vocab;
  model->max_positions = seq_len > 0 ? seq_len : DEFAULT_SEQ_LEN;
  set_family(cells, framework, model);
  model->ffn_hidden = or_else(cells->ffn_hidden, default_ffn(model));
  if (shipped != NULL && !model_has_experts(shipped))
    take_unsaid(shipped, model);
  if (model->hidden % model->n_heads != 0) {
    fail_impossible(error, "hidden %" G_GINT64_FORMAT " is not a multiple of heads %" G_GINT64_FORMAT, model->hidden,
                    model->n_heads);
    return NULL;
  }
  if (cells->experts > 1 && !set_experts(cells, model, error))
    return NULL;
  return model_check(model, "the row", error) ? g_steal_pointer(&model) : NULL;
}
