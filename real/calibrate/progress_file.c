#include "progress_file.h"

#include "error.h"

#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

char *progress_file_read(const char *file, gsize *length, GError **error) {
  char *text = NULL;
  g_autoptr(GError) cause = NULL;
  if (!g_file_get_contents(file, &text, length, &cause) && g_file_test(file, G_FILE_TEST_EXISTS))
    fail_input(error, "%s", cause->message);
  return text;
}

static char *name_while_written(const char *file) {
  return g_strconcat(file, ".new", NULL);
}

gboolean progress_file_write(const char *file, const char *text, GError **error) {
  g_autofree char *folder = g_path_get_dirname(file), *name = name_while_written(file);
  g_mkdir_with_parents(folder, 0777);
  FILE *out = g_fopen(name, "w");
  if (out == NULL)
    return fail_input(error, "cannot write %s: %s", file, g_strerror(errno));
  gboolean ok = fputs(text, out) >= 0 && fflush(out) == 0 && fsync(fileno(out)) == 0;
  int why = ok ? 0 : errno;
  if (fclose(out) != 0 && ok) {
    ok = FALSE;
    why = errno;
  }
  if (ok && g_rename(name, file) != 0) {
    ok = FALSE;
    why = errno;
  }
  if (ok)
    return TRUE;
  g_unlink(name);
  return fail_input(error, "cannot write %s: %s", file, g_strerror(why));
}

void progress_file_remove(const char *file) {
  g_autofree char *name = name_while_written(file);
  g_unlink(file);
  g_unlink(name);
}
