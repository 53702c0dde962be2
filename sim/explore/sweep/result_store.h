/* Where a sweep's rows are kept: an SQLite file that any tool can read while the sweep runs.
 *
 *     PRAGMA user_version = 1
 *     run             name TEXT, value TEXT            what was swept: program, space, inputs with their SHA-256 …
 *     configurations  config INTEGER PRIMARY KEY       index in the space
 *                     status, kind, reason TEXT        sweep_row.h
 *                     …                                a column each of the SweepTable
 *
 * The file is in WAL mode and rows are added in transactions: if a process is killed, everything committed survives
 * and nothing else. One process writes at a time. All errors are INPUT and name the file. */
#pragma once
#include <sqlite3.h>

#include "sweep_row.h"

/* The identity of a sweep, as names and values in order; results belong together if all of them are equal. */
typedef struct {
  char *name, *value; /* owned */
} RunFact;
GArray *run_facts_new(void); /* of RunFact */
void run_facts_add(GArray *facts, const char *name, const char *value);
const char *run_facts_find(const GArray *facts, const char *name); /* NULL: no fact of that name */

typedef struct ResultStore ResultStore;

/* Open `file`, or create it; NULL is a store in memory. Fails if it is not a database, belongs to another program or
 * a newer schema, cannot be written, or is being written by another process. */
ResultStore *result_store_open(const char *file, const SweepTable *table, GError **error);
/* A store in memory with what another had when it was packed. */
ResultStore *result_store_open_packed(const GByteArray *bytes, const SweepTable *table, GError **error);
/* Roll back what was not committed. */
void result_store_free(ResultStore *store);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ResultStore, result_store_free)

/* Whether it holds a sweep. */
gboolean result_store_has_run(const ResultStore *store);
/* Its facts; empty without a sweep. GArray of RunFact, owned by the caller. NULL with the error set. */
GArray *result_store_facts(ResultStore *store, GError **error);
/* Begin a sweep in an empty store. */
gboolean result_store_begin(ResultStore *store, const GArray *facts, GError **error);
/* INPUT naming every fact that differs, with both values, if the store belongs to another sweep. */
gboolean result_store_check(ResultStore *store, const GArray *facts, GError **error);

/* Indices of all rows, ascending: GArray of gint64, owned by the caller. */
GArray *result_store_indices(ResultStore *store, GError **error);
gboolean result_store_add(ResultStore *store, const SweepRow *row, GError **error);
/* Commit the rows added so far. */
gboolean result_store_commit(ResultStore *store, GError **error);
/* Takes all rows out of a store in memory, which it gives as `bytes` to another process of the same program. */
gboolean result_store_pack(ResultStore *store, GByteArray *bytes, GError **error);
/* Adds the rows of a packed store, and each to its status's count: how many; 0 with the error set. */
gint64 result_store_unpack(ResultStore *store, const GByteArray *bytes, gint64 counts[N_SWEEP_STATUSES],
                           GError **error);
/* Commit, merge the write-ahead log into the file and close it for writing; it can still be read. */
gboolean result_store_finish(ResultStore *store, GError **error);

/* A query that only fails if the store does, each of its rows visited until `visit` is FALSE, with the error set. */
typedef gboolean (*ResultVisit)(sqlite3_stmt *row, gpointer data, GError **error);
gboolean result_store_each(ResultStore *store, const char *sql, ResultVisit visit, gpointer data, GError **error);
/* The same of one configuration's row, all columns. */
gboolean result_store_row(ResultStore *store, gint64 index, ResultVisit visit, gpointer data, GError **error);
