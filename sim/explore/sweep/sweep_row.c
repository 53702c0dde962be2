/* Columns are one table built when the program starts on a sweep: name, type, and the plan's field or the place in a
 * StepReport where the value stands. Filling a row, the schema of the store and the report walk it. */
#include "sweep_row.h"

#include <math.h>
#include <string.h>

#include "link_use.h"
#include "plan_fields.h"

#include "json_text.h"
#include "reasons.h"

typedef enum { FROM_PLAN, FROM_REPORT, FROM_ELSEWHERE } Origin;
typedef enum { VALUE_INT, VALUE_INT64, VALUE_UINT64, VALUE_DOUBLE, VALUE_TEXT } ValueType;

typedef struct {
  SweepColumn column;
  Origin origin;
  ValueType value;
  const PlanField *field; /* of the plan */
  size_t offset;          /* in the report */
} Source;

struct SweepTable {
  GArray *sources;  /* of Source */
  GHashTable *find; /* name to index */
};

static const char *const status_names[N_SWEEP_STATUSES + 1] = {[SWEEP_RAN] = "ran",
                                                               [SWEEP_OUT_OF_MEMORY] = "out_of_memory",
                                                               [SWEEP_TOO_LARGE] = "too_large",
                                                               [SWEEP_IMPOSSIBLE] = "impossible"};

const char *const *sweep_status_names(void) {
  return status_names;
}

/* --- the table --- */

static CellType cell_type(ValueType value) {
  return value == VALUE_TEXT ? CELL_TEXT : value == VALUE_DOUBLE ? CELL_REAL : CELL_WHOLE;
}

static void add(SweepTable *table, const char *name, Source source) {
  source.column = (SweepColumn){g_intern_string(name), cell_type(source.value)};
  g_hash_table_insert(table->find, (gpointer)source.column.name, GINT_TO_POINTER((int)table->sources->len + 1));
  g_array_append_val(table->sources, source);
}

#define IN_REPORT(type, member)                                                                                        \
  { .origin = FROM_REPORT, .value = type, .offset = offsetof(StepReport, member) }
#define ELSEWHERE(type)                                                                                                \
  { .origin = FROM_ELSEWHERE, .value = type }

static ValueType type_of(const PlanField *field) {
  static const ValueType types[] = {
      [PLAN_COUNT] = VALUE_INT64,  [PLAN_COUNT64] = VALUE_INT64, [PLAN_RATIO] = VALUE_DOUBLE,
      [PLAN_BYTES] = VALUE_DOUBLE, [PLAN_SWITCH] = VALUE_TEXT,   [PLAN_CHOICE] = VALUE_TEXT,
      [PLAN_TEXT] = VALUE_TEXT,    [PLAN_OWN_TEXT] = VALUE_TEXT};
  return types[field->kind];
}

/* Every field that a space can have, and what completing a plan computes. */
static void add_plan(SweepTable *table) {
  add(table, "model", (Source)ELSEWHERE(VALUE_TEXT));
  add(table, "cluster", (Source)ELSEWHERE(VALUE_TEXT));
  for (int i = 0; i < plan_n_fields(); i++) {
    const PlanField *field = plan_field(i);
    if (!plan_field_is_axis(field))
      continue;
    g_autofree char *name = plan_field_column(field);
    add(table, name, (Source){.origin = FROM_PLAN, .value = type_of(field), .field = field});
  }
  add(table, "micro_batches", (Source)ELSEWHERE(VALUE_INT64));
}

static void add_rates(SweepTable *table) {
  const struct {
    const char *name;
    size_t offset;
  } rates[] = {{"step_time_s", offsetof(StepReport, step_time_s)},
               {"tokens_per_s", offsetof(StepReport, tokens_per_s)},
               {"tokens_per_s_per_gpu", offsetof(StepReport, tokens_per_s_per_gpu)},
               {"tflops_per_gpu", offsetof(StepReport, tflops_per_gpu)},
               {"mfu", offsetof(StepReport, mfu)},
               {"hfu", offsetof(StepReport, hfu)},
               {"gpu_energy_Wh", offsetof(StepReport, gpu_energy_Wh)},
               {"bubble_fraction", offsetof(StepReport, bubble_fraction)},
               {"bubble_overhead", offsetof(StepReport, bubble_overhead)}};
  for (gsize i = 0; i < G_N_ELEMENTS(rates); i++)
    add(table, rates[i].name, (Source){.origin = FROM_REPORT, .value = VALUE_DOUBLE, .offset = rates[i].offset});
  for (int kind = 0; kind < N_BREAKDOWN; kind++) {
    g_autofree char *name = g_strdup_printf("breakdown_%s_s", breakdown_name((BreakdownKind)kind));
    add(table, name,
        (Source){.origin = FROM_REPORT,
                 .value = VALUE_DOUBLE,
                 .offset = offsetof(StepReport, breakdown_s) + (size_t)kind * sizeof(double)});
  }
}

