#include "program_fit.h"

#include "error.h"
#include "executor.h"
#include "program_sizes.h"

static const Phase phase_of[] = {
    [ACTION_F] = PHASE_F, [ACTION_I] = PHASE_I, [ACTION_W] = PHASE_W, [ACTION_B] = PHASE_B};

/* Whether the piece exists in the stage. `unit`: the layer. */
static gboolean has_piece(const StageLayers *layers, int piece, int unit) {
  if (piece >= 0 && piece_is_layer((Piece)piece))
    return unit < layers->n_layers && stage_piece(layers, unit) == (Piece)piece;
  return piece == PIECE_EMBEDDING ? layers->has_embedding : piece == PIECE_HEAD && layers->has_head;
}

/* Whether the piece has items first … last, either all of them collectives or none. */
static gboolean has_items(const Workload *workload, const Op *op, int piece, int first, int last, gboolean collective) {
  if (op->stage < 0 || !has_piece(&workload->stages[op->stage].layers, piece, op->unit))
    return FALSE;
  const WorkList *list = &workload->work[piece][phase_of[op->action]];
  if (first < 0 || last >= list->n_items)
    return FALSE;
  for (int i = first; i <= last; i++)
    if ((list->items[i].kind == ITEM_COLLECTIVE) != collective)
      return FALSE;
  return TRUE;
}

static gboolean compute_fits(const Program *program, const Workload *workload, const Op *op) {
  const Work *work = &g_array_index(program->works, Work, op->work);
  if (op->action > ACTION_B)
    return work->phase == PHASE_OPTIMIZER;
  const gboolean is_empty =
      work->piece < 0 && work->n_embedding + work->n_layers + work->n_head == 0; /* an I without any work */
  return work->phase == phase_of[op->action] &&
         (is_empty || has_items(workload, op, work->piece, work->first_item, work->last_item, FALSE));
}

/* A gather or a reduction: its layers exist, and it shards them as the plan does. */
static gboolean movement_fits(const Workload *workload, const Op *op, const Transfer *transfer, const Group *group) {
  const StageLayers *layers = op->stage >= 0 ? &workload->stages[op->stage].layers : NULL;
  const gint64 last = (gint64)op->unit + transfer->n_layers;
  if (layers == NULL || last > layers->n_layers + layers->has_head ||
      (transfer->n_layers > 0 && last > layers->n_layers) || transfer->n_embedding > layers->has_embedding ||
      transfer->n_head > layers->has_head)
    return FALSE;
  const Layout *layout = &workload->layout;
  const int n_shards = !zero_shards_optimizer(workload->method->zero) ? 1
                       : transfer->of_experts                         ? layout->n_expert_shards
                                                                      : layout->n_shards;
  const gboolean cuts = op->action == ACTION_UNSHARD || transfer->collective != COLLECTIVE_ALL_REDUCE;
  return !cuts || (!group->spans_pp && layout_group_size(&workload->layout, group->axes) == n_shards);
}

/* A sum over the two copies of a stage is between the ranks that hold them. */
static gboolean copies_fit(const Workload *workload, const Op *op, const Group *group) {
  const Placement *placement = workload->placement;
  if (placement->n_pipes == 1 || op->stage < 0 || !group->spans_pp || group->axes != 0)
    return FALSE;
  const int half = placement->n_stages / 2, first = placement->stage_rank[op->stage % half],
            second = placement->stage_rank[op->stage % half + half];
  return group->pp_first == MIN(first, second) && group->pp_last == MAX(first, second);
}

/* The group must be the ranks that cut what the item sums or exchanges. */
static gboolean item_group_fits(const Workload *workload, const WorkItem *item, const Group *group) {
  const AxisSet axes = work_item_axes(item);
  return !group->spans_pp &&
         layout_group_size(&workload->layout, group->axes) == layout_group_size(&workload->layout, axes);
}

static gboolean collective_fits(const Program *program, const Workload *workload, const Op *op) {
  const Transfer *transfer = &g_array_index(program->transfers, Transfer, op->work);
  const Group *group = &g_array_index(program->groups, Group, transfer->group);
  if (op->action == ACTION_COPY_GRAD)
    return copies_fit(workload, op, group);
  if (op->action == ACTION_UNSHARD || op->action == ACTION_REDUCE_GRAD)
    return movement_fits(workload, op, transfer, group);
  if (op->action > ACTION_B)
    return TRUE;
  return transfer->is_item && has_items(workload, op, transfer->piece, transfer->item, transfer->item, TRUE) &&
         item_group_fits(workload, &workload->work[transfer->piece][phase_of[op->action]].items[transfer->item], group);
}

