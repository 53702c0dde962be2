/* Rebuilds one rank's op list: ops are copied, split and interspersed with new ones, while `after` edges still refer
 * to the same ops. For passes only. */
#pragma once
#include "program.h"

typedef struct {
  OpList *list;  /* borrowed; replaced by op_editor_finish() */
  Op *ops;       /* the new list so far; owned */
  gint32 n_ops;  /* number of ops in it */
  gint32 n_room; /* allocated size */
  gint32 n_kept; /* the first n_kept old ops are kept in place in the new list */
  const Op *old; /* the remaining old ops, from index n_kept on; borrowed */
  Op *left;      /* copy of these if the list itself was overwritten; else NULL; owned */
  gint32 *moved; /* [remaining] new index of each op copied so far (if split: of its last part); −1 not yet; owned */
} OpEditor;

void op_editor_init(OpEditor *editor, OpList *list);
/* The same with room for n_room new ops; adding more costs a reallocation. */
void op_editor_init_with_room(OpEditor *editor, OpList *list, gsize n_room);
/* For appending to the list only: there are no old ops to copy. */
void op_editor_init_behind(OpEditor *editor, OpList *list);
/* Keeps the first n ops as they are; the rest are edited. */
void op_editor_init_behind_first(OpEditor *editor, OpList *list, int n);
/* An op of the original list. */
const Op *op_editor_old(const OpEditor *editor, int old_index);
/* Makes room for at least one more op. */
void op_editor_make_room(OpEditor *editor);
/* Appends an op without initializing it; the caller fills it in before adding another. */
static inline Op *op_editor_new_op(OpEditor *editor) {
  if (editor->n_ops == editor->n_room)
    op_editor_make_room(editor);
  return &editor->ops[editor->n_ops++];
}
/* Appends a new op; its `after` are indices into the new list. Returns its index. */
gint32 op_editor_add(OpEditor *editor, const Op *op);
/* The old op with `after` translated to new indices; the ops it waits for must have been copied. */
Op op_editor_translate(const OpEditor *editor, int old_index);
/* Translates and appends. Returns the new index. */
gint32 op_editor_copy(OpEditor *editor, int old_index);
/* The same; the caller may change the op before adding another. */
Op *op_editor_copy_op(OpEditor *editor, int old_index);
/* Makes later edges to `old_index` refer to `new_index`. */
void op_editor_set_moved(OpEditor *editor, int old_index, gint32 new_index);
/* Replaces the rank's list by the new one. */
void op_editor_finish(OpEditor *editor);
