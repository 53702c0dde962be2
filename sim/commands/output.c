#include "output.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "error.h"
#include "whole_file.h"

gboolean output_text(const char *file, const char *text, GError **error) {
  WholeFile out;
  if (!whole_file_open_apart(&out, file, error))
    return FALSE;
  whole_file_write(&out, text, strlen(text));
  return whole_file_close(&out, error);
}

gboolean output_plan(const PlanFile *file, GError **error) {
  g_autofree char *text = plan_file_write(file);
  return output_text(file->path, text, error);
}

int output_columns(void) {
  struct winsize size;
  const char *columns = g_getenv("COLUMNS");
  gint64 width = columns != NULL ? g_ascii_strtoll(columns, NULL, 10) : 0;
  if (width <= 0)
    width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
  return (int)CLAMP(width > 0 ? width : 120, 40, 10000);
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
