/* A picture of the step: a lane per pipeline rank with what its compute stream ran, and the host's update where it
 * takes the GPU's place; below it thin lanes with its communication and its copies to and from host memory and drives.
 * Drawn by plots/timeline.gp. */
#pragma once
#include "picture.h"
#include "time_unit.h"
#include "trace.h"

/* `file` ends in .svg, .png or .pdf. INPUT as gnuplot_run(), or when nothing takes any time. */
gboolean timeline_write(const Trace *trace, const char *title, const char *file, GError **error);
/* The same with a time axis in `unit`: relative times of bare orders. */
gboolean timeline_write_in_units(const Trace *trace, TimeUnit unit, const char *title, const char *file,
                                 GError **error);
/* The same, not drawn yet; in a terminal of so many columns as draw_schedule() has it. Owned by the caller; NULL with
 * INPUT when nothing takes any time, or a send of the program has no receive. */
Picture *timeline_picture(const Trace *trace, const char *title, int columns, GError **error);

/* The rows plots/timeline.gp reads, times in `unit_ns` nanoseconds. Owned by the caller; NULL with an error when a
 * send of the program has no receive. */
char *timeline_data(const Trace *trace, double unit_ns, GError **error);
