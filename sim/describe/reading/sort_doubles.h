/* What medians and quantiles are taken of. */
#pragma once
#include <glib.h>

#include <stdlib.h>

static inline int sort_doubles_compare(gconstpointer a, gconstpointer b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Ascending; none is NaN. */
static inline void sort_doubles(double *values, gsize n) {
  qsort(values, n, sizeof *values, sort_doubles_compare);
}
