#include "host_updates.h"

#include <math.h>

#include "error.h"
#include "lowering.h"

static gboolean updates_on_host(const Program *program) {
  for (guint i = 0; i < program->works->len; i++)
    if (g_array_index(program->works, Work, i).on_host)
      return TRUE;
  return FALSE;
}

/* `updated`: [steps] parameters, summed over parts. */
static void sum_parts(const Program *program, int rank, double *updated) {
  const OpList *list = &program->ranks[rank];
  for (int step = 0; step < program->n_steps; step++)
    updated[step] = 0;
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    if (op->kind == OP_HOST && op->action == ACTION_OPTIMIZER)
      updated[op->step] += g_array_index(program->works, Work, op->work).parameters;
  }
}

gboolean host_updates_check(const Program *program, const Workload *workload, GError **error) {
  if (!updates_on_host(program))
    return TRUE;
  g_autofree double *updated = g_new(double, program->n_steps);
  for (int rank = 0; rank < program->n_ranks; rank++) {
    const double owned = optimizer_parameters(workload, rank);
    sum_parts(program, rank, updated);
    for (int step = 0; step < program->n_steps; step++)
      if (fabs(updated[step] - owned) > 1e-9 * owned)
        return fail_impossible(
            error,
            "rank %d: step %d updates %.17g parameters on the host; expected the %.17g that the rank "
            "owns under this plan",
            rank, step, updated[step], owned);
  }
  return TRUE;
}
