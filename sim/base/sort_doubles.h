/* Sorting of doubles, for medians and quantiles. */
#pragma once
#include <glib.h>

#include <stdlib.h>

static inline int sort_doubles_compare(gconstpointer a, gconstpointer b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Sort in ascending order; no value may be NaN. */
static inline void sort_doubles(double *values, gsize n) {
  qsort(values, n, sizeof *values, sort_doubles_compare);
}
