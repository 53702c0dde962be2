/* One walk over the list. For each op:
 *
 *     stream   | wait after₀ | wait after₁ | record start | kernels or transfer | record end |
 *
 * If a framework has tp ranks send parts of a tensor, the parts are gathered after the receive, before its end event.
 *
 * The host runs ahead of the device until an op of the host stream, where it waits and watches. An action (0F3) is
 * one or several runs of kernels with tp collectives in between; its memory is taken at its first op and returned at
 * its last. */
#include "executor.h"

#include "error.h"
#include "executor_private.h"
#include "host_machine.h"
#include "items.h"
#include "state.h"

#include <string.h>

/* --- actions: memory taken and given back ------------------------------------------------------------------------- */

static gsize place(const Executor *executor, int stage, int micro_batch) {
  return (gsize)stage * executor->program->n_micro_batches + micro_batch;
}

static gboolean is_local(const Executor *executor, int stage) {
  return executor->trainer->activations.layers[stage] != NULL;
}

/* The next or previous stage in the op's pipe; −1: none. */
static int neighbour(const Executor *executor, const Op *op, gboolean forward) {
  return stage_next(op->stage, forward, executor->program->n_stages, executor->program->n_pipes);
}

/* Where the last layer of a stage writes: the next stage's input if that is on this rank, else a send buffer. */
static gboolean begin_forward(Executor *executor, const Op *op, DeviceStream *compute, GError **error) {
  Activations *activations = &executor->trainer->activations;
  Slot *slot = activations_slot(activations, op->stage, op->micro_batch);
  if (!activations_open(activations, slot, compute, error))
    return FALSE;
  const int after = neighbour(executor, op, TRUE);
  if (after < 0)
    return TRUE;
  if (is_local(executor, after)) {
    Slot *next = activations_slot(activations, after, op->micro_batch);
    if (!activations_open_input(activations, next, compute, error))
      return FALSE;
    executor->output = activations_input(activations, next, 0);
    return TRUE;
  }
  PoolPiece *piece = pool_take(&activations->boundary, compute, error);
  executor->outgoing[0][place(executor, op->stage, op->micro_batch)] = piece;
  executor->output = piece != NULL ? piece->memory : NULL;
  return piece != NULL;
}

static gboolean begin_backward(Executor *executor, const Op *op, DeviceStream *compute, GError **error) {
  Activations *activations = &executor->trainer->activations;
  Slot *slot = activations_slot(activations, op->stage, op->micro_batch);
  if (op->action == ACTION_I && !activations_open_backward(activations, slot, compute, error))
    return FALSE;
  const int before = neighbour(executor, op, FALSE);
  if (before < 0)
    return TRUE;
  PoolPiece *piece = pool_take(&activations->boundary, compute, error);
  if (piece == NULL)
    return FALSE;
  executor->gradient_out = piece->memory;
  if (is_local(executor, before))
    activations_slot(activations, before, op->micro_batch)->gradient_in = piece;
  else
    executor->outgoing[1][place(executor, op->stage, op->micro_batch)] = piece;
  return TRUE;
}

static gboolean begin_action(Executor *executor, const Op *op, GError **error) {
  DeviceStream *compute = executor->streams[STREAM_COMPUTE];
  executor->gather_user[op->action] = -1;
  if (op->action == ACTION_F) {
    executor->output = NULL;
    return begin_forward(executor, op, compute, error);
  }
  executor->gradient_out = NULL;
  const Slot *slot = activations_slot(&executor->trainer->activations, op->stage, op->micro_batch);
  if (op->action == ACTION_W)
    return slot->parts[PART_MADE_BY_I] != NULL ||
           fail_impossible(error, "nothing is kept for it: its input gradient has not run, or it has");
  if (slot->parts[PART_FOR_I] == NULL)
    return fail_impossible(error, "nothing is saved for it: its forward has not run, or its backward has");
  if (op->action == ACTION_I && zero_shards_gradients(executor->trainer->parameters->zero)) {
    state_use_early(executor->trainer, op);
    executor->open_reduce = -1; /* the next W or B selects its bucket again */
  }
  return begin_backward(executor, op, compute, error);
}

