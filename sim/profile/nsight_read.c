#include "nsight_read.h"

#include <sqlite3.h>
#include <string.h>

#include "error.h"

G_DEFINE_AUTOPTR_CLEANUP_FUNC(sqlite3, sqlite3_close)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(sqlite3_stmt, sqlite3_finalize)

/* Columns: start, end, process, device, stream, name, begin of the call (NULL: unknown). A process's calls have its
 * number in the upper bits of their thread's. */
#define ACTIVITIES(table, name)                                                                                        \
  "SELECT a.start, a.\"end\", a.globalPid, a.deviceId, a.streamId, " name ", (SELECT MIN(r.start) FROM call r WHERE "  \
  "r.correlationId = a.correlationId AND r.process = a.globalPid) FROM " table " a"

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

/* Shows each row to `see`. */
static gboolean for_each(const Reader *reader, const char *sql, void (*see)(const Reader *reader, sqlite3_stmt *row),
                         GError **error) {
  g_autoptr(sqlite3_stmt) query = NULL;
  if (sqlite3_prepare_v2(reader->database, sql, -1, &query, NULL) != SQLITE_OK)
    return fail_query(reader, error);
  int status;
  while ((status = sqlite3_step(query)) == SQLITE_ROW)
    see(reader, query);
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

static void see_activity(const Reader *reader, sqlite3_stmt *row) {
  ProfileRank *rank = rank_of(reader, sqlite3_column_int64(row, 2), sqlite3_column_int64(row, 3));
  const char *name = (const char *)sqlite3_column_text(row, 5);
  ProfileActivity activity = {.start_ns = sqlite3_column_int64(row, 0),
                              .end_ns = MAX(sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1)),
                              .issued_ns =
                                  sqlite3_column_type(row, 6) != SQLITE_NULL ? sqlite3_column_int64(row, 6) : -1,
                              .name = profile_intern(reader->profile, name != NULL ? name : "?"),
                              .operator_index = -1,
                              .collective_index = -1,
                              .call = -1,
                              .stream = profile_stream(rank, sqlite3_column_int64(row, 4))};
  static const gint64 most_ns = G_GINT64_CONSTANT(4000000000000000000); /* so that sums of two need no check */
  if (activity.start_ns < 0 || activity.end_ns > most_ns)
    return;
  activity.kind = profile_kind_of(activity.name, NULL);
  if (activity.kind == PROFILE_COLLECTIVE) {
    const char *op = profile_collective_of(activity.name);
    activity.collective_index = profile_collective(reader->profile, op != NULL ? op : "other", NULL, 0, 0);
  }
  g_array_append_val(rank->activities, activity);
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
static void see_range(const Reader *reader, sqlite3_stmt *row) {
  const char *name = (const char *)sqlite3_column_text(row, 3);
  ProfileStep step = {sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1), -1};
  if (name == NULL || step.end_ns <= step.begin_ns || !is_step(name, &step.number))
    return;
  g_autofree char *process = g_strdup_printf("%" G_GINT64_FORMAT " ", (gint64)sqlite3_column_int64(row, 2));
  for (guint i = 0; i < reader->profile->ranks->len; i++) {
    ProfileRank *rank = profile_rank(reader->profile, i);
    if (rank->file == reader->file && g_str_has_prefix(rank->device, process))
      g_array_append_val(rank->marks, step);
  }
}

static void see_gpu(const Reader *reader, sqlite3_stmt *row) {
  g_autofree char *suffix = g_strdup_printf(" %" G_GINT64_FORMAT, (gint64)sqlite3_column_int64(row, 0));
  const char *name = (const char *)sqlite3_column_text(row, 1);
  for (guint i = 0; i < reader->profile->ranks->len; i++) {
    ProfileRank *rank = profile_rank(reader->profile, i);
    if (rank->file == reader->file && g_str_has_suffix(rank->device, suffix))
      rank->gpu = profile_intern(reader->profile, name);
  }
}

static gboolean read_tables(const Reader *reader, GError **error) {
  if (!has_table(reader, "CUPTI_ACTIVITY_KIND_KERNEL"))
    return fail_input(error,
                      "%s: found no table CUPTI_ACTIVITY_KIND_KERNEL, expected kernels: nsys profile --trace=cuda",
                      reader->file);
  if (sqlite3_exec(reader->database, "CREATE TEMP TABLE call (correlationId INTEGER, process INTEGER, start INTEGER)",
                   NULL, NULL, NULL) != SQLITE_OK ||
      (has_table(reader, "CUPTI_ACTIVITY_KIND_RUNTIME") &&
       sqlite3_exec(
           reader->database,
           "INSERT INTO call SELECT correlationId, globalTid & ~16777215, start FROM CUPTI_ACTIVITY_KIND_RUNTIME; "
           "CREATE INDEX temp.call_index ON call (correlationId, process)",
           NULL, NULL, NULL) != SQLITE_OK))
    return fail_query(reader, error);
  return for_each(reader,
                  ACTIVITIES("CUPTI_ACTIVITY_KIND_KERNEL", "(SELECT value FROM StringIds WHERE id = a.demangledName)"),
                  see_activity, error) &&
         (!has_table(reader, "CUPTI_ACTIVITY_KIND_MEMCPY") ||
          for_each(reader, ACTIVITIES("CUPTI_ACTIVITY_KIND_MEMCPY", "'Memcpy'"), see_activity, error)) &&
         (!has_table(reader, "CUPTI_ACTIVITY_KIND_MEMSET") ||
          for_each(reader, ACTIVITIES("CUPTI_ACTIVITY_KIND_MEMSET", "'Memset'"), see_activity, error)) &&
         (!has_table(reader, "NVTX_EVENTS") ||
          for_each(reader,
                   "SELECT n.start, n.\"end\", n.globalTid & ~16777215, COALESCE(n.text, (SELECT value FROM StringIds "
                   "WHERE id = n.textId)) FROM NVTX_EVENTS n WHERE n.\"end\" IS NOT NULL ORDER BY n.start",
                   see_range, error)) &&
         (!has_table(reader, "TARGET_INFO_GPU") ||
          for_each(reader, "SELECT id, name FROM TARGET_INFO_GPU", see_gpu, error));
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
  number_ranks(&reader);
  return TRUE;
}
