/* Queries, whose rows are shown as they come.
 *
 *     for people          what was swept, and how it went
 *     the best            a column for each axis that varies, then what decides
 *     the best of each    value of one axis, where that is asked for: the same columns
 *     the Pareto front    the same columns
 *     what did not run    reasons, the most frequent first, with one example each */
#include "sweep_report.h"

#include <math.h>
#include <string.h>

#include "csv_table.h"
#include "error.h"
#include "json_values.h"
#include "progress_line.h"
#include "units.h"
#include "warnings.h"
#include "whole_file.h"

enum { MOST_FRONT = 20, MOST_REASONS = 12 };

/* --- rows of interest --- */

static gboolean count_status(sqlite3_stmt *row, gpointer counts, GError **error) {
  for (int i = 0; i < N_SWEEP_STATUSES; i++)
    if (g_strcmp0((const char *)sqlite3_column_text(row, 0), sweep_status_names()[i]) == 0)
      ((gint64 *)counts)[i] = sqlite3_column_int64(row, 1);
  return TRUE;
}

gboolean sweep_report_counts(const SweepReport *report, gint64 counts[N_SWEEP_STATUSES], GError **error) {
  memset(counts, 0, N_SWEEP_STATUSES * sizeof counts[0]);
  return result_store_each(report->store, "SELECT status, count(*) FROM configurations GROUP BY status", count_status,
                           counts, error);
}

/* Which of its values the axis has in a configuration: the last axis turns fastest. Owned by the caller. */
static char *sql_of_axis(const Space *space, const char *name) {
  gint64 step = 1;
  int axis = space_n_axes(space) - 1;
  for (; strcmp(space_axis_name(space, axis), name) != 0; axis--)
    step *= space_axis_n_values(space, axis);
  return g_strdup_printf("config / %" G_GINT64_FORMAT " %% %d", step, space_axis_n_values(space, axis));
}

static char *sql_of_rows(const SweepReport *report, SweepRows which) {
  static const char *const columns[N_OBJECTIVES] = {[OBJECTIVE_MFU] = "mfu",
                                                    [OBJECTIVE_TOKENS_PER_S] = "tokens_per_s",
                                                    [OBJECTIVE_COST] = "dollars_per_million_tokens"};
  if (which == SWEEP_PARETO)
    return g_strdup("SELECT config, memory_peak_bytes, dollars_per_million_tokens FROM configurations "
                    "WHERE status = 'ran' ORDER BY tokens_per_s DESC, memory_peak_bytes, "
                    "dollars_per_million_tokens IS NULL, dollars_per_million_tokens, config");
  const char *column = columns[report->objective];
  g_autofree char *ranked = g_strdup_printf("configurations WHERE status = 'ran' AND %s IS NOT NULL", column);
  g_autofree char *order =
      g_strdup_printf("ORDER BY %s %s, config", column, report->objective == OBJECTIVE_COST ? "ASC" : "DESC");
  if (which == SWEEP_BEST)
    return g_strdup_printf("SELECT * FROM %s %s LIMIT %d", ranked, order, report->n_top);
  g_autofree char *axis = sql_of_axis(report->space, report->best_of);
  return g_strdup_printf("SELECT * FROM configurations WHERE config IN (SELECT first_value(config) OVER "
                         "(PARTITION BY %s %s) FROM %s) ORDER BY %s",
                         axis, order, ranked, axis);
}

/* NAN: the row has none. */
static double number_at(sqlite3_stmt *row, int column) {
  return sqlite3_column_type(row, column) == SQLITE_NULL ? NAN : sqlite3_column_double(row, column);
}

static double number_in(sqlite3_stmt *row, const char *column) {
  int i = 0;
  while (strcmp(sqlite3_column_name(row, i), column) != 0)
    i++;
  return number_at(row, i);
}

typedef struct {
  double memory, cost; /* cost: infinite when not known */
} FrontMember;

typedef struct {
  ResultStore *store;
  GArray *members;
  ResultVisit visit;
  gpointer data;
} Front;

/* Rows come with falling rates: one that is as good in the rest beats it. */
static gboolean visit_front(sqlite3_stmt *row, gpointer data, GError **error) {
  const Front *front = data;
  const double cost = number_at(row, 2);
  const FrontMember candidate = {number_at(row, 1), isnan(cost) ? INFINITY : cost};
  for (guint i = 0; i < front->members->len; i++) {
    const FrontMember *member = &g_array_index(front->members, FrontMember, i);
    if (member->memory <= candidate.memory && member->cost <= candidate.cost)
      return TRUE;
  }
  g_array_append_val(front->members, candidate);
  return result_store_row(front->store, sqlite3_column_int64(row, 0), front->visit, front->data, error);
}

