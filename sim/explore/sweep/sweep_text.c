/* The report for people:
 *
 *     what was swept, and how it went
 *     the best            a column for each axis that varies, then what decides
 *     the best of each    value of one axis, where that is asked for: the same columns
 *     the Pareto front    the same columns
 *     what did not run    reasons, the most frequent first, with one example each */
#include "sweep_report.h"

#include <math.h>
#include <string.h>

#include "progress_line.h"
#include "units.h"

enum { MOST_FRONT = 20, MOST_REASONS = 12 };

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
enum { N_SHOWN = G_N_ELEMENTS(shown) };

/* --- tables --- */

/* Rows (GPtrArray) of cells (char *), all as long as the first, which has the headings. */
static GPtrArray *begin_row(GPtrArray *rows) {
  GPtrArray *row = g_ptr_array_new_with_free_func(g_free);
  g_ptr_array_add(rows, row);
  return row;
}

static const char *cell(const GPtrArray *rows, guint row, guint column) {
  return g_ptr_array_index((GPtrArray *)g_ptr_array_index(rows, row), column);
}

/* A column of words stands to the left, one of numbers to the right. */
static gboolean is_words(const GPtrArray *rows, guint column) {
  for (guint row = 1; row < rows->len; row++)
    if (g_ascii_isalpha(cell(rows, row, column)[0]))
      return TRUE;
  return FALSE;
}

static gboolean is_empty(const GPtrArray *rows, guint column) {
  for (guint row = 1; row < rows->len; row++)
    if (strcmp(cell(rows, row, column), "-") != 0)
      return FALSE;
  return TRUE;
}

static int width_of(const GPtrArray *rows, guint column) {
  glong width = 0;
  for (guint row = 0; row < rows->len; row++)
    width = MAX(width, g_utf8_strlen(cell(rows, row, column), -1));
  return (int)width;
}

