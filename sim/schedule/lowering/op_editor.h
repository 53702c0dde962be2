/* Rebuilds one rank's op list: ops are copied, split and joined by new ones, and `after` edges keep pointing at the
 * ops they meant. Passes use it; nothing else does. */
#pragma once
#include "program.h"

typedef struct {
  OpList *list;  /* borrowed; replaced by op_editor_finish() */
  GArray *ops;   /* of Op: the new list so far; owned */
  guint n_room;  /* of ops, without growing */
  gint32 *moved; /* [old n_ops] new index of each op copied so far (of its last part when split); −1 not yet; owned */
} OpEditor;

void op_editor_init(OpEditor *editor, OpList *list);
/* Room for so many, before any is added. */
void op_editor_reserve(OpEditor *editor, guint n_ops);
/* Append a new op; its `after` are indices into the new list. Returns its index. */
static inline gint32 op_editor_add(OpEditor *editor, const Op *op) {
  if (editor->ops->len < editor->n_room)
    ((Op *)(void *)editor->ops->data)[editor->ops->len++] = *op; /* millions of them */
  else
    g_array_append_vals(editor->ops, op, 1);
  return (gint32)editor->ops->len - 1;
}
/* The old op with its `after` turned into new indices; every one of them must have been copied. */
Op op_editor_translate(const OpEditor *editor, int old_index);
/* Translate and append. Returns the new index. */
gint32 op_editor_copy(OpEditor *editor, int old_index);
/* Translate and append the first n ops, before any other is added. */
void op_editor_copy_first(OpEditor *editor, int n);
/* Later edges to `old_index` mean `new_index`. */
void op_editor_set_moved(OpEditor *editor, int old_index, gint32 new_index);
/* The new list becomes the rank's. */
void op_editor_finish(OpEditor *editor);
