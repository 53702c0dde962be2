/* Columns are rows of a table: what a cell may hold, and where that goes. */
#include "row_cells.h"

#include <math.h>
#include <string.h>

#include "error.h"
#include "pipeline_layout.h"
#include "plan_order.h"
#include "suggest.h"

enum { MOST_GPUS = 1 << 24 };
static const double most_step_s = 1e9, most_memory_gb = 1e6;

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
  { #column, offsetof(RowCells, column), low, high, NULL }
#define WORD(column, names)                                                                                            \
  { #column, offsetof(RowCells, column), 0, 0, names }

static const struct {
  const char *name;
  size_t offset; /* of its gint64 in RowCells */
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
    WORD(cp_comm, cp_comm_names),
    WORD(overlap_grad, switches),
    WORD(overlap_param, switches),
    WORD(expert_dispatch, expert_dispatch_names),
    WORD(overlap_experts, switches),
    WORD(cuda_graphs, cuda_graphs_names),
};

static const struct {
  const char *name;
  size_t offset; /* of its double in RowCells */
  double most;
} quantities[] = {
    {"step_time_s", offsetof(RowCells, step_time_s), most_step_s},
    {"memory_gb", offsetof(RowCells, memory_gb), most_memory_gb},
};

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

gboolean row_cells_layout(const MeasuredRow *row, const RowCells *cells, char **layout, GError **error) {
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

gboolean row_cells_read(const MeasuredRow *row, RowCells *cells, GError **error) {
  gboolean is_read = TRUE;
  for (gsize i = 0; i < G_N_ELEMENTS(columns); i++) {
    gint64 *value = (gint64 *)((char *)cells + columns[i].offset);
    GError **place = is_read ? error : NULL;
    *value = CELL_UNKNOWN;
    is_read &= columns[i].words != NULL ? read_word(row, columns[i].name, columns[i].words(), value, place)
                                        : read_count(row, i, value, place);
  }
  for (gsize i = 0; i < G_N_ELEMENTS(quantities); i++)
    is_read &= read_quantity(row, i, (double *)((char *)cells + quantities[i].offset), is_read ? error : NULL);
  is_read &= read_modules(row, &cells->recompute_modules, is_read ? error : NULL);
  gint64 schedule;
  g_autofree char *layout = NULL;
  return is_read && row_cells_layout(row, cells, &layout, error) &&
         (schedule_file(measured_row_cell(row, "schedule")) != NULL ||
          read_word(row, "schedule", schedule_choices(), &schedule, error));
}

void row_cells_append_run(const MeasuredRow *row, GString *run) {
  for (gsize i = 0; i < G_N_ELEMENTS(columns); i++)
    g_string_append_printf(run, "%s\n", measured_row_cell(row, columns[i].name));
}

gboolean row_cells_have(const char *column) {
  for (gsize i = 0; i < G_N_ELEMENTS(columns); i++)
    if (strcmp(columns[i].name, column) == 0)
      return TRUE;
  return FALSE;
}
