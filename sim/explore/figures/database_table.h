/* A table of an SQLite file as a CsvTable: what draws tables does not care which it was. */
#pragma once
#include "csv_table.h"

/* Whether `file` is a regular one that begins as SQLite's files do (https://www.sqlite.org/fileformat.html,
 * section 1.3.1). */
gboolean database_table_is(const char *file);
/* All rows of `table` in their order of keys, as text; what is NULL is empty. A row's `lines` entry is its number from
 * 1. The file is only read, also while another process writes it. INPUT naming the file: it cannot be opened, is
 * damaged, or has no such table or no row in it. */
CsvTable *database_table_read(const char *file, const char *table, GError **error);
