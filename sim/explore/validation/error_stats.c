/* The best scale. Each |a·x − 1| = a·|x − 1/a|, so the sum is that of distances from x to the points 1/a_i, each
 * weighted a_i. It is convex and piecewise linear; left of the weighted median its slope is negative, right of it
 * positive:
 *
 *     slope at x  =  Σ{1/a_i < x} a_i − Σ{1/a_i > x} a_i
 *
 * so the minimum lies at the first point, from the smallest on, at which the weights passed reach half of all. */
#include "error_stats.h"

#include "sort_doubles.h"

#include <math.h>

static double quantile(const double *sorted, guint n, double share) {
  double at = share * (n - 1);
  guint below = (guint)floor(at);
  guint above = MIN(below + 1, n - 1);
  return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

ErrorStats error_stats(const double *errors, guint n) {
  ErrorStats stats = {NAN, NAN, NAN, NAN};
  if (n == 0)
    return stats;
  g_autofree double *absolute = g_new(double, n);
  double sum = 0, absolute_sum = 0;
  for (guint i = 0; i < n; i++) {
    absolute[i] = fabs(errors[i]);
    sum += errors[i];
    absolute_sum += absolute[i];
  }
  sort_doubles(absolute, n);
  stats.mape = absolute_sum / n;
  stats.bias = sum / n;
  stats.median_ape = quantile(absolute, n, 0.5);
  stats.p90_ape = quantile(absolute, n, 0.9);
  return stats;
}

double error_stats_best_scale(const double *a, guint n) {
  g_assert(n > 0);
  g_autofree double *sorted = g_memdup2(a, n * sizeof *a);
  sort_doubles(sorted, n); /* points 1/a fall as weights a rise: the smallest point is the last */
  double total = 0, passed = 0;
  for (guint i = 0; i < n; i++)
    total += sorted[i];
  guint i = n;
  while (i > 0 && 2 * passed < total)
    passed += sorted[--i];
  return 1 / sorted[i];
}
