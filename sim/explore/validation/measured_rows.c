/* A row's cells are read by a table of columns into numbers (words as their index), those into a Model and a Plan. */
#include "measured_rows.h"

#include <math.h>
#include <string.h>

#include "error.h"
#include "pipeline_layout.h"
#include "plan_order.h"
#include "row_notes.h"
#include "suggest.h"

enum { MOST_GPUS = 1 << 24, DEFAULT_VOCAB = 51200, DEFAULT_SEQ_LEN = 2048, FFN_MULTIPLE = 256 };
static const gint64 unknown = -1;
static const double most_step_s = 1e9, most_memory_gb = 1e6, bytes_per_gb = 1e9;

/* A row's numbers and words; −1 (or NAN) where unknown. */
typedef struct {
  gint64 layers, hidden, heads, kv_heads, ffn_hidden, vocab, experts, experts_per_token, moe_ffn_hidden;
  gint64 gated, tied, positions, mtp_layers, expert_tp;
  gint64 gpus, tp, pp, chunks, cp, ep, dp, zero, zero_ranks, micro_batch, global_batch, seq_len;
  gint64 recompute, sequence_parallel, precision, attention, norm_kernel, overlap_grad, overlap_param, expert_dispatch,
      overlap_experts, cuda_graphs;
  guint recompute_modules; /* 0: not said */
  double step_time_s, memory_gb;
} Cells;

static const char *const switch_names[] = {"off", "on", "0", "1", "false", "true", NULL}; /* odd ones are on */
static const char *const position_names[] = {[POSITIONS_ROTARY] = "rotary",
                                             [POSITIONS_LEARNED] = "learned",
                                             [POSITIONS_ALIBI] = "alibi",
                                             [POSITIONS_NONE] = "none",
                                             NULL};

static const char *const *switches(void) {
  return switch_names;
}

static const char *const *positions(void) {
  return position_names;
}

