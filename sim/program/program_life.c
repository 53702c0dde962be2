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

void program_free(Program *program) {
  if (!program)
    return;
  for (int rank = 0; rank < program->n_ranks; rank++)
    g_free(program->ranks[rank].ops);
  program_index_free(program->index);
  g_free(program->ranks);
  g_array_unref(program->works);
  g_array_unref(program->transfers);
  g_array_unref(program->groups);
  g_array_unref(program->effects);
  g_free(program);
}