static void end_action(Executor *executor, const Op *op, DeviceEvent *end) {
  Activations *activations = &executor->trainer->activations;
  Slot *slot = activations_slot(activations, op->stage, op->micro_batch);
  if (op->action == ACTION_I)
    activations_close_input(activations, slot, end);
  else if (op->action != ACTION_F)
    activations_close(activations, slot, end);
}

/* --- ops ---------------------------------------------------------------------------------------------------------- */

static const Transfer *transfer_of(const Executor *executor, const Op *op) {
  return &g_array_index(executor->program->transfers, Transfer, op->work);
}

static ItemCall item_call(Executor *executor, const Op *op) {
  Activations *activations = &executor->trainer->activations;
  return (ItemCall){.stream = executor->streams[op->stream],
                    .stage = op->stage,
                    .layer = op->unit,
                    .micro_batch = op->micro_batch,
                    .step = op->step,
                    .slot = activations_slot(activations, op->stage, op->micro_batch),
                    .output = op->action == ACTION_F ? executor->output : NULL,
                    .gradient_out = op->action == ACTION_F ? NULL : executor->gradient_out};
}

/* The reduce that moves what a backward op writes: the next one of its stage. −1: none. */
static int reduce_after(const Executor *executor, int index) {
  const OpList *list = executor->list;
  for (int i = index; i < list->n_ops; i++)
    if (list->ops[i].action == ACTION_REDUCE_GRAD && list->ops[i].stage == list->ops[index].stage)
      return i;
  return -1;
}

/* ZeRO-3: uses the buffers of the gathers that this op waits for. An op that waits for none uses those of the
 * previous op of its action, even if a forward and a backward of the same layers interleave. */
static void use_gathered(Executor *executor, int index) {
  const Op *op = &executor->list->ops[index];
  int *user = &executor->gather_user[op->action];
  for (int i = 0; i < OP_MAX_AFTER && op->after[i] >= 0; i++)
    if (executor->list->ops[op->after[i]].action == ACTION_UNSHARD)
      *user = index;
  if (*user < 0 || *user == executor->used_by)
    return;
  executor->used_by = *user;
  op = &executor->list->ops[*user];
  for (int i = 0; i < OP_MAX_AFTER && op->after[i] >= 0; i++) {
    const Op *gather = &executor->list->ops[op->after[i]];
    if (gather->action == ACTION_UNSHARD)
      state_use_gathered(executor->trainer, gather, transfer_of(executor, gather),
                         executor->gather_buffer[op->after[i]]);
  }
}

/* The op after a reduction, if it is a reduction of the same part of the model; else NULL. */
static const Op *next_reduce(const Executor *executor, int index) {
  const OpList *list = executor->list;
  const Op *op = &list->ops[index], *next = index + 1 < list->n_ops ? op + 1 : op;
  return next != op && next->action == ACTION_REDUCE_GRAD && next->stage == op->stage && next->unit == op->unit ? next
                                                                                                                : NULL;
}

/* A shard reduced over its shard group is then reduced over its replicas by the next op. */
static gboolean is_last_reduce(const Executor *executor, int index) {
  const Op *next = next_reduce(executor, index);
  if (next == NULL)
    return TRUE;
  const Transfer *own = transfer_of(executor, &executor->list->ops[index]), *other = transfer_of(executor, next);
  return own->collective != COLLECTIVE_REDUCE_SCATTER || other->collective != COLLECTIVE_ALL_REDUCE ||
         own->of_experts != other->of_experts;
}

/* A stage's own bucket may be reused once its contents have been reduced, experts last. With two buckets used in
 * turn, the Program has the waits. */
static void await_bucket(Executor *executor, int reduce) {
  int *before = &executor->stage_reduce[executor->list->ops[reduce].stage], last = *before;
  while (last >= 0 && next_reduce(executor, last) != NULL)
    last++;
  if (last >= 0)
    executor->device->type->wait(executor->streams[STREAM_COMPUTE], executor->end[last]);
  *before = reduce;
}

