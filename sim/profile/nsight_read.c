#include "nsight_read.h"

#include <sqlite3.h>
#include <string.h>

#include "error.h"

G_DEFINE_AUTOPTR_CLEANUP_FUNC(sqlite3, sqlite3_close)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(sqlite3_stmt, sqlite3_finalize)

typedef struct {
  Profile *profile;
  const char *file; /* interned */
  sqlite3 *database;
} Reader;

static gboolean fail_query(const Reader *reader, GError **error) {
  return fail_input(error, "%s: %s, expected the tables of nsys export --type sqlite", reader->file,
                    sqlite3_errmsg(reader->database));
}

static gboolean has_table(const Reader *reader, const char *name) {
  g_autoptr(sqlite3_stmt) query = NULL;
  return sqlite3_prepare_v2(reader->database, "SELECT 1 FROM sqlite_master WHERE name = ?", -1, &query, NULL) ==
             SQLITE_OK &&
         sqlite3_bind_text(query, 1, name, -1, SQLITE_STATIC) == SQLITE_OK && sqlite3_step(query) == SQLITE_ROW;
}

/* Exports of different versions of Nsight Systems have different columns. */
static gboolean has_column(const Reader *reader, const char *table, const char *name) {
  g_autoptr(sqlite3_stmt) query = NULL;
  return sqlite3_prepare_v2(reader->database, "SELECT 1 FROM pragma_table_info(?) WHERE name = ?", -1, &query, NULL) ==
             SQLITE_OK &&
         sqlite3_bind_text(query, 1, table, -1, SQLITE_STATIC) == SQLITE_OK &&
         sqlite3_bind_text(query, 2, name, -1, SQLITE_STATIC) == SQLITE_OK && sqlite3_step(query) == SQLITE_ROW;
}

/* `names` ends with NULL. */
static gboolean check_columns(const Reader *reader, const char *table, const char *const *names, GError **error) {
  for (; *names != NULL; names++)
    if (!has_column(reader, table, *names))
      return fail_input(error, "%s: table %s: found no column %s, expected the columns of nsys export --type sqlite",
                        reader->file, table, *names);
  return TRUE;
}

/* Shows each row to `see`, until that fails. */
static gboolean for_each(const Reader *reader, const char *sql,
                         gboolean (*see)(const Reader *reader, sqlite3_stmt *row, GError **error), GError **error) {
  g_autoptr(sqlite3_stmt) query = NULL;
  if (sqlite3_prepare_v2(reader->database, sql, -1, &query, NULL) != SQLITE_OK)
    return fail_query(reader, error);
  int status;
  while ((status = sqlite3_step(query)) == SQLITE_ROW)
    if (!see(reader, query, error))
      return FALSE;
  return status == SQLITE_DONE || fail_query(reader, error);
}

/* Of a process and device, told apart by their numbers. */
static ProfileRank *rank_of(const Reader *reader, gint64 process, gint64 device) {
  g_autofree char *key = g_strdup_printf("%" G_GINT64_FORMAT " %" G_GINT64_FORMAT, process, device);
  const char *name = profile_intern(reader->profile, key);
  for (guint i = 0; i < reader->profile->ranks->len; i++) {
    ProfileRank *rank = profile_rank(reader->profile, i);
    if (rank->file == reader->file && rank->device == name)
      return rank;
  }
  ProfileRank *rank = profile_add_rank(reader->profile, reader->file, -1);
  rank->device = name;
  return rank;
}

/* Columns as in read_activities(). */
static gboolean see_activity(const Reader *reader, sqlite3_stmt *row, GError **error) {
  static const gint64 most_ns = G_GINT64_CONSTANT(4000000000000000000); /* so that sums of two need no check */
  if (sqlite3_column_type(row, 1) == SQLITE_NULL)                       /* was still running */
    return TRUE;
  for (int i = 0; i < 2; i++)
    if (sqlite3_column_type(row, i) != SQLITE_INTEGER || sqlite3_column_int64(row, i) < 0 ||
        sqlite3_column_int64(row, i) > most_ns)
      return fail_input(
          error, "%s: table %s, row %" G_GINT64_FORMAT ": %s: found %.40s, expected nanoseconds from 0 on",
          reader->file, sqlite3_column_text(row, 9), (gint64)sqlite3_column_int64(row, 8), i == 0 ? "start" : "end",
          sqlite3_column_type(row, i) != SQLITE_NULL
              ? profile_intern(reader->profile, (const char *)sqlite3_column_text(row, i))
              : "nothing");
  ProfileRank *rank = rank_of(reader, sqlite3_column_int64(row, 2), sqlite3_column_int64(row, 3));
  const char *name = (const char *)sqlite3_column_text(row, 5);
  ProfileActivity activity = {
      .start_ns = sqlite3_column_int64(row, 0),
      .end_ns = MAX(sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1)),
      .issued_ns = sqlite3_column_type(row, 6) != SQLITE_NULL ? sqlite3_column_int64(row, 6) : -1,
      .name = profile_intern(reader->profile, name != NULL ? name : "?"),
      .operator_index = profile_copy(reader->profile, name != NULL ? name : "?", sqlite3_column_double(row, 7)),
      .collective_index = -1,
      .call = -1,
      .stream = profile_stream(rank, sqlite3_column_int64(row, 4))};
  activity.kind = profile_kind_of(activity.name, NULL);
  if (activity.kind == PROFILE_COLLECTIVE) {
    const char *op = profile_collective_of(activity.name);
    activity.collective_index = profile_collective(reader->profile, op != NULL ? op : "other", NULL, 0, 0);
  }
  g_array_append_val(rank->activities, activity);
  return TRUE;
}

