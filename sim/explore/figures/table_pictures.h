/* Pictures of tables that other verbs wrote: `sweep --csv` or its database, `validate --rows`. Owned by the caller;
 * NULL with INPUT, as csv_table_read() and database_table_read(), for a column that is missing (with the nearest name)
 * or a cell that is no number (file:line). */
#pragma once
#include "picture.h"

typedef struct {
  const char *x, *y; /* columns; NULL: the first there is of those a sweep writes */
  const char *title; /* NULL: says what is drawn */
} ParetoColumns;
/* A point per row: less x and more y is better. Rows whose x or y is empty are left out. A column `fits` (1 or 0), or
 * else `status` as a sweep writes it (all but "ran" does not fit), says what does not fit in memory where there is one.
 * Labels are the cells of the plan's columns (tp, pp, …) in which rows differ, or of id. Columns that end in _bytes are
 * shown in GB = 1e9 bytes. */
Picture *table_pareto_picture(const char *file, const ParetoColumns *columns, GError **error);

/* Predicted against measured step times, a series per value of the column `by` (NULL: source). Rows without either time
 * are left out. */
Picture *table_validation_picture(const char *file, const char *by, const char *title, GError **error);