static gboolean open_bucket(Executor *executor, int index, GError **error) {
  const int reduce = reduce_after(executor, index);
  if (reduce < 0)
    return fail_impossible(error, "no REDUCE_GRAD follows to take its gradient");
  if (reduce == executor->open_reduce)
    return TRUE;
  const Op *op = &executor->list->ops[reduce];
  const gboolean by_stage = executor->trainer->has_stage_buckets;
  const gboolean is_new = !by_stage || executor->stage_reduce[op->stage] != reduce;
  if (by_stage && is_new)
    await_bucket(executor, reduce);
  state_open_bucket(executor->trainer, op, transfer_of(executor, op), by_stage ? op->stage : executor->n_buckets++ % 2,
                    is_new, executor->streams[STREAM_COMPUTE]);
  executor->open_reduce = reduce;
  return TRUE;
}

static void run_optimizer(Executor *executor, const Op *op) {
  DeviceStream *stream = executor->streams[op->stream];
  if (!executor->has_norm)
    state_norm(executor->trainer, op->step, NULL, stream);
  state_optimizer(executor->trainer, op->step, stream);
}

/* When numerics are checked, a backward must not find in scratch what another one left there. */
static void spoil_scratch(Executor *executor, const Op *op, const Work *work) {
  const Op *before = executor->backward;
  const gboolean is_backward = op->action == ACTION_B || op->action == ACTION_I;
  const gboolean is_layer = work->piece >= 0 && piece_is_layer((Piece)work->piece);
  if (executor->execution->hook == NULL || !is_backward || !is_layer)
    return;
  const int group = activations_group(executor->trainer->activations.local);
  if (before == NULL || !op_same_action(before, op) || before->unit / group != op->unit / group)
    activations_spoil_scratch(&executor->trainer->activations, executor->streams[op->stream]);
  executor->backward = op;
}

static void run_items(Executor *executor, const Op *op, const Work *work, const ItemCall *call) {
  for (int item = work->first_item; work->piece >= 0 && item <= work->last_item; item++)
    items_run(executor->trainer, work->piece, work->phase, item, call);
}

/* Of layers that are recomputed at once, all are before the last one's backward: each from what the one before it has
 * made. Their items are those that the Program has in front of each layer's own (trainable.c: no collectives). */
static void run_of_group(Executor *executor, const Op *op, const Work *work, const ItemCall *call) {
  const Workload *workload = executor->trainer->workload;
  const StageLayers *layers = &workload->stages[op->stage].layers;
  const int group = activations_group(executor->trainer->activations.local), first = op->unit - op->unit % group,
            last = MIN(first + group, layers->n_layers) - 1;
  ItemCall of_layer = *call;
  for (int layer = first; op->unit == last && layer <= last; layer++) {
    const WorkList *list = &workload->work[stage_piece(layers, layer)][work->phase];
    of_layer.layer = layer;
    for (int item = 0; item < list->n_items; item++)
      if (list->items[item].recompute)
        items_run(executor->trainer, stage_piece(layers, layer), work->phase, item, &of_layer);
  }
  for (int item = work->first_item; item <= work->last_item; item++)
    if (!workload->work[work->piece][work->phase].items[item].recompute)
      items_run(executor->trainer, work->piece, work->phase, item, call);
}

static gboolean run_compute(Executor *executor, int index, GError **error) {
  const Op *op = &executor->list->ops[index];
  const Work *work = &g_array_index(executor->program->works, Work, op->work);
  if (work->phase == PHASE_OPTIMIZER) {
    if (work->is_outer)
      state_outer_step(executor->trainer, executor->streams[op->stream]);
    else
      run_optimizer(executor, op);
    return TRUE;
  }
  const int zero = executor->trainer->parameters->zero;
  if (zero_shards_weights(zero))
    use_gathered(executor, index);
  if (zero_shards_weights(zero) && !executor_has_weights(executor, op, work))
    return fail_impossible(error, "its weights are in shards: it waits for no UNSHARD that gathers them");
  if (executor_fills_bucket(executor, op, work) &&
      (!open_bucket(executor, index, error) || !executor_has_bucket(executor, op, work, error)))
    return FALSE;
  const ItemCall call = item_call(executor, op);
  spoil_scratch(executor, op, work);
  const gboolean is_of_group = activations_group(executor->trainer->activations.local) > 1 && work->piece >= 0 &&
                               piece_is_layer((Piece)work->piece) && op->action != ACTION_F;
  (is_of_group ? run_of_group : run_items)(executor, op, work, &call);
  return TRUE;
}