gboolean sweep_report_rows(const SweepReport *report, SweepRows which, ResultVisit visit, gpointer data,
                           GError **error) {
  if (which == SWEEP_BEST_OF && report->best_of == NULL)
    return TRUE;
  g_autofree char *sql = sql_of_rows(report, which);
  g_autoptr(GArray) members = g_array_new(FALSE, FALSE, sizeof(FrontMember));
  Front front = {report->store, members, visit, data};
  return which == SWEEP_PARETO ? result_store_each(report->store, sql, visit_front, &front, error)
                               : result_store_each(report->store, sql, visit, data, error);
}

/* Of status, kind, count, and one of the reasons in full. */
static const char sql_of_reasons[] =
    "SELECT status, kind, count(*) AS configurations, reason, min(config) FROM configurations WHERE kind IS NOT NULL "
    "GROUP BY status, kind ORDER BY configurations DESC, status, kind";
enum { REASON_COUNT = 2, REASON_EXAMPLE = 3 };

/* --- JSON --- */

static void append_value(GString *out, sqlite3_stmt *row, int column) {
  char number[G_ASCII_DTOSTR_BUF_SIZE];
  switch (sqlite3_column_type(row, column)) {
  case SQLITE_INTEGER:
    g_string_append_printf(out, "%" G_GINT64_FORMAT, (gint64)sqlite3_column_int64(row, column));
    break;
  case SQLITE_FLOAT: /* 17 digits: read back as the same double */
    g_string_append(out, g_ascii_dtostr(number, sizeof number, sqlite3_column_double(row, column)));
    break;
  case SQLITE_TEXT:
    json_append_string(out, (const char *)sqlite3_column_text(row, column));
    break;
  default:
    g_string_append(out, "null");
    break;
  }
}

typedef struct {
  GString *out;
  int n;
  double memory_used; /* of the first row */
} JsonRows;

static void begin_item(JsonRows *rows) {
  g_string_append(rows->out, rows->n++ > 0 ? ",\n    " : "\n    ");
}

/* A row as an object of its columns; `links` is JSON already. */
static gboolean append_object(sqlite3_stmt *row, gpointer data, GError **error) {
  JsonRows *rows = data;
  if (rows->n == 0)
    rows->memory_used = number_in(row, "memory_used");
  begin_item(rows);
  for (int i = 0; i < sqlite3_column_count(row); i++) {
    const char *name = sqlite3_column_name(row, i);
    const char *links = strcmp(name, "links") == 0 ? (const char *)sqlite3_column_text(row, i) : NULL;
    g_string_append_printf(rows->out, "%s\"%s\": ", i > 0 ? ", " : "{", name);
    if (links != NULL)
      g_string_append(rows->out, links);
    else
      append_value(rows->out, row, i);
  }
  g_string_append_c(rows->out, '}');
  return TRUE;
}

static gboolean append_reason(sqlite3_stmt *row, gpointer data, GError **error) {
  static const char *const keys[] = {"{\"status\": ", ", \"kind\": ", ", \"configurations\": ", ", \"example\": "};
  JsonRows *rows = data;
  begin_item(rows);
  for (int i = 0; i < (int)G_N_ELEMENTS(keys); i++) {
    g_string_append(rows->out, keys[i]);
    append_value(rows->out, row, i);
  }
  g_string_append_c(rows->out, '}');
  return TRUE;
}

static void begin_list(JsonRows *rows, const char *key) {
  g_string_append_printf(rows->out, ",\n  \"%s\": [", key);
  rows->n = 0;
}

static gboolean append_lists(const SweepReport *report, GString *out, GError **error) {
  static const char *const keys[] = {[SWEEP_BEST] = "best", [SWEEP_BEST_OF] = "best_of", [SWEEP_PARETO] = "pareto"};
  JsonRows rows = {out, 0, NAN};
  double best_used = NAN;
  for (int which = SWEEP_BEST; which <= SWEEP_PARETO; which++) {
    begin_list(&rows, keys[which]);
    if (!sweep_report_rows(report, (SweepRows)which, append_object, &rows, error))
      return FALSE;
    if (which == SWEEP_BEST)
      best_used = rows.memory_used;
    g_string_append(out, rows.n > 0 ? "\n  ]" : "]");
  }
  begin_list(&rows, "reasons");
  if (!result_store_each(report->store, sql_of_reasons, append_reason, &rows, error))
    return FALSE;
  g_string_append(out, "\n  ]");
  begin_list(&rows, "warnings");
  g_autofree char *warning = warning_of_memory(best_used);
  if (warning != NULL) {
    begin_item(&rows);
    json_append_string(out, warning);
  }
  g_string_append(out, warning != NULL ? "\n  ]" : "]");
  return TRUE;
}