#define COUNT(column, low, high)                                                                                       \
  { #column, offsetof(Cells, column), low, high, NULL }
#define WORD(column, names)                                                                                            \
  { #column, offsetof(Cells, column), 0, 0, names }

static const struct {
  const char *name;
  size_t offset; /* of its gint64 in Cells */
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
    COUNT(mtp_layers, 0, 1 << 10),
    COUNT(expert_tp, 1, MOST_GPUS),
    COUNT(seq_len, 1, 1 << 27),
    COUNT(gpus, 1, MOST_GPUS),
    COUNT(tp, 1, MOST_GPUS),
    COUNT(pp, 1, MOST_GPUS),
    COUNT(chunks, 1, 1 << 16),
    COUNT(cp, 1, MOST_GPUS),
    COUNT(ep, 1, MOST_GPUS),
    COUNT(dp, 1, MOST_GPUS),
    COUNT(zero, 0, 3),
    COUNT(zero_ranks, 1, MOST_GPUS),
    COUNT(micro_batch, 1, 1 << 20),
    COUNT(global_batch, 1, G_GINT64_CONSTANT(1) << 40),
    WORD(recompute, recompute_names),
    WORD(sequence_parallel, switches),
    WORD(precision, precision_names),
    WORD(attention, attention_names),
    WORD(norm_kernel, norm_kernel_names),
    WORD(overlap_grad, switches),
    WORD(overlap_param, switches),
    WORD(expert_dispatch, expert_dispatch_names),
    WORD(overlap_experts, switches),
    WORD(cuda_graphs, cuda_graphs_names),
};

static const struct {
  const char *name;
  size_t offset; /* of its double in Cells */
  double most;
} quantities[] = {
    {"step_time_s", offsetof(Cells, step_time_s), most_step_s},
    {"memory_gb", offsetof(Cells, memory_gb), most_memory_gb},
};

static const char *const required[] = {"layers", "hidden", "heads", "cluster", "step_time_s", NULL};

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

char *measured_row_run(const MeasuredRow *row) {
  static const char *const texts[] = {"cluster", "schedule", "model_name", "pipeline_layout", "recompute_modules"};
  GString *run = g_string_new(NULL);
  for (gsize i = 0; i < G_N_ELEMENTS(columns); i++)
    g_string_append_printf(run, "%s\n", measured_row_cell(row, columns[i].name));
  for (gsize i = 0; i < G_N_ELEMENTS(texts); i++)
    g_string_append_printf(run, "%s\n", measured_row_cell(row, texts[i]));
  const char *notes = measured_row_cell(row, "notes");
  g_autofree char *framework = row_notes_framework(notes, measured_row_cell(row, "framework"));
  g_string_append_printf(run, "%s\n%d\n", framework, (int)row_notes_norm_kernel(notes));
  if (row->problem != NULL) /* maybe of what was measured, not of the run */
    g_string_append_printf(run, "%s\n", row->problem);
  return g_string_free(run, FALSE);
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

static gboolean read_count(const MeasuredRow *row, gsize column, gint64 *value, GError **error) {
  const char *text = measured_row_cell(row, columns[column].name);
  double number;
  if (*text == '\0')
    return TRUE;
  if (parse_number(text, &number) && number == floor(number) && number >= (double)columns[column].least &&
      number <= (double)columns[column].most) {
    *value = (gint64)number;
    return TRUE;
  }
  g_autofree char *expected =
      g_strdup_printf("a whole number from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT " or nothing",
                      columns[column].least, columns[column].most);
  return fail_cell(columns[column].name, text, expected, error);
}

/* The index of a word among `names`; `*value` is left alone where the cell is empty. */
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

/* The cell in letters as a list; heads that predict a token further are said twice. Owned by the caller. */
static char *read_letters(const char *text, gint64 n_heads, GError **error) {
  int n_mtp = 0;
  g_autofree char *layout = pipeline_layout_of_letters(text, &n_mtp, error);
  if (layout == NULL || n_mtp == n_heads)
    return g_steal_pointer(&layout);
  fail_input(error, "found %d m in \"%.80s\", expected the %" G_GINT64_FORMAT " of column mtp_layers", n_mtp, text,
             n_heads);
  return NULL;
}

/* As a Plan has it, owned by the caller; NULL where the cell is empty or wrong. */
static gboolean read_layout(const MeasuredRow *row, const Cells *cells, char **layout, GError **error) {
  const char *text = measured_row_cell(row, "pipeline_layout");
  *layout = NULL;
  if (*text == '\0')
    return TRUE;
  if (pipeline_layout_is_letters(text))
    *layout = read_letters(text, MAX(cells->mtp_layers, 0), error);
  else if (pipeline_layout_check(text, error))
    *layout = g_strdup(text);
  if (*layout == NULL)
    g_prefix_error(error, "column pipeline_layout: ");
  return *layout != NULL;
}

static gboolean read_quantity(const MeasuredRow *row, gsize quantity, double *value, GError **error) {
  const char *text = measured_row_cell(row, quantities[quantity].name);
  double number;
  *value = NAN;
  if (*text == '\0')
    return TRUE;
  if (parse_number(text, &number) && number > 0 && number <= quantities[quantity].most) {
    *value = number;
    return TRUE;
  }
  g_autofree char *expected = g_strdup_printf("a number above 0, at most %g, or nothing", quantities[quantity].most);
  return fail_cell(quantities[quantity].name, text, expected, error);
}

/* Empty: none said. */
static gboolean read_modules(const MeasuredRow *row, guint *modules, GError **error) {
  const char *text = measured_row_cell(row, "recompute_modules");
  *modules = 0;
  return *text == '\0' || recompute_modules_parse("column recompute_modules", text, modules, error);
}

/* All that can be read; the error is of the first that cannot. */
static gboolean read_cells(const MeasuredRow *row, Cells *cells, GError **error) {
  gboolean is_read = TRUE;
  for (gsize i = 0; i < G_N_ELEMENTS(columns); i++) {
    gint64 *value = (gint64 *)((char *)cells + columns[i].offset);
    GError **place = is_read ? error : NULL;
    *value = unknown;
    is_read &= columns[i].words != NULL ? read_word(row, columns[i].name, columns[i].words(), value, place)
                                        : read_count(row, i, value, place);
  }
  for (gsize i = 0; i < G_N_ELEMENTS(quantities); i++)
    is_read &= read_quantity(row, i, (double *)((char *)cells + quantities[i].offset), is_read ? error : NULL);
  is_read &= read_modules(row, &cells->recompute_modules, is_read ? error : NULL);
  gint64 schedule;
  g_autofree char *layout = NULL;
  return is_read && read_layout(row, cells, &layout, error) &&
         (g_str_has_prefix(measured_row_cell(row, "schedule"), "file:") ||
          read_word(row, "schedule", plan_order_names(), &schedule, error));
}

static gint64 or_else(gint64 value, gint64 otherwise) {
  return value != unknown ? value : otherwise;
}

/* Llama's: two thirds of four times the hidden size, rounded up. */
static gint64 default_ffn(const Model *model) {
  if (!model->gated)
    return 4 * model->hidden;
  gint64 width = 8 * model->hidden / 3;
  return (width + FFN_MULTIPLE - 1) / FFN_MULTIPLE * FFN_MULTIPLE;
}

static void set_family(const MeasuredRow *row, const Cells *cells, Model *model) {
  model->gated = or_else(cells->gated, cells->positions == POSITIONS_ROTARY);
  model->positions = or_else(cells->positions, model->gated ? POSITIONS_ROTARY : POSITIONS_LEARNED);
  model->tied = or_else(cells->tied, model->positions != POSITIONS_ROTARY);
  model->norm = model->gated ? NORM_RMSNORM : NORM_LAYERNORM;
  model->qkv_bias = model->linear_bias = !model->gated;
  model->dropout = !model->gated && model->positions != POSITIONS_ROTARY &&
                   strcmp(measured_row_cell(row, "framework"), "pytorch-fsdp") != 0;
  model->n_norms_per_layer = 2;
}

static gboolean check_known(const Cells *cells, GError **error) {
  const struct {
    const char *column;
    gint64 value;
  } needed[] = {{"layers", cells->layers}, {"hidden", cells->hidden}, {"heads", cells->heads}};
  for (gsize i = 0; i < G_N_ELEMENTS(needed); i++)
    if (needed[i].value == unknown)
      return fail_impossible(error, "the row does not say %s", needed[i].column);
  return TRUE;
}

/* All layers have the experts that the columns say. */
static gboolean set_experts(const Cells *cells, Model *model, GError **error) {
  if (cells->experts_per_token == unknown || cells->experts_per_token > cells->experts)
    return fail_impossible(error, "the row says experts %" G_GINT64_FORMAT " but no experts_per_token up to that",
                           cells->experts);
  model->experts = (ModelExperts){.n = cells->experts,
                                  .per_token = cells->experts_per_token,
                                  .ffn_hidden = or_else(cells->moe_ffn_hidden, model->ffn_hidden),
                                  .every = 1};
  return TRUE;
}

/* A shipped model with experts, as deep as the row says. */
static Model *named_model(const Cells *cells, const Model *shipped, GError **error) {
  g_autoptr(Model) model = model_copy(shipped);
  model_cut_depth(model, cells->layers);
  model->vocab = or_else(cells->vocab, model->vocab);
  return model_check(model, "the row", error) ? g_steal_pointer(&model) : NULL;
}

enum { MOST_PADDING = 10 }; /* % of a vocabulary */

/* The row's, or that of the model it is named for (NULL: none) where the two are further apart than padding makes them:
 * then the table has a default in its place. */
static gint64 vocabulary(const Model *shipped, const Cells *cells) {
  const gint64 own = or_else(cells->vocab, DEFAULT_VOCAB);
  if (shipped == NULL || model_has_experts(shipped) || shipped->n_layers != cells->layers)
    return own;
  return 100 * ABS(own - shipped->vocab) > MOST_PADDING * shipped->vocab ? shipped->vocab : own;
}

static Model *make_model(const MeasuredRow *row, const Cells *cells, const NamedModels *named, GError **error) {
  if (!check_known(cells, error))
    return NULL;
  const char *name = measured_row_cell(row, "model_name");
  const Model *shipped = named_models_find(named, name, cells->hidden, cells->heads);
  if (shipped != NULL && model_has_experts(shipped) &&
      (cells->experts == unknown || cells->experts == shipped->experts.n))
    return named_model(cells, shipped, error);
  g_autoptr(Model) model = g_new0(Model, 1);
  model->name = g_strdup(*name != '\0' ? name : "of the row");
  model->n_layers = cells->layers;
  model->hidden = cells->hidden;
  model->n_heads = cells->heads;
  model->n_kv_heads = or_else(cells->kv_heads, cells->heads);
  model->head_dim = cells->hidden / cells->heads;
  model->vocab = vocabulary(shipped, cells);
  model->max_positions = or_else(cells->seq_len, DEFAULT_SEQ_LEN);
  set_family(row, cells, model);
  model->ffn_hidden = or_else(cells->ffn_hidden, default_ffn(model));
  if (model->hidden % model->n_heads != 0) {
    fail_impossible(error, "hidden %" G_GINT64_FORMAT " is not a multiple of heads %" G_GINT64_FORMAT, model->hidden,
                    model->n_heads);
    return NULL;
  }
  if (cells->experts > 1 && !set_experts(cells, model, error))
    return NULL;
  return model_check(model, "the row", error) ? g_steal_pointer(&model) : NULL;
}

/* Borrowed. */
typedef struct {
  const char *name;
  const Framework *described; /* what it does; NULL: the row names none that is described */
} RowFramework;

static Plan *make_plan(const MeasuredRow *row, const Cells *cells, const RowFramework *framework) {
  Plan *plan = plan_new();
  plan->gpus = (int)or_else(cells->gpus, plan->gpus);
  plan->tp = (int)or_else(cells->tp, plan->tp);
  plan->pp = (int)or_else(cells->pp, plan->pp);
  plan->cp = (int)or_else(cells->cp, plan->cp);
  plan->ep = (int)or_else(cells->ep, plan->ep);
  plan->dp = (int)or_else(cells->dp, plan->dp);
  if ((double)plan->ep * plan->tp * plan->pp > plan->gpus && plan->tp > 1 && plan->gpus > 0)
    plan->expert_tp = 1; /* few tables have a column for it, and experts cut by tp would need more GPUs */
  plan->expert_tp = (int)or_else(cells->expert_tp, plan->expert_tp);
  plan->chunks = (int)or_else(cells->chunks, plan->chunks);
  plan->zero = (int)or_else(cells->zero, plan->zero);
  plan->zero_ranks = (int)or_else(cells->zero_ranks, plan->zero_ranks);
  plan->micro_batch = or_else(cells->micro_batch, plan->micro_batch);
  plan->global_batch = or_else(cells->global_batch, plan->global_batch);
  plan->seq_len = or_else(cells->seq_len, plan->seq_len);
  plan->recompute = or_else(cells->recompute, plan->recompute);
  plan->recompute_modules = cells->recompute_modules;
  /* with experts, tp is run with it alone */
  plan->sequence_parallel = or_else(cells->sequence_parallel, model_has_experts(row->model) && plan->tp > 1);
  plan->precision = or_else(cells->precision, plan->precision);
  plan->attention = or_else(cells->attention, plan->attention);
  plan->norm_kernel = (int)or_else(cells->norm_kernel, row_notes_norm_kernel(measured_row_cell(row, "notes")));
  plan->expert_dispatch = (int)or_else(cells->expert_dispatch, plan->expert_dispatch);
  plan->overlap_experts = (int)or_else(cells->overlap_experts, plan->overlap_experts);
  plan->cuda_graphs = or_else(cells->cuda_graphs, plan->cuda_graphs);
  plan->mtp_layers = (int)or_else(cells->mtp_layers, plan->mtp_layers);
  plan->overlap_grad = or_else(cells->overlap_grad, plan->overlap_grad);
  plan->overlap_param = or_else(cells->overlap_param, plan->overlap_param);
  const char *schedule = measured_row_cell(row, "schedule");
  plan->schedule = *schedule != '\0' ? g_strdup(schedule) : NULL;
  read_layout(row, cells, &plan->pipeline_layout, NULL);
  if (framework->described != NULL)
    plan_set_framework(plan, framework->name, framework->described);
  if (plan->precision == PRECISION_FP32) {
    gboolean known = recipe_parse("fp32", &plan->recipe, NULL);
    g_assert(known);
  }
  return plan;
}

static void row_clear(gpointer data) {
  MeasuredRow *row = data;
  g_clear_pointer(&row->model, model_free);
  g_clear_pointer(&row->plan, plan_free);
  g_clear_pointer(&row->problem, g_free);
}

/* FALSE: its file is not as it should be. */
static gboolean find_framework(MeasuredRows *rows, const MeasuredRow *row, RowFramework *found, GError **error) {
  g_autofree char *name = row_notes_framework(measured_row_cell(row, "notes"), measured_row_cell(row, "framework"));
  gpointer known_name, known;
  if (g_hash_table_lookup_extended(rows->frameworks, name, &known_name, &known)) {
    *found = (RowFramework){known_name, known};
    return TRUE;
  }
  g_autofree Framework *framework = NULL;
  if (framework_is_described(name)) {
    framework = g_new0(Framework, 1);
    if (!framework_read(name, framework, error))
      return FALSE;
  }
  *found = (RowFramework){name, framework};
  g_hash_table_insert(rows->frameworks, g_steal_pointer(&name), g_steal_pointer(&framework));
  return TRUE;
}

static gboolean read_row(MeasuredRows *rows, MeasuredRow *row, GError **error) {
  Cells cells;
  g_autoptr(GError) problem = NULL;
  const gboolean is_read = read_cells(row, &cells, &problem);
  row->id = measured_row_cell(row, "id");
  row->cluster = measured_row_cell(row, "cluster");
  row->step_time_s = cells.step_time_s;
  row->memory_bytes = cells.memory_gb * bytes_per_gb;
  RowFramework framework;
  if (!find_framework(rows, row, &framework, error))
    return FALSE;
  if (is_read)
    row->model = make_model(row, &cells, rows->named, &problem);
  if (row->model == NULL)
    row->problem = g_strdup(problem->message);
  else if (*row->cluster == '\0')
    row->problem = g_strdup("the row does not say cluster");
  else
    row->plan = make_plan(row, &cells, &framework);
  return TRUE;
}

static gboolean is_read(const char *column) {
  for (gsize i = 0; i < G_N_ELEMENTS(columns); i++)
    if (strcmp(columns[i].name, column) == 0)
      return TRUE;
  return g_strv_contains(required, column);
}

/* A column near the missing one that nothing reads is taken for its misspelling. */
static gboolean fail_missing(const CsvTable *table, const char *missing, GError **error) {
  g_autoptr(GPtrArray) names = g_ptr_array_new();
  for (guint i = 0; i < table->columns->len; i++)
    if (!is_read(g_ptr_array_index(table->columns, i)))
      g_ptr_array_add(names, g_ptr_array_index(table->columns, i));
  g_ptr_array_add(names, NULL);
  const char *near = suggest_nearest(missing, (const char *const *)names->pdata);
  g_autofree char *found = near != NULL ? g_strdup_printf("\"%.80s\", but ", near) : g_strdup("");
  return fail_input(error, "%s:1: found %sno column %s, expected layers, hidden, heads, cluster and step_time_s",
                    table->file, found, missing);
}

static gboolean check_columns(const CsvTable *table, GError **error) {
  for (gsize i = 0; required[i] != NULL; i++)
    if (csv_table_find_column(table, required[i]) < 0)
      return fail_missing(table, required[i], error);
  return TRUE;
}

static gboolean read_file(MeasuredRows *rows, const char *file, GError **error) {
  CsvTable *table = csv_table_read(file, error);
  if (table == NULL)
    return FALSE;
  g_ptr_array_add(rows->tables, table);
  if (!check_columns(table, error))
    return FALSE;
  for (guint i = 0; i < csv_table_n_rows(table); i++) {
    MeasuredRow row = {.table = table, .index = i};
    if (!read_row(rows, &row, error)) {
      row_clear(&row);
      return FALSE;
    }
    g_array_append_val(rows->rows, row);
  }
  return TRUE;
}

MeasuredRows *measured_rows_read(char **files, int n_files, GError **error) {
  g_autoptr(MeasuredRows) rows = g_new0(MeasuredRows, 1);
  rows->tables = g_ptr_array_new_with_free_func((GDestroyNotify)csv_table_free);
  rows->frameworks = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
  rows->rows = g_array_new(FALSE, FALSE, sizeof(MeasuredRow));
  g_array_set_clear_func(rows->rows, row_clear);
  rows->named = named_models_read(error);
  if (rows->named == NULL)
    return NULL;
  for (int i = 0; i < n_files; i++)
    if (!read_file(rows, files[i], error))
      return NULL;
  return g_steal_pointer(&rows);
}

void measured_rows_take_away(MeasuredRows *rows, Parts parts) {
  rows->without |= parts;
  for (guint i = 0; i < rows->rows->len; i++) {
    const MeasuredRow *row = &g_array_index(rows->rows, MeasuredRow, i);
    if (row->plan != NULL)
      parts_take_away(parts, row->plan);
  }
}

void measured_rows_free(MeasuredRows *rows) {
  if (rows == NULL)
    return;
  g_clear_pointer(&rows->rows, g_array_unref);
  g_clear_pointer(&rows->frameworks, g_hash_table_unref);
  g_clear_pointer(&rows->tables, g_ptr_array_unref);
  g_clear_pointer(&rows->named, named_models_free);
  g_free(rows);
}
