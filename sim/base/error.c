/* Messages may quote whatever a user typed or a file contained, so they are made printable here, in one place: broken
 * UTF-8 and control characters (including escape sequences) are replaced. */
#include "error.h"

G_DEFINE_QUARK(stepsim - error - quark, stepsim_error)

static char *make_printable(const char *text) {
  char *valid = g_utf8_make_valid(text, -1);
  for (char *c = valid; *c != '\0'; c++)
    if (g_ascii_iscntrl(*c) && *c != '\n')
      *c = '?';
  return valid;
}

gboolean fail_with(GError **error, StepsimError code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *message = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  g_autofree char *printable = make_printable(message);
  g_set_error_literal(error, STEPSIM_ERROR, code, printable);
  return FALSE;
}
