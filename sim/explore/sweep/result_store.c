/* A write transaction is open from the moment the store is: begun, filled, committed, begun again. So a second process
 * that wants to write finds the file locked, while readers see the last commit. Every statement is prepared once.
 *
 * A file that another program made is told by its application_id, one of another schema by its user_version. The last
 * column of each row is a checksum of the others: a row that is damaged since is told when the sweep is resumed. */
#include "result_store.h"

#include <string.h>

#include "error.h"
#include "splitmix.h"

enum { SCHEMA = 3, APPLICATION = 0x73747370 /* "stsp" */, WAIT_MS = 1500 };
enum { HEAD_COLUMNS = 4 }; /* config, status, kind, reason */

struct ResultStore {
  char *file; /* owned; NULL: in memory */
  const SweepTable *table;
  sqlite3 *database;
  sqlite3_stmt *insert; /* of result_store_add() */
  sqlite3_stmt *select; /* of result_store_row() */
  Cell *bound;          /* [columns but the last]: what its parameters are bound to; owned, as are its texts */
  gboolean has_run;
};

/* --- facts --- */

static void clear_fact(gpointer data) {
  RunFact *fact = data;
  g_free(fact->name);
  g_free(fact->value);
}

GArray *run_facts_new(void) {
  GArray *facts = g_array_new(FALSE, FALSE, sizeof(RunFact));
  g_array_set_clear_func(facts, clear_fact);
  return facts;
}

void run_facts_add(GArray *facts, const char *name, const char *value) {
  RunFact fact = {g_strdup(name), g_strdup(value)};
  g_array_append_val(facts, fact);
}

const char *run_facts_find(const GArray *facts, const char *name) {
  for (guint i = 0; i < facts->len; i++)
    if (strcmp(g_array_index(facts, RunFact, i).name, name) == 0)
      return g_array_index(facts, RunFact, i).value;
  return NULL;
}

/* --- errors --- */

static const char *name_of(const ResultStore *store) {
  return store->file != NULL ? store->file : "the results in memory";
}

/* What SQLite says, and what to do about it. */
static gboolean fail_store(const ResultStore *store, int status, GError **error) {
  const char *file = name_of(store);
  switch (status & 0xff) {
  case SQLITE_NOTADB:
    return fail_input(error, "%s is not a database: expected a file that sweep has written, or none", file);
  case SQLITE_BUSY:
  case SQLITE_LOCKED:
    return fail_input(error, "%s is locked: another process writes to it", file);
  case SQLITE_READONLY:
    return fail_input(error, "cannot write %s: it, or its folder, is read-only", file);
  case SQLITE_CANTOPEN:
    return fail_input(
        error, "cannot open %s: %s", file,
        g_strerror(sqlite3_system_errno(store->database) != 0 ? sqlite3_system_errno(store->database) : ENOENT));
  case SQLITE_FULL:
    return fail_input(error, "cannot write %s: the disk is full; what was committed is kept", file);
  case SQLITE_CORRUPT:
    return fail_input(error, "%s is damaged: %s", file, sqlite3_errmsg(store->database));
  case SQLITE_CONSTRAINT:
    return fail_input(error, "%s has this configuration already: another process writes to it", file);
  default:
    return fail_input(error, "%s: %s (SQLite error %d)", file, sqlite3_errmsg(store->database), status);
  }
}

static gboolean execute(ResultStore *store, const char *sql, GError **error) {
  const int status = sqlite3_exec(store->database, sql, NULL, NULL, NULL);
  return status == SQLITE_OK || fail_store(store, status, error);
}

/* NULL with the error set. */
static sqlite3_stmt *prepare(ResultStore *store, const char *sql, GError **error) {
  sqlite3_stmt *statement = NULL;
  const int status = sqlite3_prepare_v2(store->database, sql, -1, &statement, NULL);
  if (status != SQLITE_OK)
    fail_store(store, status, error);
  return status == SQLITE_OK ? statement : NULL;
}

