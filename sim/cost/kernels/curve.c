#include "curve.h"

#include <glib.h>

/* The last point that is not larger than `size_bytes`. */
static int point_below(const CurvePoint *points, int n, double size_bytes) {
  int low = 0, high = n;
  while (high - low > 1) {
    int middle = low + (high - low) / 2;
    *(points[middle].size_bytes <= size_bytes ? &low : &high) = middle;
  }
  return low;
}

double curve_between_s(const CurvePoint *points, int n, double size_bytes) {
  g_assert(n >= 1 && size_bytes >= points[0].size_bytes && size_bytes <= points[n - 1].size_bytes);
  int below = point_below(points, n, size_bytes);
  const CurvePoint *a = &points[below];
  if (below == n - 1)
    return a->time_s;
  const CurvePoint *b = a + 1;
  return a->time_s + (b->time_s - a->time_s) * (size_bytes - a->size_bytes) / (b->size_bytes - a->size_bytes);
}