static void append_progress(const SweepReport *report, GString *out) {
  const SweepProgress *progress = report->progress;
  const gint64 n_now = sweep_progress_n_now(progress);
  g_string_append_printf(out, "  \"configurations\": %" G_GINT64_FORMAT ",\n  \"tried\": %" G_GINT64_FORMAT,
                         progress->n_wanted, progress->n_before + n_now);
  g_string_append_printf(out, ",\n  \"tried_now\": %" G_GINT64_FORMAT ",\n  \"threads\": %d,\n  \"ranks\": %d", n_now,
                         progress->n_threads, progress->n_ranks);
  g_string_append(out, ",\n  \"wall_s\": ");
  json_append_number(out, progress->wall_s);
  g_string_append(out, ",\n  \"configurations_per_s\": ");
  json_append_number(out, progress->wall_s > 0 ? (double)n_now / progress->wall_s : NAN);
}

char *sweep_report_json(const SweepReport *report, GError **error) {
  gint64 counts[N_SWEEP_STATUSES];
  if (!sweep_report_counts(report, counts, error))
    return NULL;
  g_autoptr(GString) out = g_string_new("{\n");
  append_progress(report, out);
  for (int status = 0; status < N_SWEEP_STATUSES; status++)
    g_string_append_printf(out, ",\n  \"%s\": %" G_GINT64_FORMAT, sweep_status_names()[status], counts[status]);
  g_string_append(out, ",\n  \"objective\": ");
  json_append_string(out, objective_names()[report->objective]);
  if (!append_lists(report, out, error))
    return NULL;
  g_string_append(out, "\n}\n");
  return g_string_free(g_steal_pointer(&out), FALSE);
}

/* --- CSV --- */

typedef struct {
  WholeFile file;
  GString *line;
  gboolean has_header;
} CsvRows;

static void end_line(CsvRows *rows) {
  csv_end_row(rows->line);
  whole_file_write(&rows->file, rows->line->str, rows->line->len);
  g_string_truncate(rows->line, 0);
}

static gboolean append_line(sqlite3_stmt *row, gpointer data, GError **error) {
  CsvRows *rows = data;
  char number[G_ASCII_DTOSTR_BUF_SIZE];
  const int n = sqlite3_column_count(row);
  for (int i = 0; i < n && !rows->has_header; i++)
    csv_append_cell(rows->line, sqlite3_column_name(row, i));
  if (!rows->has_header)
    end_line(rows);
  rows->has_header = TRUE;
  for (int i = 0; i < n; i++)
    if (sqlite3_column_type(row, i) == SQLITE_FLOAT)
      csv_append_cell(rows->line, g_ascii_dtostr(number, sizeof number, sqlite3_column_double(row, i)));
    else if (sqlite3_column_type(row, i) == SQLITE_NULL)
      g_string_append_c(rows->line, ',');
    else
      csv_append_cell(rows->line, (const char *)sqlite3_column_text(row, i));
  end_line(rows);
  return TRUE;
}

gboolean sweep_report_csv(const SweepReport *report, const char *file, GError **error) {
  g_autoptr(GString) line = g_string_new(NULL);
  CsvRows rows = {.line = line};
  if (!whole_file_open_apart(&rows.file, file, error))
    return FALSE;
  if (result_store_each(report->store, "SELECT * FROM configurations ORDER BY config", append_line, &rows, error))
    return whole_file_close(&rows.file, error);
  whole_file_discard(&rows.file);
  return FALSE;
}

/* --- for people --- */

static char *step_text(double seconds) {
  return units_format(seconds, UNIT_SECONDS);
}

static char *rate_text(double rate) {
  return progress_thousands((gint64)llround(rate));
}

static char *percent_text(double share) {
  return g_strdup_printf("%.2f %%", 100 * share);
}

static char *bytes_text(double bytes) {
  return g_strdup_printf("%.2f GB", 1e-9 * bytes);
}

static char *dollars_text(double dollars) {
  return g_strdup_printf("%.4f", dollars);
}

/* Numbers behind the axes. */
static const struct {
  const char *column, *heading;
  char *(*text)(double);
} shown[] = {{"step_time_s", "step", step_text},
             {"tokens_per_s", "tokens/s", rate_text},
             {"mfu", "MFU", percent_text},
             {"bubble_fraction", "bubble", percent_text},
             {"memory_total_bytes", "memory", bytes_text},
             {"memory_used", "used", percent_text},
             {"dollars_per_million_tokens", "$/Mtoken", dollars_text}};

