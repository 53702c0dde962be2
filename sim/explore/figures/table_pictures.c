/* Columns are found by name, as other verbs write them. What all rows that are drawn have in common goes into the
 * title, what differs into the labels:
 *
 *     model  gpus  tp  zero  …  mfu         title   … m, 64 GPUs
 *     m      64    1   1        0.4         label   tp 1, zero 1
 *     m      64    2   1        0.3                 tp 2, zero 1
 *     m      8     4   2
 */
#include "table_pictures.h"

#include <math.h>
#include <string.h>

#include "csv_table.h"
#include "error.h"
#include "plan_fields.h"
#include "plots.h"
#include "suggest.h"
#include "units.h"

/* Columns of plans, in the order labels name them: names, interned. */
static GPtrArray *plan_columns(void) {
  GPtrArray *columns = g_ptr_array_new();
  g_ptr_array_add(columns, (gpointer) "model");
  g_ptr_array_add(columns, (gpointer) "cluster");
  for (int i = 0; i < plan_n_fields(); i++) {
    g_autofree char *column = plan_field_column(plan_field(i));
    g_ptr_array_add(columns, (gpointer)g_intern_string(column));
  }
  return columns;
}

static CsvTable *read_table(const char *file, GError **error) {
  if (csv_table_is_database(file))
    return csv_table_read_database(file, "configurations", error);
  g_autoptr(CsvTable) table = csv_table_read(file, error);
  for (guint row = 0; table != NULL && row < csv_table_n_rows(table); row++)
    if (!csv_table_check_row(table, row, error))
      return NULL;
  return g_steal_pointer(&table);
}

static int find_column(const CsvTable *table, const char *name, GError **error) {
  int column = csv_table_find_column(table, name);
  if (column >= 0)
    return column;
  g_autoptr(GPtrArray) names = g_ptr_array_new();
  g_ptr_array_extend(names, table->columns, NULL, NULL);
  g_ptr_array_add(names, NULL);
  g_autofree char *expected = suggest_message(name, (const char *const *)names->pdata);
  fail_input(error, "%s: there is no column \"%.80s\", %s", table->file, name, expected);
  return -1;
}

/* The column that was named, or else the first there is of `known` (ends with NULL). */
static int choose_column(const CsvTable *table, const char *named, const char *const *known, GError **error) {
  if (named != NULL)
    return find_column(table, named, error);
  for (const char *const *name = known; *name != NULL; name++)
    if (csv_table_find_column(table, *name) >= 0)
      return csv_table_find_column(table, *name);
  g_autofree char *expected = g_strjoinv(", ", (char **)known);
  fail_input(error, "%s: found none of the columns %s; name one with --x or --y", table->file, expected);
  return -1;
}

/* Empty: NAN. */
static gboolean read_number(const CsvTable *table, guint row, int column, double *value, GError **error) {
  const char *text = csv_table_cell(table, row, column);
  char *end;
  *value = *text != '\0' ? g_ascii_strtod(text, &end) : NAN;
  if (*text == '\0' || (end != text && *end == '\0' && isfinite(*value)))
    return TRUE;
  return fail_input(error, "%s:%d: %s: found \"%.80s\", expected a number", table->file,
                    g_array_index(table->lines, int, row), (char *)g_ptr_array_index(table->columns, column), text);
}

static gboolean read_fits(const CsvTable *table, guint row, int column, gboolean *fits, GError **error) {
  static const char *const yes[] = {"1", "yes", "true", "", "ran", NULL};
  static const char *const no[] = {"0", "no", "false", "out_of_memory", "too_large", "impossible", NULL};
  const char *text = column >= 0 ? csv_table_cell(table, row, column) : "";
  g_autofree char *lower = g_ascii_strdown(text, -1);
  *fits = g_strv_contains(yes, lower);
  return *fits || g_strv_contains(no, lower) ||
         fail_input(error, "%s:%d: %s: found \"%.80s\", expected 1 or 0, or what a sweep writes", table->file,
                    g_array_index(table->lines, int, row), (char *)g_ptr_array_index(table->columns, column), text);
}

/* A table and those of its rows that are drawn. */
typedef struct {
  const CsvTable *table;
  GArray *rows; /* of guint */
} Drawn;

static guint drawn_row(const Drawn *drawn, guint i) {
  return g_array_index(drawn->rows, guint, i);
}

static gboolean differs(const Drawn *drawn, int column) {
  for (guint i = 1; i < drawn->rows->len; i++)
    if (strcmp(csv_table_cell(drawn->table, drawn_row(drawn, i), column),
               csv_table_cell(drawn->table, drawn_row(drawn, 0), column)) != 0)
      return TRUE;
  return FALSE;
}

