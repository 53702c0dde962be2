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
    result->attention = g_strdup(device->attention(executor->streams[STREAM_COMPUTE]));
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

static void visit_items(const Executor *executor) {
  const Execution *execution = executor->execution;
  const DeviceType *device = executor->device->type;
  for (guint i = 0; i < executor->trainer->item_log->len; i++) {
    const ItemRecord *record = &g_array_index(executor->trainer->item_log, ItemRecord, i);
    execution->visit_item(record->item, record->step, device->event_ns(record->end) - device->event_ns(record->start),
                          execution->visit_data);
  }
  for (int i = 0; i < executor->list->n_ops; i++) {
    const Op *op = &executor->list->ops[i];
    if (op->action != ACTION_OPTIMIZER || op->step < execution->visit_from)
      continue;
    const Work *work = &g_array_index(executor->program->works, Work, op->work);
    const WorkItem item = workload_optimizer_item(execution->workload, work->parameters);
    execution->visit_item(&item, op->step, executor->result->end_ns[i] - executor->result->start_ns[i],
                          execution->visit_data);
  }
}

gboolean execute(const Execution *execution, ExecutionResult *result, GError **error) {
  memset(result, 0, sizeof *result);
  Executor executor = {.execution = execution, .result = result};
  gboolean ok = executor_setup(&executor, error);
  if (!ok)
    g_prefix_error(error, "before the first op: ");
  ok = ok && executor_run(&executor, error) && collect(&executor, error);
  if (ok && execution->visit_item != NULL)
    visit_items(&executor);
  if (!ok)
    give_up(&executor);
  if (ok || execution->comm == &null_comm)
    executor_clear(&executor);
  return ok;
}

void execution_result_clear(ExecutionResult *result) {
  g_free(result->start_ns);
  g_free(result->end_ns);
  g_free(result->issue_ns);
  g_free(result->losses);
  g_free(result->scales);
  g_free(result->device_name);
  g_free(result->attention);
  memset(result, 0, sizeof *result);
}
