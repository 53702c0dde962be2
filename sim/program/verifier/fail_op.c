#include "fail_op.h"

#include "error.h"

#include <stdarg.h>

void op_append_name(const Program *program, const Op *op, GString *out) {
  action_print(&(Action){op->stage, op->micro_batch, op->action}, out);
  if (program->n_steps > 1)
    g_string_append_printf(out, " of step %d", op->step);
}

gboolean fail_at_op(const Program *program, int rank, gint32 i, GError **error, const char *format, ...) {
  g_autoptr(GString) message = g_string_new(NULL);
  const Op *op = &program->ranks[rank].ops[i];
  g_string_append_printf(message, "rank %d, op %d", rank, i);
  if (op->action < N_ACTIONS) {
    g_string_append(message, " (");
    op_append_name(program, op, message);
    g_string_append_c(message, ')');
  }
  g_string_append(message, ": ");
  va_list arguments;
  va_start(arguments, format);
  g_string_append_vprintf(message, format, arguments);
  va_end(arguments);
  return fail_impossible(error, "%s", message->str);
}

char *op_name_new(const Program *program, int rank, gint32 i) {
  GString *name = g_string_new(NULL);
  op_append_name(program, &program->ranks[rank].ops[i], name);
  g_string_append_printf(name, " (op %d)", i);
  return g_string_free(name, FALSE);
}
