#include "number_list.h"

#include <string.h>

#include "error.h"
#include "units.h"

static gboolean read_number(const char *text, const char *noun, int most, int *number, GError **error) {
  g_autofree char *trimmed = g_strstrip(g_strdup(text));
  gint64 value;
  if (!g_ascii_string_to_signed(trimmed, 10, 0, most, &value, NULL))
    return fail_input(error, "found \"%.80s\", expected a %s from 0 to %d", text, noun, most);
  *number = (int)value;
  return TRUE;
}

/* "5" or "0..7" */
static gboolean read_part(const char *text, const char *noun, int most, guint longest, GArray *numbers,
                          GError **error) {
  const char *dots = strstr(text, "..");
  g_autofree char *first = dots != NULL ? g_strndup(text, dots - text) : g_strdup(text);
  int from, to;
  if (!read_number(first, noun, most, &from, error) ||
      !read_number(dots != NULL ? dots + 2 : first, noun, most, &to, error))
    return FALSE;
  if (to < from)
    return fail_input(error, "found \"%.80s\", expected FIRST..LAST with FIRST <= LAST", text);
  if ((gint64)numbers->len + (to - from) >= longest)
    return fail_input(error, "more than %u %ss", longest, noun);
  for (int number = from; number <= to; number++)
    g_array_append_val(numbers, number);
  return TRUE;
}

gboolean number_list_read(const char *text, const char *noun, int most, guint longest, GArray *numbers,
                          GError **error) {
  g_auto(GStrv) parts = g_strsplit(text, ",", -1);
  for (char **part = parts; *part != NULL; part++)
    if (!read_part(*part, noun, most, longest, numbers, error))
      return FALSE;
  return TRUE;
}

/* --- ranges ------------------------------------------------------------------------------------------------------ */

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
