/* A pipeline schedule drawn in the terminal. */
#pragma once
#include "trace.h"
#include "units.h"

/* Append to `out` one row per pipeline rank, with time to the right, then a time axis in `unit` and a legend. No row is
 * wider than `width` columns; `width` is clamped to 40 … 10,000. A longer time is broken into strips, each with rows
 * and axis, up to 8 strips and 64 rows in all.
 *
 * If all times lie on a common grid that fits, the drawing is exact: a column is a whole fraction of the grid.
 * Otherwise a column shows what takes most of its time, and where the strips allow it the shortest pass gets a
 * column. With `colour` (256-colour escape sequences): F, I, W, B by background, chunk by shade, the micro-batch as
 * a number (its last digits if there is no room). Without: a letter, lower case for odd chunks, then the micro-batch
 * if it fits, '-' for the rest of the pass, '.' idle. */
void draw_schedule(const Trace *trace, TimeUnit unit, int width, gboolean colour, GString *out);
