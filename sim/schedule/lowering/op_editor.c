#include "op_editor.h"

#include <string.h>

void op_editor_init(OpEditor *editor, OpList *list) {
  editor->list = list;
  editor->n_room = (guint)(list->n_ops + list->n_ops / 2 + 8);
  editor->ops = g_array_sized_new(FALSE, FALSE, sizeof(Op), editor->n_room);
  editor->moved = g_new(gint32, list->n_ops + 1);
  memset(editor->moved, 0xff, sizeof(gint32) * (list->n_ops + 1));
}

void op_editor_reserve(OpEditor *editor, guint n_ops) {
  g_assert(editor->ops->len == 0);
  g_array_unref(editor->ops);
  editor->n_room = n_ops;
  editor->ops = g_array_sized_new(FALSE, FALSE, sizeof(Op), n_ops);
}

Op op_editor_translate(const OpEditor *editor, int old_index) {
  Op op = editor->list->ops[old_index];
  for (int i = 0; i < OP_MAX_AFTER && op.after[i] >= 0; i++) {
    g_assert(editor->moved[op.after[i]] >= 0);
    op.after[i] = editor->moved[op.after[i]];
  }
  return op;
}

gint32 op_editor_copy(OpEditor *editor, int old_index) {
  Op op = op_editor_translate(editor, old_index);
  gint32 index = op_editor_add(editor, &op);
  editor->moved[old_index] = index;
  return index;
}

void op_editor_copy_first(OpEditor *editor, int n) {
  g_assert(editor->ops->len == 0); /* so every op keeps its index */
  g_array_append_vals(editor->ops, editor->list->ops, (guint)n);
  for (int i = 0; i < n; i++)
    editor->moved[i] = i;
}

void op_editor_set_moved(OpEditor *editor, int old_index, gint32 new_index) {
  editor->moved[old_index] = new_index;
}

void op_editor_finish(OpEditor *editor) {
  g_free(editor->list->ops);
  editor->list->n_ops = editor->ops->len;
  editor->list->ops = (Op *)(void *)g_array_free(editor->ops, FALSE);
  g_clear_pointer(&editor->moved, g_free);
  editor->ops = NULL;
}