/* Columns without a value are left out. */
static void append_table(GString *out, const GPtrArray *rows) {
  const guint n_columns = ((GPtrArray *)g_ptr_array_index(rows, 0))->len;
  g_autofree int *widths = g_new(int, n_columns + 1);
  for (guint column = 0; column < n_columns; column++)
    widths[column] = is_empty(rows, column) ? 0 : width_of(rows, column) * (is_words(rows, column) ? -1 : 1);
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

static void add_headings(const SweepReport *report, GPtrArray *rows) {
  GPtrArray *row = begin_row(rows);
  g_ptr_array_add(row, g_strdup("config"));
  for (int axis = 0; axis < space_n_axes(report->space); axis++)
    if (space_axis_n_values(report->space, axis) > 1)
      g_ptr_array_add(row, g_strdup(space_axis_name(report->space, axis)));
  for (int i = 0; i < N_SHOWN; i++)
    g_ptr_array_add(row, g_strdup(shown[i].heading));
}

static gboolean add_row(const SweepReport *report, GPtrArray *rows, gint64 index, GError **error) {
  const char *columns[N_SHOWN];
  double values[N_SHOWN];
  for (int i = 0; i < N_SHOWN; i++)
    columns[i] = shown[i].column;
  if (!sweep_report_numbers(report, index, columns, N_SHOWN, values, error))
    return FALSE;
  GPtrArray *row = begin_row(rows);
  g_ptr_array_add(row, g_strdup_printf("%" G_GINT64_FORMAT, index));
  for (int axis = 0; axis < space_n_axes(report->space); axis++)
    if (space_axis_n_values(report->space, axis) > 1)
      g_ptr_array_add(row, g_strdup(space_axis_value(report->space, axis, index)));
  for (int i = 0; i < N_SHOWN; i++)
    g_ptr_array_add(row, isnan(values[i]) ? g_strdup("-") : shown[i].text(values[i]));
  return TRUE;
}

/* The rows of `indices`, `most` at most, under a heading. Nothing when there are none. */
static gboolean append_rows(const SweepReport *report, GString *out, const char *heading, const GArray *indices,
                            guint most, GError **error) {
  if (indices->len == 0)
    return TRUE;
  g_autoptr(GPtrArray) rows = g_ptr_array_new_with_free_func((GDestroyNotify)g_ptr_array_unref);
  add_headings(report, rows);
  for (guint i = 0; i < MIN(indices->len, most); i++)
    if (!add_row(report, rows, g_array_index(indices, gint64, i), error))
      return FALSE;
  g_string_append_printf(out, "\n%s\n", heading);
  append_table(out, rows);
  if (indices->len > most)
    g_string_append_printf(out, "  and %u more (--json lists all)\n", indices->len - most);
  return TRUE;
}

/* --- what did not run --- */

static gboolean append_reasons(const SweepReport *report, GString *out, GError **error) {
  sqlite3_stmt *query = sweep_report_reasons(report, error);
  if (query == NULL)
    return FALSE;
  int status, n = 0;
  gint64 n_more = 0;
  while ((status = sqlite3_step(query)) == SQLITE_ROW) {
    g_autofree char *count = progress_thousands(sqlite3_column_int64(query, 2));
    if (n == 0)
      g_string_append(out, "\nNot among them, and why (one example each)\n");
    if (n++ < MOST_REASONS)
      g_string_append_printf(out, "  %10s  %s\n", count, (const char *)sqlite3_column_text(query, 4));
    else
      n_more += sqlite3_column_int64(query, 2);
  }
  if (n_more > 0)
    g_string_append_printf(out, "  and %" G_GINT64_FORMAT " for %d other reasons (--json lists all)\n", n_more,
                           n - MOST_REASONS);
  const gboolean ok = result_store_check_end(report->store, status, error);
  sqlite3_finalize(query);
  return ok;
}

/* --- what was swept --- */

static void append_list(GString *out, const Space *space, const char *name) {
  for (int axis = 0; axis < space_n_axes(space); axis++)
    for (int i = 0; strcmp(space_axis_name(space, axis), name) == 0 && i < space_axis_n_values(space, axis); i++)
      g_string_append_printf(out, "%s%s", i > 0 ? ", " : "", space_axis_nth(space, axis, i));
}

static gboolean append_warnings(const SweepReport *report, GString *out, const GArray *best, GError **error) {
  g_autoptr(GPtrArray) warnings = sweep_report_warnings(report, best, error);
  for (guint i = 0; warnings != NULL && i < warnings->len; i++)
    g_string_append_printf(out, "  warning: the first: %s\n", (const char *)warnings->pdata[i]);
  return warnings != NULL;
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

static gboolean append_best_of(const SweepReport *report, GString *out, const char *heading, GError **error) {
  if (report->best_of == NULL)
    return TRUE;
  g_autoptr(GArray) best = sweep_report_best_of(report, error);
  g_autofree char *each = g_strdup_printf("%s for each %s", heading, report->best_of);
  return best != NULL && append_rows(report, out, each, best, best->len, error);
}

gboolean sweep_report_text(const SweepReport *report, GString *out, GError **error) {
  static const char *const headings[N_OBJECTIVES] = {[OBJECTIVE_MFU] = "Best by MFU",
                                                     [OBJECTIVE_TOKENS_PER_S] = "Best by tokens per second",
                                                     [OBJECTIVE_COST] = "Cheapest per token"};
  gint64 counts[N_SWEEP_STATUSES];
  if (!sweep_report_counts(report, counts, error))
    return FALSE;
  append_head(report, out, counts);
  g_autoptr(GArray) best = sweep_report_best(report, error), front = NULL;
  if (best == NULL || !append_rows(report, out, headings[report->objective], best, best->len, error) ||
      !append_warnings(report, out, best, error))
    return FALSE;
  if (!append_best_of(report, out, headings[report->objective], error))
    return FALSE;
  front = sweep_report_pareto(report, error);
  return front != NULL &&
         append_rows(report, out, "Pareto front: nothing is faster, smaller and cheaper at once", front, MOST_FRONT,
                     error) &&
         append_reasons(report, out, error);
}