/* `rows` NULL: the error is set. */
static gboolean visit_rows(ResultStore *store, sqlite3_stmt *rows, ResultVisit visit, gpointer data, GError **error) {
  int status = SQLITE_DONE;
  gboolean ok = rows != NULL;
  while (ok && (status = sqlite3_step(rows)) == SQLITE_ROW)
    ok = visit(rows, data, error);
  return ok && (status == SQLITE_DONE || fail_store(store, status, error));
}

gboolean result_store_each(ResultStore *store, const char *sql, ResultVisit visit, gpointer data, GError **error) {
  sqlite3_stmt *rows = prepare(store, sql, error);
  const gboolean ok = visit_rows(store, rows, visit, data, error);
  sqlite3_finalize(rows);
  return ok;
}

gboolean result_store_row(ResultStore *store, gint64 index, ResultVisit visit, gpointer data, GError **error) {
  if (store->select == NULL)
    store->select = prepare(store, "SELECT * FROM configurations WHERE config = ?", error);
  sqlite3_bind_int64(store->select, 1, index);
  const gboolean ok = visit_rows(store, store->select, visit, data, error);
  sqlite3_reset(store->select);
  return ok;
}

static gboolean take_whole(sqlite3_stmt *row, gpointer value, GError **error) {
  *(gint64 *)value = sqlite3_column_int64(row, 0);
  return TRUE;
}

/* The one whole number a query gives. */
static gboolean query_whole(ResultStore *store, const char *sql, gint64 *value, GError **error) {
  return result_store_each(store, sql, take_whole, value, error);
}

/* --- checksums --- */

static void add_word(guint64 *sum, guint64 word) {
  *sum = splitmix(*sum ^ word);
}

static void add_whole(guint64 *sum, gint64 value) {
  add_word(sum, SQLITE_INTEGER);
  add_word(sum, (guint64)value);
}

static void add_real(guint64 *sum, double value) {
  const double kept = value == 0 ? 0 : value; /* SQLite has no negative zero */
  guint64 word;
  memcpy(&word, &kept, sizeof word);
  add_word(sum, SQLITE_FLOAT);
  add_word(sum, word);
}

static void add_text(guint64 *sum, const char *text, gsize n_bytes) {
  guint64 word;
  add_word(sum, SQLITE_TEXT);
  add_word(sum, n_bytes);
  for (; n_bytes >= sizeof word; text += sizeof word, n_bytes -= sizeof word) {
    memcpy(&word, text, sizeof word);
    add_word(sum, word);
  }
  char last[sizeof word] = {0};
  for (gsize i = 0; i < n_bytes; i++)
    last[i] = text[i];
  memcpy(&word, last, sizeof word);
  if (n_bytes > 0)
    add_word(sum, word);
}

static void add_text_or_null(guint64 *sum, const char *text) {
  if (text != NULL)
    add_text(sum, text, strlen(text));
  else
    add_word(sum, SQLITE_NULL);
}

static void add_cell(guint64 *sum, const Cell *cell) {
  if (cell->type == CELL_WHOLE)
    add_whole(sum, cell->whole);
  else if (cell->type == CELL_REAL)
    add_real(sum, cell->real);
  else
    add_text_or_null(sum, cell->type == CELL_TEXT ? cell->text : NULL);
}

static void add_column(guint64 *sum, sqlite3_stmt *row, int column) {
  switch (sqlite3_column_type(row, column)) {
  case SQLITE_INTEGER:
    add_whole(sum, sqlite3_column_int64(row, column));
    break;
  case SQLITE_FLOAT:
    add_real(sum, sqlite3_column_double(row, column));
    break;
  case SQLITE_NULL:
    add_word(sum, SQLITE_NULL);
    break;
  default: {
    const void *text = sqlite3_column_blob(row, column);
    add_text(sum, text, (gsize)sqlite3_column_bytes(row, column));
  }
  }
}

/* Whether the row's last column is the checksum of the others. */
static gboolean is_whole_row(sqlite3_stmt *row) {
  const int n = sqlite3_column_count(row) - 1;
  guint64 sum = 0;
  for (int i = 0; i < n; i++)
    add_column(&sum, row, i);
  return sqlite3_column_type(row, n) == SQLITE_INTEGER && sqlite3_column_int64(row, n) == (gint64)sum;
}

