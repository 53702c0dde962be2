/* Where a sweep's rows are kept: an SQLite file that any tool reads while the sweep runs.
 *
 *     PRAGMA user_version = 1
 *     run             name TEXT, value TEXT            what was swept: program, space, inputs with their SHA-256 …
 *     configurations  config INTEGER PRIMARY KEY       index in the space
 *                     status, kind, reason TEXT        sweep_row.h
 *                     …                                a column each of the SweepTable
 *
 * It is in WAL mode, and rows are added in transactions: a process killed at any moment leaves all that was committed
 * and nothing else. One process writes at a time. All errors are INPUT and name the file. */
#pragma once
#include <sqlite3.h>

#include "sweep_row.h"

/* What a sweep is, as names and values in order; results belong together when all are equal. */
typedef struct {
  char *name, *value; /* owned */
} RunFact;
GArray *run_facts_new(void); /* of RunFact */
void run_facts_add(GArray *facts, const char *name, const char *value);
const char *run_facts_find(const GArray *facts, const char *name); /* NULL: none of that name */

typedef struct ResultStore ResultStore;

/* Open `file`, or make it; NULL is a store in memory. Fails when it is no database, of another program or a newer
 * schema, cannot be written, or is being written by another process. */
ResultStore *result_store_open(const char *file, const SweepTable *table, GError **error);
/* Give up what was not committed. */
void result_store_free(ResultStore *store);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ResultStore, result_store_free)

/* Whether it holds a sweep. */
gboolean result_store_has_run(const ResultStore *store);
/* Its facts; empty without a sweep. GArray of RunFact, owned by the caller. NULL with the error set. */
GArray *result_store_facts(ResultStore *store, GError **error);
/* Begin a sweep in an empty store. */
gboolean result_store_begin(ResultStore *store, const GArray *facts, GError **error);
/* INPUT naming every fact that differs, with both values, when the store's sweep is another one. */
gboolean result_store_check(ResultStore *store, const GArray *facts, GError **error);

/* Indices of all rows, ascending: GArray of gint64, owned by the caller. */
GArray *result_store_indices(ResultStore *store, GError **error);
gboolean result_store_add(ResultStore *store, const SweepRow *row, GError **error);
/* Make what was added last for good. */
gboolean result_store_commit(ResultStore *store, GError **error);
/* Commit, bring the write-ahead log into the file, and close it for writing; it can still be read. */
gboolean result_store_finish(ResultStore *store, GError **error);

/* A query that cannot fail for the caller's reasons; NULL with the error set. sqlite3_finalize() it. */
sqlite3_stmt *result_store_query(ResultStore *store, GError **error, const char *sql);
/* After a query's last row: FALSE with the error set when it did not end well. `status` as sqlite3_step() gave it. */
gboolean result_store_check_end(ResultStore *store, int status, GError **error);