/* Rows of cells (GPtrArray of char *), all as long as the first, which has the headings. */
typedef struct {
  const SweepReport *report;
  GPtrArray *rows;
  guint most, n_more; /* rows shown; rows beyond them */
  double memory_used; /* of the first */
} TextRows;

static GPtrArray *begin_row(TextRows *text) {
  GPtrArray *row = g_ptr_array_new_with_free_func(g_free);
  g_ptr_array_add(text->rows, row);
  return row;
}

static const char *cell(const GPtrArray *rows, guint row, guint column) {
  return g_ptr_array_index((GPtrArray *)g_ptr_array_index(rows, row), column);
}

/* How wide a column is; less than 0: it is of words, which stand to the left; 0: it has no value, and is left out. */
static int width_of(const GPtrArray *rows, guint column) {
  glong width = g_utf8_strlen(cell(rows, 0, column), -1);
  gboolean is_words = FALSE, is_empty = TRUE;
  for (guint row = 1; row < rows->len; row++) {
    const char *text = cell(rows, row, column);
    is_words |= g_ascii_isalpha(text[0]);
    is_empty &= strcmp(text, "-") == 0;
    width = MAX(width, g_utf8_strlen(text, -1));
  }
  return is_empty ? 0 : (int)width * (is_words ? -1 : 1);
}

static void append_table(GString *out, const GPtrArray *rows) {
  const guint n_columns = ((GPtrArray *)g_ptr_array_index(rows, 0))->len;
  g_autofree int *widths = g_new(int, n_columns + 1);
  for (guint column = 0; column < n_columns; column++)
    widths[column] = width_of(rows, column);
  for (guint row = 0; row < rows->len; row++) {
    for (guint column = 0; column < n_columns; column++) {
      const char *text = cell(rows, row, column);
      const int pad = ABS(widths[column]) - (int)g_utf8_strlen(text, -1);
      if (widths[column] != 0)
        g_string_append_printf(out, "  %*s%s%*s", widths[column] > 0 ? pad : 0, "", text, widths[column] < 0 ? pad : 0,
                               "");
    }
    while (out->str[out->len - 1] == ' ')
      g_string_truncate(out, out->len - 1);
    g_string_append_c(out, '\n');
  }
}

/* Of the headings, or of configuration `index`. */
static void add_axes(const Space *space, GPtrArray *row, gint64 index, gboolean is_heading) {
  for (int axis = 0; axis < space_n_axes(space); axis++)
    if (space_axis_n_values(space, axis) > 1)
      g_ptr_array_add(row, g_strdup(is_heading ? space_axis_name(space, axis) : space_axis_value(space, axis, index)));
}

static gboolean add_row(sqlite3_stmt *query, gpointer data, GError **error) {
  TextRows *text = data;
  const gint64 index = sqlite3_column_int64(query, 0);
  if (text->rows->len > text->most) {
    text->n_more++;
    return TRUE;
  }
  if (text->rows->len == 1)
    text->memory_used = number_in(query, "memory_used");
  GPtrArray *row = begin_row(text);
  g_ptr_array_add(row, g_strdup_printf("%" G_GINT64_FORMAT, index));
  add_axes(text->report->space, row, index, FALSE);
  for (gsize i = 0; i < G_N_ELEMENTS(shown); i++) {
    const double value = number_in(query, shown[i].column);
    g_ptr_array_add(row, isnan(value) ? g_strdup("-") : shown[i].text(value));
  }
  return TRUE;
}

/* At most `most` rows under a heading. Nothing when there are none. */
static gboolean append_rows(const SweepReport *report, GString *out, SweepRows which, const char *heading, guint most,
                            GError **error) {
  g_autoptr(GPtrArray) rows = g_ptr_array_new_with_free_func((GDestroyNotify)g_ptr_array_unref);
  TextRows text = {report, rows, most, 0, NAN};
  GPtrArray *headings = begin_row(&text);
  g_ptr_array_add(headings, g_strdup("config"));
  add_axes(report->space, headings, 0, TRUE);
  for (gsize i = 0; i < G_N_ELEMENTS(shown); i++)
    g_ptr_array_add(headings, g_strdup(shown[i].heading));
  if (!sweep_report_rows(report, which, add_row, &text, error))
    return FALSE;
  if (rows->len == 1)
    return TRUE;
  g_string_append_printf(out, "\n%s\n", heading);
  append_table(out, rows);
  if (text.n_more > 0)
    g_string_append_printf(out, "  and %u more (--json lists all)\n", text.n_more);
  g_autofree char *warning = which == SWEEP_BEST ? warning_of_memory(text.memory_used) : NULL;
  if (warning != NULL)
    g_string_append_printf(out, "  warning: the first: %s\n", warning);
  return TRUE;
}

