/* Queries. Ties go to the lower index, so that a report says the same whatever order rows came in. */
#include "sweep_report.h"

#include <math.h>
#include <string.h>

#include "csv_table.h"
#include "error.h"
#include "json_text.h"
#include "warnings.h"
#include "whole_file.h"

/* What is ordered by: a column, and whether less is better. */
static const struct {
  const char *column;
  gboolean is_least;
} objectives[N_OBJECTIVES] = {[OBJECTIVE_MFU] = {"mfu", FALSE},
                              [OBJECTIVE_TOKENS_PER_S] = {"tokens_per_s", FALSE},
                              [OBJECTIVE_COST] = {"dollars_per_million_tokens", TRUE}};

/* --- rows of interest --- */

static double number_at(sqlite3_stmt *statement, int column) {
  return sqlite3_column_type(statement, column) == SQLITE_NULL ? NAN : sqlite3_column_double(statement, column);
}

gboolean sweep_report_counts(const SweepReport *report, gint64 counts[N_SWEEP_STATUSES], GError **error) {
  memset(counts, 0, N_SWEEP_STATUSES * sizeof counts[0]);
  sqlite3_stmt *query =
      result_store_query(report->store, error, "SELECT status, count(*) FROM configurations GROUP BY status");
  if (query == NULL)
    return FALSE;
  int status;
  while ((status = sqlite3_step(query)) == SQLITE_ROW) {
    const char *name = (const char *)sqlite3_column_text(query, 0);
    for (int i = 0; i < N_SWEEP_STATUSES; i++)
      if (g_strcmp0(name, sweep_status_names()[i]) == 0)
        counts[i] = sqlite3_column_int64(query, 1);
  }
  const gboolean ok = result_store_check_end(report->store, status, error);
  sqlite3_finalize(query);
  return ok;
}

/* At most `most`, the best first; −1: all. */
static GArray *by_objective(const SweepReport *report, int most, GError **error) {
  const char *column = objectives[report->objective].column;
  g_autofree char *sql = g_strdup_printf("SELECT config FROM configurations WHERE status = 'ran' AND %s IS NOT NULL "
                                         "ORDER BY %s %s, config LIMIT %d",
                                         column, column, objectives[report->objective].is_least ? "ASC" : "DESC", most);
  sqlite3_stmt *query = result_store_query(report->store, error, sql);
  if (query == NULL)
    return NULL;
  g_autoptr(GArray) best = g_array_new(FALSE, FALSE, sizeof(gint64));
  int status;
  while ((status = sqlite3_step(query)) == SQLITE_ROW) {
    const gint64 index = sqlite3_column_int64(query, 0);
    g_array_append_val(best, index);
  }
  const gboolean ok = result_store_check_end(report->store, status, error);
  sqlite3_finalize(query);
  return ok ? g_steal_pointer(&best) : NULL;
}

GArray *sweep_report_best(const SweepReport *report, GError **error) {
  return by_objective(report, report->n_top, error);
}

static int find_axis(const Space *space, const char *name) {
  int axis = 0;
  while (strcmp(space_axis_name(space, axis), name) != 0)
    axis++;
  return axis;
}

GArray *sweep_report_best_of(const SweepReport *report, GError **error) {
  g_autoptr(GArray) best = g_array_new(FALSE, FALSE, sizeof(gint64));
  if (report->best_of == NULL)
    return g_steal_pointer(&best);
  const int axis = find_axis(report->space, report->best_of);
  g_autoptr(GArray) all = by_objective(report, -1, error);
  if (all == NULL)
    return NULL;
  g_autoptr(GHashTable) firsts = g_hash_table_new(g_str_hash, g_str_equal); /* value → its first in `all` */
  for (guint i = 0; i < all->len; i++) {
    gint64 *index = &g_array_index(all, gint64, i);
    char *value = (char *)space_axis_value(report->space, axis, *index);
    if (!g_hash_table_contains(firsts, value))
      g_hash_table_insert(firsts, value, index);
  }
  for (int i = 0; i < space_axis_n_values(report->space, axis); i++) {
    const gint64 *index = g_hash_table_lookup(firsts, space_axis_nth(report->space, axis, i));
    if (index != NULL)
      g_array_append_val(best, *index);
  }
  return g_steal_pointer(&best);
}

typedef struct {
  gint64 index;
  double memory, cost; /* cost: infinite when not known */
} FrontMember;

/* Members come with falling rates: one that is as good in the rest beats it. */
static gboolean is_beaten(const GArray *front, const FrontMember *candidate) {
  for (guint i = 0; i < front->len; i++) {
    const FrontMember *member = &g_array_index(front, FrontMember, i);
    if (member->memory <= candidate->memory && member->cost <= candidate->cost)
      return TRUE;
  }
  return FALSE;
}

