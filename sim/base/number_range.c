#include "number_range.h"

#include <string.h>

#include "units.h"

static const gint64 most = G_GINT64_CONSTANT(1) << 52;

/* Counts may have a suffix: 16k, 16Ki. */
static gboolean parse_number(const char *text, gint64 least, gint64 *number) {
  double count;
  if (units_parse_whole(text, least, most, number, NULL))
    return TRUE;
  if (!units_parse_count(text, &count, NULL) || count < (double)least || count > (double)most ||
      count != (double)(gint64)count)
    return FALSE;
  *number = (gint64)count;
  return TRUE;
}

gboolean number_range_parse(const char *text, gint64 least, NumberRange *range) {
  g_auto(GStrv) ends = g_strsplit(text, "..", 2);
  char *step = ends[0] != NULL && ends[1] != NULL ? strpbrk(ends[1], "*+") : NULL;
  *range = (NumberRange){.step = 1, .multiplies = step != NULL && *step == '*'};
  if (ends[0] == NULL || ends[1] == NULL ||
      (step != NULL && !parse_number(step + 1, range->multiplies ? 2 : 1, &range->step)))
    return FALSE;
  if (step != NULL)
    *step = '\0';
  return parse_number(ends[0], range->multiplies ? MAX(least, 1) : least, &range->first) &&
         parse_number(ends[1], range->first, &range->last);
}

const char *number_range_form(void) {
  return "FIRST..LAST, FIRST..LAST+STEP or FIRST..LAST*FACTOR with FIRST ≤ LAST";
}

gboolean number_range_next(const NumberRange *range, gint64 *value) {
  if (range->multiplies ? *value > range->last / range->step : *value > range->last - range->step)
    return FALSE; /* the next would pass the last */
  *value = range->multiplies ? *value * range->step : *value + range->step;
  return TRUE;
}
