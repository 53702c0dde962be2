#include "omitted.h"

Omitted *omitted_new(const ProgramRepeats *repeats, gint64 n_groups) {
  const Program *program = repeats->program;
  Omitted *omitted = g_malloc0(sizeof *omitted + sizeof *omitted->periods * (gsize)program->n_steps);
  omitted->repeats = repeats;
  omitted->n_groups = n_groups;
  omitted->n_steps = program->n_steps;
  for (int step = 0; step < program->n_steps; step++)
    omitted->periods[step].n_early = g_new0(gint32, program->n_ranks);
  return omitted;
}

void omitted_free(Omitted *omitted) {
  for (int step = 0; omitted != NULL && step < omitted->n_steps; step++)
    g_free(omitted->periods[step].n_early);
  g_free(omitted);
}
