/* The host's ops. The host issues ahead of the device and waits only where the Program makes it wait. While waiting
 * it checks, twenty times a second, the first op of each stream that has not ended, and publishes on the status table
 * what this rank is doing or waiting for; others print that if something goes wrong. */
#include "cpu_kernels.h"
#include "error.h"
#include "executor_private.h"
#include "host_machine.h"
#include "staging.h"
#include "state.h"

#include <math.h>
#include <string.h>

static const gint64 look_ns = 50 * 1000 * 1000;

/* --- what the rank is doing --- */

static const Op *head_of(Executor *executor, int stream) {
  const OpList *list = executor->list;
  int *cursor = &executor->cursor[stream];
  while (*cursor < list->n_ops) {
    const Op *op = &list->ops[*cursor];
    const gboolean is_issued = executor->result->issue_ns[*cursor] > 0;
    if (op->stream == stream && (!is_issued || !executor->device->type->is_done(executor->end[*cursor])))
      return is_issued ? op : NULL;
    (*cursor)++;
  }
  return NULL;
}

static gboolean has_started(const Executor *executor, const Op *op) {
  return executor->device->type->is_done(executor->start[op - executor->list->ops]);
}

/* "1RECV_F0 from rank 0", "0REDUCE_GRAD with group dp". */
static char *wait_text(const Executor *executor, const Op *op) {
  g_autofree char *name = op_text(executor->program, op);
  if (op->kind == OP_SEND || op->kind == OP_RECV)
    return g_strdup_printf("%s %s rank %d", name, op->kind == OP_SEND ? "to" : "from",
                           executor->execution->rank +
                               (op->peer - executor->pp) * executor->execution->workload->layout.stride[AXIS_PP]);
  const Transfer *transfer = &g_array_index(executor->program->transfers, Transfer, op->work);
  return g_strdup_printf("%s with group %s", name,
                         g_array_index(executor->program->groups, Group, transfer->group).name);
}

static void say(Executor *executor) {
  World *world = executor->execution->world;
  const DeviceType *device = executor->device->type;
  const guint64 n_ended = device->n_ended != NULL ? device->n_ended(executor->device) : 0;
  if (n_ended != executor->n_ended)
    world_progress(world);
  executor->n_ended = n_ended;
  const Op *compute = head_of(executor, STREAM_COMPUTE);
  if (compute != NULL && has_started(executor, compute)) {
    g_autofree char *name = op_text(executor->program, compute);
    world_say(world, RANK_COMPUTES, "%s", name);
    return;
  }
  for (int stream = 0; stream < N_STREAMS; stream++) {
    const Op *op = stream == STREAM_COMPUTE || stream == STREAM_HOST ? NULL : head_of(executor, stream);
    if (op == NULL || !has_started(executor, op))
      continue;
    g_autofree char *text = wait_text(executor, op);
    world_say(world, RANK_WAITS, "waits for %s", text);
    return;
  }
  world_say(world, RANK_COMPUTES, "between ops");
}

/* Reports why the device failed, with the op that each stream had reached. */
static gboolean fail_at_op(Executor *executor, GError **error) {
  g_autoptr(GError) cause = NULL;
  if (executor->device->type->check(executor->device, &cause))
    return TRUE;
  const Op *op = head_of(executor, STREAM_COMPUTE);
  for (int stream = 0; stream < N_STREAMS && cause != NULL; stream++) {
    const Op *head = stream == STREAM_HOST ? NULL : head_of(executor, stream);
    if (head != NULL && has_started(executor, head))
      op = head;
  }
  g_autofree char *name = op != NULL ? op_text(executor->program, op) : g_strdup("after the last op");
  return fail_impossible(error, "%s: %s", name, cause->message);
}

static gboolean wait_event(Executor *executor, DeviceEvent *event, GError **error) {
  while (!executor->device->type->sleep_until(event, look_ns)) {
    if (!fail_at_op(executor, error))
      return FALSE;
    say(executor);
  }
  return fail_at_op(executor, error);
}

gboolean executor_drain(Executor *executor, GError **error) {
  const DeviceType *device = executor->device->type;
  for (int stream = 0; stream < N_STREAMS; stream++) {
    if (executor->streams[stream] == NULL)
      continue;
    DeviceEvent *event = device->event_new(executor->device, error);
    if (event == NULL)
      return FALSE;
    device->record(executor->streams[stream], event);
    const gboolean ok = wait_event(executor, event, error);
    device->event_free(event);
    if (!ok)
      return FALSE;
  }
  world_say(executor->execution->world, RANK_BUSY, "between ops"); /* no time limit on what comes next */
  return TRUE;
}

/* --- non-finite gradients --- */

static const Tensor *tensor_at(const Block *block, gint64 element) {
  for (int i = block->n_tensors - 1; i >= 0; i--)
    if (block->tensors[i].offset <= element)
      return &block->tensors[i];
  return &block->tensors[0];
}

/* The first tensor of this rank's share with a non-finite gradient; NULL: none. */
static const Tensor *find_not_finite(Executor *executor, double *value) {
  const Parameters *parameters = executor->trainer->parameters;
  const Number number = parameters->gradient_number;
  for (int b = 0; b < parameters->n_blocks; b++) {
    const Block *block = &parameters->blocks[b];
    const gint64 n = block->is_frozen ? 0 : block_gradient_n(block);
    const gint64 first = block_shards_gradient(block) ? block->shard_first : 0;
    g_autofree char *values = g_malloc((gsize)n * 4 + 1);
    g_autofree float *wide = g_new(float, (gsize)n + 1);
    if (n == 0 || !staging_read(executor->device, executor->streams[STREAM_COMPUTE], values, block->gradient,
                                n * kernel_element_bytes(number), NULL))
      continue;
    cpu_convert(values, number, n, wide, NUMBER_FP32);
    for (gint64 i = 0; i < n; i++)
      if (!isfinite(*value = (double)wide[i]))
        return tensor_at(block, first + i);
  }
  return NULL;
}