GArray *sweep_report_pareto(const SweepReport *report, GError **error) {
  sqlite3_stmt *query = result_store_query(
      report->store, error,
      "SELECT config, memory_peak_bytes, dollars_per_million_tokens FROM configurations WHERE status = 'ran' "
      "ORDER BY tokens_per_s DESC, memory_peak_bytes, dollars_per_million_tokens IS NULL, dollars_per_million_tokens, "
      "config");
  if (query == NULL)
    return NULL;
  g_autoptr(GArray) front = g_array_new(FALSE, FALSE, sizeof(FrontMember));
  int status;
  while ((status = sqlite3_step(query)) == SQLITE_ROW) {
    FrontMember candidate = {sqlite3_column_int64(query, 0), number_at(query, 1), number_at(query, 2)};
    if (isnan(candidate.cost))
      candidate.cost = INFINITY;
    if (!is_beaten(front, &candidate))
      g_array_append_val(front, candidate);
  }
  const gboolean ok = result_store_check_end(report->store, status, error);
  sqlite3_finalize(query);
  GArray *indices = ok ? g_array_new(FALSE, FALSE, sizeof(gint64)) : NULL;
  for (guint i = 0; ok && i < front->len; i++)
    g_array_append_val(indices, g_array_index(front, FrontMember, i).index);
  return indices;
}

sqlite3_stmt *sweep_report_reasons(const SweepReport *report, GError **error) {
  return result_store_query(report->store, error,
                            "SELECT status, kind, count(*) AS n, min(config), reason FROM configurations "
                            "WHERE kind IS NOT NULL GROUP BY status, kind ORDER BY n DESC, status, kind");
}

gboolean sweep_report_numbers(const SweepReport *report, gint64 index, const char *const *columns, int n_columns,
                              double *values, GError **error) {
  g_autoptr(GString) sql = g_string_new("SELECT ");
  for (int i = 0; i < n_columns; i++)
    g_string_append_printf(sql, "%s%s", i > 0 ? ", " : "", columns[i]);
  g_string_append(sql, " FROM configurations WHERE config = ?");
  sqlite3_stmt *query = result_store_query(report->store, error, sql->str);
  if (query == NULL)
    return FALSE;
  sqlite3_bind_int64(query, 1, index);
  const int status = sqlite3_step(query);
  for (int i = 0; status == SQLITE_ROW && i < n_columns; i++)
    values[i] = number_at(query, i);
  const gboolean ok = status == SQLITE_ROW || result_store_check_end(report->store, status, error);
  sqlite3_finalize(query);
  return ok;
}

GPtrArray *sweep_report_warnings(const SweepReport *report, const GArray *best, GError **error) {
  static const char *const columns[] = {"memory_used"};
  double used = NAN;
  if (best->len > 0 &&
      !sweep_report_numbers(report, g_array_index(best, gint64, 0), columns, G_N_ELEMENTS(columns), &used, error))
    return NULL;
  GPtrArray *warnings = g_ptr_array_new_with_free_func(g_free);
  char *memory = warning_of_memory(used);
  if (memory != NULL)
    g_ptr_array_add(warnings, memory);
  return warnings;
}

/* --- JSON --- */

static void append_value(GString *out, sqlite3_stmt *query, int column) {
  char number[G_ASCII_DTOSTR_BUF_SIZE];
  switch (sqlite3_column_type(query, column)) {
  case SQLITE_INTEGER:
    g_string_append_printf(out, "%" G_GINT64_FORMAT, (gint64)sqlite3_column_int64(query, column));
    break;
  case SQLITE_FLOAT: /* 17 digits: read back as the same double */
    g_string_append(out, g_ascii_dtostr(number, sizeof number, sqlite3_column_double(query, column)));
    break;
  case SQLITE_TEXT:
    json_append_string(out, (const char *)sqlite3_column_text(query, column));
    break;
  default:
    g_string_append(out, "null");
    break;
  }
}

/* A row as an object of its columns; `links` is JSON already. */
static void append_row(GString *out, sqlite3_stmt *query) {
  g_string_append_c(out, '{');
  for (int i = 0; i < sqlite3_column_count(query); i++) {
    const char *name = sqlite3_column_name(query, i);
    const char *links = strcmp(name, "links") == 0 ? (const char *)sqlite3_column_text(query, i) : NULL;
    g_string_append_printf(out, "%s\"%s\": ", i > 0 ? ", " : "", name);
    if (links != NULL)
      g_string_append(out, links);
    else
      append_value(out, query, i);
  }
  g_string_append_c(out, '}');
}

