#include "output.h"

#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "whole_file.h"

gboolean output_text(const char *file, const char *text, GError **error) {
  WholeFile out;
  if (!whole_file_open(&out, file, error))
    return FALSE;
  whole_file_write(&out, text, strlen(text));
  return whole_file_close(&out, error);
}

int output_columns(void) {
  struct winsize size;
  const char *columns = g_getenv("COLUMNS");
  gint64 width = columns != NULL ? g_ascii_strtoll(columns, NULL, 10) : 0;
  if (width <= 0)
    width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
  return (int)CLAMP(width > 0 ? width : 120, 40, 10000);
}

/* Whether both are, or will be, the same file. */
static gboolean is_same_file(const char *a, const char *b) {
  g_autofree char *path_a = g_canonicalize_filename(a, NULL), *path_b = g_canonicalize_filename(b, NULL);
  struct stat stat_a, stat_b;
  if (stat(path_a, &stat_a) != 0 || stat(path_b, &stat_b) != 0)
    return strcmp(path_a, path_b) == 0;
  return S_ISREG(stat_a.st_mode) && stat_a.st_dev == stat_b.st_dev && stat_a.st_ino == stat_b.st_ino;
}

gboolean output_check_apart(const Written *written, GError **error) {
  for (const Written *a = written; a->option != NULL; a++)
    for (const Written *b = written; b < a; b++)
      if (a->file != NULL && b->file != NULL && strcmp(a->file, "-") != 0 && strcmp(b->file, "-") != 0 &&
          is_same_file(a->file, b->file))
        return fail_input(error, "%s and %s are both %s: one would be written over the other", b->option, a->option,
                          a->file);
  return TRUE;
}

static gboolean is_printed(const Printed *option) {
  return option->given || g_strcmp0(option->file, "-") == 0;
}

gboolean output_check_printed(const Printed *printed, gboolean *replaced, GError **error) {
  const Printed *taker = NULL;
  for (const Printed *option = printed; option->option != NULL && taker == NULL; option++)
    if (is_printed(option) && !option->in_report)
      taker = option;
  *replaced = taker != NULL;
  for (const Printed *option = printed; option->option != NULL && taker != NULL; option++)
    if (is_printed(option) && option != taker)
      return fail_input(error, "%s%s and %s%s clash: standard output holds one of them", taker->option,
                        taker->file != NULL ? " -" : "", option->option, option->file != NULL ? " -" : "");
  return TRUE;
}
