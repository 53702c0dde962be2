/* Rebuilds one rank's op list: ops are copied, split and joined by new ones, and `after` edges keep pointing at the
 * ops they meant. Passes use it; nothing else does. */
#pragma once
#include "program.h"

typedef struct {
  OpList *list;  /* borrowed; replaced by op_editor_finish() */
  Op *ops;       /* the new list so far; owned */
  gint32 n_ops;  /* of it */
  gint32 n_room; /* for so many */
  gint32 n_kept; /* so many old ops, the first, are those of the new list */
  const Op *old; /* the others, from index n_kept on; borrowed */
  Op *left;      /* the same where the list has them no more; else NULL; owned */
  gint32 *moved; /* [of them] new index of each op copied so far (of its last part when split); −1 not yet; owned */
} OpEditor;

void op_editor_init(OpEditor *editor, OpList *list);
/* The same with room for so many new ops; more cost a copy of them. */
void op_editor_init_with_room(OpEditor *editor, OpList *list, gsize n_room);
/* An editor that only adds behind the list: there are no old ops any more. */
void op_editor_init_behind(OpEditor *editor, OpList *list);
/* One under which the first n ops stay as they are, and those behind them are edited. */
void op_editor_init_behind_first(OpEditor *editor, OpList *list, int n);
/* The op of the list as it was. */
const Op *op_editor_old(const OpEditor *editor, int old_index);
/* For more ops than there is room for. */
void op_editor_make_room(OpEditor *editor);
/* Room for a new op behind the list, for the caller to fill before another is added. */
static inline Op *op_editor_new_op(OpEditor *editor) {
  if (editor->n_ops == editor->n_room)
    op_editor_make_room(editor);
  return &editor->ops[editor->n_ops++];
}
/* Append a new op; its `after` are indices into the new list. Returns its index. */
gint32 op_editor_add(OpEditor *editor, const Op *op);
/* The old op with its `after` turned into new indices; every one of them must have been copied. */
Op op_editor_translate(const OpEditor *editor, int old_index);
/* Translate and append. Returns the new index. */
gint32 op_editor_copy(OpEditor *editor, int old_index);
/* The same, for the caller to change before another is added. */
Op *op_editor_copy_op(OpEditor *editor, int old_index);
/* Later edges to `old_index` mean `new_index`. */
void op_editor_set_moved(OpEditor *editor, int old_index, gint32 new_index);
/* The new list becomes the rank's. */
void op_editor_finish(OpEditor *editor);
