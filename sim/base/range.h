/* The range of values that a reader accepts, ends included. */
#pragma once
#include <glib.h>
#include <math.h>

typedef struct {
  gint64 least, most;
} IntegerRange;

typedef struct {
  double least, most;
} RealRange;

/* Whether a number, which may be written 4096.0 or 4.096e3, is an integer of the range; then sets *value. */
static inline gboolean range_has_integer(IntegerRange range, double number, gint64 *value) {
  const double most_exact = 9007199254740992; /* 2^53 */
  if (!(fabs(number) <= most_exact) || number != floor(number) || (gint64)number < range.least ||
      (gint64)number > range.most)
    return FALSE;
  *value = (gint64)number;
  return TRUE;
}
