/* A picture of a comparison: for each rank, predicted above measured. Drawn by plots/compare.gp. */
#pragma once
#include "compare.h"
#include "picture.h"

/* The last step, both traces starting at its beginning; `row` ≥ 0: that rank only. At most 16 ranks are drawn; if
 * there are more, one per pipeline rank, and of those the first 16. INPUT as gnuplot_run(). */
gboolean compare_plot(const Compare *compare, int row, const char *file, GError **error);
/* The rows plots/compare.gp reads, times in units of `unit_ns` nanoseconds. Owned by the caller. */
char *compare_plot_data(const Compare *compare, int row, double unit_ns);

/* One trace on its own, its last step, as plots/timeline.gp draws it; ranks as above. `title` NULL: the file's name
 * and the duration of the step. Owned by the caller; NULL with INPUT if the trace is not sound or nothing in it
 * takes any time. */
Picture *compare_trace_picture(const ChromeTrace *trace, const char *title, GError **error);