/* Takes over `indices`; NULL is a failure before. */
static gboolean append_rows(const SweepReport *report, GString *out, const char *key, GArray *indices, GError **error) {
  g_autoptr(GArray) owned = indices;
  sqlite3_stmt *query =
      owned != NULL ? result_store_query(report->store, error, "SELECT * FROM configurations WHERE config = ?") : NULL;
  if (query == NULL)
    return FALSE;
  int status = SQLITE_ROW;
  g_string_append_printf(out, ",\n  \"%s\": [", key);
  for (guint i = 0; status == SQLITE_ROW && i < owned->len; i++) {
    sqlite3_reset(query);
    sqlite3_bind_int64(query, 1, g_array_index(owned, gint64, i));
    status = sqlite3_step(query);
    g_string_append(out, i > 0 ? ",\n    " : "\n    ");
    if (status == SQLITE_ROW)
      append_row(out, query);
  }
  g_string_append(out, owned->len > 0 ? "\n  ]" : "]");
  const gboolean ok = status == SQLITE_ROW || result_store_check_end(report->store, status, error);
  sqlite3_finalize(query);
  return ok;
}

static gboolean append_reasons(const SweepReport *report, GString *out, GError **error) {
  sqlite3_stmt *query = sweep_report_reasons(report, error);
  if (query == NULL)
    return FALSE;
  g_string_append(out, ",\n  \"reasons\": [");
  int status;
  for (int n = 0; (status = sqlite3_step(query)) == SQLITE_ROW; n++) {
    g_string_append(out, n > 0 ? ",\n    {\"status\": " : "\n    {\"status\": ");
    append_value(out, query, 0);
    g_string_append(out, ", \"kind\": ");
    append_value(out, query, 1);
    g_string_append(out, ", \"configurations\": ");
    append_value(out, query, 2);
    g_string_append(out, ", \"example\": ");
    append_value(out, query, 4);
    g_string_append_c(out, '}');
  }
  g_string_append(out, "\n  ]");
  const gboolean ok = result_store_check_end(report->store, status, error);
  sqlite3_finalize(query);
  return ok;
}

static gboolean append_warnings(const SweepReport *report, GString *out, GError **error) {
  g_autoptr(GArray) best = sweep_report_best(report, error);
  g_autoptr(GPtrArray) warnings = best != NULL ? sweep_report_warnings(report, best, error) : NULL;
  if (warnings == NULL)
    return FALSE;
  g_string_append(out, ",\n  \"warnings\": [");
  for (guint i = 0; i < warnings->len; i++) {
    g_string_append(out, i > 0 ? ",\n    " : "\n    ");
    json_append_string(out, warnings->pdata[i]);
  }
  g_string_append(out, warnings->len > 0 ? "\n  ]" : "]");
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
  if (!append_rows(report, out, "best", sweep_report_best(report, error), error) ||
      !append_rows(report, out, "best_of", sweep_report_best_of(report, error), error) ||
      !append_rows(report, out, "pareto", sweep_report_pareto(report, error), error) ||
      !append_reasons(report, out, error) || !append_warnings(report, out, error))
    return NULL;
  g_string_append(out, "\n}\n");
  return g_string_free(g_steal_pointer(&out), FALSE);
}

/* --- CSV --- */

static void append_cell(GString *out, sqlite3_stmt *query, int column) {
  char number[G_ASCII_DTOSTR_BUF_SIZE];
  if (sqlite3_column_type(query, column) == SQLITE_FLOAT)
    csv_append_cell(out, g_ascii_dtostr(number, sizeof number, sqlite3_column_double(query, column)));
  else if (sqlite3_column_type(query, column) == SQLITE_NULL)
    g_string_append_c(out, ',');
  else
    csv_append_cell(out, (const char *)sqlite3_column_text(query, column));
}

gboolean sweep_report_csv(const SweepReport *report, const char *file, GError **error) {
  sqlite3_stmt *query = result_store_query(report->store, error, "SELECT * FROM configurations ORDER BY config");
  if (query == NULL)
    return FALSE;
  WholeFile whole;
  if (!whole_file_open_apart(&whole, file, error)) {
    sqlite3_finalize(query);
    return FALSE;
  }
  g_autoptr(GString) line = g_string_new(NULL);
  for (int i = 0; i < sqlite3_column_count(query); i++)
    csv_append_cell(line, sqlite3_column_name(query, i));
  csv_end_row(line);
  int status;
  do {
    whole_file_write(&whole, line->str, line->len);
    g_string_truncate(line, 0);
    status = sqlite3_step(query);
    for (int i = 0; status == SQLITE_ROW && i < sqlite3_column_count(query); i++)
      append_cell(line, query, i);
    if (status == SQLITE_ROW)
      csv_end_row(line);
  } while (status == SQLITE_ROW);
  const gboolean ok = result_store_check_end(report->store, status, error);
  sqlite3_finalize(query);
  if (ok)
    return whole_file_close(&whole, error);
  whole_file_discard(&whole);
  return FALSE;
}
