#include "op_editor.h"

#include <string.h>

void op_editor_init(OpEditor *editor, OpList *list) {
  /* send_recv turns one op into three, and a step ends with a few more */
  op_editor_init_with_room(editor, list, 4 * (gsize)list->n_ops + 64);
}

void op_editor_init_with_room(OpEditor *editor, OpList *list, gsize n_room) {
  *editor = (OpEditor){.list = list, .old = list->ops, .n_room = (gint32)CLAMP(n_room, 2, G_MAXINT32)};
  editor->ops = g_new(Op, editor->n_room);
  editor->moved = g_new(gint32, list->n_ops + 1);
  memset(editor->moved, 0xff, sizeof(gint32) * (gsize)(list->n_ops + 1));
}

void op_editor_init_behind(OpEditor *editor, OpList *list) {
  *editor = (OpEditor){.list = list, .n_ops = list->n_ops, .n_room = list->n_ops + 16};
  editor->ops = g_renew(Op, g_steal_pointer(&list->ops), editor->n_room); /* usually in place */
  list->n_ops = 0;
}

void op_editor_init_behind_first(OpEditor *editor, OpList *list, int n) {
  const gsize n_left = (gsize)(list->n_ops - n);
  *editor = (OpEditor){.list = list, .n_ops = n, .n_kept = n, .n_room = list->n_ops + list->n_ops / 4 + 16};
  editor->old = editor->left = g_memdup2(list->ops + n, sizeof(Op) * n_left);
  editor->ops = g_renew(Op, g_steal_pointer(&list->ops), editor->n_room); /* usually in place */
  editor->moved = g_new(gint32, n_left + 1);
  memset(editor->moved, 0xff, sizeof(gint32) * (n_left + 1));
}

void op_editor_make_room(OpEditor *editor) {
  editor->n_room += editor->n_room / 2;
  editor->ops = g_renew(Op, editor->ops, editor->n_room);
}

gint32 op_editor_add(OpEditor *editor, const Op *op) {
  *op_editor_new_op(editor) = *op;
  return editor->n_ops - 1;
}

static inline void translate_after(const OpEditor *editor, Op *op) {
  for (int i = 0; i < OP_MAX_AFTER && op->after[i] >= 0; i++) {
    if (op->after[i] < editor->n_kept)
      continue;
    const gint32 moved = editor->moved[op->after[i] - editor->n_kept];
    g_assert(moved >= 0);
    op->after[i] = moved;
  }
}

const Op *op_editor_old(const OpEditor *editor, int old_index) {
  return old_index < editor->n_kept ? &editor->ops[old_index] : &editor->old[old_index - editor->n_kept];
}

Op op_editor_translate(const OpEditor *editor, int old_index) {
  Op op = *op_editor_old(editor, old_index);
  translate_after(editor, &op);
  return op;
}

gint32 op_editor_copy(OpEditor *editor, int old_index) {
  op_editor_copy_op(editor, old_index);
  return editor->n_ops - 1;
}

Op *op_editor_copy_op(OpEditor *editor, int old_index) {
  Op *op = op_editor_new_op(editor);
  *op = editor->old[old_index - editor->n_kept];
  translate_after(editor, op);
  editor->moved[old_index - editor->n_kept] = editor->n_ops - 1;
  return op;
}

void op_editor_set_moved(OpEditor *editor, int old_index, gint32 new_index) {
  editor->moved[old_index - editor->n_kept] = new_index;
}

void op_editor_finish(OpEditor *editor) {
  g_free(editor->list->ops);
  editor->list->n_ops = editor->n_ops;
  editor->list->ops = g_steal_pointer(&editor->ops);
  g_clear_pointer(&editor->moved, g_free);
  g_clear_pointer(&editor->left, g_free);
}
