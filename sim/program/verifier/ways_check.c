/* Outer steps and parameter servers: what each op waits for, the latest such op in front of it in its list, or where
 * a layer has several (buckets of its experts and of its other weights), that whose turn it is. */
#include "checks.h"

#include "clocks.h"
#include "fail_op.h"

typedef enum { ANYWHERE, OF_SAME_UNIT, OF_SAME_PLACE, IN_TURN } Where;

static const struct {
  ActionKind action, awaited;
  Where where;
  const char *does;
} waits[] = {
    {ACTION_OUTER_SUM, ACTION_OPTIMIZER, ANYWHERE, "sums what islands have learned"},
    {ACTION_OUTER_STEP, ACTION_OUTER_SUM, ANYWHERE, "takes an outer step"},
    {ACTION_OUTER_GATHER, ACTION_OUTER_STEP, ANYWHERE, "gathers the parts of an outer step"},
    {ACTION_F, ACTION_OUTER_GATHER, ANYWHERE, "uses weights"},
    {ACTION_PUSH, ACTION_B, OF_SAME_UNIT, "pushes a gradient"},
    {ACTION_PUSH, ACTION_W, OF_SAME_UNIT, "pushes a gradient"},
    {ACTION_PUSH, ACTION_REDUCE_GRAD, OF_SAME_PLACE, "pushes a gradient"},
    {ACTION_SERVE, ACTION_PUSH, IN_TURN, "updates with a gradient"},
    {ACTION_PULL, ACTION_SERVE, OF_SAME_PLACE, "pulls weights"},
    {ACTION_SPREAD, ACTION_PULL, OF_SAME_PLACE, "gathers pulled weights"},
    {ACTION_F, ACTION_PULL, ANYWHERE, "uses weights"},
    {ACTION_F, ACTION_SPREAD, ANYWHERE, "uses weights"},
};

static gboolean is_awaited(const Op *op, const Op *before, Where where) {
  return where == ANYWHERE || (where == OF_SAME_PLACE && op_same_place(op, before)) ||
         (where == OF_SAME_UNIT && op->step == before->step && op->stage == before->stage && op->unit == before->unit);
}

static gint32 latest(const OpList *list, gint32 i, ActionKind awaited, Where where) {
  gint32 before = i - 1;
  while (before >= 0 && (list->ops[before].action != awaited || !is_awaited(&list->ops[i], &list->ops[before], where)))
    before--;
  return before;
}

/* Of the ops that op i may wait for, the one with as many in front of it as op i has of its own kind. */
static gint32 in_turn(const OpList *list, gint32 i, ActionKind awaited) {
  const Op *ops = list->ops;
  int n_before = 0;
  for (gint32 k = 0; k < i; k++)
    n_before += ops[k].action == ops[i].action && op_same_place(&ops[i], &ops[k]);
  for (gint32 k = 0; k < i; k++)
    if (ops[k].action == awaited && op_same_place(&ops[i], &ops[k]) && n_before-- == 0)
      return k;
  return -1;
}

static gboolean check_op(const Program *program, int rank, gint32 i, Clocks *clocks, GError **error) {
  const OpList *list = &program->ranks[rank];
  for (gsize k = 0; k < G_N_ELEMENTS(waits); k++) {
    if (waits[k].action != list->ops[i].action || list->ops[i].kind == OP_HOST)
      continue;
    const gint32 before = waits[k].where == IN_TURN ? in_turn(list, i, waits[k].awaited)
                                                    : latest(list, i, waits[k].awaited, waits[k].where);
    if (before < 0 || clocks_has_ended(clocks, i, before))
      continue;
    g_autofree char *name = op_name_new(program, rank, before);
    return fail_at_op(program, rank, i, error, "it %s and does not wait for %s", waits[k].does, name);
  }
  return TRUE;
}

static gboolean has_any(const Program *program) {
  for (int rank = 0; rank < program->n_ranks; rank++)
    for (int i = 0; i < program->ranks[rank].n_ops; i++)
      if (program->ranks[rank].ops[i].action >= ACTION_PUSH)
        return TRUE;
  return FALSE;
}

gboolean ways_check(const Program *program, GError **error) {
  if (!has_any(program))
    return TRUE;
  g_auto(Clocks) clocks;
  clocks_init(&clocks, program);
  for (int rank = 0; rank < program->n_ranks; rank++) {
    clocks_begin(&clocks, &program->ranks[rank]);
    for (int i = 0; i < program->ranks[rank].n_ops; i++)
      if (!check_op(program, rank, i, &clocks, error))
        return FALSE;
  }
  return TRUE;
}