/* Called every step, so it neither allocates nor frees. */
static gboolean read_step_end(Executor *executor, int step, GError **error) {
  const DeviceType *device = executor->device->type;
  DeviceStream *stream = executor->streams[STREAM_COMPUTE];
  StepEnd *end = executor->step_end;
  device->copy(stream, end->norms, &executor->trainer->norms[2 * step], sizeof end->norms);
  const gint64 n = training_n_losses(executor->trainer->workload);
  device->copy(stream, end->losses, &executor->trainer->losses[step * n], n * (gint64)sizeof *end->losses);
  if (executor->trainer->scales != NULL)
    device->copy(stream, &end->scale, loss_scaling_of(executor->trainer, step), sizeof end->scale);
  device->record(stream, executor->normed);
  return device_wait(executor->normed, error);
}

/* " at the loss scale 1024: …"; "" without a loss scale. Owned by the caller. */
static char *scale_text(const Executor *executor) {
  const LossScale *scale = &executor->step_end->scale;
  if (executor->trainer->scales == NULL)
    return g_strdup("");
  return g_strdup_printf(" at the loss scale %g%s", scale->scale,
                         scale->window > 0 ? ", the lowest" : "; --loss-scale dynamic lowers it");
}

static double step_loss(const Executor *executor) {
  double sum = 0;
  for (int i = 0; i < training_n_losses(executor->trainer->workload); i++)
    sum += executor->step_end->losses[i];
  return sum;
}

static gboolean check_norm(Executor *executor, const Op *op, GError **error) {
  if (!read_step_end(executor, op->step, error))
    return FALSE;
  const double *norms = executor->step_end->norms;
  if (isfinite(norms[0]) && isfinite(norms[1]))
    return TRUE;
  g_autofree char *name = op_text(executor->program, op);
  if (executor->trainer->scales != NULL && loss_scale_skips(&executor->step_end->scale, norms[1]))
    return isfinite(step_loss(executor)) ||
           fail_impossible(error, "%s: the loss is %f, which no loss scale changes", name, step_loss(executor));
  g_autofree char *scale = scale_text(executor);
  double value = norms[0];
  const Tensor *tensor = isfinite(norms[0]) ? NULL : find_not_finite(executor, &value);
  if (tensor != NULL)
    return fail_impossible(error, "%s: the gradient of %s is %f%s", name, tensor->name, value, scale);
  if (isfinite(norms[0]))
    g_usleep(G_USEC_PER_SEC); /* the rank at fault has the better message: let it print first */
  return fail_impossible(error, "%s: the gradient norm is %f%s", name, isfinite(norms[0]) ? norms[1] : norms[0], scale);
}

/* Reads the step's norm, which the device's own update has made where there is one, and scale, and zeroes the device's
 * gradients, unless the run must end. */
static gboolean begin_update(Executor *executor, const Op *op, GError **error) {
  Trainer *trainer = executor->trainer;
  DeviceStream *compute = executor->streams[STREAM_COMPUTE];
  if (!executor->has_norm && !executor->device_updates)
    state_norm(trainer, op->step, NULL, compute);
  if (!read_step_end(executor, op->step, error))
    return FALSE;
  const double norm = executor->step_end->norms[1];
  if (isfinite(norm) || (trainer->scales != NULL && loss_scale_skips(&executor->step_end->scale, norm)))
    state_zero_gradients(trainer, compute);
  return TRUE;
}

static gboolean update(Executor *executor, int index, GError **error) {
  const Op *op = &executor->list->ops[index];
  return (op->unit > 0 || begin_update(executor, op, error)) && executor_update(executor, index, error);
}

/* Reads a GPU's clock rate under load: while the last step runs. */
static void note_clock(Executor *executor, const Op *op) {
  const DeviceType *device = executor->device->type;
  if (op->action == ACTION_SYNC && op->step == executor->program->n_steps - 1 && !device->is_host_memory)
    executor->result->clock_Hz = device->clock_Hz(executor->device);
}

gboolean executor_host_op(Executor *executor, int index, GError **error) {
  const Op *op = &executor->list->ops[index];
  const Execution *execution = executor->execution;
  executor->result->issue_ns[index] = host_now_ns();
  note_clock(executor, op);
  for (int i = 0; i < OP_MAX_AFTER && op->after[i] >= 0; i++)
    if (executor->list->ops[op->after[i]].kind != OP_HOST && !wait_event(executor, executor->end[op->after[i]], error))
      return FALSE;
  executor->result->start_ns[index] = host_now_ns();
  if (op->action == ACTION_OPTIMIZER && !update(executor, index, error))
    return FALSE;
  if (op->action == ACTION_SYNC && !executor->is_rehearsal && !check_norm(executor, op, error))
    return FALSE;
  executor->result->end_ns[index] = host_now_ns();
  if (op->action == ACTION_SYNC && execution->progress != NULL)
    execution->progress(op->step, executor->program->n_steps, execution->progress_data);
  return TRUE;
}
