/* A picture of a comparison: for each rank what was predicted above what was measured. Drawn by plots/compare.gp. */
#pragma once
#include "compare.h"
#include "picture.h"

/* The last step, both traces from its start; `row` ≥ 0: that rank alone. At most 16 ranks: of more, one for each
 * pipeline rank, and of those the first. INPUT as gnuplot_run(). */
gboolean compare_plot(const Compare *compare, int row, const char *file, GError **error);
/* The rows plots/compare.gp reads, times in `unit_ns` nanoseconds. Owned by the caller. */
char *compare_plot_data(const Compare *compare, int row, double unit_ns);

/* One trace alone, its last step, as plots/timeline.gp draws it; ranks as above. `title` NULL: the file's name and how
 * long the step took. Owned by the caller; NULL with INPUT when it is not sound or nothing in it takes any time. */
Picture *compare_trace_picture(const ChromeTrace *trace, const char *title, GError **error);
