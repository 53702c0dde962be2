/* Columns are one table built when the program starts on a sweep: name, type, and where in a Plan or in a StepReport
 * the value stands. Filling a row, the schema of the store, the report and the bytes between processes (sweep_pack.c)
 * walk it. */
#include "sweep_row.h"

#include <math.h>
#include <string.h>

#include "link_use.h"

#include "json_text.h"
#include "reason_kind.h"

typedef enum { FROM_PLAN, FROM_REPORT, FROM_ELSEWHERE } Origin;
typedef enum {
  VALUE_INT,
  VALUE_INT64,
  VALUE_UINT64,
  VALUE_DOUBLE,
  VALUE_SWITCH, /* gboolean or int: −1 is left open */
  VALUE_CHOICE, /* enum: a name; −1 is left open */
  VALUE_TEXT,   /* char * */
  VALUE_CHARS,  /* char[] */
} ValueType;

typedef struct {
  SweepColumn column;
  Origin origin;
  ValueType value;
  gboolean zero_is_open; /* 0 stands for what was left open */
  size_t offset;
  const char *const *names; /* of a choice */
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
  static const CellType types[] = {
      [VALUE_INT] = CELL_WHOLE,   [VALUE_INT64] = CELL_WHOLE, [VALUE_UINT64] = CELL_WHOLE, [VALUE_DOUBLE] = CELL_REAL,
      [VALUE_SWITCH] = CELL_TEXT, [VALUE_CHOICE] = CELL_TEXT, [VALUE_TEXT] = CELL_TEXT,    [VALUE_CHARS] = CELL_TEXT};
  return types[value];
}

static void add(SweepTable *table, const char *name, Source source) {
  source.column = (SweepColumn){g_intern_string(name), cell_type(source.value)};
  g_hash_table_insert(table->find, (gpointer)source.column.name, GINT_TO_POINTER((int)table->sources->len + 1));
  g_array_append_val(table->sources, source);
}

#define IN_PLAN(type, member)                                                                                          \
  { .origin = FROM_PLAN, .value = type, .offset = offsetof(Plan, member) }
#define OPEN_IN_PLAN(type, member)                                                                                     \
  { .origin = FROM_PLAN, .value = type, .zero_is_open = TRUE, .offset = offsetof(Plan, member) }
#define NAMED_IN_PLAN(member, table)                                                                                   \
  { .origin = FROM_PLAN, .value = VALUE_CHOICE, .offset = offsetof(Plan, member), .names = table }
#define IN_REPORT(type, member)                                                                                        \
  { .origin = FROM_REPORT, .value = type, .offset = offsetof(StepReport, member) }
#define ELSEWHERE(type)                                                                                                \
  { .origin = FROM_ELSEWHERE, .value = type }

