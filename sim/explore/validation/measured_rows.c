/* A row's cells become a Model and a Plan. */
#include "measured_rows.h"

#include <string.h>

#include "error.h"
#include "plan_order.h"
#include "row_model.h"
#include "row_rules.h"
#include "suggest.h"

static const double bytes_per_gb = 1e9;

/* The schedule that the row is run with, however it spells it. Owned by the caller. */
static char *schedule_of_run(const MeasuredRow *row) {
  if (row->plan == NULL)
    return g_strdup(schedule_spelling(measured_row_cell(row, "schedule")));
  g_autoptr(Plan) plan = plan_copy(row->plan);
  plan_default_schedule(plan);
  return g_steal_pointer(&plan->schedule);
}

char *measured_row_run(const MeasuredRow *row) {
  static const char *const texts[] = {"cluster", "model_name", "pipeline_layout", "recompute_modules"};
  GString *run = g_string_new(NULL);
  row_cells_append_run(row, run);
  for (gsize i = 0; i < G_N_ELEMENTS(texts); i++)
    g_string_append_printf(run, "%s\n", measured_row_cell(row, texts[i]));
  g_autofree char *schedule = schedule_of_run(row);
  g_string_append_printf(run, "%s\n%s\n%d\n", schedule, row->read_as, row->norm_kernel);
  if (row->problem != NULL) /* maybe of what was measured, not of the run */
    g_string_append_printf(run, "%s\n", row->problem);
  return g_string_free(run, FALSE);
}