/* "step 7", "Iteration: 7", "ProfilerStep#7", "train_step" → its number, or −1. FALSE: no name of a step. */
static gboolean is_step(const char *name, gint64 *number) {
  g_autoptr(GRegex) regex =
      g_regex_new("^\\W*((profiler|train|training)?[ _]*(step|iteration|iter))[^0-9A-Za-z]*([0-9]*)\\W*$",
                  G_REGEX_CASELESS, 0, NULL);
  g_autoptr(GMatchInfo) match = NULL;
  if (!g_regex_match(regex, name, 0, &match))
    return FALSE;
  g_autofree char *digits = g_match_info_fetch(match, 4);
  *number = *digits != '\0' ? g_ascii_strtoll(digits, NULL, 10) : -1;
  return TRUE;
}

/* A range of the host marks a step of every GPU of its process. */
static gboolean see_range(const Reader *reader, sqlite3_stmt *row, GError **error) {
  const char *name = (const char *)sqlite3_column_text(row, 3);
  ProfileStep step = {sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1), -1};
  if (name == NULL || step.end_ns <= step.begin_ns || !is_step(name, &step.number))
    return TRUE;
  g_autofree char *process = g_strdup_printf("%" G_GINT64_FORMAT " ", (gint64)sqlite3_column_int64(row, 2));
  for (guint i = 0; i < reader->profile->ranks->len; i++) {
    ProfileRank *rank = profile_rank(reader->profile, i);
    if (rank->file == reader->file && g_str_has_prefix(rank->device, process))
      g_array_append_val(rank->marks, step);
  }
  return TRUE;
}

static gboolean see_gpu(const Reader *reader, sqlite3_stmt *row, GError **error) {
  g_autofree char *suffix = g_strdup_printf(" %" G_GINT64_FORMAT, (gint64)sqlite3_column_int64(row, 0));
  const char *name = (const char *)sqlite3_column_text(row, 1);
  for (guint i = 0; i < reader->profile->ranks->len; i++) {
    ProfileRank *rank = profile_rank(reader->profile, i);
    if (rank->file == reader->file && g_str_has_suffix(rank->device, suffix))
      rank->gpu = profile_intern(reader->profile, name);
  }
  return TRUE;
}

/* A process's calls have its number in the upper bits of their thread's. */
#define PROCESS_OF_THREAD "globalTid & ~16777215"

static gboolean read_calls(const Reader *reader, GError **error) {
  static const char table[] = "CUPTI_ACTIVITY_KIND_RUNTIME", *const needed[] = {"start", "correlationId", NULL};
  g_autofree char *make = g_strdup_printf("INSERT INTO call SELECT correlationId, %s, start FROM %s; "
                                          "CREATE INDEX temp.call_index ON call (correlationId, process)",
                                          has_column(reader, table, "globalTid") ? PROCESS_OF_THREAD : "0", table);
  return (sqlite3_exec(reader->database,
                       "CREATE TEMP TABLE call (correlationId INTEGER, process INTEGER, start INTEGER)", NULL, NULL,
                       NULL) == SQLITE_OK ||
          fail_query(reader, error)) &&
         (!has_table(reader, table) ||
          (check_columns(reader, table, needed, error) &&
           (sqlite3_exec(reader->database, make, NULL, NULL, NULL) == SQLITE_OK || fail_query(reader, error))));
}

/* Of a table, if it is there: start, end, process, device, stream, name, begin of the call (NULL: unknown), bytes,
 * row, table. */
static gboolean read_activities(const Reader *reader, const char *table, const char *name, GError **error) {
  static const char *const needed[] = {"start", "end", "deviceId", "streamId", NULL};
  if (!has_table(reader, table))
    return TRUE;
  if (!check_columns(reader, table, needed, error))
    return FALSE;
  const char *process = has_column(reader, table, "globalPid") ? "a.globalPid" : "0";
  const gboolean is_linked = has_column(reader, table, "correlationId");
  g_autofree char *call = g_strdup_printf(
                      "(SELECT MIN(r.start) FROM call r WHERE r.correlationId = a.correlationId AND r.process = %s)",
                      process),
                  *sql = g_strdup_printf(
                      "SELECT a.start, a.\"end\", %s, a.deviceId, a.streamId, %s, %s, %s, a.rowid, '%s' FROM %s a",
                      process, name, is_linked ? call : "NULL", has_column(reader, table, "bytes") ? "a.bytes" : "0",
                      table, table);
  return for_each(reader, sql, see_activity, error);
}