static void add_plan(SweepTable *table) {
  const struct {
    const char *name;
    Source source;
  } columns[] = {
      {"model", ELSEWHERE(VALUE_TEXT)},
      {"cluster", ELSEWHERE(VALUE_TEXT)},
      {"gpus", OPEN_IN_PLAN(VALUE_INT, gpus)},
      {"tp", IN_PLAN(VALUE_INT, tp)},
      {"pp", IN_PLAN(VALUE_INT, pp)},
      {"dp", OPEN_IN_PLAN(VALUE_INT, dp)},
      {"cp", IN_PLAN(VALUE_INT, cp)},
      {"ep", IN_PLAN(VALUE_INT, ep)},
      {"expert_tp", OPEN_IN_PLAN(VALUE_INT, expert_tp)},
      {"expert_load", IN_PLAN(VALUE_DOUBLE, expert_load)},
      {"expert_dispatch", NAMED_IN_PLAN(expert_dispatch, expert_dispatch_names())},
      {"overlap_experts", IN_PLAN(VALUE_SWITCH, overlap_experts)},
      {"cuda_graphs", NAMED_IN_PLAN(cuda_graphs, cuda_graphs_names())},
      {"cp_comm", NAMED_IN_PLAN(cp_comm, cp_comm_names())},
      {"chunks", OPEN_IN_PLAN(VALUE_INT, chunks)},
      {"schedule", IN_PLAN(VALUE_TEXT, schedule)},
      {"pipeline_layout", ELSEWHERE(VALUE_TEXT)},
      {"micro_batch_group", OPEN_IN_PLAN(VALUE_INT, group)},
      {"micro_batch", OPEN_IN_PLAN(VALUE_INT64, micro_batch)},
      {"global_batch", OPEN_IN_PLAN(VALUE_INT64, global_batch)},
      {"micro_batches", OPEN_IN_PLAN(VALUE_INT64, n_micro_batches)},
      {"seq_len", OPEN_IN_PLAN(VALUE_INT64, seq_len)},
      {"memory_cap_bytes", OPEN_IN_PLAN(VALUE_DOUBLE, memory_cap)},
      {"steps", OPEN_IN_PLAN(VALUE_INT, steps)},
      {"mtp_layers", IN_PLAN(VALUE_INT, mtp_layers)},
      {"zero", IN_PLAN(VALUE_INT, zero)},
      {"zero_ranks", OPEN_IN_PLAN(VALUE_INT, zero_ranks)},
      {"recompute", NAMED_IN_PLAN(recompute, recompute_names())},
      {"recompute_modules", ELSEWHERE(VALUE_TEXT)},
      {"sequence_parallel", IN_PLAN(VALUE_SWITCH, sequence_parallel)},
      {"precision", NAMED_IN_PLAN(precision, precision_names())},
      {"recipe", IN_PLAN(VALUE_CHARS, recipe.name)},
      {"attention", NAMED_IN_PLAN(attention, attention_names())},
      {"norm_kernel", NAMED_IN_PLAN(norm_kernel, norm_kernel_names())},
      {"framework", IN_PLAN(VALUE_TEXT, framework)},
      {"overlap_grad", IN_PLAN(VALUE_SWITCH, overlap_grad)},
      {"overlap_param", IN_PLAN(VALUE_SWITCH, overlap_param)},
      {"overlap_p2p", IN_PLAN(VALUE_SWITCH, overlap_p2p)},
      {"bucket", OPEN_IN_PLAN(VALUE_INT64, bucket_parameters)},
      {"prefetch", IN_PLAN(VALUE_INT, prefetch)},
      {"offload_optimizer", NAMED_IN_PLAN(offload.optimizer, offload_names())},
      {"offload_weights", NAMED_IN_PLAN(offload.weights, offload_names())},
      {"offload_activations", NAMED_IN_PLAN(offload.activations, offload_names())},
      {"grad_norm_barrier", IN_PLAN(VALUE_SWITCH, grad_norm_barrier)},
      {"order", ELSEWHERE(VALUE_TEXT)},
      {"flops", NAMED_IN_PLAN(flops, flops_convention_names())},
      {"fold", IN_PLAN(VALUE_SWITCH, fold)},
      {"contention", IN_PLAN(VALUE_SWITCH, contention)},
      {"jitter", IN_PLAN(VALUE_DOUBLE, jitter)},
      {"seed", IN_PLAN(VALUE_UINT64, seed)},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(columns); i++)
    add(table, columns[i].name, columns[i].source);
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

/* 0, as where nothing is offloaded, is left open. */
static void add_tiers(SweepTable *table) {
  static const char *const names[N_TIERS] = {[TIER_HOST] = "host_memory_bytes", [TIER_NVME] = "nvme_bytes"};
  for (gsize tier = TIER_HOST; tier < N_TIERS; tier++)
    add(table, names[tier],
        (Source){.origin = FROM_REPORT,
                 .value = VALUE_DOUBLE,
                 .zero_is_open = TRUE,
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

static Cell cell_of(const Source *source, gconstpointer object) {
  const char *at = (const char *)object + source->offset;
  switch (source->value) {
  case VALUE_INT:
    return whole_cell(*(const int *)(gconstpointer)at);
  case VALUE_INT64:
  case VALUE_UINT64:
    return whole_cell(*(const gint64 *)(gconstpointer)at);
  case VALUE_DOUBLE:
    return real_cell(*(const double *)(gconstpointer)at);
  case VALUE_SWITCH: {
    const int value = *(const int *)(gconstpointer)at;
    return text_cell(value < 0 ? NULL : value ? "on" : "off");
  }
  case VALUE_CHOICE: {
    const int value = *(const int *)(gconstpointer)at;
    return text_cell(value < 0 ? NULL : source->names[value]);
  }
  case VALUE_TEXT:
    return text_cell(*(char *const *)(gconstpointer)at);
  default:
    return text_cell(at);
  }
}

static void set_cell(SweepRow *row, int column, Cell cell) {
  g_free(row->cells[column].text);
  row->cells[column] = cell;
}

static void set_from(SweepRow *row, const SweepTable *table, Origin origin, gconstpointer object) {
  for (guint i = 0; i < table->sources->len; i++) {
    const Source *source = &g_array_index(table->sources, Source, i);
    if (source->origin != origin)
      continue;
    Cell cell = cell_of(source, object);
    if (source->zero_is_open && cell.whole == 0 && cell.real == 0)
      cell = (Cell){0};
    set_cell(row, (int)i, cell);
  }
}

static void set_text(SweepRow *row, const SweepTable *table, const char *column, const char *value) {
  set_cell(row, sweep_table_find(table, column), text_cell(value));
}

void sweep_row_set_real(SweepRow *row, const SweepTable *table, const char *column, double value) {
  set_cell(row, sweep_table_find(table, column), real_cell(value));
}

void sweep_row_set_plan(SweepRow *row, const SweepTable *table, const Plan *plan) {
  set_from(row, table, FROM_PLAN, plan);
  g_autoptr(GString) order = g_string_new(NULL);
  for (int i = 0; i < N_AXES; i++)
    g_string_append_printf(order, "%s%s", i > 0 ? "-" : "", axis_name(plan->order[i]));
  set_text(row, table, "order", order->str);
  set_text(row, table, "pipeline_layout", plan->pipeline_layout != NULL ? plan->pipeline_layout : "auto");
  g_autofree char *modules = plan_recompute_text(plan);
  set_text(row, table, "recompute_modules", modules);
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
  set_from(row, table, FROM_REPORT, report);
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