/* Says nothing that the other column does not say: as zero_ranks where it is all of dp. */
static gboolean repeats(const Drawn *drawn, int column, const char *other) {
  int same = csv_table_find_column(drawn->table, other);
  for (guint i = 0; i < drawn->rows->len && same >= 0 && same != column; i++)
    if (strcmp(csv_table_cell(drawn->table, drawn_row(drawn, i), column),
               csv_table_cell(drawn->table, drawn_row(drawn, i), same)) != 0)
      return FALSE;
  return same >= 0 && same != column;
}

/* Whether dp × cp say it already, as of buckets of the default size. */
static gboolean follows_from_data_ranks(const Drawn *drawn, int column) {
  const int dp = csv_table_find_column(drawn->table, "dp"), cp = csv_table_find_column(drawn->table, "cp");
  if (dp < 0 || cp < 0)
    return FALSE;
  g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  for (guint i = 0; i < drawn->rows->len; i++) {
    const guint row = drawn_row(drawn, i);
    const char *cell = csv_table_cell(drawn->table, row, column);
    char *ranks =
        g_strdup_printf("%s,%s", csv_table_cell(drawn->table, row, dp), csv_table_cell(drawn->table, row, cp));
    const char *before = g_hash_table_lookup(seen, ranks);
    if (before != NULL && strcmp(before, cell) != 0) {
      g_free(ranks);
      return FALSE;
    }
    g_hash_table_replace(seen, ranks, (gpointer)cell);
  }
  return TRUE;
}

/* GArray of int: the columns labels are made of. */
static GArray *label_columns(const Drawn *drawn) {
  GArray *columns = g_array_new(FALSE, FALSE, sizeof(int));
  g_autoptr(GPtrArray) names = plan_columns();
  for (guint i = 0; i < names->len; i++) {
    const char *name = g_ptr_array_index(names, i);
    int column = csv_table_find_column(drawn->table, name);
    if (column < 0 || !differs(drawn, column) || repeats(drawn, column, "dp") ||
        (strcmp(name, "bucket") == 0 && follows_from_data_ranks(drawn, column)))
      continue;
    g_array_append_val(columns, column);
  }
  int id = csv_table_find_column(drawn->table, "id");
  if (columns->len == 0 && id >= 0)
    g_array_append_val(columns, id);
  return columns;
}

/* As it is typed: a number of bytes has its unit there, and not in its name. */
static void append_option(GString *label, char *name, const char *cell) {
  char *suffix = g_strrstr(name, "-bytes");
  if (suffix == NULL) {
    g_string_append_printf(label, "%s %s", name, cell);
    return;
  }
  *suffix = '\0';
  g_autofree char *bytes = units_format(g_ascii_strtod(cell, NULL), UNIT_BYTES);
  g_string_append_printf(label, "%s \"%s\"", name, bytes);
}

static char *row_label(const CsvTable *table, guint row, const GArray *columns) {
  GString *label = g_string_new(NULL);
  for (guint i = 0; i < columns->len; i++) {
    int column = g_array_index(columns, int, i);
    const char *cell = csv_table_cell(table, row, column);
    if (*cell == '\0')
      continue;
    g_autofree char *name = g_strdelimit(g_strdup(g_ptr_array_index(table->columns, column)), "_", '-');
    g_string_append(label, label->len > 0 ? ", " : "");
    append_option(label, name, cell);
  }
  if (label->len == 0)
    g_string_append_printf(label, "line %d", g_array_index(table->lines, int, row));
  return g_string_free(label, FALSE);
}

/* The cell that all rows have in this column; NULL: there is none. */
static const char *common_cell(const Drawn *drawn, const char *name) {
  int column = csv_table_find_column(drawn->table, name);
  if (column < 0 || differs(drawn, column))
    return NULL;
  const char *cell = csv_table_cell(drawn->table, drawn_row(drawn, 0), column);
  return *cell != '\0' ? cell : NULL;
}

/* What it is a table of: "Pareto front of 26 configurations in sweep.csv: llama-3-70b on dgx-h100, 64 GPUs". Owned by
 * the caller. */
static char *pareto_title(const Drawn *drawn, const char *file) {
  const char *model = common_cell(drawn, "model"), *cluster = common_cell(drawn, "cluster");
  const char *gpus = common_cell(drawn, "gpus");
  g_autofree char *base = g_path_get_basename(file);
  GString *title = g_string_new(NULL);
  g_string_append(title, "Pareto front of ");
  units_append_count(title, drawn->rows->len, "configuration", "configurations");
  g_string_append_printf(title, " in %s", base);
  if (model != NULL)
    g_string_append_printf(title, ": %s", model);
  if (cluster != NULL)
    g_string_append_printf(title, " on %s", cluster);
  if (gpus != NULL)
    g_string_append_printf(title, ", %s GPUs", gpus);
  return g_string_free(title, FALSE);
}

