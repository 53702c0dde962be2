/* A CSV file whose first row names its columns (RFC 4180: quoted cells may hold commas, quotes and line ends), read
 * with libcsv. Every row knows the line it begins in. */
#pragma once
#include <glib.h>

typedef struct {
  char *file;         /* owned */
  GPtrArray *columns; /* of char *: names as the header has them, without duplicates; "" for a column without one */
  GPtrArray *cells;   /* of const char *: row after row, columns->len each; the text is in `texts` */
  GArray *lines;      /* of int: where each row begins, from 1 */
  GArray *n_found;    /* of guint: how many cells each row has in the file; missing ones are "", others left out */
  GStringChunk *texts;
} CsvTable;

/* Lines may end in LF, CR LF or CR; a byte order mark and empty lines are skipped; blanks around cells are not part of
 * them. INPUT with file:line: not UTF-8, a quote out of place or never closed, a column named twice, a file without a
 * row. A row with more or fewer cells than the header is read: who needs whole rows asks csv_table_check_row(). */
CsvTable *csv_table_read(const char *file, GError **error);
void csv_table_free(CsvTable *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CsvTable, csv_table_free)

/* One without columns or rows, to be filled by who reads tables from elsewhere. */
CsvTable *csv_table_new(const char *file);

guint csv_table_n_rows(const CsvTable *table);
/* INPUT with file:line: the row has more or fewer cells than the header. */
gboolean csv_table_check_row(const CsvTable *table, guint row, GError **error);
/* −1: there is none of that name. */
int csv_table_find_column(const CsvTable *table, const char *name);
const char *csv_table_cell(const CsvTable *table, guint row, int column);

/* Writing: append the cells of a row, then end it. A cell is quoted where it has to be. */
void csv_append_cell(GString *out, const char *text);
/* As many digits as read back as the same double, a point as decimal sign in any locale; not finite: an empty cell. */
void csv_append_number(GString *out, double value);
void csv_end_row(GString *out);
