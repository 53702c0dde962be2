/* A comparison for people, and for spreadsheets. */
#pragma once
#include "compare.h"

/* Append tables: the step, kinds, phases, ranks, order. `row` ≥ 0: only that row of the ranks. With `colour`, bold
 * headings. */
void compare_text(GString *out, const Compare *compare, int row, gboolean colour);
/* One line per matched op, times in nanoseconds on the clock of its trace; `row` as above. Owned by
 * the caller. */
char *compare_csv(const Compare *compare, int row);