typedef struct {
  GString *out;
  int n;
  gint64 n_more;
} TextReasons;

static gboolean add_reason(sqlite3_stmt *row, gpointer data, GError **error) {
  TextReasons *reasons = data;
  g_autofree char *count = progress_thousands(sqlite3_column_int64(row, REASON_COUNT));
  if (reasons->n == 0)
    g_string_append(reasons->out, "\nNot among them, and why (one example each)\n");
  if (reasons->n++ < MOST_REASONS)
    g_string_append_printf(reasons->out, "  %10s  %s\n", count, (const char *)sqlite3_column_text(row, REASON_EXAMPLE));
  else
    reasons->n_more += sqlite3_column_int64(row, REASON_COUNT);
  return TRUE;
}

static gboolean append_reasons(const SweepReport *report, GString *out, GError **error) {
  TextReasons reasons = {.out = out};
  if (!result_store_each(report->store, sql_of_reasons, add_reason, &reasons, error))
    return FALSE;
  if (reasons.n_more > 0)
    g_string_append_printf(out, "  and %" G_GINT64_FORMAT " for %d other reasons (--json lists all)\n", reasons.n_more,
                           reasons.n - MOST_REASONS);
  return TRUE;
}

static void append_list(GString *out, const Space *space, const char *name) {
  for (int axis = 0; axis < space_n_axes(space); axis++)
    for (int i = 0; strcmp(space_axis_name(space, axis), name) == 0 && i < space_axis_n_values(space, axis); i++)
      g_string_append_printf(out, "%s%s", i > 0 ? ", " : "", space_axis_nth(space, axis, i));
}

static void append_head(const SweepReport *report, GString *out, const gint64 *counts) {
  const SweepProgress *progress = report->progress;
  const gint64 n_now = sweep_progress_n_now(progress);
  g_autofree char *wanted = progress_thousands(progress->n_wanted), *text = sweep_counts_text(counts);
  append_list(out, report->space, "model");
  g_string_append(out, " on ");
  append_list(out, report->space, "cluster");
  g_string_append_printf(out, ": %s configuration%s%s\n  %s\n", wanted, strcmp(wanted, "1") == 0 ? "" : "s",
                         progress->n_wanted < space_count(report->space) ? ", a random sample" : "", text);
  if (n_now > 0) {
    g_autofree char *now = progress_thousands(n_now);
    g_string_append_printf(out, "  %s in %.1f s on %d %s", now, progress->wall_s, progress->n_threads,
                           progress->n_threads == 1 ? "thread" : "threads");
    if (progress->n_ranks > 1)
      g_string_append_printf(out, " of %d ranks", progress->n_ranks);
    g_string_append_printf(out, ": %.0f configurations/s\n", (double)n_now / MAX(progress->wall_s, 1e-6));
  }
  if (progress->n_before + n_now < progress->n_wanted) {
    g_autofree char *left = progress_thousands(progress->n_wanted - progress->n_before - n_now);
    g_string_append_printf(out, "  %s %s still to be tried\n", left, strcmp(left, "1") == 0 ? "is" : "are");
  }
}

gboolean sweep_report_text(const SweepReport *report, GString *out, GError **error) {
  static const char *const headings[N_OBJECTIVES] = {[OBJECTIVE_MFU] = "Best by MFU",
                                                     [OBJECTIVE_TOKENS_PER_S] = "Best by tokens per second",
                                                     [OBJECTIVE_COST] = "Cheapest per token"};
  gint64 counts[N_SWEEP_STATUSES];
  if (!sweep_report_counts(report, counts, error))
    return FALSE;
  append_head(report, out, counts);
  const char *heading = headings[report->objective];
  g_autofree char *each = g_strdup_printf("%s for each %s", heading, report->best_of);
  return append_rows(report, out, SWEEP_BEST, heading, G_MAXUINT, error) &&
         append_rows(report, out, SWEEP_BEST_OF, each, G_MAXUINT, error) &&
         append_rows(report, out, SWEEP_PARETO, "Pareto front: nothing is faster, smaller and cheaper at once",
                     MOST_FRONT, error) &&
         append_reasons(report, out, error);
}
