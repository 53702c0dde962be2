#include "program_sizes.h"

#include <math.h>

#include "error.h"
#include "fail_op.h"
#include "lowering.h"

/* --- what the Program has --- */

typedef struct {
  const Program *program;
  const Workload *workload;
  int rank;
} Check;

static const Transfer *transfer_of(const Check *check, const Op *op) {
  return &g_array_index(check->program->transfers, Transfer, op->work);
}

/* Of a transfer if it were a lowered one of this size. */
static double expected_bytes(const Check *check, const Transfer *transfer, TransferSize size, int of) {
  Transfer lowered = *transfer;
  lowered.size = (guint8)size;
  lowered.of = of;
  return transfer_bytes(check->workload, check->program, &lowered);
}

static gboolean is_near(double bytes, double expected) {
  return fabs(bytes - expected) <= 1e-9 * fabs(expected);
}

static gboolean fail_size(const Check *check, gint32 i, double expected, GError **error) {
  const Op *op = &check->program->ranks[check->rank].ops[i];
  return fail_at_op(check->program, check->rank, i, error,
                    "it moves %.17g bytes; under this model and plan it would be %.17g%s",
                    transfer_of(check, op)->bytes, expected,
                    expected > 0 ? "" : ", as its transfer names nothing that moves (layers=, embedding=, head=)");
}

static gboolean fail_kind(const Check *check, gint32 i, const char *expected, GError **error) {
  return fail_at_op(check->program, check->rank, i, error, "it is a collective of another kind; expected %s", expected);
}

static gboolean check_size(const Check *check, gint32 i, double expected, GError **error) {
  const Op *op = &check->program->ranks[check->rank].ops[i];
  return is_near(transfer_of(check, op)->bytes, expected) || fail_size(check, i, expected, error);
}

/* A collective within a layer. */
static gboolean check_item(const Check *check, gint32 i, GError **error) {
  const Op *op = &check->program->ranks[check->rank].ops[i];
  const Transfer *transfer = transfer_of(check, op);
  const WorkList *list = workload_list(check->workload, transfer->lengths, (Piece)transfer->piece,
                                       phase_of_action((ActionKind)op->action));
  if (transfer->item < 0 || transfer->item >= list->n_items || list->items[transfer->item].kind != ITEM_COLLECTIVE)
    return fail_kind(check, i, "one of its piece's items", error);
  const WorkItem *item = &list->items[transfer->item];
  if (transfer->collective != item->collective)
    return fail_kind(check, i, collective_name(item->collective), error);
  return check_size(check, i, item->bytes, error);
}

/* The FETCHes it waits for must bring its shard. */
static gboolean check_fetch(const Check *check, gint32 i, GError **error) {
  const Op *ops = check->program->ranks[check->rank].ops, *op = &ops[i];
  const Transfer *transfer = transfer_of(check, op);
  const int shards = transfer->of_experts ? lowering_expert_shards(check->workload) : lowering_shards(check->workload);
  for (int k = 0; k < OP_MAX_AFTER && op->after[k] >= 0; k++)
    if (ops[op->after[k]].action == ACTION_FETCH && ops[op->after[k]].unit == op->unit &&
        !check_size(check, op->after[k], round(transfer->bytes / shards), error))
      return FALSE;
  return TRUE;
}

static gboolean check_gather(const Check *check, gint32 i, GError **error) {
  const Op *op = &check->program->ranks[check->rank].ops[i];
  const Transfer *transfer = transfer_of(check, op);
  const gboolean is_broadcast = lowering_broadcasts_weights(check->workload);
  const gboolean is_copy = op->stream == STREAM_COPY;
  const Collective kind = is_copy ? COLLECTIVE_SEND_RECV : is_broadcast ? COLLECTIVE_BROADCAST : COLLECTIVE_ALL_GATHER;
  if (transfer->collective != kind)
    return fail_kind(check, i, collective_name(kind), error);
  const double bytes = expected_bytes(check, transfer, SIZE_WEIGHTS, is_broadcast && !is_copy ? op->stage : -1);
  return check_size(check, i, is_copy ? round(bytes) : bytes, error) && check_fetch(check, i, error);
}

/* Gradients are scattered over a group of shards, or of ranks that sum first and push parts to servers; over copies of
 * these, and without shards, they stay whole. */
static Collective kind_of_sum(const Check *check, const Op *op, const Transfer *transfer) {
  const AxisSet axes = g_array_index(check->program->groups, Group, transfer->group).axes;
  const gboolean is_shard = transfer->of_experts && !servers_are_used(&check->workload->method->servers)
                                ? axes == AXIS_BIT_EXPERT_SHARD
                                : (axes & ~AXIS_BIT(AXIS_CP)) == AXIS_BIT_DP_SHARD;
  return op->action == ACTION_REDUCE_GRAD && is_shard ? COLLECTIVE_REDUCE_SCATTER : COLLECTIVE_ALL_REDUCE;
}

