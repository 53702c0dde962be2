/* The optimizer on the host: sending gradients, the update, returning weights.
 *
 *     compute   … B0 |                                         | fill | F0 of the next step
 *     dp             | sum |  norm
 *     copy_out             | gradients |
 *     host                             | update 0 | update 1 |
 *     copy                                        | weights 0 | weights 1 |
 *
 * Summed gradients also stay on the device until the update: later sums (tied, whole, two copies), the norm and the
 * next micro-batch's sums add to them, and what has changed is sent again. So the host never adds up gradients. With
 * ZeRO-2 and 3 gradients are sent after every micro-batch, the same number of bytes as if it did. */
#include "error.h"
#include "executor_private.h"
#include "host_optimizer.h"
#include "state.h"

/* --- gradients --- */

static const Op *source_of(const Executor *executor, const Op *op) {
  return op->after[0] >= 0 ? &executor->list->ops[op->after[0]] : op;
}

/* Whether a GRAD_OUT sends experts' gradients. Of gradients that no other rank has, an op's experts are sent after
 * everything else. */
static gboolean is_of_experts(const Executor *executor, const Op *op) {
  const Op *before = op - 1;
  const gboolean is_second = op > executor->list->ops && before->action == ACTION_GRAD_OUT &&
                             before->after[0] == op->after[0] && before->step == op->step;
  return is_second || executor->execution->workload->method->data_ranks > 1;
}

/* The previous part (way −1) or the next one (1) of the same backward, which goes from the last layer to the first;
 * NULL: none. */
static const Op *neighbour_part(const Executor *executor, const Op *op, int way) {
  const Op *first = executor->list->ops, *end = first + executor->list->n_ops;
  const gboolean of_experts = is_of_experts(executor, op);
  for (const Op *other = op + way; other >= first && other < end && other->step == op->step; other += way)
    if (other->action == ACTION_GRAD_OUT && other->stage == op->stage && other->micro_batch == op->micro_batch &&
        source_of(executor, other)->kind == OP_COMPUTE && is_of_experts(executor, other) == of_experts)
      return other;
  return NULL;
}

/* Adds the blocks of one part of a backward: layers from the op's unit on, the head in the first part, the embedding
 * in the last. */
static void add_part(const Executor *executor, const Op *op, GPtrArray *blocks) {
  const Parameters *parameters = executor->trainer->parameters;
  const gboolean of_experts = is_of_experts(executor, op);
  const Op *before = neighbour_part(executor, op, -1), *behind = neighbour_part(executor, op, 1);
  const int first_layer = parameters->workload->stages[op->stage].layers.first_layer;
  for (int i = 0; i < parameters->n_blocks; i++) {
    Block *block = &parameters->blocks[i];
    const int layer = block->layer - first_layer;
    const gboolean has_layer = block->kind == BLOCK_LAYER || block->kind == BLOCK_EXPERTS;
    const gboolean is_table = block->kind == BLOCK_TABLE || block->kind == BLOCK_POSITIONS;
    const gboolean is_in = has_layer  ? layer >= op->unit && (before == NULL || layer < before->unit)
                           : is_table ? behind == NULL
                                      : before == NULL;
    if (block->stage == op->stage && (block->kind == BLOCK_EXPERTS) == of_experts && is_in)
      g_ptr_array_add(blocks, block);
  }
}

gboolean executor_gradients_out(Executor *executor, int index, GError **error) {
  const Op *op = &executor->list->ops[index], *source = source_of(executor, op);
  DeviceStream *stream = executor->streams[op->stream];
  g_autoptr(GPtrArray) blocks = g_ptr_array_new();
  switch ((ActionKind)source->action) {
  case ACTION_TIED_GRAD:
  case ACTION_COPY_GRAD:
  case ACTION_WHOLE_GRAD:
    state_late_gradients_out(executor->trainer, (ActionKind)source->action, source->stage, stream);
    return TRUE;
  case ACTION_REDUCE_GRAD:
    parameters_moved(executor->trainer->parameters, source,
                     &g_array_index(executor->program->transfers, Transfer, source->work), blocks);
    break;
  default:
    if (source->kind != OP_COMPUTE || op->stage < 0)
      return fail_impossible(error, "it waits for nothing that makes gradients");
    add_part(executor, op, blocks);
  }
  state_gradients_out(executor->trainer, blocks, stream);
  return TRUE;
}

void executor_await_gradients_out(Executor *executor, int index) {
  const Op *op = &executor->list->ops[index];
  for (int i = index - 1; i >= 0 && executor->list->ops[i].step == op->step; i--) {
    const Op *other = &executor->list->ops[i];
    if (other->action != ACTION_GRAD_OUT || other->stage != op->stage || other->unit != op->unit)
      continue;
    executor->device->type->wait(executor->streams[op->stream], executor->end[i]);
    return;
  }
}

/* --- update and weights --- */

gboolean executor_update(Executor *executor, int index, GError **error) {
  const Op *op = &executor->list->ops[index];
  Trainer *trainer = executor->trainer;
  World *world = executor->execution->world;
  StepEnd *end = executor->step_end;
  g_autofree char *name = op_text(executor->program, op);
  world_say(world, RANK_COMPUTES, "%s", name);
  const gboolean computes = executor->device->type->launch != null_device.launch;
  const int n_threads = host_kernels_threads(executor->device->type, world);
  if (computes && !host_optimizer_step(trainer, op->step, op->unit,
                                       trainer->workload->method->grad_norm_barrier ? &end->norms[1] : NULL,
                                       trainer->scales != NULL ? &end->scale : NULL, n_threads, error))
    return FALSE;
  if (op->unit + 1 == trainer->n_updates)
    loss_scaling_advance(trainer, op->step, executor->streams[STREAM_COMPUTE]);
  world_progress(world);
  return TRUE;
}

void executor_weights_back(Executor *executor, int index) {
  const Op *op = &executor->list->ops[index];
  host_optimizer_weights_back(executor->trainer, op->unit, executor->streams[op->stream]);
}

int executor_gather_of(const Executor *executor, int fetch) {
  const Op *ops = executor->list->ops;
  for (int i = fetch + 1; i < executor->list->n_ops; i++)
    if (ops[i].action == ACTION_UNSHARD && ops[i].after[0] == fetch)
      return i;
  return -1;
}