/* `framework`: what row->read_as does; NULL: none that is described. */
static Plan *make_plan(const MeasuredRow *row, const RowCells *cells, const Framework *framework) {
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
  plan->norm_kernel = (int)or_else(cells->norm_kernel, row->norm_kernel);
  plan->cp_comm = (int)or_else(cells->cp_comm, plan->cp_comm);
  plan->expert_dispatch = (int)or_else(cells->expert_dispatch, plan->expert_dispatch);
  plan->overlap_experts = (int)or_else(cells->overlap_experts, plan->overlap_experts);
  plan->cuda_graphs = (int)or_else(cells->cuda_graphs, plan->cuda_graphs);
  plan->mtp_layers = (int)or_else(cells->mtp_layers, plan->mtp_layers);
  plan->overlap_grad = or_else(cells->overlap_grad, plan->overlap_grad);
  plan->overlap_param = or_else(cells->overlap_param, plan->overlap_param);
  const char *schedule = measured_row_cell(row, "schedule");
  plan->schedule = *schedule != '\0' ? g_strdup(schedule_spelling(schedule)) : NULL;
  row_cells_layout(row, cells, &plan->pipeline_layout, NULL);
  if (framework != NULL)
    plan_set_framework(plan, row->read_as, framework);
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

typedef struct {
  Cluster *cluster; /* NULL: it cannot be read */
  char *problem;
} KnownMachine;

static void known_machine_free(gpointer data) {
  KnownMachine *known = data;
  cluster_free(known->cluster);
  g_free(known->problem);
  g_free(known);
}

static const KnownMachine *find_machine(MeasuredRows *rows, const char *name) {
  KnownMachine *known = g_hash_table_lookup(rows->machines, name);
  if (known != NULL)
    return known;
  g_autoptr(GError) problem = NULL;
  known = g_new0(KnownMachine, 1);
  known->cluster = cluster_read(name, &problem);
  known->problem = problem != NULL ? g_strdup_printf("cluster %s", problem->message) : NULL;
  g_hash_table_insert(rows->machines, g_strdup(name), known);
  return known;
}

/* Megatron-LM is megatron-lm. */
static const char *framework_spelling(const MeasuredRows *rows, const char *name) {
  const int index = suggest_same(name, (const char *const *)rows->framework_names);
  return index >= 0 ? rows->framework_names[index] : name;
}

/* What the row says, and by rules what it does not; read_as may name no file yet. */
static void settle_framework(const MeasuredRows *rows, MeasuredRow *row, const RowCells *cells) {
  const char *literal = measured_row_cell(row, "read_as");
  row->framework = framework_spelling(rows, *literal != '\0' ? literal : measured_row_cell(row, "framework"));
  row->read_as = row->framework;
  const RowFacts facts = {row->framework, measured_row_cell(row, "notes"), cells, row->shipped, row->machine};
  const RowReading reading = row_rules_apply(rows->rules, &facts);
  row->norm_kernel = reading.norm_kernel;
  if (*literal != '\0' || !rows->by_release || reading.read_as == NULL)
    return;
  row->is_by_rule = strcmp(reading.read_as, row->framework) != 0;
  row->read_as = reading.read_as;
}

/* Sets `*found` to what row->read_as does, and both to none if it is not described. FALSE: its file is not as it should
 * be. */
static gboolean find_framework(MeasuredRows *rows, MeasuredRow *row, const Framework **found, GError **error) {
  *found = g_hash_table_lookup(rows->frameworks, row->read_as);
  if (*found == NULL && g_strv_contains((const char *const *)rows->framework_names, row->read_as)) {
    g_autofree Framework *framework = g_new0(Framework, 1);
    if (!framework_read(row->read_as, framework, error))
      return FALSE;
    *found = framework;
    g_hash_table_insert(rows->frameworks, g_strdup(row->read_as), g_steal_pointer(&framework));
  }
  if (*found == NULL)
    row->read_as = "";
  return TRUE;
}

static char *problem_of(const MeasuredRow *row, const GError *model_problem) {
  if (row->model == NULL)
    return g_strdup(model_problem->message);
  return *row->cluster == '\0' ? g_strdup("the row does not say cluster") : NULL;
}

static gboolean read_row(MeasuredRows *rows, MeasuredRow *row, GError **error) {
  RowCells cells;
  g_autoptr(GError) problem = NULL;
  const gboolean is_whole = csv_table_check_row(row->table, row->index, &problem);
  const gboolean is_read = row_cells_read(row, &cells, is_whole ? &problem : NULL) && is_whole;
  row->id = measured_row_cell(row, "id");
  row->cluster = measured_row_cell(row, "cluster");
  row->step_time_s = cells.step_time_s;
  row->memory_bytes = cells.memory_gb * bytes_per_gb;
  const KnownMachine *machine = *row->cluster != '\0' ? find_machine(rows, row->cluster) : NULL;
  row->machine = machine != NULL ? machine->cluster : NULL;
  row->shipped = shipped_models_find(rows->models, measured_row_cell(row, "model_name"), cells.hidden, cells.heads);
  settle_framework(rows, row, &cells);
  const Framework *framework;
  if (!find_framework(rows, row, &framework, error))
    return FALSE;
  if (is_read)
    row->model = row_model_new(row, &cells, framework, &problem);
  row->problem = problem_of(row, problem);
  if (row->problem == NULL) {
    row->plan = make_plan(row, &cells, framework);
    row->problem = g_strdup(machine->problem);
  }
  return TRUE;
}

static const char *const required[] = {"layers", "hidden", "heads", "cluster", "step_time_s", NULL};

static gboolean is_read(const char *column) {
  return row_cells_have(column) || g_strv_contains(required, column);
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

MeasuredRows *measured_rows_read(char **files, int n_files, gboolean by_release, GError **error) {
  g_autoptr(MeasuredRows) rows = g_new0(MeasuredRows, 1);
  rows->tables = g_ptr_array_new_with_free_func((GDestroyNotify)csv_table_free);
  rows->frameworks = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
  rows->machines = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, known_machine_free);
  rows->framework_names = framework_names();
  rows->rows = g_array_new(FALSE, FALSE, sizeof(MeasuredRow));
  g_array_set_clear_func(rows->rows, row_clear);
  rows->by_release = by_release;
  rows->models = shipped_models_read(error);
  rows->rules = rows->models != NULL ? row_rules_read(error) : NULL;
  if (rows->rules == NULL)
    return NULL;
  for (int i = 0; i < n_files; i++)
    if (!read_file(rows, files[i], error))
      return NULL;
  return g_steal_pointer(&rows);
}

static ReadAs *find_reading(GArray *counted, const MeasuredRow *row) {
  for (guint i = 0; i < counted->len; i++) {
    ReadAs *known = &g_array_index(counted, ReadAs, i);
    if (strcmp(known->framework, row->framework) == 0 && strcmp(known->read_as, row->read_as) == 0)
      return known;
  }
  const ReadAs first = {row->framework, row->read_as, 0};
  g_array_append_val(counted, first);
  return &g_array_index(counted, ReadAs, counted->len - 1);
}

GArray *measured_rows_read_as(const MeasuredRows *rows) {
  GArray *counted = g_array_new(FALSE, FALSE, sizeof(ReadAs));
  for (guint i = 0; i < rows->rows->len; i++) {
    const MeasuredRow *row = &g_array_index(rows->rows, MeasuredRow, i);
    if (row->is_by_rule)
      find_reading(counted, row)->n_rows++;
  }
  return counted;
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
  g_clear_pointer(&rows->models, g_ptr_array_unref);
  g_clear_pointer(&rows->rules, row_rules_free);
  g_clear_pointer(&rows->machines, g_hash_table_unref);
  g_clear_pointer(&rows->framework_names, g_strfreev);
  g_free(rows);
}