static void add_memory(SweepTable *table) {
  add(table, "memory_peak_bytes", (Source)IN_REPORT(VALUE_DOUBLE, peak_bytes));
  add(table, "memory_total_bytes", (Source)ELSEWHERE(VALUE_DOUBLE));
  add(table, "memory_capacity_bytes", (Source)IN_REPORT(VALUE_DOUBLE, capacity_bytes));
  add(table, "memory_fits", (Source)IN_REPORT(VALUE_INT, fits));
  add(table, "memory_used", (Source)ELSEWHERE(VALUE_DOUBLE));
  add(table, "memory_worst_rank", (Source)IN_REPORT(VALUE_INT, worst_rank));
  for (int category = 0; category < N_MEMORY; category++) {
    g_autofree char *name = g_strdup_printf("memory_%s_bytes", memory_category_name((MemoryCategory)category));
    add(table, name,
        (Source){.origin = FROM_REPORT,
                 .value = VALUE_DOUBLE,
                 .offset = offsetof(StepReport, memory_bytes) + (size_t)category * sizeof(double)});
  }
}

static const char *const tier_columns[N_TIERS] = {[TIER_HOST] = "host_memory_bytes", [TIER_NVME] = "nvme_bytes"};

static void add_tiers(SweepTable *table) {
  for (gsize tier = TIER_HOST; tier < N_TIERS; tier++)
    add(table, tier_columns[tier],
        (Source){.origin = FROM_REPORT,
                 .value = VALUE_DOUBLE,
                 .offset = offsetof(StepReport, tiers) + tier * sizeof(TierUse) + offsetof(TierUse, bytes)});
}

static void add_rest(SweepTable *table) {
  add(table, "links", (Source)ELSEWHERE(VALUE_TEXT));
  add(table, "kernels_measured", (Source)IN_REPORT(VALUE_INT, n_measured));
  add(table, "kernels_interpolated", (Source)IN_REPORT(VALUE_INT, n_interpolated));
  add(table, "kernels_modelled", (Source)IN_REPORT(VALUE_INT, n_modelled));
  add(table, "engine_events", (Source)IN_REPORT(VALUE_UINT64, n_events));
  add(table, "engine_ranks_simulated", (Source)IN_REPORT(VALUE_INT, n_ranks_simulated));
  add(table, "least_bytes", (Source)ELSEWHERE(VALUE_DOUBLE));
  add(table, "dollars_per_gpu_hour", (Source)ELSEWHERE(VALUE_DOUBLE));
  add(table, "dollars_per_million_tokens", (Source)ELSEWHERE(VALUE_DOUBLE));
}

SweepTable *sweep_table_new(void) {
  SweepTable *table = g_new0(SweepTable, 1);
  table->sources = g_array_new(FALSE, FALSE, sizeof(Source));
  table->find = g_hash_table_new(g_str_hash, g_str_equal);
  add_plan(table);
  add_rates(table);
  add_memory(table);
  add_tiers(table);
  add_rest(table);
  return table;
}

void sweep_table_free(SweepTable *table) {
  if (table == NULL)
    return;
  g_array_unref(table->sources);
  g_hash_table_unref(table->find);
  g_free(table);
}

int sweep_table_n_columns(const SweepTable *table) {
  return (int)table->sources->len;
}

const SweepColumn *sweep_table_column(const SweepTable *table, int column) {
  return &g_array_index(table->sources, Source, column).column;
}

int sweep_table_find(const SweepTable *table, const char *name) {
  return GPOINTER_TO_INT(g_hash_table_lookup(table->find, name)) - 1;
}

/* --- filling a row --- */

void sweep_row_init(SweepRow *row, const SweepTable *table, gint64 index) {
  *row = (SweepRow){.index = index, .cells = g_new0(Cell, table->sources->len)};
}

void sweep_row_clear(SweepRow *row, const SweepTable *table) {
  for (guint i = 0; row->cells != NULL && i < table->sources->len; i++)
    g_free(row->cells[i].text);
  g_free(row->cells);
  g_free(row->kind);
  g_free(row->reason);
  *row = (SweepRow){0};
}

static Cell whole_cell(gint64 value) {
  return (Cell){.type = CELL_WHOLE, .whole = value};
}

static Cell real_cell(double value) {
  return (Cell){.type = isfinite(value) ? CELL_REAL : CELL_NONE, .real = value};
}

/* "" is empty. */
static Cell text_cell(const char *value) {
  return (Cell){.type = value != NULL && *value != '\0' ? CELL_TEXT : CELL_NONE, .text = g_strdup(value)};
}

