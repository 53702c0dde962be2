/* Sums of times that saturate at the end of time instead of wrapping: absurd durations stay absurd, never
 * negative. */
#pragma once
#include <glib.h>

/* a, b ≥ 0 */
static inline gint64 add_ns(gint64 a_ns, gint64 b_ns) {
  gint64 sum_ns;
  return __builtin_add_overflow(a_ns, b_ns, &sum_ns) ? G_MAXINT64 : sum_ns;
}