static PoolPiece **outgoing_of(const Executor *executor, const Op *op) {
  return &executor->outgoing[op->action == ACTION_SEND_F ? 0 : 1][place(executor, op->stage, op->micro_batch)];
}

/* Of a tensor between stages. */
static gint64 boundary_elements(const Executor *executor, const Op *op) {
  const LocalSizes *local = &executor->trainer->shapes[op->micro_batch].local;
  return local->split_tokens * local->model->hidden;
}

/* The bytes that this rank sends or receives of it: all, or its part among the tp ranks. */
static gint64 own_part(const Executor *executor, const Op *op, gint64 *offset_bytes) {
  const gint64 n_parts = executor->parts != NULL ? executor->execution->workload->method->tp : 1;
  const gint64 bytes =
      boundary_elements(executor, op) * kernel_element_bytes(executor->trainer->parameters->number) / n_parts;
  *offset_bytes = n_parts > 1 ? executor->trainer->parameters->at.at[AXIS_TP] * bytes : 0;
  return bytes;
}

static gboolean run_send(Executor *executor, int index, GError **error) {
  const Op *op = &executor->list->ops[index];
  const PoolPiece *outgoing = *outgoing_of(executor, op);
  if (outgoing == NULL)
    return fail_impossible(error, "there is nothing to send: what makes it has not run");
  gint64 offset;
  const gint64 bytes = own_part(executor, op, &offset);
  executor->comm->type->send(executor_channel(executor, op), executor->streams[op->stream], op->tag,
                             (char *)outgoing->memory + offset, bytes);
  return TRUE;
}

/* Returns what was sent once the send, whose end event is recorded by now, has ended. */
static void release_sent(Executor *executor, int index) {
  PoolPiece **outgoing = outgoing_of(executor, &executor->list->ops[index]);
  pool_piece_used(*outgoing, executor->end[index]);
  pool_release(&executor->trainer->activations.boundary, *outgoing);
  *outgoing = NULL;
}

/* Where a tensor from another stage is received, once that is opened. */
static char *receive_target(Executor *executor, const Op *op) {
  Activations *activations = &executor->trainer->activations;
  const Slot *slot = activations_slot(activations, op->stage, op->micro_batch);
  return op->action == ACTION_RECV_F ? activations_input(activations, slot, 0) : slot->gradient_in->memory;
}

/* Gathers the parts, so that every tp rank has the whole tensor. */
static void gather_parts(Executor *executor, const Op *op) {
  const Number number = executor->trainer->parameters->number;
  const gint64 n = boundary_elements(executor, op);
  gint64 offset;
  own_part(executor, op, &offset);
  char *target = receive_target(executor, op);
  const CollectiveSpec spec = {
      .collective = COLLECTIVE_ALL_GATHER, .number = number, .in = target + offset, .out = target, .n = n};
  executor->comm->type->collective(executor->parts, executor->streams[op->stream], &spec);
}

static gboolean run_receive(Executor *executor, int index, GError **error) {
  const Op *op = &executor->list->ops[index];
  Activations *activations = &executor->trainer->activations;
  DeviceStream *stream = executor->streams[op->stream];
  Slot *slot = activations_slot(activations, op->stage, op->micro_batch);
  if (op->action == ACTION_RECV_F) {
    if (!activations_open_input(activations, slot, stream, error))
      return FALSE;
  } else {
    slot->gradient_in = pool_take(&activations->boundary, stream, error);
    if (slot->gradient_in == NULL)
      return FALSE;
  }
  gint64 offset;
  const gint64 bytes = own_part(executor, op, &offset);
  executor->comm->type->receive(executor_channel(executor, op), stream, op->tag, receive_target(executor, op) + offset,
                                bytes);
  return TRUE;
}

/* The buffer of a gather, chosen at its fetch if it has one. */
static char *next_gather_buffer(Executor *executor, int index) {
  const GPtrArray *buffers = executor->trainer->gather_buffers;
  if (buffers->len == 0 || executor->gather_buffer[index] != NULL)
    return executor->gather_buffer[index];
  return executor->gather_buffer[index] = g_ptr_array_index(buffers, executor->n_gathers++ % buffers->len);
}

