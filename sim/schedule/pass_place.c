/* place: one compute op per action, in the order's order. */
#include "lowering.h"

static gint32 place_work(Program *program, const Workload *workload, Phase phase, int stage) {
  if (workload != NULL) {
    Part part = part_of_stage(workload, stage);
    return part_work(program, workload, phase, &part);
  }
  Work bare = {.phase = phase, .stage = stage, .piece = -1, .first_item = -1, .last_item = -1};
  return program_work(program, &bare);
}

void pass_place(Program *program, const Lowering *lowering) {
  /* the work of a (stage, phase) is the same for every micro-batch */
  g_autofree gint32 *works = g_new(gint32, (gsize)program->n_stages * N_PHASES);
  for (int i = 0; i < program->n_stages * N_PHASES; i++)
    works[i] = -1;
  for (int rank = 0; rank < program->n_ranks; rank++) {
    const GArray *actions = lowering->order->actions[rank];
    OpList *list = &program->ranks[rank];
    list->ops = g_new(Op, actions->len + 1);
    list->n_ops = actions->len;
    for (guint i = 0; i < actions->len; i++) {
      const Action *action = &g_array_index(actions, Action, i);
      Phase phase = phase_of_action(action->kind);
      gint32 *work = &works[action->stage * N_PHASES + phase];
      if (*work < 0)
        *work = place_work(program, lowering->workload, phase, action->stage);
      list->ops[i] = op_new(OP_COMPUTE, STREAM_COMPUTE, action->kind, action->stage, action->micro_batch);
      list->ops[i].work = *work;
    }
  }
}
