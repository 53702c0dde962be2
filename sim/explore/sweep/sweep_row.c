/* Columns are one table built when the program starts on a sweep: name, type, and the plan's field or the place in a
 * StepReport where the value stands. Filling a row, the schema of the store and the report walk it. */
#include "sweep_row.h"

#include <math.h>
#include <string.h>

#include "link_use.h"
#include "plan_fields.h"

#include "json_values.h"
#include "reasons.h"

typedef enum { FROM_PLAN, FROM_INT, FROM_INT64, FROM_DOUBLE, FROM_ELSEWHERE } Origin; /* of types: in the report */

typedef struct {
  SweepColumn column;
  Origin origin;
  const PlanField *field; /* of the plan */
  size_t offset;          /* in the report */
} Source;

struct SweepTable {
  GArray *sources;              /* of Source */
  GHashTable *find;             /* name to index */
  int own[N_SWEEP_OWN_COLUMNS]; /* where they stand */
};

static const char *const status_names[N_SWEEP_STATUSES + 1] = {[SWEEP_RAN] = "ran",
                                                               [SWEEP_OUT_OF_MEMORY] = "out_of_memory",
                                                               [SWEEP_TOO_LARGE] = "too_large",
                                                               [SWEEP_IMPOSSIBLE] = "impossible"};

const char *const *sweep_status_names(void) {
  return status_names;
}

/* --- the table --- */

static void add(SweepTable *table, const char *name, CellType type, Source source) {
  source.column = (SweepColumn){g_intern_string(name), type};
  g_hash_table_insert(table->find, (gpointer)source.column.name, GINT_TO_POINTER((int)table->sources->len + 1));
  g_array_append_val(table->sources, source);
}

static void add_own(SweepTable *table, const char *name, CellType type, SweepOwnColumn own) {
  table->own[own] = (int)table->sources->len;
  add(table, name, type, (Source){.origin = FROM_ELSEWHERE});
}

static CellType type_of(const PlanField *field) {
  static const CellType types[] = {
      [PLAN_COUNT] = CELL_WHOLE, [PLAN_COUNT64] = CELL_WHOLE, [PLAN_RATIO] = CELL_REAL, [PLAN_BYTES] = CELL_REAL,
      [PLAN_SWITCH] = CELL_TEXT, [PLAN_CHOICE] = CELL_TEXT,   [PLAN_TEXT] = CELL_TEXT,  [PLAN_OWN_TEXT] = CELL_TEXT};
  return types[field->kind];
}

/* Every field that a space can have, and what completing a plan computes. */
static void add_plan(SweepTable *table) {
  add_own(table, "model", CELL_TEXT, SWEEP_MODEL);
  add_own(table, "cluster", CELL_TEXT, SWEEP_CLUSTER);
  for (int i = 0; i < plan_n_fields(); i++) {
    const PlanField *field = plan_field(i);
    if (!plan_field_is_axis(field))
      continue;
    g_autofree char *name = plan_field_column(field);
    add(table, name, type_of(field), (Source){.origin = FROM_PLAN, .field = field});
  }
  add_own(table, "micro_batches", CELL_WHOLE, SWEEP_MICRO_BATCHES);
}

static const char *breakdown_nth(int kind) {
  return breakdown_name((BreakdownKind)kind);
}

static const char *memory_nth(int category) {
  return memory_category_name((MemoryCategory)category);
}

#define REAL(member) CELL_REAL, FROM_DOUBLE, offsetof(StepReport, member)
#define WHOLE(member) CELL_WHOLE, FROM_INT, offsetof(StepReport, member)
#define OWN(type, own) type, FROM_ELSEWHERE, own

