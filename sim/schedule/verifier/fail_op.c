#include "fail_op.h"

#include "error.h"
#include "untimed_run.h"

gboolean fail_at_op(const Program *program, int rank, gint32 i, const char *what, gint32 other, const char *rest,
                    GError **error) {
  const OpList *list = &program->ranks[rank];
  g_autoptr(GString) text = g_string_new(NULL);
  g_string_append_printf(text, "rank %d, op %d (", rank, i);
  untimed_run_name_op(program, &list->ops[i], text);
  g_string_append_printf(text, "): %s", what);
  if (other >= 0) {
    g_string_append_c(text, ' ');
    untimed_run_name_op(program, &list->ops[other], text);
    g_string_append_printf(text, " (op %d)", other);
  }
  return fail_impossible(error, "%s%s", text->str, rest);
}