static double expected_sum(const Check *check, const Op *op, const Transfer *transfer) {
  const AxisSet axes = g_array_index(check->program->groups, Group, transfer->group).axes;
  switch ((ActionKind)op->action) {
  case ACTION_REDUCE_GRAD:
    return expected_bytes(check, transfer, axes == AXIS_BIT_DP_REPLICA ? SIZE_GRADIENT_SHARD : SIZE_GRADIENTS, -1);
  case ACTION_TIED_GRAD:
    return expected_bytes(check, transfer, SIZE_TIED, -1);
  case ACTION_COPY_GRAD:
    return expected_bytes(check, transfer, SIZE_COPIES, op->stage);
  case ACTION_WHOLE_GRAD:
    return expected_bytes(check, transfer, SIZE_WHOLE, check->rank);
  default:
    g_assert(op->action == ACTION_NORM);
    return sizeof(float); /* one number */
  }
}

/* A reduction of gradients, or of their norm. */
static gboolean check_sum(const Check *check, gint32 i, GError **error) {
  const Op *op = &check->program->ranks[check->rank].ops[i];
  const Transfer *transfer = transfer_of(check, op);
  const Collective kind = kind_of_sum(check, op, transfer);
  if (transfer->collective != kind)
    return fail_kind(check, i, collective_name(kind), error);
  return check_size(check, i, expected_sum(check, op, transfer), error);
}

/* Of a send or a receive. */
static double passed_bytes(const Check *check, const Op *op) {
  const Program *program = check->program;
  const int to = op->action == ACTION_RECV_B   ? op->stage
                 : op->action == ACTION_SEND_B ? stage_next(op->stage, FALSE, program->n_stages, program->n_pipes)
                                               : -1;
  return to < 0 || lowering_needs_gradient(check->workload, to)
             ? workload_boundary_bytes(check->workload, workload_lengths(check->workload, op->micro_batch))
             : 0;
}

static gboolean check_op(const Check *check, gint32 i, GError **error) {
  const Op *op = &check->program->ranks[check->rank].ops[i];
  if (op->kind == OP_SEND || op->kind == OP_RECV)
    return check_size(check, i, passed_bytes(check, op), error);
  if (op->kind != OP_COLLECTIVE)
    return TRUE;
  switch ((ActionKind)op->action) {
  case ACTION_F:
  case ACTION_I:
  case ACTION_W:
  case ACTION_B:
    return !transfer_of(check, op)->is_item || check_item(check, i, error);
  case ACTION_UNSHARD:
    return check_gather(check, i, error);
  case ACTION_REDUCE_GRAD:
  case ACTION_TIED_GRAD:
  case ACTION_COPY_GRAD:
  case ACTION_WHOLE_GRAD:
  case ACTION_NORM:
    return check_sum(check, i, error);
  default:
    return TRUE;
  }
}

static gboolean check_transfers(const Program *program, const Workload *workload, GError **error) {
  for (int rank = 0; rank < program->n_ranks; rank++) {
    const Check check = {program, workload, rank};
    for (gint32 i = 0; i < program->ranks[rank].n_ops; i++)
      if (!check_op(&check, i, error))
        return FALSE;
  }
  return TRUE;
}

/* --- what the host updates --- */

static gboolean updates_on_host(const Program *program) {
  for (guint i = 0; i < program->works->len; i++)
    if (g_array_index(program->works, Work, i).on_host)
      return TRUE;
  return FALSE;
}

/* `updated`: [steps] parameters, summed over parts on the host, or on the GPU. */
static void sum_parts(const Program *program, int rank, gboolean on_host, double *updated) {
  const OpList *list = &program->ranks[rank];
  for (int step = 0; step < program->n_steps; step++)
    updated[step] = 0;
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    if (op->kind == (on_host ? OP_HOST : OP_COMPUTE) && op->action == ACTION_OPTIMIZER)
      updated[op->step] += g_array_index(program->works, Work, op->work).parameters;
  }
}

static gboolean check_updated(const Program *program, int rank, gboolean on_host, double owned, double *updated,
                              GError **error) {
  sum_parts(program, rank, on_host, updated);
  for (int step = 0; step < program->n_steps; step++)
    if (fabs(updated[step] - owned) > 1e-9 * owned)
      return fail_impossible(error,
                             "rank %d: step %d updates %.17g parameters on the %s; expected the %.17g that the rank "
                             "owns there under this plan",
                             rank, step, updated[step], on_host ? "host" : "GPU", owned);
  return TRUE;
}

/* In every step the parts of each rank's update add up to all parameters that it owns, on the host, and on the GPU if
 * it keeps a share. */
static gboolean check_updates(const Program *program, const Workload *workload, GError **error) {
  const Offload *offload = &workload->method->offload;
  if (!updates_on_host(program))
    return TRUE;
  g_autofree double *updated = g_new(double, program->n_steps);
  for (int rank = 0; rank < program->n_ranks; rank++) {
    const double owned = optimizer_parameters(workload, rank);
    if (!check_updated(program, rank, TRUE, offload_share(offload) * owned, updated, error) ||
        !check_updated(program, rank, FALSE, offload_kept_share(offload) * owned, updated, error))
      return FALSE;
  }
  return TRUE;
}

gboolean program_sizes_check(const Program *program, const Workload *workload, GError **error) {
  return check_transfers(program, workload, error) && check_updates(program, workload, error);
}
