#include "row_cells.h"

#include <math.h>
#include <string.h>

#include "data_path.h"
#include "error.h"
#include "plan_fields.h"

static const char *const switch_names[] = {"off", "on", "0", "1", "false", "true", NULL}; /* odd ones are on */

static const char *const *switches(void) {
  return switch_names;
}

const char *measured_row_cell(const MeasuredRow *row, const char *column) {
  int index = csv_table_find_column(row->table, column);
  return index < 0 ? "" : csv_table_cell(row->table, row->index, index);
}

static int line_of(const MeasuredRow *row) {
  return g_array_index(row->table->lines, int, row->index);
}

char *measured_row_place(const MeasuredRow *row) {
  return g_strdup_printf("%s:%d", row->table->file, line_of(row));
}

static gboolean fail_cell(const char *column, const char *found, const char *expected, GError **error) {
  return fail_input(error, "column %s: found \"%.80s\", expected %s", column, found, expected);
}

/* A plain decimal number: no hexadecimal, no nan. */
static gboolean parse_number(const char *text, double *value) {
  char *end;
  *value = g_ascii_strtod(text, &end);
  return end != text && *end == '\0' && text[strspn(text, "0123456789.+-eE")] == '\0' && isfinite(*value);
}

/* `*value` is left alone where the cell is empty. */
static gboolean read_count(const MeasuredRow *row, const char *column, gint64 least, gint64 most, gint64 *value,
                           GError **error) {
  const char *text = measured_row_cell(row, column);
  double number;
  if (*text == '\0')
    return TRUE;
  if (parse_number(text, &number) && number == floor(number) && number >= (double)least && number <= (double)most) {
    *value = (gint64)number;
    return TRUE;
  }
  g_autofree char *expected =
      g_strdup_printf("a whole number from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT " or nothing", least, most);
  return fail_cell(column, text, expected, error);
}

/* As its index among `names`; of switches() 1 or 0. */
static gboolean read_word(const MeasuredRow *row, const char *column, const char *const *names, gint64 *value,
                          GError **error) {
  const char *text = measured_row_cell(row, column);
  if (*text == '\0')
    return TRUE;
  g_autofree char *place = g_strdup_printf("column %s", column);
  int index = parse_choice(place, text, names, error);
  *value = names == switch_names ? index & 1 : index;
  return index >= 0;
}

gboolean row_cells_quantity(const MeasuredRow *row, const char *column, double most, double *value, GError **error) {
  const char *text = measured_row_cell(row, column);
  double number;
  *value = NAN;
  if (*text == '\0')
    return TRUE;
  if (parse_number(text, &number) && number > 0 && number <= most) {
    *value = number;
    return TRUE;
  }
  g_autofree char *expected = g_strdup_printf("a number above 0, at most %g, or nothing", most);
  return fail_cell(column, text, expected, error);
}

/* --- the plan --- */

/* Cells are set as options are, once they are written as those: tables have counts such as 8.0, and switches such as 1
 * or true. */

static gboolean is_named(const PlanField *field, const char *name) {
  return strcmp(field->name, name) == 0;
}

static const char *cell_of(const MeasuredRow *row, const PlanField *field) {
  g_autofree char *column = plan_field_column(field);
  return measured_row_cell(row, column);
}

const char *row_plan_cell(const MeasuredRow *row, const char *field) {
  return cell_of(row, plan_field(plan_field_find(field)));
}

static char *count_text(const MeasuredRow *row, const PlanField *field, GError **error) {
  g_autofree char *column = plan_field_column(field);
  const gint64 most = field->most > 0 ? (gint64)field->most : G_MAXINT;
  gint64 count;
  return read_count(row, column, (gint64)field->least, most, &count, error)
             ? g_strdup_printf("%" G_GINT64_FORMAT, count)
             : NULL;
}

static char *switch_text(const MeasuredRow *row, const PlanField *field, GError **error) {
  g_autofree char *column = plan_field_column(field);
  gint64 is_on;
  return read_word(row, column, switches(), &is_on, error) ? g_strdup(is_on ? "on" : "off") : NULL;
}

/* A name of the list, or a file: a row says what was run. */
static char *schedule_text(const MeasuredRow *row, const PlanField *field, GError **error) {
  const char *text = cell_of(row, field);
  gint64 index;
  return schedule_file(text) != NULL || read_word(row, field->name, schedule_choices(), &index, error) ? g_strdup(text)
                                                                                                       : NULL;
}

/* The cell as the option would be typed. Owned by the caller; NULL: it cannot be read. */
static char *option_text(const MeasuredRow *row, const PlanField *field, GError **error) {
  if (is_named(field, "schedule"))
    return schedule_text(row, field, error);
  switch (field->kind) {
  case PLAN_COUNT:
  case PLAN_COUNT64:
    return count_text(row, field, error);
  case PLAN_SWITCH:
    return switch_text(row, field, error);
  case PLAN_BYTES:
    return g_strconcat(cell_of(row, field), "B", NULL);
  default:
    return g_strdup(cell_of(row, field));
  }
}

gboolean row_plan_set(const MeasuredRow *row, RowPlanPart part, Plan *plan, GError **error) {
  PlanTarget target = {.plan = plan, .is_column = TRUE};
  gboolean are_set = TRUE;
  const int framework = plan_field(plan_field_find("framework"))->turn;
  const int first = part == ROW_PLAN_BEFORE_FRAMEWORK ? 0 : framework + 1,
            last = part == ROW_PLAN_BEFORE_FRAMEWORK ? framework - 1 : N_PLAN_TURNS - 1;
  for (int turn = first; turn <= last; turn++)
    for (int i = 0; i < plan_n_fields(); i++) {
      const PlanField *field = plan_field(i);
      if (field->turn != turn || !plan_field_is_axis(field) || *cell_of(row, field) == '\0')
        continue;
      GError **place = are_set ? error : NULL;
      g_autofree char *text = option_text(row, field, place);
      are_set &= text != NULL && plan_field_set(field, &target, text, place);
    }
  return are_set;
}

gboolean row_plan_has(const char *column) {
  for (int i = 0; i < plan_n_fields(); i++) {
    g_autofree char *name = plan_field_column(plan_field(i));
    if (plan_field_is_axis(plan_field(i)) && strcmp(name, column) == 0)
      return TRUE;
  }
  return FALSE;
}

void row_plan_append_run(const MeasuredRow *row, GString *run) {
  for (int i = 0; i < plan_n_fields(); i++) {
    const PlanField *field = plan_field(i);
    if (plan_field_is_axis(field) && !is_named(field, "schedule") && !is_named(field, "framework"))
      g_string_append_printf(run, "%s\n", cell_of(row, field));
  }
}

/* --- the model --- */

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
    WORD(gated, switches),
    COUNT(vocab, 1, 1 << 28),
    WORD(tied, switches),
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
                   ? read_word(row, columns[i].name, columns[i].words(), value, place)
                   : read_count(row, columns[i].name, columns[i].least, columns[i].most, value, place);
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
