/* Pictures of tables that other verbs wrote: `sweep --csv` or its database, `validate --rows`. Owned by the caller.
 * NULL with INPUT, as csv_table_read() and database_table_read(), for a missing column (with the nearest name) or a
 * cell that is not a number (file:line). */
#pragma once
#include "picture.h"

typedef struct {
  const char *x, *y; /* columns; NULL: the first present one of those a sweep writes */
  const char *title; /* NULL: describes what is drawn */
} ParetoColumns;
/* One point per row; less x and more y is better. Rows with an empty x or y are skipped. Whether a row fits in
 * memory is taken from a column `fits` (1 or 0), else from `status` as written by a sweep (anything but "ran" does
 * not fit), if present. Labels are the cells of the plan's columns (tp, pp, …) that differ between rows, or of id.
 * Columns ending in _bytes are shown in GB = 1e9 bytes. */
Picture *table_pareto_picture(const char *file, const ParetoColumns *columns, GError **error);

/* Predicted against measured step times, one series per value of the column `by` (NULL: source). Rows that lack
 * either time are skipped. */
Picture *table_validation_picture(const char *file, const char *by, const char *title, GError **error);