/* Behind the plan. */
static const struct {
  const char *name;
  CellType type;
  Origin origin;
  size_t offset;           /* in the report; FROM_ELSEWHERE: the SweepOwnColumn */
  const char *(*nth)(int); /* of `n` numbers, what stands for %s; NULL: one */
  int n;
} columns[] = {
    {"step_time_s", REAL(step_time_s)},
    {"tokens_per_s", REAL(tokens_per_s)},
    {"tokens_per_s_per_gpu", REAL(tokens_per_s_per_gpu)},
    {"tflops_per_gpu", REAL(tflops_per_gpu)},
    {"mfu", REAL(mfu)},
    {"hfu", REAL(hfu)},
    {"gpu_energy_Wh", REAL(gpu_energy_Wh)},
    {"bubble_fraction", REAL(bubble_fraction)},
    {"bubble_overhead", REAL(bubble_overhead)},
    {"breakdown_%s_s", REAL(breakdown_s), breakdown_nth, N_BREAKDOWN},
    {"memory_peak_bytes", REAL(peak_bytes)},
    {"memory_total_bytes", OWN(CELL_REAL, SWEEP_MEMORY_TOTAL_BYTES)},
    {"memory_allocator_bytes", REAL(allocator_bytes)},
    {"memory_device_bytes", REAL(device_bytes)},
    {"memory_capacity_bytes", REAL(capacity_bytes)},
    {"memory_fits", WHOLE(fits)},
    {"memory_used", OWN(CELL_REAL, SWEEP_MEMORY_USED)},
    {"memory_worst_rank", WHOLE(worst_rank)},
    {"memory_%s_bytes", REAL(memory_bytes), memory_nth, N_MEMORY},
    {"host_memory_bytes", OWN(CELL_REAL, SWEEP_HOST_MEMORY_BYTES)},
    {"nvme_bytes", OWN(CELL_REAL, SWEEP_NVME_BYTES)},
    {"links", OWN(CELL_TEXT, SWEEP_LINKS)},
    {"kernels_measured", WHOLE(n_measured)},
    {"kernels_interpolated", WHOLE(n_interpolated)},
    {"kernels_modelled", WHOLE(n_modelled)},
    {"engine_events", CELL_WHOLE, FROM_INT64, offsetof(StepReport, n_events)},
    {"engine_ranks_simulated", WHOLE(n_ranks_simulated)},
    {"least_bytes", OWN(CELL_REAL, SWEEP_LEAST_BYTES)},
    {"dollars_per_gpu_hour", OWN(CELL_REAL, SWEEP_DOLLARS_PER_GPU_HOUR)},
    {"dollars_per_million_tokens", OWN(CELL_REAL, SWEEP_DOLLARS_PER_MILLION_TOKENS)},
    {"interval_low_s", REAL(interval.low_s)},
    {"interval_high_s", REAL(interval.high_s)},
};

/* Of the report. */
static void add_numbers(SweepTable *table, int i) {
  for (int k = 0; k < MAX(columns[i].n, 1); k++) {
    g_auto(GStrv) around = g_strsplit(columns[i].name, "%s", 2);
    g_autofree char *name = g_strjoinv(columns[i].nth != NULL ? columns[i].nth(k) : "", around);
    const Source source = {.origin = columns[i].origin, .offset = columns[i].offset + (size_t)k * sizeof(double)};
    add(table, name, columns[i].type, source);
  }
}

