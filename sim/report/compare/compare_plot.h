/* A picture of a comparison: for each rank, predicted above measured. Drawn by plots/compare.gp. */
#pragma once
#include "compare.h"
#include "picture.h"

/* The last step, both traces starting at its beginning; `row` ≥ 0: that rank only. At most 16 ranks are drawn; if
 * there are more, one per pipeline rank, and of those the first 16. Owned by the caller. */
Picture *compare_picture(const Compare *compare, int row);

/* One trace on its own, its last step, as plots/timeline.gp draws it; ranks as above. `title` NULL: the file's name
 * and the duration of the step. Owned by the caller; NULL with INPUT if the trace is not sound or nothing in it
 * takes any time. */
Picture *compare_trace_picture(const ChromeTrace *trace, const char *title, GError **error);
