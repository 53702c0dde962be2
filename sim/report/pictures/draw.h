/* A pipeline schedule drawn in the terminal. */
#pragma once
#include "time_unit.h"
#include "trace.h"

/* Append to `out` one row per pipeline rank, time to the right, then a time axis and a legend; no row is wider than
 * `width` columns; `width` is brought into 40 … 10,000. A longer time is broken into strips, rows and axis each, as
 * long as there are at most 8 and all have at most 64 rows.
 *
 * Times on a common grid that fits are drawn exactly: a column is a whole part of the grid. Otherwise a column shows
 * what takes most of its time, and where the strips allow it the shortest pass has a column. With `colour` (256-colour
 * escape sequences): F, I, W, B by background, chunk by shade, the micro-batch as number (its last digits where there
 * is no room). Without: a letter, lower case for odd chunks, then the micro-batch where it fits, '-' while it lasts,
 * '.' idle. */
void draw_schedule(const Trace *trace, int width, gboolean colour, GString *out);

/* The same with a time axis in `unit`: relative times of bare orders. */
void draw_schedule_in_units(const Trace *trace, TimeUnit unit, int width, gboolean colour, GString *out);