/* --- opening --- */

/* A store is empty, or this program's with a schema it knows. */
static gboolean check_schema(ResultStore *store, GError **error) {
  gint64 schema = 0, application = 0, n_tables = 0;
  if (!query_whole(store, "SELECT count(*) FROM sqlite_master", &n_tables, error) ||
      !query_whole(store, "PRAGMA user_version", &schema, error) ||
      !query_whole(store, "PRAGMA application_id", &application, error))
    return FALSE;
  if (n_tables == 0 && schema == 0)
    return TRUE;
  if (application != APPLICATION)
    return fail_input(error, "%s is a database of another program: expected a file that sweep has written, or none",
                      name_of(store));
  if (schema != SCHEMA)
    return fail_input(error, "%s has schema %" G_GINT64_FORMAT ", this program writes %d: use the program of its time",
                      name_of(store), schema, SCHEMA);
  store->has_run = TRUE;
  return TRUE;
}

/* Columns of a row but for its checksum. */
static int n_columns(const ResultStore *store) {
  return HEAD_COLUMNS + sweep_table_n_columns(store->table);
}

static sqlite3_stmt *prepare_insert(ResultStore *store, GError **error) {
  g_autoptr(GString) sql = g_string_new("INSERT INTO configurations VALUES (?");
  for (int i = 0; i < n_columns(store); i++)
    g_string_append(sql, ",?");
  g_string_append_c(sql, ')');
  return prepare(store, sql->str, error);
}