static gboolean run_fetch(Executor *executor, int index, DeviceStream *stream, GError **error) {
  const int gather = executor_gather_of(executor, index);
  const Op *op = &executor->list->ops[MAX(gather, 0)];
  if (gather < 0)
    return fail_impossible(error, "no UNSHARD waits for it");
  state_fetch(executor->trainer, op, transfer_of(executor, op), stream, next_gather_buffer(executor, gather));
  return TRUE;
}

/* The ranks that share what servers update: of a push or a pull each rank is a group of its own. */
static CommGroup *servers_group(const Executor *executor) {
  const GArray *groups = executor->program->groups;
  guint i = 0;
  while (g_array_index(groups, Group, i).route != ROUTE_SERVE)
    i++;
  return executor->groups[i];
}

static gboolean run_collective(Executor *executor, int index, GError **error) {
  const Op *op = &executor->list->ops[index];
  const Transfer *transfer = transfer_of(executor, op);
  Trainer *trainer = executor->trainer;
  DeviceStream *stream = executor->streams[op->stream];
  CommGroup *group = executor->groups[transfer->group];
  switch ((ActionKind)op->action) {
  case ACTION_UNSHARD:
    state_unshard(trainer, op, transfer, group, stream, next_gather_buffer(executor, index));
    return TRUE;
  case ACTION_FETCH:
    return run_fetch(executor, index, stream, error);
  case ACTION_GRAD_OUT:
    return executor_gradients_out(executor, index, error);
  case ACTION_WEIGHTS_BACK:
    executor_weights_back(executor, index);
    return TRUE;
  case ACTION_SAVED_OUT:
  case ACTION_SAVED_IN:
    return executor_saved_copy(executor, index, error);
  case ACTION_REDUCE_GRAD:
    if (trainer->n_updates > 0)
      executor_await_gradients_out(executor, index);
    if (!executor_has_summed(executor, op, transfer, error))
      return FALSE;
    state_reduce(trainer, op, transfer, group, stream, is_last_reduce(executor, index));
    return TRUE;
  case ACTION_TIED_GRAD:
    state_tied_gradient(trainer, group, stream);
    return TRUE;
  case ACTION_COPY_GRAD:
    state_copied_gradient(trainer, op->stage, group, stream);
    return TRUE;
  case ACTION_WHOLE_GRAD:
    state_whole_gradients(trainer, group, stream);
    return TRUE;
  case ACTION_NORM:
    state_norm(trainer, op->step, group, stream);
    return TRUE;
  case ACTION_PUSH:
    state_push(trainer, op, transfer, servers_group(executor), stream);
    return TRUE;
  case ACTION_SERVE:
    state_serve(trainer, op, transfer, stream);
    return TRUE;
  case ACTION_PULL:
    state_pull(trainer, op, transfer, servers_group(executor), stream);
    return TRUE;
  case ACTION_OUTER_SUM:
    state_outer_sum(trainer, group, stream);
    return TRUE;
  case ACTION_KEPT: /* here vectors are sharded, and gathered with the matrices */
    return TRUE;
  default:
    break;
  }
  if (!transfer->is_item)
    return fail_impossible(error, "a collective of no known purpose");
  ItemCall call = item_call(executor, op);
  call.group = group;
  items_run(trainer, transfer->piece, executor_phase(op), transfer->item, &call);
  return TRUE;
}

static gboolean run_op(Executor *executor, int index, GError **error) {
  const Op *op = &executor->list->ops[index];
  if (executor->is_first[index] && !begin_action(executor, op, error))
    return FALSE;
  if (op->action <= ACTION_B)
    activations_use_scratch(&executor->trainer->activations, op->action != ACTION_F);
  static gboolean (*const run[N_OP_KINDS])(Executor *, int, GError **) = {
      [OP_COMPUTE] = run_compute, [OP_SEND] = run_send, [OP_RECV] = run_receive, [OP_COLLECTIVE] = run_collective};
  if (!run[op->kind](executor, index, error))
    return FALSE;
  if (executor->is_last[index])
    end_action(executor, op, executor->end[index]);
  return TRUE;
}

