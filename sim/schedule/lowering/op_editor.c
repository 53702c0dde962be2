#include "op_editor.h"

#include <string.h>

void op_editor_init(OpEditor *editor, OpList *list) {
  *editor = (OpEditor){.list = list, .n_room = 3 * list->n_ops + 8}; /* what send_recv adds at most */
  editor->ops = g_new(Op, editor->n_room);
  editor->moved = g_new(gint32, list->n_ops + 1);
  memset(editor->moved, 0xff, sizeof(gint32) * (gsize)(list->n_ops + 1));
}

void op_editor_init_behind(OpEditor *editor, OpList *list) {
  *editor = (OpEditor){.list = list, .n_ops = list->n_ops, .n_room = list->n_ops + 16};
  editor->ops = g_renew(Op, g_steal_pointer(&list->ops), editor->n_room); /* mostly where they are */
  list->n_ops = 0;
}

static G_NO_INLINE void make_room(OpEditor *editor) {
  editor->n_room += editor->n_room / 2;
  editor->ops = g_renew(Op, editor->ops, editor->n_room);
}

Op *op_editor_new_op(OpEditor *editor) {
  if (editor->n_ops == editor->n_room)
    make_room(editor);
  return &editor->ops[editor->n_ops++];
}

gint32 op_editor_add(OpEditor *editor, const Op *op) {
  *op_editor_new_op(editor) = *op;
  return editor->n_ops - 1;
}

static inline void translate_after(const OpEditor *editor, Op *op) {
  for (int i = 0; i < OP_MAX_AFTER && op->after[i] >= 0; i++) {
    g_assert(editor->moved[op->after[i]] >= 0);
    op->after[i] = editor->moved[op->after[i]];
  }
}

Op op_editor_translate(const OpEditor *editor, int old_index) {
  Op op = editor->list->ops[old_index];
  translate_after(editor, &op);
  return op;
}

gint32 op_editor_copy(OpEditor *editor, int old_index) {
  op_editor_copy_op(editor, old_index);
  return editor->n_ops - 1;
}

Op *op_editor_copy_op(OpEditor *editor, int old_index) {
  Op *op = op_editor_new_op(editor);
  *op = editor->list->ops[old_index];
  translate_after(editor, op);
  editor->moved[old_index] = editor->n_ops - 1;
  return op;
}

void op_editor_copy_first(OpEditor *editor, int n) {
  g_assert(editor->n_ops == 0); /* so every op keeps its index; and there is room for them all */
  memcpy(editor->ops, editor->list->ops, sizeof(Op) * (gsize)n);
  editor->n_ops = n;
  for (int i = 0; i < n; i++)
    editor->moved[i] = i;
}

void op_editor_set_moved(OpEditor *editor, int old_index, gint32 new_index) {
  editor->moved[old_index] = new_index;
}

void op_editor_finish(OpEditor *editor) {
  g_free(editor->list->ops);
  editor->list->n_ops = editor->n_ops;
  editor->list->ops = g_steal_pointer(&editor->ops);
  g_clear_pointer(&editor->moved, g_free);
}
