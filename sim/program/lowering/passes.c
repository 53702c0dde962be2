#include "lowering.h"

#include "program_text.h"
#include "suggest.h"
#include "verify.h"

#include "error.h"

/* The passes number batches from 0. */
static int count_batches(const OpList *list) {
  int n_batches = 0;
  for (int i = 0; i < list->n_ops; i++)
    n_batches = MAX(n_batches, list->ops[i].batch + 1);
  return n_batches;
}

/* Proves the program before its steps are chained. Compared with the first step, a later one waits in addition only
 * for ops of the step before it: those on its streams, and the host. So it runs like the first one, at the latest
 * once that has ended; and its sends and collectives meet those of the same step, as every rank has the same number
 * of them. */
static gboolean prove(const Program *program, const Order *order, GError **error) {
  return order->is_generated || program_verify(program, error);
}

/* steps: repeats the list for every further step, and adds what does not belong to every step alike: outer steps, and
 * what readers bring, who do not wait for a step to end. Steps
 * are ordered by the streams themselves, and by the host, which issues no op of the next step before it has read the
 * loss. */
static void pass_steps(Program *program, const Lowering *lowering) {
  program->n_steps = lowering->n_steps;
  for (int rank = 0; rank < program->n_ranks; rank++) {
    OpList *list = &program->ranks[rank];
    int n = list->n_ops, n_batches = count_batches(list);
    list->ops = g_renew(Op, list->ops, (gsize)n * lowering->n_steps + 1);
    for (int step = 1; step < lowering->n_steps; step++)
      for (int i = 0; i < n; i++) {
        Op *op = &list->ops[step * n + i];
        *op = list->ops[i];
        op->step = step;
        if (op->batch >= 0)
          op->batch += step * n_batches;
        for (int a = 0; a < OP_MAX_AFTER && op->after[a] >= 0; a++)
          op->after[a] += step * n;
      }
    list->n_ops = n * lowering->n_steps;
  }
  add_outer_steps(program, lowering);
  add_clocks(program, lowering);
  add_data(program, lowering);
}

const Pass *passes(void) {
  static const Pass all[] = {
      {"place", "compute ops in the order's order", pass_place},
      {"unshard", "gathers of sharded parameters ahead of their use", pass_unshard},
      {"send_recv", "activations and gradients between stages", pass_send_recv},
      {"reduce_grad", "gradient buckets summed over data parallelism", pass_reduce_grad},
      {"optimizer", "tied gradients, norm, Adam step, gathers, host sync", pass_optimizer},
      {"offload", "copies to and from the host's memory and drives", pass_offload},
      {"memory", "what each op holds and drops", pass_memory},
      {"steps", "the list again for every step", pass_steps},
      {NULL, NULL, NULL},
  };
  return all;
}

static gboolean check_pass_name(const char *name, GError **error) {
  g_autoptr(GPtrArray) names = g_ptr_array_new();
  for (const Pass *pass = passes(); pass->name != NULL; pass++) {
    if (g_strcmp0(pass->name, name) == 0)
      return TRUE;
    g_ptr_array_add(names, (gpointer)pass->name);
  }
  g_ptr_array_add(names, NULL);
  g_autofree char *message = suggest_message(name, (const char *const *)names->pdata);
  return fail_input(error, "no pass \"%s\": %s", name, message);
}

Program *lower(const Lowering *lowering, const char *dump_after, char **dump, GError **error) {
  if (dump_after != NULL && !check_pass_name(dump_after, error))
    return NULL;
  const Order *order = lowering->order;
  const Placement *placement = order->placement;
  g_autoptr(Program) program = program_new(placement->n_ranks, placement->n_stages, order->n_micro_batches);
  program->n_pipes = placement->n_pipes;
  program->heads_add_to_table = lowering->workload != NULL && workload_heads_read_embedding(lowering->workload);
  for (const Pass *pass = passes(); pass->name != NULL; pass++) {
    if (pass->run == pass_steps && !prove(program, order, error))
      return NULL;
    pass->run(program, lowering);
    if (g_strcmp0(dump_after, pass->name) == 0)
      *dump = program_to_text(program);
  }
  return g_steal_pointer(&program);
}