/* A column as an axis: its name, in words where it has some, and what its numbers are divided by. */
static char *axis_words(const CsvTable *table, int column, double *divisor) {
  static const struct {
    const char *column, *words;
  } known[] = {{"memory_total_bytes", "memory of the fullest GPU (GB = 1e9 bytes)"},
               {"memory_peak_bytes", "memory of the fullest GPU, without what is reserved (GB = 1e9 bytes)"},
               {"tokens_per_s", "tokens per second"},
               {"tokens_per_s_per_gpu", "tokens per second and GPU"},
               {"step_time_s", "time of a step (s)"},
               {"mfu", "MFU"}};
  const char *name = g_ptr_array_index(table->columns, column);
  gboolean is_bytes = g_str_has_suffix(name, "_bytes");
  *divisor = is_bytes ? 1e9 : 1;
  for (gsize i = 0; i < G_N_ELEMENTS(known); i++)
    if (strcmp(known[i].column, name) == 0)
      return g_strdup(known[i].words);
  g_autofree char *stem = g_strndup(name, is_bytes ? strlen(name) - strlen("_bytes") : strlen(name));
  return is_bytes ? g_strdup_printf("%s (GB = 1e9 bytes)", stem) : g_strdup(name);
}

typedef struct {
  int x, y, fits; /* columns; fits −1: none */
  double x_divisor, y_divisor;
  int step, low, high; /* columns of the step's time and its interval; −1: none, or y is no rate */
} ParetoAxes;

/* A rate is as many times higher as the step is shorter. */
static gboolean read_interval(const CsvTable *table, guint row, const ParetoAxes *axes, ParetoPoint *point,
                              GError **error) {
  double step_s, low_s, high_s;
  if (axes->step < 0 || axes->low < 0 || axes->high < 0)
    return TRUE;
  if (!read_number(table, row, axes->step, &step_s, error) || !read_number(table, row, axes->low, &low_s, error) ||
      !read_number(table, row, axes->high, &high_s, error))
    return FALSE;
  if (step_s > 0 && low_s > 0 && high_s > 0) {
    point->low = point->y * step_s / high_s;
    point->high = point->y * step_s / low_s;
  }
  return TRUE;
}

/* GArray of ParetoPoint, without labels, and of whether each fits, of the rows that have both numbers. */
static GArray *pareto_points(Drawn *drawn, const ParetoAxes *axes, GArray *fits, GError **error) {
  const CsvTable *table = drawn->table;
  g_autoptr(GArray) points = g_array_new(FALSE, FALSE, sizeof(ParetoPoint));
  for (guint row = 0; row < csv_table_n_rows(table); row++) {
    ParetoPoint point = {0};
    gboolean is_fit;
    if (!read_number(table, row, axes->x, &point.x, error) || !read_number(table, row, axes->y, &point.y, error) ||
        !read_fits(table, row, axes->fits, &is_fit, error))
      return NULL;
    if (isnan(point.x) || isnan(point.y))
      continue;
    point.x /= axes->x_divisor;
    point.y /= axes->y_divisor;
    if (!read_interval(table, row, axes, &point, error))
      return NULL;
    g_array_append_val(points, point);
    g_array_append_val(fits, is_fit);
    g_array_append_val(drawn->rows, row);
  }
  if (points->len > 0)
    return g_steal_pointer(&points);
  fail_input(error, "nothing to draw: no row of %s has both %s and %s", table->file,
             (char *)g_ptr_array_index(table->columns, axes->x), (char *)g_ptr_array_index(table->columns, axes->y));
  return NULL;
}

/* The labels live in `texts`. */
static void label_points(const Drawn *drawn, GArray *points, GStringChunk *texts) {
  g_autoptr(GArray) columns = label_columns(drawn);
  for (guint i = 0; i < points->len; i++) {
    g_autofree char *label = row_label(drawn->table, drawn_row(drawn, i), columns);
    g_array_index(points, ParetoPoint, i).label = g_string_chunk_insert(texts, label);
  }
}

/* What memory in all may be at most, where all rows have the same; 0: not known, or the axis is something else. */
static double capacity_beside(const Drawn *drawn, int column) {
  const char *capacity = common_cell(drawn, "memory_capacity_bytes");
  const char *name = g_ptr_array_index(drawn->table->columns, column);
  return capacity != NULL && strcmp(name, "memory_total_bytes") == 0 ? g_ascii_strtod(capacity, NULL) : 0;
}

