/* Read-only, through SQLite's own text of every value, so that numbers read as a table's cells do. */
#include "database_table.h"

#include <glib/gstdio.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "error.h"

enum { WAIT_MS = 5000 };

gboolean database_table_is(const char *file) {
  static const char magic[] = "SQLite format 3";
  char head[sizeof magic] = "";
  /* a pipe would lose what is read here */
  FILE *stream = g_file_test(file, G_FILE_TEST_IS_REGULAR) ? fopen(file, "rb") : NULL;
  gboolean is_database =
      stream != NULL && fread(head, 1, sizeof head, stream) == sizeof head && memcmp(head, magic, sizeof magic) == 0;
  if (stream != NULL)
    fclose(stream);
  return is_database;
}

static CsvTable *fail_database(sqlite3 *database, const char *file, GError **error) {
  fail_input(error, "%s: cannot be read as a database of a sweep: %s", file,
             database != NULL ? sqlite3_errmsg(database) : "no memory");
  return NULL;
}

static void take_row(CsvTable *table, sqlite3_stmt *query) {
  int line = (int)table->lines->len + 1;
  g_array_append_val(table->lines, line);
  for (int i = 0; i < sqlite3_column_count(query); i++) {
    const char *text = (const char *)sqlite3_column_text(query, i);
    g_ptr_array_add(table->cells, g_string_chunk_insert_const(table->texts, text != NULL ? text : ""));
  }
}

/* SQLITE_DONE when all was taken. */
static int take_rows(CsvTable *table, sqlite3_stmt *query) {
  for (int i = 0; i < sqlite3_column_count(query); i++)
    g_ptr_array_add(table->columns, g_string_chunk_insert(table->texts, sqlite3_column_name(query, i)));
  int status;
  while ((status = sqlite3_step(query)) == SQLITE_ROW)
    take_row(table, query);
  return status;
}

static CsvTable *read_from(sqlite3 *database, const char *file, const char *name, GError **error) {
  g_autofree char *sql = g_strdup_printf("SELECT * FROM \"%s\" ORDER BY rowid", name);
  sqlite3_stmt *query = NULL;
  sqlite3_busy_timeout(database, WAIT_MS);
  if (sqlite3_prepare_v2(database, sql, -1, &query, NULL) != SQLITE_OK)
    return fail_database(database, file, error);
  g_autoptr(CsvTable) table = csv_table_new(file);
  int status = take_rows(table, query);
  sqlite3_finalize(query);
  if (status != SQLITE_DONE)
    return fail_database(database, file, error);
  if (csv_table_n_rows(table) > 0)
    return g_steal_pointer(&table);
  fail_input(error, "%s: found no row in its table %s", file, name);
  return NULL;
}

/* `name` is a path, or a URI with settings. *status is SQLite's, of the last thing it did. */
static CsvTable *read_named(const char *name, const char *file, const char *table, int *status, GError **error) {
  sqlite3 *database = NULL;
  *status = sqlite3_open_v2(name, &database, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
  CsvTable *read =
      *status == SQLITE_OK ? read_from(database, file, table, error) : fail_database(database, file, error);
  *status = sqlite3_errcode(database);
  sqlite3_close(database);
  return read;
}

/* The file as one that nothing changes, for which SQLite needs no files of its own beside it; NULL where rows may still
 * stand in its log. Owned by the caller. */
static char *immutable_name(const char *file) {
  g_autofree char *log = g_strconcat(file, "-wal", NULL), *path = g_canonicalize_filename(file, NULL);
  g_autofree char *uri = g_filename_to_uri(path, NULL, NULL);
  GStatBuf log_stat;
  if (uri == NULL || (g_stat(log, &log_stat) == 0 && log_stat.st_size > 0))
    return NULL;
  return g_strconcat(uri, "?immutable=1", NULL);
}

CsvTable *database_table_read(const char *file, const char *table, GError **error) {
  g_autofree char *path = g_canonicalize_filename(file, NULL); /* which is no URI, whatever the name */
  g_autoptr(GError) problem = NULL;
  int status;
  CsvTable *read = read_named(path, file, table, &status, &problem);
  g_autofree char *immutable = read == NULL && (status == SQLITE_READONLY || status == SQLITE_CANTOPEN)
                                   ? immutable_name(file)
                                   : NULL; /* a folder that takes no files */
  if (immutable != NULL) {
    g_clear_error(&problem);
    read = read_named(immutable, file, table, &status, &problem);
  }
  if (read == NULL)
    g_propagate_error(error, g_steal_pointer(&problem));
  return read;
}
