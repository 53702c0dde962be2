/* What a row's cells hold: numbers, and words as their index. */
#pragma once
#include "measured_rows.h"

enum { CELL_UNKNOWN = -1 };

static inline gint64 or_else(gint64 value, gint64 otherwise) {
  return value != CELL_UNKNOWN ? value : otherwise;
}

/* `*value` is left alone where the cell is empty. INPUT: column, found, expected. */
gboolean row_cells_count(const MeasuredRow *row, const char *column, gint64 least, gint64 most, gint64 *value,
                         GError **error);
/* The index among `names`; of row_cells_switches() 1 or 0. */
gboolean row_cells_word(const MeasuredRow *row, const char *column, const char *const *names, gint64 *value,
                        GError **error);
/* "on", "true" and the like. */
const char *const *row_cells_switches(void);
/* Above 0; NAN where the cell is empty or cannot be read. */
gboolean row_cells_quantity(const MeasuredRow *row, const char *column, double most, double *value, GError **error);