static Cell report_cell(const Source *source, const StepReport *report) {
  gconstpointer at = (const char *)report + source->offset;
  switch (source->value) {
  case VALUE_INT:
    return whole_cell(*(const int *)at);
  case VALUE_INT64:
  case VALUE_UINT64:
    return whole_cell(*(const gint64 *)at);
  default:
    return real_cell(*(const double *)at);
  }
}

static Cell field_cell(const Source *source, const Plan *plan) {
  const PlanValue value = plan_field_value(source->field, plan);
  switch (value.type) {
  case PLAN_VALUE_WHOLE:
    return whole_cell(value.whole);
  case PLAN_VALUE_REAL:
    return real_cell(value.real);
  case PLAN_VALUE_TEXT:
    return (Cell){.type = CELL_TEXT, .text = value.text};
  default:
    return (Cell){0};
  }
}

static void set_cell(SweepRow *row, int column, Cell cell) {
  g_free(row->cells[column].text);
  row->cells[column] = cell;
}

static void set_text(SweepRow *row, const SweepTable *table, const char *column, const char *value) {
  set_cell(row, sweep_table_find(table, column), text_cell(value));
}

void sweep_row_set_real(SweepRow *row, const SweepTable *table, const char *column, double value) {
  set_cell(row, sweep_table_find(table, column), real_cell(value));
}

void sweep_row_set_plan(SweepRow *row, const SweepTable *table, const Plan *plan) {
  for (guint i = 0; i < table->sources->len; i++) {
    const Source *source = &g_array_index(table->sources, Source, i);
    if (source->origin == FROM_PLAN)
      set_cell(row, (int)i, field_cell(source, plan));
  }
  const int micro_batches = sweep_table_find(table, "micro_batches");
  set_cell(row, micro_batches, plan->n_micro_batches > 0 ? whole_cell(plan->n_micro_batches) : (Cell){0});
}

/* As `links` of simulate --json. */
static char *links_text(const StepReport *report) {
  char number[G_ASCII_DTOSTR_BUF_SIZE];
  GString *text = g_string_new("[");
  for (int way = 0; way < TIMING_MAX_WAYS && report->cluster != NULL; way++) {
    const LinkUse *use = &report->link_use[way];
    if (use->busiest < 0)
      continue;
    g_autofree char *name = link_use_name(report->cluster, way);
    g_string_append(text, text->len > 1 ? ",{\"name\":" : "{\"name\":");
    json_append_string(text, name);
    g_string_append_printf(text, ",\"used\":%s", g_ascii_dtostr(number, sizeof number, use->mean));
    g_string_append_printf(text, ",\"most_used\":%s", g_ascii_dtostr(number, sizeof number, use->most));
    g_string_append_printf(text, ",\"busiest_rank\":%d}", use->busiest);
  }
  g_string_append_c(text, ']');
  return g_string_free(text, FALSE);
}

void sweep_row_set_report(SweepRow *row, const SweepTable *table, const StepReport *report) {
  for (guint i = 0; i < table->sources->len; i++) {
    const Source *source = &g_array_index(table->sources, Source, i);
    if (source->origin == FROM_REPORT)
      set_cell(row, (int)i, report_cell(source, report));
  }
  for (gsize tier = TIER_HOST; tier < N_TIERS; tier++)
    if (report->tiers[tier].bytes == 0) /* nothing is offloaded there */
      set_cell(row, sweep_table_find(table, tier_columns[tier]), (Cell){0});
  g_autofree char *links = links_text(report);
  set_text(row, table, "links", links);
}

void sweep_row_set_asked(SweepRow *row, const SweepTable *table, const Space *space) {
  for (int axis = 0; axis < space_n_axes(space); axis++) {
    g_autofree char *name = g_strdelimit(g_strdup(space_axis_name(space, axis)), "-", '_');
    const char *value = space_axis_value(space, axis, row->index);
    const int column = sweep_table_find(table, name);
    if (column < 0)
      continue;
    const CellType type = sweep_table_column(table, column)->type;
    set_cell(row, column,
             type == CELL_WHOLE  ? whole_cell(g_ascii_strtoll(value, NULL, 10))
             : type == CELL_REAL ? real_cell(g_ascii_strtod(value, NULL))
                                 : text_cell(value));
  }
}

/* Bytes in a reason have units of their own, MB here and TB there. */
static const char *const memory_kinds[N_SWEEP_STATUSES] = {
    [SWEEP_OUT_OF_MEMORY] = "does not fit at its peak", [SWEEP_TOO_LARGE] = "cannot fit, whatever runs when"};

void sweep_row_set_reason(SweepRow *row, SweepStatus status, char *reason) {
  row->status = status;
  g_free(row->reason);
  g_free(row->kind);
  row->reason = reason;
  row->kind = memory_kinds[status] != NULL ? g_strdup(memory_kinds[status]) : reason_kind(reason, "N");
}