static gboolean read_kernels(const Reader *reader, GError **error) {
  static const char table[] = "CUPTI_ACTIVITY_KIND_KERNEL";
  static const char *const names[] = {"demangledName", "shortName", "mangledName"};
  if (!has_table(reader, table) && !has_table(reader, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"))
    return fail_input(error,
                      "%s: found no table CUPTI_ACTIVITY_KIND_KERNEL, expected kernels: nsys profile --trace=cuda",
                      reader->file);
  if (has_table(reader, table) && !has_table(reader, "StringIds"))
    return fail_input(error, "%s: found no table StringIds, expected the tables of nsys export --type sqlite",
                      reader->file);
  for (gsize i = 0; has_table(reader, table) && i < G_N_ELEMENTS(names); i++)
    if (has_column(reader, table, names[i])) {
      g_autofree char *name = g_strdup_printf("(SELECT value FROM StringIds WHERE id = a.%s)", names[i]);
      return read_activities(reader, table, name, error);
    }
  return !has_table(reader, table) ||
         fail_input(error, "%s: table %s: found no column demangledName, shortName or mangledName, expected one",
                    reader->file, table);
}

static gboolean read_copies(const Reader *reader, GError **error) {
  static const char table[] = "CUPTI_ACTIVITY_KIND_MEMCPY";
  const char *name = has_column(reader, table, "copyKind") /* as CUPTI numbers them */
                         ? "CASE a.copyKind WHEN 1 THEN 'Memcpy HtoD' WHEN 2 THEN 'Memcpy DtoH' WHEN 8 THEN "
                           "'Memcpy DtoD' WHEN 10 THEN 'Memcpy PtoP' ELSE 'Memcpy' END"
                         : "'Memcpy'";
  return read_activities(reader, table, name, error) &&
         read_activities(reader, "CUPTI_ACTIVITY_KIND_MEMSET", "'Memset'", error);
}

static gboolean read_ranges(const Reader *reader, GError **error) {
  static const char table[] = "NVTX_EVENTS", *const needed[] = {"start", "end", NULL};
  static const char by_id[] = "(SELECT value FROM StringIds WHERE id = n.textId)";
  if (!has_table(reader, table))
    return TRUE;
  const gboolean has_text = has_column(reader, table, "text"), has_id = has_column(reader, table, "textId");
  if (!check_columns(reader, table, needed, error))
    return FALSE;
  if (!has_text && !has_id)
    return TRUE;
  g_autofree char *both = g_strdup_printf("COALESCE(n.text, %s)", by_id),
                  *sql = g_strdup_printf(
                      "SELECT n.start, n.\"end\", %s, %s FROM %s n WHERE n.\"end\" IS NOT NULL ORDER BY n.start",
                      has_column(reader, table, "globalTid") ? "n." PROCESS_OF_THREAD : "0",
                      has_text && has_id ? both
                      : has_text         ? "n.text"
                                         : by_id,
                      table);
  return for_each(reader, sql, see_range, error);
}

static gboolean read_tables(const Reader *reader, GError **error) {
  static const char gpus[] = "TARGET_INFO_GPU";
  return read_calls(reader, error) && read_kernels(reader, error) &&
         read_activities(reader, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "'CUDA graph'", error) &&
         read_copies(reader, error) && read_ranges(reader, error) &&
         (!has_column(reader, gpus, "id") || !has_column(reader, gpus, "name") ||
          for_each(reader, "SELECT id, name FROM TARGET_INFO_GPU", see_gpu, error));
}

static gboolean has_ranks(const Reader *reader) {
  for (guint i = 0; i < reader->profile->ranks->len; i++)
    if (profile_rank(reader->profile, i)->file == reader->file)
      return TRUE;
  return FALSE;
}

/* Ranks without a number get the next ones, in the order in which their first kernels ran. */
static void number_ranks(const Reader *reader) {
  for (guint i = 0; i < reader->profile->ranks->len; i++)
    if (profile_rank(reader->profile, i)->rank < 0)
      profile_rank(reader->profile, i)->rank = i;
}

gboolean nsight_read(Profile *profile, const char *file, GError **error) {
  g_autoptr(sqlite3) database = NULL;
  Reader reader = {.profile = profile, .file = profile_intern(profile, file)};
  const int status = sqlite3_open_v2(file, &database, SQLITE_OPEN_READONLY, NULL);
  reader.database = database;
  if (status != SQLITE_OK)
    return fail_input(error, "cannot read %.200s: %s", file, sqlite3_errstr(status));
  if (!read_tables(&reader, error))
    return FALSE;
  if (!has_ranks(&reader))
    return fail_input(error, "%s: found nothing that a GPU did, expected kernels: nsys profile --trace=cuda", file);
  number_ranks(&reader);
  return TRUE;
}