/* --- issuing ------------------------------------------------------------------------------------------------------ */

static void wait_for_inputs(Executor *executor, int index) {
  const Op *op = &executor->list->ops[index];
  for (int i = 0; i < OP_MAX_AFTER && op->after[i] >= 0; i++)
    if (executor->list->ops[op->after[i]].kind != OP_HOST) /* has ended: the host waited */
      executor->device->type->wait(executor->streams[op->stream], executor->end[op->after[i]]);
}

static gboolean issue(Executor *executor, int index, GError **error) {
  const Op *op = &executor->list->ops[index];
  executor->result->issue_ns[index] = host_now_ns();
  executor->device->type->record(executor->streams[op->stream], executor->start[index]);
  world_progress(executor->execution->world); /* issuing may block without being watched */
  return run_op(executor, index, error);
}

static void record_end(Executor *executor, int index) {
  const Op *op = &executor->list->ops[index];
  if (op->kind == OP_RECV && executor->parts != NULL)
    gather_parts(executor, op);
  executor->device->type->record(executor->streams[op->stream], executor->end[index]);
  executor->result->issued_ns[index] = host_now_ns();
  if (op->kind == OP_SEND)
    release_sent(executor, index);
}

/* Ops of one batch are consecutive in the list: first all waits, then all calls as one batch, then all end events,
 * since a batch is on its streams only when all of it is. Returns the index after the batch. */
static int issue_batch(Executor *executor, int first, GError **error) {
  const OpList *list = executor->list;
  const gint32 batch = list->ops[first].batch;
  int end = first + 1;
  while (batch >= 0 && end < list->n_ops && list->ops[end].batch == batch &&
         list->ops[end].step == list->ops[first].step)
    end++;
  for (int i = first; i < end; i++)
    wait_for_inputs(executor, i);
  if (end > first + 1)
    executor->comm->type->batch_begin(executor->comm);
  for (int i = first; i < end; i++)
    if (!issue(executor, i, error)) {
      g_autofree char *text = op_text(executor->program, &list->ops[i]);
      g_prefix_error(error, "%s: ", text);
      return -1;
    }
  if (end > first + 1)
    executor->comm->type->batch_end(executor->comm);
  for (int i = first; i < end; i++)
    record_end(executor, i);
  return end;
}

static gboolean run_hook(Executor *executor, int index, GError **error) {
  const Execution *execution = executor->execution;
  const Op *op = &executor->list->ops[index];
  const gboolean is_first_update =
      op->action == ACTION_OPTIMIZER ? op->unit == 0 : op->action == ACTION_SERVE && executor->served_step < op->step;
  if (!is_first_update || execution->hook == NULL)
    return TRUE;
  if (op->kind == OP_HOST && executor->device_updates) /* the device's own update came first */
    return TRUE;
  executor->served_step = op->step;
  if (op->kind != OP_HOST) /* the host itself waits for a host op's inputs */
    wait_for_inputs(executor, index);
  return executor_drain(executor, error) && execution->hook(executor->trainer, op->step, execution->hook_data, error);
}

/* The index after the last op to run. */
static int end_of_run(const Executor *executor) {
  const OpList *list = executor->list;
  int end = list->n_ops;
  while (executor->is_rehearsal && end > 0 && list->ops[end - 1].step > 0)
    end--;
  return end;
}

gboolean executor_run(Executor *executor, GError **error) {
  const OpList *list = executor->list;
  const int end = end_of_run(executor);
  for (int i = 0; i < end;) {
    if (!run_hook(executor, i, error))
      return FALSE;
    if (list->ops[i].kind == OP_HOST) {
      if (!executor_host_op(executor, i, error))
        return FALSE;
      i++;
      continue;
    }
    i = issue_batch(executor, i, error);
    if (i < 0)
      return FALSE;
  }
  const Execution *execution = executor->execution;
  return executor_drain(executor, error) &&
         (execution->hook == NULL || executor->is_rehearsal ||
          execution->hook(executor->trainer, executor->program->n_steps, execution->hook_data, error));
}
