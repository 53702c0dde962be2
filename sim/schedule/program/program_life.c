/* Programs created, lent and freed. Shared op lists live as long as the last Program that uses them. */
#include "program_tables.h"

Program *program_new(int n_ranks, int n_stages, int n_micro_batches) {
  Program *program = g_new0(Program, 1);
  program->n_ranks = n_ranks;
  program->n_stages = n_stages;
  program->n_micro_batches = n_micro_batches;
  program->n_steps = program->n_pipes = 1;
  program->ranks = g_new0(OpList, n_ranks);
  program->works = g_array_new(FALSE, FALSE, sizeof(Work));
  program->transfers = g_array_new(FALSE, FALSE, sizeof(Transfer));
  program->groups = g_array_new(FALSE, FALSE, sizeof(Group));
  program->effects = g_array_new(FALSE, FALSE, sizeof(Effect));
  program->index = program_index_new();
  program_effect(program, &(Effect){0});
  return program;
}

void program_share_matched(Program *program, gint32 **match) {
  g_assert(program->shared == NULL);
  program->shared = g_atomic_rc_box_new(SharedOps);
  *program->shared = (SharedOps){.n_ranks = program->n_ranks, .ops = g_new(Op *, program->n_ranks), .match = match};
  for (int rank = 0; rank < program->n_ranks; rank++)
    program->shared->ops[rank] = program->ranks[rank].ops;
}

void program_lend_ops(Program *program, const Program *source) {
  g_assert(source->shared != NULL && program->shared == NULL && source->n_ranks == program->n_ranks);
  program->shared = g_atomic_rc_box_acquire(source->shared);
  for (int rank = 0; rank < program->n_ranks; rank++) {
    program->ranks[rank].ops = source->ranks[rank].ops;
    program->ranks[rank].n_ops = source->ranks[rank].n_ops;
  }
}

static GArray *array_copy(const GArray *array) {
  guint size = g_array_get_element_size((GArray *)array);
  GArray *copy = g_array_sized_new(FALSE, FALSE, size, array->len);
  return g_array_append_vals(copy, array->data, array->len);
}

Program *program_new_sharing(const Program *source) {
  g_assert(source->shared != NULL);
  Program *program = g_new(Program, 1);
  *program = *source;
  program->shared = NULL;
  program->ranks = g_new0(OpList, program->n_ranks);
  program_lend_ops(program, source);
  program->works = array_copy(source->works);
  program->transfers = array_copy(source->transfers);
  program->groups = array_copy(source->groups);
  program->effects = g_array_new(FALSE, FALSE, sizeof(Effect));
  program->index = program_index_new();
  return program;
}

static void shared_ops_clear(gpointer data) {
  SharedOps *shared = data;
  for (int rank = 0; rank < shared->n_ranks; rank++) {
    g_free(shared->ops[rank]);
    g_free(shared->match[rank]);
  }
  g_free(shared->ops);
  g_free(shared->match);
  g_free(shared->repeats);
  g_free(shared->orders);
}

static void free_ops(Program *program) {
  if (program->shared != NULL) {
    g_atomic_rc_box_release_full(program->shared, shared_ops_clear);
    return;
  }
  for (int rank = 0; rank < program->n_ranks; rank++)
    g_free(program->ranks[rank].ops);
}

void program_free(Program *program) {
  if (!program)
    return;
  free_ops(program);
  program_index_free(program->index);
  g_free(program->ranks);
  g_array_unref(program->works);
  g_array_unref(program->transfers);
  g_array_unref(program->groups);
  g_array_unref(program->effects);
  g_free(program);
}
