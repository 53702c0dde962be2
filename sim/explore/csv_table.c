/* libcsv knows cells and rows but not lines, so it is fed line by line:
 *
 *     line 7   a,"b          a row begins: its line is 7; the quote is open, so the row has not ended
 *     line 8   c",d          the row ends
 *     line 9                 no row is open: an empty line, not fed at all */
#include "csv_table.h"

#include <csv.h>
#include <glib/gstdio.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "data_path.h"
#include "error.h"
#include "units.h"

enum { WAIT_MS = 5000 }; /* for another process that writes to a database */

typedef struct {
  CsvTable *table;
  gboolean has_header, is_open;
  int row_line;     /* where the row being read begins */
  GPtrArray *cells; /* of the row being read */
  GError *problem;
} Reader;

void csv_table_free(CsvTable *table) {
  if (table == NULL)
    return;
  g_free(table->file);
  g_clear_pointer(&table->columns, g_ptr_array_unref);
  g_clear_pointer(&table->cells, g_ptr_array_unref);
  g_clear_pointer(&table->lines, g_array_unref);
  g_clear_pointer(&table->n_found, g_array_unref);
  g_clear_pointer(&table->texts, g_string_chunk_free);
  g_free(table);
}

static CsvTable *csv_table_new(const char *file) {
  CsvTable *table = g_new0(CsvTable, 1);
  table->file = g_strdup(file);
  table->columns = g_ptr_array_new();
  table->cells = g_ptr_array_new();
  table->lines = g_array_new(FALSE, FALSE, sizeof(int));
  table->n_found = g_array_new(FALSE, FALSE, sizeof(guint));
  table->texts = g_string_chunk_new(64 << 10);
  return table;
}

guint csv_table_n_rows(const CsvTable *table) {
  return table->lines->len;
}

int csv_table_find_column(const CsvTable *table, const char *name) {
  for (guint i = 0; i < table->columns->len; i++)
    if (strcmp(g_ptr_array_index(table->columns, i), name) == 0)
      return (int)i;
  return -1;
}

const char *csv_table_cell(const CsvTable *table, guint row, int column) {
  return g_ptr_array_index(table->cells, (gsize)row * table->columns->len + column);
}

gboolean csv_table_check_row(const CsvTable *table, guint row, GError **error) {
  const guint n_found = g_array_index(table->n_found, guint, row);
  return n_found == table->columns->len ||
         fail_input(error, "%s:%d: found %u cell%s, expected %u as the header names columns", table->file,
                    g_array_index(table->lines, int, row), n_found, n_found == 1 ? "" : "s", table->columns->len);
}

static void take_cell(void *text, size_t length, void *data) {
  Reader *reader = data;
  if (reader->problem == NULL)
    g_ptr_array_add(reader->cells, g_string_chunk_insert_len(reader->table->texts, text, (gssize)length));
}

static void take_header(Reader *reader) {
  CsvTable *table = reader->table;
  for (guint i = 0; i < reader->cells->len; i++) {
    char *name = g_ptr_array_index(reader->cells, i);
    if (name[0] != '\0' && csv_table_find_column(table, name) >= 0) {
      fail_input(&reader->problem, "%s:%d: column \"%.80s\" is named twice", table->file, reader->row_line, name);
      return;
    }
    g_ptr_array_add(table->columns, name);
  }
  reader->has_header = TRUE;
}

static void take_cells(Reader *reader) {
  CsvTable *table = reader->table;
  const guint n_found = reader->cells->len;
  for (guint i = 0; i < table->columns->len; i++)
    g_ptr_array_add(table->cells, i < n_found ? g_ptr_array_index(reader->cells, i) : (char *)"");
  g_array_append_val(table->lines, reader->row_line);
  g_array_append_val(table->n_found, n_found);
}

static void take_row(int terminator, void *data) {
  Reader *reader = data;
  if (reader->problem == NULL)
    (reader->has_header ? take_cells : take_header)(reader);
  g_ptr_array_set_size(reader->cells, 0);
  reader->is_open = FALSE;
}

/* Bytes up to and with the line's end. */
static gsize line_length(const char *text, gsize length) {
  gsize n = strcspn(text, "\r\n");
  if (n == length)
    return n;
  return n + (text[n] == '\r' && text[n + 1] == '\n' ? 2 : 1);
}

static gboolean read_lines(struct csv_parser *parser, Reader *reader, const char *text, gsize length, GError **error) {
  const char *file = reader->table->file;
  int line = 0;
  for (gsize at = 0, n = 0; at < length && reader->problem == NULL; at += n) {
    n = line_length(text + at, length - at);
    line++;
    if (!reader->is_open && strspn(text + at, " \t\r\n") >= n)
      continue;
    if (!reader->is_open)
      reader->row_line = line;
    reader->is_open = TRUE;
    if (csv_parse(parser, text + at, n, take_cell, take_row, reader) != n)
      return fail_input(error,
                        "%s:%d: a quote is out of place: a quoted cell ends at its quote, and a quote inside is "
                        "written twice",
                        file, line);
  }
  if (csv_fini(parser, take_cell, take_row, reader) != 0)
    return fail_input(error, "%s:%d: a quote that opens in this row is never closed", file, reader->row_line);
  if (reader->problem != NULL)
    return g_propagate_error(error, g_steal_pointer(&reader->problem)), FALSE;
  if (line == 0)
    return fail_input(error, "%s:1: found no row, expected a header that names columns, and rows below it", file);
  return csv_table_n_rows(reader->table) > 0 ||
         fail_input(error, "%s:%d: found no row below the header, expected some", file, line);
}

