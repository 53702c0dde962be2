/* A picture of the step: per pipeline rank, a lane with its compute stream and thin lanes below it with its
 * communication. Drawn by plots/timeline.gp. */
#pragma once
#include "picture.h"
#include "time_unit.h"
#include "trace.h"

/* `file` ends in .svg, .png or .pdf. INPUT as gnuplot_run(), or if nothing takes any time. */
gboolean timeline_write(const Trace *trace, const char *title, const char *file, GError **error);
/* The same with the time axis in `unit`, for the relative times of bare orders. */
gboolean timeline_write_in_units(const Trace *trace, TimeUnit unit, const char *title, const char *file,
                                 GError **error);
/* The same, not drawn yet; a terminal of that many columns gets the drawing of draw_schedule(). Owned by the caller;
 * NULL with INPUT if nothing takes any time, or a send of the program has no receive. */
Picture *timeline_picture(const Trace *trace, const char *title, int columns, GError **error);

/* The rows that plots/timeline.gp reads, times in units of `unit_ns` nanoseconds. Owned by the caller; NULL with an
 * error if a send of the program has no receive. */
char *timeline_data(const Trace *trace, double unit_ns, GError **error);
