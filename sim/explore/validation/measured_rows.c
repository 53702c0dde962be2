/* A row's cells become a Model and a Plan. */
#include "measured_rows.h"

#include <string.h>

#include "error.h"
#include "options.h"
#include "row_cells.h"
#include "row_rules.h"
#include "suggest.h"

static const double bytes_per_gb = 1e9, most_step_s = 1e9, most_memory_gb = 1e6;

/* The schedule that the row is run with, however it spells it. Owned by the caller. */
static char *schedule_of_run(const MeasuredRow *row) {
  if (row->plan == NULL)
    return g_strdup(schedule_spelling(measured_row_cell(row, "schedule")));
  g_autoptr(Plan) plan = plan_copy(row->plan);
  plan_default_schedule(plan);
  return g_steal_pointer(&plan->schedule);
}

char *measured_row_run(const MeasuredRow *row) {
  const char *const texts[] = {row->cluster, measured_row_cell(row, "model_name")};
  GString *run = g_string_new(NULL);
  model_cells_append_run(row, run);
  row_plan_append_run(row, run);
  for (gsize i = 0; i < G_N_ELEMENTS(texts); i++)
    g_string_append_printf(run, "%s\n", texts[i]);
  g_autofree char *schedule = schedule_of_run(row);
  g_string_append_printf(run, "%s\n%s\n%d\n", schedule, row->read_as, row->norm_kernel);
  if (row->problem != NULL) /* maybe of what was measured, not of the run */
    g_string_append_printf(run, "%s\n", row->problem);
  return g_string_free(run, FALSE);
}