static gboolean check_text(const char *file, const char *text, gsize length, GError **error) {
  const char *end;
  if (g_utf8_validate_len(text, length, &end))
    return TRUE;
  int line = 1;
  for (const char *at = text; at < end; at++)
    line += *at == '\n';
  return fail_input(error, "%s:%d: found byte 0x%02x, expected text in UTF-8", file, line, (guint)(guchar)*end);
}

CsvTable *csv_table_read(const char *file, GError **error) {
  gsize length;
  g_autofree char *text = data_file_read(file, &length, error);
  if (text == NULL || !check_text(file, text, length, error))
    return NULL;
  static const char byte_order_mark[] = "\xef\xbb\xbf";
  gsize skipped = g_str_has_prefix(text, byte_order_mark) ? strlen(byte_order_mark) : 0;
  g_autoptr(CsvTable) table = csv_table_new(file);
  Reader reader = {.table = table, .row_line = 1, .cells = g_ptr_array_new()};
  struct csv_parser parser;
  int failed = csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI);
  g_assert(failed == 0);
  gboolean ok = read_lines(&parser, &reader, text + skipped, length - skipped, error);
  csv_free(&parser);
  g_ptr_array_unref(reader.cells);
  g_clear_error(&reader.problem);
  return ok ? g_steal_pointer(&table) : NULL;
}

void csv_append_cell(GString *out, const char *text) {
  gsize length = strlen(text);
  gboolean is_plain = strcspn(text, ",\"\r\n") == length &&
                      (length == 0 || (!g_ascii_isspace(text[0]) && !g_ascii_isspace(text[length - 1])));
  if (is_plain) {
    g_string_append_len(out, text, (gssize)length);
  } else {
    gsize start = out->len;
    g_string_set_size(out, start + 2 * length + 2); /* every byte a quote, and the two around */
    g_string_set_size(out, start + csv_write(out->str + start, out->len - start, text, length));
  }
  g_string_append_c(out, ',');
}

void csv_append_number(GString *out, double value) {
  if (isfinite(value))
    units_append_exact(out, value);
  g_string_append_c(out, ',');
}

void csv_end_row(GString *out) {
  g_assert(out->len > 0 && out->str[out->len - 1] == ',');
  out->str[out->len - 1] = '\n';
}

/* --- a database --- */

gboolean csv_table_is_database(const char *file) {
  static const char magic[] = "SQLite format 3";
  char head[sizeof magic] = "";
  /* a pipe would lose what is read here */
  FILE *stream = g_file_test(file, G_FILE_TEST_IS_REGULAR) ? fopen(file, "rb") : NULL;
  const gboolean is_database =
      stream != NULL && fread(head, 1, sizeof head, stream) == sizeof head && memcmp(head, magic, sizeof magic) == 0;
  if (stream != NULL)
    fclose(stream);
  return is_database;
}

/* SQLite's own text of every value, so that numbers read as a table's cells do. SQLITE_DONE when all was taken. */
static int take_rows(CsvTable *table, sqlite3_stmt *query) {
  const int n = sqlite3_column_count(query);
  for (int i = 0; i < n; i++)
    g_ptr_array_add(table->columns, g_string_chunk_insert(table->texts, sqlite3_column_name(query, i)));
  int status, line = 1;
  for (; (status = sqlite3_step(query)) == SQLITE_ROW; line++) {
    g_array_append_val(table->lines, line);
    for (int i = 0; i < n; i++) {
      const char *text = (const char *)sqlite3_column_text(query, i);
      g_ptr_array_add(table->cells, g_string_chunk_insert_const(table->texts, text != NULL ? text : ""));
    }
  }
  return status;
}

/* `name` is a path, or a URI with settings. *status is SQLite's, of the last thing it did. */
static CsvTable *read_named(const char *name, const char *file, const char *wanted, int *status, GError **error) {
  sqlite3 *database = NULL;
  sqlite3_stmt *query = NULL;
  g_autofree char *sql = g_strdup_printf("SELECT * FROM \"%s\" ORDER BY rowid", wanted);
  g_autoptr(CsvTable) table = csv_table_new(file);
  *status = sqlite3_open_v2(name, &database, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
  if (*status == SQLITE_OK) {
    sqlite3_busy_timeout(database, WAIT_MS);
    *status = sqlite3_prepare_v2(database, sql, -1, &query, NULL);
  }
  const gboolean is_read = *status == SQLITE_OK && take_rows(table, query) == SQLITE_DONE;
  sqlite3_finalize(query);
  if (!is_read)
    fail_input(error, "%s: cannot be read as a database of a sweep: %s", file,
               database != NULL ? sqlite3_errmsg(database) : "no memory");
  *status = sqlite3_errcode(database);
  sqlite3_close(database);
  if (is_read && csv_table_n_rows(table) == 0)
    fail_input(error, "%s: found no row in its table %s", file, wanted);
  return is_read && csv_table_n_rows(table) > 0 ? g_steal_pointer(&table) : NULL;
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

CsvTable *csv_table_read_database(const char *file, const char *table, GError **error) {
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