static gboolean choose_axes(const CsvTable *table, const ParetoColumns *columns, ParetoAxes *axes, GError **error) {
  static const char *const known_x[] = {"memory_total_bytes", "memory_peak_bytes",   "peak_bytes",
                                        "memory_gb",          "predicted_memory_gb", NULL};
  static const char *const known_y[] = {"tokens_per_s", "tokens_per_s_per_gpu", "mfu", NULL};
  int fits = csv_table_find_column(table, "fits"), status = csv_table_find_column(table, "status");
  axes->fits = fits >= 0 ? fits : status;
  axes->x = choose_column(table, columns->x, known_x, error);
  axes->y = axes->x >= 0 ? choose_column(table, columns->y, known_y, error) : -1;
  const char *y = axes->y >= 0 ? g_ptr_array_index(table->columns, axes->y) : "";
  axes->step = g_strv_contains(known_y, y) ? csv_table_find_column(table, "step_time_s") : -1;
  axes->low = csv_table_find_column(table, "interval_low_s");
  axes->high = csv_table_find_column(table, "interval_high_s");
  return axes->y >= 0;
}

static Picture *pareto_picture_of(Drawn *drawn, const char *file, const ParetoColumns *columns, GError **error) {
  ParetoAxes axes;
  if (!choose_axes(drawn->table, columns, &axes, error))
    return NULL;
  g_autofree char *xlabel = axis_words(drawn->table, axes.x, &axes.x_divisor);
  g_autofree char *ylabel = axis_words(drawn->table, axes.y, &axes.y_divisor);
  g_autoptr(GArray) fits = g_array_new(FALSE, FALSE, sizeof(gboolean));
  g_autoptr(GArray) points = pareto_points(drawn, &axes, fits, error);
  if (points == NULL)
    return NULL;
  g_autoptr(GStringChunk) texts = g_string_chunk_new(4096);
  label_points(drawn, points, texts);
  ParetoPoint *first = (ParetoPoint *)(void *)points->data;
  pareto_rank(first, (const gboolean *)(void *)fits->data, (int)points->len);
  g_autofree char *title = pareto_title(drawn, file);
  const ParetoLook look = {columns->title != NULL ? columns->title : title, xlabel, ylabel,
                           capacity_beside(drawn, axes.x) / axes.x_divisor};
  return plot_pareto(first, (int)points->len, &look, error);
}

Picture *table_pareto_picture(const char *file, const ParetoColumns *columns, GError **error) {
  g_autoptr(CsvTable) table = read_table(file, error);
  if (table == NULL)
    return NULL;
  g_autoptr(GArray) rows = g_array_new(FALSE, FALSE, sizeof(guint));
  Drawn drawn = {table, rows};
  return pareto_picture_of(&drawn, file, columns, error);
}

/* In the order in which the table brings series up; stable within. */
static int compare_series(gconstpointer a, gconstpointer b, gpointer order) {
  const ValidationPoint *p = a, *q = b;
  guint x = GPOINTER_TO_UINT(g_hash_table_lookup(order, p->series));
  guint y = GPOINTER_TO_UINT(g_hash_table_lookup(order, q->series));
  return (x > y) - (x < y);
}

Picture *table_validation_picture(const char *file, const char *by, const char *title, GError **error) {
  g_autoptr(CsvTable) table = read_table(file, error);
  int measured = table != NULL ? find_column(table, "step_time_s", error) : -1;
  int predicted = measured >= 0 ? find_column(table, "predicted_step_time_s", error) : -1;
  int group = predicted >= 0 ? find_column(table, by != NULL ? by : "source", error) : -1;
  if (group < 0)
    return NULL;
  g_autoptr(GArray) points = g_array_new(FALSE, FALSE, sizeof(ValidationPoint));
  g_autoptr(GHashTable) order = g_hash_table_new(g_str_hash, g_str_equal);
  double sum = 0;
  for (guint row = 0; row < csv_table_n_rows(table); row++) {
    const char *series = csv_table_cell(table, row, group);
    ValidationPoint point = {*series != '\0' ? series : "(none)", 0, 0};
    if (!read_number(table, row, measured, &point.measured_s, error) ||
        !read_number(table, row, predicted, &point.predicted_s, error))
      return NULL;
    if (!(point.measured_s > 0 && point.predicted_s > 0))
      continue;
    if (!g_hash_table_contains(order, point.series))
      g_hash_table_insert(order, (gpointer)point.series, GUINT_TO_POINTER(g_hash_table_size(order) + 1));
    g_array_append_val(points, point);
    sum += fabs(point.predicted_s / point.measured_s - 1);
  }
  if (points->len == 0) {
    fail_input(error, "nothing to draw: no row of %s has both a predicted and a measured step time", file);
    return NULL;
  }
  g_array_sort_with_data(points, compare_series, order);
  g_autofree char *own = g_strdup_printf("Step time of %u runs: predicted against measured, MAPE %.1f %%", points->len,
                                         100 * sum / points->len);
  return plot_validation((const ValidationPoint *)(void *)points->data, (int)points->len, title != NULL ? title : own,
                         error);
}
