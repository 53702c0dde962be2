#include "number_list.h"

#include <string.h>

#include "error.h"

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
