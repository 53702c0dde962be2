/* A table as text: a CSV file whose first row names its columns (RFC 4180: quoted cells may hold commas, quotes and
 * line ends), read with libcsv, or a table of an SQLite file. Every row knows the line it starts on. */
#pragma once
#include <glib.h>

typedef struct {
  char *file;         /* owned */
  GPtrArray *columns; /* of char *: names as the header has them, without duplicates; "" for a column without one */
  GPtrArray *cells;   /* of const char *: row after row, columns->len each; the text is in `texts` */
  GArray *lines;      /* of int: the line each row starts on, from 1 */
  GArray *n_found;    /* of guint: cells of each row in the file; missing ones are read as "", surplus ones dropped */
  GStringChunk *texts;
} CsvTable;

/* Lines may end in LF, CR LF or CR; a byte order mark and empty lines are skipped; blanks around cells are stripped.
 * INPUT with file:line: not UTF-8, a misplaced or unclosed quote, a duplicate column name, a file without rows. A
 * row with more or fewer cells than the header is accepted; callers that need complete rows call
 * csv_table_check_row(). */
CsvTable *csv_table_read(const char *file, GError **error);
void csv_table_free(CsvTable *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CsvTable, csv_table_free)

/* Whether `file` is a regular file that starts like an SQLite file (https://www.sqlite.org/fileformat.html, section
 * 1.3.1). */
gboolean csv_table_is_database(const char *file);
/* All rows of `table` in key order, as text; NULL becomes an empty cell. A row's `lines` entry is its number, from
 * 1. The file is opened read-only; another process may be writing to it. INPUT naming the file: it cannot be opened,
 * is damaged, or has no such table or no rows in it. */
CsvTable *csv_table_read_database(const char *file, const char *table, GError **error);

guint csv_table_n_rows(const CsvTable *table);
/* INPUT with file:line if the row has more or fewer cells than the header. */
gboolean csv_table_check_row(const CsvTable *table, guint row, GError **error);
/* −1: no column of that name. */
int csv_table_find_column(const CsvTable *table, const char *name);
const char *csv_table_cell(const CsvTable *table, guint row, int column);

/* Writing: append the cells of a row, then end it. Cells are quoted where necessary. */
void csv_append_cell(GString *out, const char *text);
/* Enough digits to read back as the same double, a decimal point in any locale; non-finite: an empty cell. */
void csv_append_number(GString *out, double value);
void csv_end_row(GString *out);