/* The op must agree with the plan on where optimizer state, weights and saved activations are. */
static gboolean offload_fits(const Workload *workload, const Op *op) {
  const Offload *offload = &workload->method->offload;
  const gboolean on_host = offload->optimizer == TIER_HOST, weights_on_host = offload->weights == TIER_HOST;
  switch ((ActionKind)op->action) {
  case ACTION_OPTIMIZER:
    return op->kind == OP_HOST ? on_host : offload_kept_share(offload) > 0;
  case ACTION_GRAD_OUT:
    return on_host;
  case ACTION_WEIGHTS_BACK:
    return on_host && !weights_on_host;
  case ACTION_FETCH:
    return weights_on_host;
  case ACTION_SAVED_OUT:
  case ACTION_SAVED_IN:
    return offload->activations == TIER_HOST && op->stage >= 0 && op->micro_batch >= 0 &&
           op->unit < workload->stages[op->stage].layers.n_layers;
  default:
    return TRUE;
  }
}

/* Stages must be on the ranks where the plan has them: what a rank holds depends on it (which ends share a matrix,
 * which stages are copies). */
static gboolean check_placement(const Program *program, const Workload *workload, GError **error) {
  const Placement *placement = workload->placement;
  if (program->n_pipes != placement->n_pipes)
    return fail_impossible(error, "the program has %d pipes, the plan's schedule %s %d", program->n_pipes,
                           workload->method->schedule, placement->n_pipes);
  for (int rank = 0; rank < program->n_ranks; rank++)
    for (int i = 0; i < program->ranks[rank].n_ops; i++) {
      const Op *op = &program->ranks[rank].ops[i];
      if (op->stage >= 0 && placement->stage_rank[op->stage] != rank)
        return fail_impossible(error,
                               "rank %d, op %d: stage %d is on pipeline rank %d under the plan's schedule %s; expected "
                               "--schedule and --chunks as they were when the program was made",
                               rank, i, op->stage, placement->stage_rank[op->stage], workload->method->schedule);
    }
  return TRUE;
}

/* Fails: this rank has nothing to run op `i` with. Always FALSE. */
static gboolean fail_op(const Program *program, int rank, int i, GError **error) {
  g_autofree char *name = op_text(program, &program->ranks[rank].ops[i]);
  return fail_impossible(error,
                         "rank %d, op %d (%s): the model under this plan has no such layer, kernels or shards; is the "
                         "program of another plan?",
                         rank, i, name);
}

static gboolean has_op(const OpList *list, ActionKind action) {
  for (int i = 0; i < list->n_ops; i++)
    if (list->ops[i].action == action)
      return TRUE;
  return FALSE;
}

/* What the plan keeps on the host, the Program must keep there on every rank (offload_fits() checks the rest). */
static gboolean check_offload(const Program *program, const Workload *workload, GError **error) {
  const Offload *offload = &workload->method->offload;
  for (int rank = 0; rank < program->n_ranks; rank++) {
    if (offload->optimizer == TIER_HOST && !has_op(&program->ranks[rank], ACTION_OPTIMIZER))
      return fail_impossible(
          error, "rank %d has no OPTIMIZER; expected one on the host, under --offload-optimizer host", rank);
    if (offload->weights == TIER_HOST && !has_op(&program->ranks[rank], ACTION_FETCH))
      return fail_impossible(error, "rank %d has no FETCH of weights; expected some, under --offload-weights host",
                             rank);
  }
  return TRUE;
}

gboolean program_layers_fit(const Program *program, const Workload *workload, GError **error) {
  for (int rank = 0; rank < program->n_ranks; rank++)
    for (int i = 0; i < program->ranks[rank].n_ops; i++) {
      const Op *op = &program->ranks[rank].ops[i];
      if (op->kind != OP_COMPUTE || op->action > ACTION_B || op->stage < 0)
        continue;
      const Work *work = &g_array_index(program->works, Work, op->work);
      if (work->n_layers > workload->stages[op->stage].layers.n_layers)
        return fail_op(program, rank, i, error);
    }
  return TRUE;
}

gboolean program_fits(const Program *program, const Workload *workload, GError **error) {
  if (!check_placement(program, workload, error) || !check_offload(program, workload, error))
    return FALSE;
  for (int rank = 0; rank < program->n_ranks; rank++)
    for (int i = 0; i < program->ranks[rank].n_ops; i++) {
      const Op *op = &program->ranks[rank].ops[i];
      const gboolean fits = op->kind == OP_COMPUTE      ? compute_fits(program, workload, op)
                            : op->kind == OP_COLLECTIVE ? collective_fits(program, workload, op)
                                                        : TRUE;
      if (!fits || !offload_fits(workload, op))
        return fail_op(program, rank, i, error);
    }
  return program_sizes_check(program, workload, error);
}
