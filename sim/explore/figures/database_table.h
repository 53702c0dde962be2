/* A table of an SQLite file as a CsvTable, so that drawing code need not care about the source. */
#pragma once
#include "csv_table.h"

/* Whether `file` is a regular file that starts like an SQLite file (https://www.sqlite.org/fileformat.html, section
 * 1.3.1). */
gboolean database_table_is(const char *file);
/* All rows of `table` in key order, as text; NULL becomes an empty cell. A row's `lines` entry is its number, from
 * 1. The file is opened read-only; another process may be writing to it. INPUT naming the file: it cannot be opened,
 * is damaged, or has no such table or no rows in it. */
CsvTable *database_table_read(const char *file, const char *table, GError **error);