/* What rows leave out that is not as in a new plan. */
static void complete_plan(const MeasuredRow *row, Plan *plan) {
  const gboolean is_cut = (double)plan->ep * plan->tp * plan->pp > plan->gpus && plan->tp > 1 && plan->gpus > 0;
  if (is_cut && *row_plan_cell(row, "expert-tp") == '\0')
    plan->expert_tp = 1; /* few tables have a column for it, and experts cut by tp would need more GPUs */
  if (*row_plan_cell(row, "sequence-parallel") == '\0') /* with experts, tp is run with it alone */
    plan->sequence_parallel = model_has_experts(row->model) && plan->tp > 1;
  if (*row_plan_cell(row, "norm-kernel") == '\0')
    plan->norm_kernel = row->norm_kernel;
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
  known->cluster = options_read_cluster(name, &problem);
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
static void settle_framework(const MeasuredRows *rows, MeasuredRow *row, const ModelCells *cells, Precision precision) {
  const char *given = rows->as.framework;
  const char *literal = given != NULL ? given : measured_row_cell(row, "read_as");
  row->framework = framework_spelling(rows, *literal != '\0' ? literal : measured_row_cell(row, "framework"));
  row->read_as = row->framework;
  const RowFacts facts = {row->framework, measured_row_cell(row, "notes"), cells, precision, row->shipped,
                          row->machine};
  const RowReading reading = row_rules_apply(rows->rules, &facts);
  row->norm_kernel = reading.norm_kernel;
  if (*measured_row_cell(row, "memory_of") == '\0')
    row->memory_of = (ShownMemory)MAX(reading.memory_of, SHOWN_ALLOCATED);
  if (*literal != '\0' || !rows->as.by_release || reading.read_as == NULL)
    return;
  row->is_by_rule = strcmp(reading.read_as, row->framework) != 0;
  row->read_as = reading.read_as;
}

/* A name in topologies/frameworks, or the path of a file. */
static gboolean is_described(const MeasuredRows *rows, const char *name) {
  return g_strv_contains((const char *const *)rows->framework_names, name) ||
         ((strchr(name, '/') != NULL || g_str_has_suffix(name, ".yaml")) && g_file_test(name, G_FILE_TEST_IS_REGULAR));
}

/* Sets `*found` to what row->read_as does, and both to none if it is not described. FALSE: its file is not as it should
 * be. */
static gboolean find_framework(MeasuredRows *rows, MeasuredRow *row, const Framework **found, GError **error) {
  *found = g_hash_table_lookup(rows->frameworks, row->read_as);
  if (*found == NULL && is_described(rows, row->read_as)) {
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

/* Where the row says nothing, a rule may. */
static gboolean read_memory_of(MeasuredRow *row, GError **error) {
  const char *text = measured_row_cell(row, "memory_of");
  const int index = suggest_same(text, shown_memory_names());
  if (*text == '\0')
    return TRUE;
  row->memory_of = (ShownMemory)MAX(index, 0);
  if (index >= 0)
    return TRUE;
  g_autofree char *expected = suggest_message(text, shown_memory_names());
  return fail_input(error, "memory_of: found \"%.80s\", %s", text, expected);
}

static gboolean read_quantities(MeasuredRow *row, GError **error) {
  double memory_gb;
  gboolean is_read = row_cells_quantity(row, "step_time_s", most_step_s, &row->step_time_s, error);
  is_read &= row_cells_quantity(row, "memory_gb", most_memory_gb, &memory_gb, is_read ? error : NULL);
  row->memory_bytes = memory_gb * bytes_per_gb;
  return is_read & read_memory_of(row, is_read ? error : NULL);
}

/* Each cell as far as it can be; `problem` is the first that cannot. */
static gboolean read_cells(MeasuredRow *row, ModelCells *cells, Plan *plan, GError **problem) {
  gboolean is_read = csv_table_check_row(row->table, row->index, problem);
  is_read &= model_cells_read(row, cells, is_read ? problem : NULL);
  is_read &= row_plan_set(row, ROW_PLAN_BEFORE_FRAMEWORK, plan, is_read ? problem : NULL);
  return is_read & read_quantities(row, is_read ? problem : NULL);
}

static char *problem_of(const MeasuredRow *row, const GError *model_problem) {
  if (row->model == NULL)
    return g_strdup(model_problem->message);
  return *row->cluster == '\0' ? g_strdup("the row does not say cluster") : NULL;
}

static gboolean read_row(MeasuredRows *rows, MeasuredRow *row, GError **error) {
  ModelCells cells;
  g_autoptr(GError) problem = NULL;
  g_autoptr(Plan) plan = plan_new();
  gboolean is_read = read_cells(row, &cells, plan, &problem);
  row->id = measured_row_cell(row, "id");
  row->cluster = rows->as.cluster != NULL ? rows->as.cluster : measured_row_cell(row, "cluster");
  const KnownMachine *machine = *row->cluster != '\0' ? find_machine(rows, row->cluster) : NULL;
  row->machine = machine != NULL ? machine->cluster : NULL;
  row->shipped = shipped_models_find(rows->models, measured_row_cell(row, "model_name"), cells.hidden, cells.heads);
  settle_framework(rows, row, &cells, plan->precision);
  const Framework *framework;
  if (!find_framework(rows, row, &framework, error))
    return FALSE;
  if (framework != NULL)
    plan_set_framework(plan, row->read_as, framework);
  is_read &= row_plan_set(row, ROW_PLAN_BEHIND_FRAMEWORK, plan, is_read ? &problem : NULL);
  if (is_read)
    row->model = row_model_new(row, &cells, framework, plan->seq_len, &problem);
  row->problem = problem_of(row, problem);
  if (row->problem == NULL) {
    complete_plan(row, plan);
    row->plan = g_steal_pointer(&plan);
    row->problem = g_strdup(machine->problem);
  }
  return TRUE;
}

static const char *const required[] = {"layers", "hidden", "heads", "cluster", "step_time_s", NULL};

static gboolean is_read(const char *column) {
  return model_cells_have(column) || row_plan_has(column) || g_strv_contains(required, column);
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

static gboolean check_columns(const CsvTable *table, const MeasuredAs *as, GError **error) {
  for (gsize i = 0; required[i] != NULL; i++)
    if (csv_table_find_column(table, required[i]) < 0 && (as->cluster == NULL || strcmp(required[i], "cluster") != 0))
      return fail_missing(table, required[i], error);
  return TRUE;
}

static gboolean read_file(MeasuredRows *rows, const char *file, GError **error) {
  CsvTable *table = csv_table_read(file, error);
  if (table == NULL)
    return FALSE;
  g_ptr_array_add(rows->tables, table);
  if (!check_columns(table, &rows->as, error))
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

MeasuredRows *measured_rows_read(char **files, int n_files, const MeasuredAs *as, GError **error) {
  g_autoptr(MeasuredRows) rows = g_new0(MeasuredRows, 1);
  rows->tables = g_ptr_array_new_with_free_func((GDestroyNotify)csv_table_free);
  rows->frameworks = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
  rows->machines = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, known_machine_free);
  rows->framework_names = framework_names();
  rows->rows = g_array_new(FALSE, FALSE, sizeof(MeasuredRow));
  g_array_set_clear_func(rows->rows, row_clear);
  rows->as = *as;
  rows->models = shipped_models_read(error);
  rows->rules = rows->models != NULL ? row_rules_read(error) : NULL;
  if (rows->rules == NULL)
    return NULL;
  const char *problem = as->cluster != NULL ? find_machine(rows, as->cluster)->problem : NULL;
  if (problem != NULL) {
    fail_input(error, "%s", problem);
    return NULL;
  }
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
  g_clear_pointer(&rows->models, g_ptr_array_unref);
  g_clear_pointer(&rows->rules, row_rules_free);
  g_clear_pointer(&rows->machines, g_hash_table_unref);
  g_clear_pointer(&rows->framework_names, g_strfreev);
  g_free(rows);
}