SweepTable *sweep_table_new(void) {
  SweepTable *table = g_new0(SweepTable, 1);
  table->sources = g_array_new(FALSE, FALSE, sizeof(Source));
  table->find = g_hash_table_new(g_str_hash, g_str_equal);
  add_plan(table);
  for (gsize i = 0; i < G_N_ELEMENTS(columns); i++) {
    if (columns[i].origin == FROM_ELSEWHERE)
      add_own(table, columns[i].name, columns[i].type, (SweepOwnColumn)columns[i].offset);
    else
      add_numbers(table, (int)i);
  }
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

gboolean sweep_table_is_of_plan(const SweepTable *table, int column) {
  return g_array_index(table->sources, Source, column).origin == FROM_PLAN;
}

int sweep_table_find(const SweepTable *table, const char *name) {
  return GPOINTER_TO_INT(g_hash_table_lookup(table->find, name)) - 1;
}

int sweep_table_find_axis(const SweepTable *table, const char *axis) {
  g_autofree char *name = g_strdelimit(g_strdup(axis), "-", '_');
  return sweep_table_find(table, name);
}

/* --- filling a row --- */

enum { TEXT_BYTES = 512 }; /* of most rows */

void sweep_row_init(SweepRow *row, const SweepTable *table, gint64 index) {
  *row =
      (SweepRow){.index = index, .cells = g_new0(Cell, table->sources->len), .texts = g_string_chunk_new(TEXT_BYTES)};
}

void sweep_row_clear(SweepRow *row) {
  g_free(row->cells);
  g_clear_pointer(&row->texts, g_string_chunk_free);
  g_free(row->kind);
  g_free(row->reason);
  *row = (SweepRow){0};
}

gboolean cell_is_equal(const Cell *a, const Cell *b) {
  if (a->type != b->type)
    return FALSE;
  return a->type == CELL_TEXT ? strcmp(a->text, b->text) == 0 : memcmp(&a->whole, &b->whole, sizeof a->whole) == 0;
}

static Cell whole_cell(gint64 value) {
  return (Cell){.type = CELL_WHOLE, .whole = value};
}

static Cell real_cell(double value) {
  return isfinite(value) ? (Cell){.type = CELL_REAL, .real = value} : (Cell){0};
}

/* Of a text that outlives the row. */
static Cell text_cell(const char *value) {
  return (Cell){.type = CELL_TEXT, .text = value};
}

static Cell report_cell(const Source *source, const StepReport *report) {
  gconstpointer at = (const char *)report + source->offset;
  return source->origin == FROM_INT     ? whole_cell(*(const int *)at)
         : source->origin == FROM_INT64 ? whole_cell(*(const gint64 *)at)
                                        : real_cell(*(const double *)at);
}

static Cell field_cell(SweepRow *row, const PlanField *field, const Plan *plan) {
  const PlanValue value = plan_field_value(field, plan);
  switch (value.type) {
  case PLAN_VALUE_WHOLE:
    return whole_cell(value.whole);
  case PLAN_VALUE_REAL:
    return real_cell(value.real);
  case PLAN_VALUE_TEXT:
    return text_cell(field->kind == PLAN_SWITCH || field->kind == PLAN_CHOICE
                         ? value.text
                         : g_string_chunk_insert(row->texts, value.text));
  default:
    return (Cell){0};
  }
}

static void set_own(SweepRow *row, const SweepTable *table, SweepOwnColumn column, Cell cell) {
  row->cells[table->own[column]] = cell;
}

void sweep_row_set_real(SweepRow *row, const SweepTable *table, SweepOwnColumn column, double value) {
  set_own(row, table, column, real_cell(value));
}

void sweep_row_set_plan(SweepRow *row, const SweepTable *table, const Plan *plan) {
  for (guint i = 0; i < table->sources->len; i++) {
    const Source *source = &g_array_index(table->sources, Source, i);
    if (source->origin == FROM_PLAN)
      row->cells[i] = field_cell(row, source->field, plan);
  }
  if (plan->n_micro_batches > 0)
    set_own(row, table, SWEEP_MICRO_BATCHES, whole_cell(plan->n_micro_batches));
}

static void append_member(GString *text, const char *key, const char *value) {
  g_string_append(g_string_append(text, key), value);
}

/* As `links` of simulate --json. */
static char *links_text(const StepReport *report) {
  char number[G_ASCII_DTOSTR_BUF_SIZE];
  GString *text = g_string_sized_new(256);
  g_string_append_c(text, '[');
  for (int way = 0; way < TIMING_MAX_WAYS && report->cluster != NULL; way++) {
    const LinkUse *use = &report->link_use[way];
    if (use->busiest < 0)
      continue;
    g_autofree char *name = link_use_name(report->cluster, way);
    g_string_append(text, text->len > 1 ? ",{\"name\":" : "{\"name\":");
    json_append_string(text, name);
    append_member(text, ",\"used\":", g_ascii_dtostr(number, sizeof number, use->mean));
    append_member(text, ",\"most_used\":", g_ascii_dtostr(number, sizeof number, use->most));
    append_member(text, ",\"busiest_rank\":", g_ascii_dtostr(number, sizeof number, use->busiest));
    g_string_append_c(text, '}');
  }
  g_string_append_c(text, ']');
  return g_string_free(text, FALSE);
}

void sweep_row_set_report(SweepRow *row, const SweepTable *table, const StepReport *report) {
  for (guint i = 0; i < table->sources->len; i++) {
    const Source *source = &g_array_index(table->sources, Source, i);
    if (source->origin != FROM_PLAN && source->origin != FROM_ELSEWHERE)
      row->cells[i] = report_cell(source, report);
  }
  if (report->tiers[TIER_HOST].bytes != 0) /* something is offloaded there */
    sweep_row_set_real(row, table, SWEEP_HOST_MEMORY_BYTES, report->tiers[TIER_HOST].bytes);
  if (report->tiers[TIER_NVME].bytes != 0)
    sweep_row_set_real(row, table, SWEEP_NVME_BYTES, report->tiers[TIER_NVME].bytes);
  g_autofree char *links = links_text(report);
  set_own(row, table, SWEEP_LINKS, text_cell(g_string_chunk_insert(row->texts, links)));
}

/* "" is empty. */
void sweep_row_set_asked(SweepRow *row, const SweepTable *table, int column, const char *value) {
  const CellType type = *value != '\0' ? sweep_table_column(table, column)->type : CELL_NONE;
  row->cells[column] = type == CELL_WHOLE  ? whole_cell(g_ascii_strtoll(value, NULL, 10))
                       : type == CELL_REAL ? real_cell(g_ascii_strtod(value, NULL))
                       : type == CELL_TEXT ? text_cell(value)
                                           : (Cell){0};
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
