/* Statistics of prediction errors. An error is predicted / measured − 1: positive if the prediction is too slow. */
#pragma once
#include <glib.h>

/* Over n errors, all NAN if n = 0. Fractions, not per cent. */
typedef struct {
  double mape;       /* mean of the absolute errors */
  double median_ape; /* their median, */
  double p90_ape;    /* and 90th percentile, between neighbours by linear interpolation (Hyndman & Fan's type 7) */
  double bias;       /* mean of the signed errors */
} ErrorStats;
ErrorStats error_stats(const double *errors, guint n);

/* The x ≥ 0 that minimises Σ |a_i · x − 1| over n ≥ 1 values a_i > 0: exact; the smallest one if there are
 * several. */
double error_stats_best_scale(const double *a, guint n);
