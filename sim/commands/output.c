#include "output.h"

#include <stdio.h>

#include "error.h"

gboolean output_text(const char *file, const char *text, GError **error) {
  if (g_strcmp0(file, "-") == 0) {
    fputs(text, stdout);
    return TRUE;
  }
  g_autoptr(GError) local = NULL;
  return g_file_set_contents(file, text, -1, &local) ? TRUE : fail_input(error, "%s", local->message);
}