static gboolean open_path(ResultStore *store, GError **error) {
  if (store->file != NULL && *store->file == '\0') /* to SQLite, a file that nobody finds again */
    return fail_input(error, "cannot keep results in a file without a name");
  const gboolean is_there = store->file != NULL && g_file_test(store->file, G_FILE_TEST_EXISTS);
  if (is_there && !g_file_test(store->file, G_FILE_TEST_IS_REGULAR | G_FILE_TEST_IS_DIR))
    return fail_input(error, "cannot keep results in %s: it is no regular file", store->file);
  /* names that begin with a colon mean something to SQLite: ":memory:" */
  g_autofree char *path = store->file == NULL     ? g_strdup(":memory:")
                          : store->file[0] == ':' ? g_strconcat("./", store->file, NULL)
                                                  : g_strdup(store->file);
  const int status =
      sqlite3_open_v2(path, &store->database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
  return status == SQLITE_OK || fail_store(store, status, error);
}

static gboolean begin_writing(ResultStore *store, GError **error) {
  sqlite3_extended_result_codes(store->database, TRUE);
  sqlite3_busy_timeout(store->database, WAIT_MS);
  return check_schema(store, error) &&
         execute(store, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE", error) &&
         check_schema(store, error); /* again: another process may have been faster */
}

ResultStore *result_store_open(const char *file, const SweepTable *table, GError **error) {
  g_autoptr(ResultStore) store = g_new0(ResultStore, 1);
  store->file = g_strdup(file);
  store->table = table;
  return open_path(store, error) && begin_writing(store, error) ? g_steal_pointer(&store) : NULL;
}

ResultStore *result_store_open_packed(const GByteArray *bytes, const SweepTable *table, GError **error) {
  g_autoptr(ResultStore) store = g_new0(ResultStore, 1);
  store->table = table;
  if (!open_path(store, error))
    return NULL;
  guchar *image = sqlite3_malloc64(bytes->len); /* SQLite frees it */
  memcpy(image, bytes->data, bytes->len);
  const int status = sqlite3_deserialize(store->database, "main", image, bytes->len, bytes->len,
                                         SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE);
  if (status != SQLITE_OK)
    fail_store(store, status, error);
  return status == SQLITE_OK && begin_writing(store, error) ? g_steal_pointer(&store) : NULL;
}

void result_store_free(ResultStore *store) {
  if (store == NULL)
    return;
  sqlite3_finalize(store->insert);
  sqlite3_finalize(store->select);
  for (int i = 0; store->bound != NULL && i < n_columns(store); i++)
    if (store->bound[i].type == CELL_TEXT)
      g_free((gpointer)store->bound[i].text);
  g_free(store->bound);
  sqlite3_close(store->database);
  g_free(store->file);
  g_free(store);
}

/* --- the run --- */

gboolean result_store_has_run(const ResultStore *store) {
  return store->has_run;
}

static const char *sql_type(CellType type) {
  static const char *const names[] = {[CELL_WHOLE] = "INTEGER", [CELL_REAL] = "REAL", [CELL_TEXT] = "TEXT"};
  return names[type];
}

static const char table_of_facts[] =
    "CREATE TABLE run (name TEXT PRIMARY KEY, value TEXT, checksum INTEGER) WITHOUT ROWID";

/* Owned by the caller. */
static char *table_of_rows(const ResultStore *store) {
  GString *sql =
      g_string_new("CREATE TABLE configurations (config INTEGER PRIMARY KEY, status TEXT, kind TEXT, reason TEXT");
  for (int i = 0; i < sweep_table_n_columns(store->table); i++) {
    const SweepColumn *column = sweep_table_column(store->table, i);
    g_string_append_printf(sql, ",\"%s\" %s", column->name, sql_type(column->type));
  }
  g_string_append(sql, ", checksum INTEGER)");
  return g_string_free(sql, FALSE);
}

static gboolean create_tables(ResultStore *store, GError **error) {
  g_autofree char *rows = table_of_rows(store);
  g_autofree char *sql = g_strdup_printf("PRAGMA user_version = %d; PRAGMA application_id = %d; %s; %s", SCHEMA,
                                         APPLICATION, table_of_facts, rows);
  return execute(store, sql, error);
}

/* The file's tables are those that this program makes. */
static gboolean check_tables(ResultStore *store, GError **error) {
  g_autofree char *rows = table_of_rows(store);
  gint64 n_same = 0;
  char *sql = sqlite3_mprintf("SELECT count(*) FROM sqlite_master WHERE sql IN (%Q, %Q)", table_of_facts, rows);
  const gboolean is_known = query_whole(store, sql, &n_same, error);
  sqlite3_free(sql);
  return is_known && (n_same == 2 || fail_input(error,
                                                "%s is damaged, or of another version: its tables are not those "
                                                "that this program makes",
                                                name_of(store)));
}

static gboolean insert_fact(ResultStore *store, sqlite3_stmt *statement, const RunFact *fact, GError **error) {
  sqlite3_bind_text(statement, 1, fact->name, -1, SQLITE_STATIC);
  sqlite3_bind_text(statement, 2, fact->value, -1, SQLITE_STATIC);
  guint64 sum = 0;
  add_text_or_null(&sum, fact->name);
  add_text_or_null(&sum, fact->value);
  sqlite3_bind_int64(statement, 3, (gint64)sum);
  const int status = sqlite3_step(statement);
  sqlite3_reset(statement);
  return status == SQLITE_DONE || fail_store(store, status, error);
}

gboolean result_store_begin(ResultStore *store, const GArray *facts, GError **error) {
  g_assert(!store->has_run);
  if (!create_tables(store, error))
    return FALSE;
  sqlite3_stmt *statement = prepare(store, "INSERT INTO run VALUES (?, ?, ?)", error);
  gboolean ok = statement != NULL;
  for (guint i = 0; ok && i < facts->len; i++)
    ok = insert_fact(store, statement, &g_array_index(facts, RunFact, i), error);
  sqlite3_finalize(statement);
  store->has_run = ok && result_store_commit(store, error);
  return store->has_run;
}

typedef struct {
  const ResultStore *store;
  GArray *taken;
} Taking;

static gboolean take_fact(sqlite3_stmt *row, gpointer data, GError **error) {
  const Taking *taking = data;
  const char *name = (const char *)sqlite3_column_text(row, 0);
  if (!is_whole_row(row))
    return fail_input(error, "%s is damaged: what it says of the sweep, \"%.80s\", is not as it was written",
                      name_of(taking->store), name != NULL ? name : "");
  run_facts_add(taking->taken, name, (const char *)sqlite3_column_text(row, 1));
  return TRUE;
}

GArray *result_store_facts(ResultStore *store, GError **error) {
  g_autoptr(GArray) facts = run_facts_new();
  Taking taking = {store, facts};
  if (store->has_run && !(check_tables(store, error) &&
                          result_store_each(store, "SELECT * FROM run ORDER BY name", take_fact, &taking, error)))
    return NULL;
  return g_steal_pointer(&facts);
}

/* "tp=1,2,4\npp=1\n" against "tp=1,2\npp=1\n" is said by its lines. */
static void add_difference(GString *out, const char *name, const char *kept, const char *given) {
  g_auto(GStrv) old = g_strsplit(kept != NULL ? kept : "", "\n", -1);
  g_auto(GStrv) new = g_strsplit(given != NULL ? given : "", "\n", -1);
  g_string_append_printf(out, "\n  %s: in the file", name);
  for (char **line = old; *line != NULL; line++)
    if (**line != '\0' && !g_strv_contains((const char *const *)new, *line))
      g_string_append_printf(out, " %.200s", *line);
  g_string_append(out, kept == NULL ? " nothing, now" : ", now");
  for (char **line = new; *line != NULL; line++)
    if (**line != '\0' && !g_strv_contains((const char *const *)old, *line))
      g_string_append_printf(out, " %.200s", *line);
  if (given == NULL)
    g_string_append(out, " nothing");
}

gboolean result_store_check(ResultStore *store, const GArray *facts, GError **error) {
  g_autoptr(GArray) kept = result_store_facts(store, error);
  if (kept == NULL)
    return FALSE;
  g_autoptr(GString) differences = g_string_new(NULL);
  for (guint i = 0; i < facts->len; i++) {
    const RunFact *fact = &g_array_index(facts, RunFact, i);
    const char *value = run_facts_find(kept, fact->name);
    if (g_strcmp0(value, fact->value) != 0)
      add_difference(differences, fact->name, value, fact->value);
  }
  for (guint i = 0; i < kept->len; i++) {
    const RunFact *fact = &g_array_index(kept, RunFact, i);
    if (run_facts_find(facts, fact->name) == NULL)
      add_difference(differences, fact->name, fact->value, NULL);
  }
  return differences->len == 0 ||
         fail_input(error, "%s holds another sweep, which this one cannot resume:%s", name_of(store), differences->str);
}

/* --- rows --- */

static gboolean take_index(sqlite3_stmt *row, gpointer data, GError **error) {
  const Taking *taking = data;
  const gint64 index = sqlite3_column_int64(row, 0);
  g_array_append_val(taking->taken, index);
  return is_whole_row(row) ||
         fail_input(error, "%s is damaged: the row of configuration %" G_GINT64_FORMAT " is not as it was written",
                    name_of(taking->store), index);
}

GArray *result_store_indices(ResultStore *store, GError **error) {
  g_autoptr(GArray) indices = g_array_new(FALSE, FALSE, sizeof(gint64));
  Taking taking = {store, indices};
  const char *sql = "SELECT * FROM configurations ORDER BY config";
  if (store->has_run && !result_store_each(store, sql, take_index, &taking, error))
    return NULL;
  return g_steal_pointer(&indices);
}

/* Parameters stay bound from row to row, and most cells are those of the row before. */
static void bind_cell(ResultStore *store, int place, const Cell *cell) {
  Cell *bound = &store->bound[place], kept = *cell;
  if (cell_is_equal(cell, bound))
    return;
  switch (cell->type) {
  case CELL_NONE:
    sqlite3_bind_null(store->insert, place + 1);
    break;
  case CELL_WHOLE:
    sqlite3_bind_int64(store->insert, place + 1, cell->whole);
    break;
  case CELL_REAL:
    sqlite3_bind_double(store->insert, place + 1, cell->real);
    break;
  case CELL_TEXT:
    kept.text = g_strdup(cell->text);
    sqlite3_bind_text(store->insert, place + 1, kept.text, -1, SQLITE_STATIC);
    break;
  }
  if (bound->type == CELL_TEXT)
    g_free((gpointer)bound->text);
  *bound = kept;
}

static Cell text_or_none(const char *text) {
  return text != NULL ? (Cell){.type = CELL_TEXT, .text = text} : (Cell){0};
}

static gboolean prepare_adding(ResultStore *store, GError **error) {
  store->insert = prepare_insert(store, error);
  store->bound = g_new0(Cell, n_columns(store));
  return store->insert != NULL;
}

gboolean result_store_add(ResultStore *store, const SweepRow *row, GError **error) {
  if (store->insert == NULL && !prepare_adding(store, error))
    return FALSE;
  const Cell head[HEAD_COLUMNS] = {{.type = CELL_WHOLE, .whole = row->index},
                                   text_or_none(sweep_status_names()[row->status]),
                                   text_or_none(row->kind),
                                   text_or_none(row->reason)};
  guint64 sum = 0;
  const int n = n_columns(store);
  for (int i = 0; i < n; i++) {
    const Cell *cell = i < HEAD_COLUMNS ? &head[i] : &row->cells[i - HEAD_COLUMNS];
    bind_cell(store, i, cell);
    add_cell(&sum, cell);
  }
  sqlite3_bind_int64(store->insert, n + 1, (gint64)sum);
  const int status = sqlite3_step(store->insert);
  sqlite3_reset(store->insert);
  return status == SQLITE_DONE || fail_store(store, status, error);
}

gboolean result_store_pack(ResultStore *store, GByteArray *bytes, GError **error) {
  sqlite3_int64 n_bytes;
  if (!execute(store, "COMMIT", error))
    return FALSE;
  guchar *image = sqlite3_serialize(store->database, "main", &n_bytes, 0);
  g_byte_array_set_size(bytes, 0);
  g_byte_array_append(bytes, image, (guint)n_bytes);
  sqlite3_free(image);
  return execute(store, "BEGIN IMMEDIATE; DELETE FROM configurations", error);
}

typedef struct {
  ResultStore *store;
  sqlite3_stmt *insert;
  gint64 *counts, n;
} Copying;

/* A row of another store, value by value. */
static gboolean copy_row(sqlite3_stmt *row, gpointer data, GError **error) {
  Copying *copying = data;
  sqlite3_stmt *insert = copying->insert;
  for (int i = 0; i < sqlite3_column_count(row); i++)
    sqlite3_bind_value(insert, i + 1, sqlite3_column_value(row, i));
  const int status = sqlite3_step(insert);
  sqlite3_reset(insert);
  for (int i = 0; i < N_SWEEP_STATUSES; i++)
    copying->counts[i] += g_strcmp0((const char *)sqlite3_column_text(row, 1), sweep_status_names()[i]) == 0;
  copying->n++;
  return status == SQLITE_DONE || fail_store(copying->store, status, error);
}

gint64 result_store_unpack(ResultStore *store, const GByteArray *bytes, gint64 counts[N_SWEEP_STATUSES],
                           GError **error) {
  g_autoptr(ResultStore) packed = result_store_open_packed(bytes, store->table, NULL);
  Copying copying = {.store = store, .counts = counts};
  if (packed == NULL || !packed->has_run || !check_tables(packed, NULL))
    return fail_impossible(error, "a rank sent what are no rows: all ranks must run the same program");
  copying.insert = prepare_insert(store, error);
  const gboolean ok =
      copying.insert != NULL && result_store_each(packed, "SELECT * FROM configurations", copy_row, &copying, error);
  sqlite3_finalize(copying.insert);
  return ok ? copying.n : 0;
}

gboolean result_store_commit(ResultStore *store, GError **error) {
  return execute(store, "COMMIT; BEGIN IMMEDIATE", error);
}

gboolean result_store_finish(ResultStore *store, GError **error) {
  return execute(store, "COMMIT; PRAGMA wal_checkpoint(TRUNCATE)", error);
}
