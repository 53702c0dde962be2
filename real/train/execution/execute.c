/* A whole run: setup, every op, and collecting the results after the last op. */
#include "error.h"
#include "executor_private.h"
#include "staging.h"

#include <string.h>

/* Sums the losses of a step's micro-batches. */
static gboolean collect_losses(Executor *executor, GError **error) {
  const int n_steps = executor->program->n_steps;
  const gint64 n = training_n_losses(executor->execution->workload);
  g_autofree double *losses = g_new(double, n_steps *n);
  if (!staging_read(executor->device, executor->streams[STREAM_COMPUTE], losses, executor->trainer->losses,
                    n_steps * n * (gint64)sizeof *losses, error))
    return FALSE;
  for (gint64 i = 0; i < n_steps * n; i++)
    executor->result->losses[i / n] += losses[i];
  return TRUE;
}

static gboolean collect(Executor *executor, GError **error) {
  const DeviceType *device = executor->device->type;
  ExecutionResult *result = executor->result;
  if (device->attention != NULL)
    result->attention = g_strdup(device->attention(executor->streams[STREAM_COMPUTE], &result->attention_fell_back));
  for (int i = 0; i < executor->list->n_ops; i++) {
    if (executor->list->ops[i].kind == OP_HOST)
      continue;
    result->start_ns[i] = device->event_ns(executor->start[i]);
    result->end_ns[i] = device->event_ns(executor->end[i]);
  }
  const int n_steps = executor->program->n_steps;
  DeviceStream *stream = executor->streams[STREAM_COMPUTE];
  if (executor->trainer->scales != NULL) {
    result->scales = g_new0(LossScale, (gsize)n_steps + 1);
    if (!staging_read(executor->device, stream, result->scales, executor->trainer->scales,
                      (n_steps + 1) * (gint64)sizeof *result->scales, error))
      return FALSE;
  }
  return collect_losses(executor, error);
}

/* Stops transfers and kernels. Communicators shared with other ranks cannot be torn down without them, so their
 * memory is left to the end of the process, which is near. */
static void give_up(Executor *executor) {
  if (executor->comm != NULL)
    executor->comm->type->abort(executor->comm);
  if (executor->device != NULL)
    executor->device->type->cancel(executor->device);
}

static void visit_logged(const Executor *executor) {
  const Execution *execution = executor->execution;
  const DeviceType *device = executor->device->type;
  for (int i = 0; i < executor->trainer->item_log.n; i++) {
    const ItemRecord *record = &executor->trainer->item_log.records[i];
    const gint64 time_ns = device_elapsed_ns(record->start, record->end);
    const gint64 launch_ns = record->issued_ns - device->event_ns(record->start);
    execution->visit_item(record->item, record->step, time_ns, CLAMP(launch_ns, 0, time_ns), execution->visit_data);
  }
}

static void visit_optimizer(const Executor *executor) {
  const Execution *execution = executor->execution;
  const ExecutionResult *result = executor->result;
  for (int i = 0; i < executor->list->n_ops; i++) {
    const Op *op = &executor->list->ops[i];
    if (op->action != ACTION_OPTIMIZER || op->step < execution->visit_from)
      continue;
    const Work *work = &g_array_index(executor->program->works, Work, op->work);
    const WorkItem item = workload_optimizer_item(execution->workload, work->parameters);
    const gint64 time_ns = op->kind == OP_HOST ? result->end_ns[i] - result->start_ns[i]
                                               : device_elapsed_ns(executor->start[i], executor->end[i]);
    const gint64 launch_ns = result->issued_ns[i] - result->start_ns[i];
    execution->visit_item(&item, op->step, time_ns, CLAMP(launch_ns, 0, time_ns), execution->visit_data);
  }
}

static gboolean ignore_gradients(Trainer *trainer, int step, gpointer data, GError **error) {
  return TRUE;
}

/* On a device that loads kernels at their first launch, which may wait until every stream is idle, such a launch must
 * not come while a stream waits for another rank: that rank may wait for what this one launches next. So the first step
 * is run once without communication, on the same streams, whose plans of products and attention are kept; later steps
 * launch nothing else. Nothing waits for another rank before all of it is loaded: communicators, which load their own
 * kernels, are made afterwards. */
static gboolean rehearse(const Executor *executor, GError **error) {
  Execution execution = *executor->execution;
  ExecutionResult result = {0};
  execution.comm = &null_comm;
  execution.hook = execution.hook != NULL ? ignore_gradients : NULL;
  execution.progress = NULL;
  execution.visit_item = NULL;
  Executor rehearsal = *executor;
  rehearsal.execution = &execution;
  rehearsal.result = &result;
  rehearsal.is_rehearsal = TRUE;
  const gboolean ok = executor_setup(&rehearsal, error) && executor_run(&rehearsal, error);
  if (!ok)
    give_up(&rehearsal);
  executor_clear(&rehearsal);
  execution_result_clear(&result);
  return ok;
}

static gboolean prepare(Executor *executor, GError **error) {
  const Execution *execution = executor->execution;
  const gboolean is_rehearsed =
      execution->device->loads_late && execution->comm != &null_comm && world_size(execution->world) > 1;
  const gboolean ok =
      executor_open(executor, error) && (!is_rehearsed || rehearse(executor, error)) && executor_setup(executor, error);
  if (!ok)
    g_prefix_error(error, "before the first op: ");
  return ok;
}

gboolean execute(const Execution *execution, ExecutionResult *result, GError **error) {
  memset(result, 0, sizeof *result);
  Executor executor = {.execution = execution, .result = result};
  const gboolean ok = prepare(&executor, error) && executor_run(&executor, error) && collect(&executor, error);
  if (ok && execution->visit_item != NULL) {
    visit_logged(&executor);
    visit_optimizer(&executor);
  }
  if (!ok)
    give_up(&executor);
  if (ok || execution->comm == &null_comm) {
    executor_clear(&executor);
    executor_close(&executor);
  }
  return ok;
}

void execution_result_clear(ExecutionResult *result) {
  g_free(result->start_ns);
  g_free(result->end_ns);
  g_free(result->issue_ns);
  g_free(result->issued_ns);
  g_free(result->losses);
  g_free(result->scales);
  g_free(result->device_name);
  g_free(result->attention);
  memset(result, 0, sizeof *result);
}
