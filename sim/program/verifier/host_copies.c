
#include "checks.h"

#include "error.h"
#include "fail_op.h"

#include <string.h>

typedef struct {
  const Program *program;
  int rank;
  const OpList *list;
  guint8 *awaits_copy;   /* [ops of the longest list] no GRAD_OUT has copied it yet */
  gint32 *last_addition; /* [stages] −1 none */
  guint8 *is_summed;     /* [stages] whether the rank reduces it */
  gboolean stays;        /* updated weights need no copy */
} Walk;

static const Transfer *transfer_of(const Walk *walk, const Op *op) {
  return &g_array_index(walk->program->transfers, Transfer, op->work);
}

static gboolean updates_on_host(const Op *op) {
  return op->kind == OP_HOST && op->action == ACTION_OPTIMIZER;
}

static gboolean is_sum(const Op *op) {
  return op->action == ACTION_REDUCE_GRAD || op->action == ACTION_TIED_GRAD || op->action == ACTION_COPY_GRAD ||
         op->action == ACTION_WHOLE_GRAD;
}

/* Whether a sum goes on with what the op in front of it has summed: over shards, then over their replicas. */
static gboolean goes_on(const Walk *walk, const Op *op, const Op *before) {
  return op->action == ACTION_REDUCE_GRAD && before->action == ACTION_REDUCE_GRAD && op_same_place(op, before) &&
         transfer_of(walk, op)->of_experts == transfer_of(walk, before)->of_experts;
}

static gboolean adds(const Walk *walk, const Op *op) {
  if (op->kind != OP_COMPUTE || (op->action != ACTION_B && op->action != ACTION_W))
    return FALSE;
  const Work *work = &g_array_index(walk->program->works, Work, op->work);
  return work->piece >= 0 || work->n_embedding + work->n_layers + work->n_head > 0;
}

/* Marks what must be copied, and what has been. */
static void note(Walk *walk, gint32 i) {
  const Op *ops = walk->list->ops, *op = &ops[i];
  walk->awaits_copy[i] = FALSE;
  if (op->action == ACTION_GRAD_OUT && op->after[0] >= 0 && op_same_place(op, &ops[op->after[0]]))
    walk->awaits_copy[op->after[0]] = FALSE;
  if (is_sum(op)) {
    walk->awaits_copy[i] = transfer_of(walk, op)->bytes > 0;
    if (i > 0 && goes_on(walk, op, op - 1))
      walk->awaits_copy[i - 1] = FALSE;
  }
  if (!adds(walk, op) || walk->is_summed[op->stage])
    return;
  gint32 *last = &walk->last_addition[op->stage];
  if (*last >= 0 && ops[*last].step == op->step)
    walk->awaits_copy[*last] = FALSE;
  walk->awaits_copy[i] = TRUE;
  *last = i;
}

static gboolean check_gradients(Walk *walk, GError **error) {
  const gsize n_stages = (gsize)walk->program->n_stages;
  memset(walk->is_summed, 0, n_stages);
  memset(walk->last_addition, -1, n_stages * sizeof *walk->last_addition);
  for (gint32 i = 0; i < walk->list->n_ops; i++) {
    const Op *op = &walk->list->ops[i];
    if (op->action == ACTION_REDUCE_GRAD && op->stage >= 0 && !transfer_of(walk, op)->of_experts)
      walk->is_summed[op->stage] = TRUE;
  }
  for (gint32 i = 0; i < walk->list->n_ops; i++)
    note(walk, i);
  for (gint32 i = 0; i < walk->list->n_ops; i++)
    if (walk->awaits_copy[i])
      return fail_at_op(walk->program, walk->rank, i, error, "no GRAD_OUT behind it copies to the host what it %s",
                        is_sum(&walk->list->ops[i]) ? "sums" : "adds to");
  return TRUE;
}

/* Per step. */
typedef struct {
  int n_updates, n_returns;
} Parts;

static gboolean check_parts(const Walk *walk, GError **error) {
  const Program *program = walk->program;
  g_autofree Parts *steps = g_new0(Parts, program->n_steps);
  for (gint32 i = 0; i < walk->list->n_ops; i++) {
    const Op *op = &walk->list->ops[i];
    steps[op->step].n_updates += updates_on_host(op);
    steps[op->step].n_returns += op->action == ACTION_WEIGHTS_BACK || op->action == ACTION_WEIGHTS_STORE;
  }
  for (int i = 0; i < program->n_steps; i++) {
    const Parts *step = &steps[i];
    if (step->n_updates == 0)
      return fail_impossible(error, "rank %d: step %d has no OPTIMIZER on the host, where its optimizer is", walk->rank,
                             i);
    if (step->n_updates != steps[0].n_updates)
      return fail_impossible(error, "rank %d: step %d updates %d parts on the host; expected %d, as step 0", walk->rank,
                             i, step->n_updates, steps[0].n_updates);
    if (!walk->stays && step->n_returns < step->n_updates)
      return fail_impossible(error,
                             "rank %d: step %d copies %d of the %d parts of its weights that the host has updated to "
                             "where they belong (WEIGHTS_BACK, WEIGHTS_STORE); expected all",
                             walk->rank, i, step->n_returns, step->n_updates);
  }
  return TRUE;
}

/* Whether any op involves the host's optimizer. Copies are over groups with a route. */
static gboolean find_uses(Walk *walk, int *longest) {
  const Program *program = walk->program;
  gboolean may = FALSE, has_any = FALSE;
  for (guint i = 0; i < program->groups->len; i++)
    may |= (g_array_index(program->groups, Group, i).route & ROUTES_OF_HOST) != 0;
  for (guint i = 0; i < program->works->len; i++)
    may |= g_array_index(program->works, Work, i).on_host != 0;
  for (int rank = 0; rank < program->n_ranks && may; rank++) {
    *longest = MAX(*longest, program->ranks[rank].n_ops);
    for (gint32 i = 0; i < program->ranks[rank].n_ops; i++) {
      const Op *op = &program->ranks[rank].ops[i];
      has_any |= op->action == ACTION_GRAD_OUT || op->action == ACTION_WEIGHTS_BACK || updates_on_host(op);
      if (op->action == ACTION_FETCH || (op->action == ACTION_UNSHARD && op->stream == STREAM_COPY)) {
        const Group *group = &g_array_index(program->groups, Group, transfer_of(walk, op)->group);
        walk->stays |= (group->route & ROUTE_NVME_READ) == 0;
      }
    }
  }
  return has_any;
}

gboolean host_copies_check(const Program *program, GError **error) {
  Walk walk = {.program = program};
  int longest = 0;
  if (!find_uses(&walk, &longest))
    return TRUE;
  g_autofree guint8 *awaits_copy = g_new(guint8, longest), *is_summed = g_new(guint8, program->n_stages);
  g_autofree gint32 *last_addition = g_new(gint32, program->n_stages);
  walk.awaits_copy = awaits_copy;
  walk.is_summed = is_summed;
  walk.last_addition = last_addition;
  for (walk.rank = 0; walk.rank < program->n_ranks; walk.rank++) {
    walk.list = &program->ranks[walk.rank];
    if (!check_gradients(&walk, error) || !check_parts(&walk, error))
      return FALSE;
  }
  return TRUE;
}
