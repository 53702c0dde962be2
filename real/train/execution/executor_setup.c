/* Streams, events, groups and channels of one rank, all created before the first op is issued. All ranks create
 * groups in the same order: by their number in the Program, then channels by direction, sender, receiver. */
#include "error.h"
#include "executor_private.h"
#include "items.h"

#include <string.h>

char *op_text(const Program *program, const Op *op) {
  g_autoptr(GString) text = g_string_new(NULL);
  action_print(&(Action){op->stage, op->micro_batch, op->action}, text);
  if (op->kind == OP_COLLECTIVE && op->action <= ACTION_B)
    g_string_append_printf(text, " (%s)", stream_info(op->stream)->name);
  if (program->n_steps > 1)
    g_string_append_printf(text, " of step %d", op->step);
  return g_string_free(g_steal_pointer(&text), FALSE);
}

Phase executor_phase(const Op *op) {
  static const Phase phases[] = {
      [ACTION_F] = PHASE_F, [ACTION_I] = PHASE_I, [ACTION_W] = PHASE_W, [ACTION_B] = PHASE_B};
  g_assert(op->action <= ACTION_B);
  return phases[op->action];
}

/* --- actions ------------------------------------------------------------------------------------------------------ */

/* Parts of an action are contiguous, except for ops of other streams in between and, in an interleaved pair, the
 * other action's ops. */
static void find_actions(Executor *executor) {
  const OpList *list = executor->list;
  int last[2] = {-1, -1};         /* last op of a forward, of a backward */
  int last_compute[2] = {-1, -1}; /* the same on the compute stream */
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    executor->has_norm = executor->has_norm || op->action == ACTION_NORM;
    executor->device_updates |= op->action == ACTION_OPTIMIZER && op->kind == OP_COMPUTE;
    if (op->action > ACTION_B || (op->kind != OP_COMPUTE && op->kind != OP_COLLECTIVE))
      continue;
    const int of = op->action == ACTION_F ? 0 : 1;
    if (last[of] < 0 || !op_same_action(&list->ops[last[of]], op)) {
      executor->is_first[i] = TRUE;
      if (last_compute[of] >= 0)
        executor->is_last[last_compute[of]] = TRUE;
    }
    last[of] = i;
    if (op->kind == OP_COMPUTE)
      last_compute[of] = i;
  }
  for (int of = 0; of < 2; of++)
    if (last_compute[of] >= 0)
      executor->is_last[last_compute[of]] = TRUE;
}

/* --- groups and channels ------------------------------------------------------------------------------------------ */

static int compare_ints(gconstpointer a, gconstpointer b) {
  return *(const int *)a - *(const int *)b;
}

/* Members, in ascending order, of this rank's instance of a group; NULL if it is not a member. */
static int *group_members(const Executor *executor, const Group *group, int *n) {
  const Layout *layout = &executor->execution->workload->layout;
  const int rank = executor->execution->rank, stride = layout->stride[AXIS_PP];
  const gboolean is_pair = group->spans_pp && group->pp_first >= 0 && group->pp_first != group->pp_last;
  if (group->spans_pp && group->pp_first >= 0 && executor->pp != group->pp_first && executor->pp != group->pp_last)
    return NULL;
  const AxisSet axes = group->axes | (group->spans_pp && group->pp_first < 0 ? AXIS_BIT(AXIS_PP) : 0);
  const int size = layout_group_size(layout, axes);
  *n = is_pair ? 2 * size : size;
  int *members = g_new(int, *n);
  if (!is_pair) {
    layout_group_members(layout, axes, rank, members);
    return members;
  }
  layout_group_members(layout, axes, rank + (group->pp_first - executor->pp) * stride, members);
  layout_group_members(layout, axes, rank + (group->pp_last - executor->pp) * stride, members + size);
  qsort(members, (gsize)*n, sizeof *members, compare_ints);
  return members;
}

static gboolean make_groups(Executor *executor, GError **error) {
  const Program *program = executor->program;
  for (guint i = 0; i < program->groups->len; i++) {
    const Group *group = &g_array_index(program->groups, Group, i);
    int n = 0;
    g_autofree int *members = group_members(executor, group, &n);
    if (members == NULL)
      continue;
    executor->groups[i] = executor->comm->type->group_new(executor->comm, members, n, error);
    if (executor->groups[i] == NULL) {
      g_prefix_error(error, "group %s: ", group->name);
      return FALSE;
    }
  }
  return TRUE;
}

/* The group of ranks that gather tensors received in parts. */
static gboolean make_parts(Executor *executor, GError **error) {
  const Layout *layout = &executor->execution->workload->layout;
  const Method *method = executor->execution->workload->method;
  if (method->pp == 1 || !method->splits_stage_tensors)
    return TRUE;
  const LocalSizes *local = &executor->trainer->parameters->local;
  if (local->tokens * local->model->hidden % local->tp != 0)
    return fail_impossible(error,
                           "%" G_GINT64_FORMAT " tokens × hidden %" G_GINT64_FORMAT
                           " are not a multiple of tp %" G_GINT64_FORMAT
                           ": framework %s sends them in so many parts; leave --framework out",
                           local->tokens, local->model->hidden, local->tp, method->framework);
  const int n = layout_group_size(layout, AXIS_BIT(AXIS_TP));
  g_autofree int *members = g_new(int, n);
  layout_group_members(layout, AXIS_BIT(AXIS_TP), executor->execution->rank, members);
  executor->parts = executor->comm->type->group_new(executor->comm, members, n, error);
  return executor->parts != NULL;
}

static CommGroup **channel_at(const Executor *executor, gboolean is_forward, int from, int to) {
  const int n = executor->program->n_ranks;
  return &executor->channels[((is_forward ? 0 : 1) * n + from) * n + to];
}

CommGroup *executor_channel(const Executor *executor, const Op *op) {
  const gboolean sends = op->kind == OP_SEND;
  const gboolean is_forward = op->action == ACTION_SEND_F || op->action == ACTION_RECV_F;
  return *channel_at(executor, is_forward, sends ? executor->pp : op->peer, sends ? op->peer : executor->pp);
}

/* [2][ranks][ranks]: the channels that the Program uses. */
static gboolean *used_channels(const Program *program) {
  const int n = program->n_ranks;
  gboolean *used = g_new0(gboolean, (gsize)2 * n * n);
  for (int rank = 0; rank < n; rank++)
    for (int i = 0; i < program->ranks[rank].n_ops; i++) {
      const Op *op = &program->ranks[rank].ops[i];
      if (op->kind == OP_SEND)
        used[((op->action == ACTION_SEND_F ? 0 : 1) * n + rank) * n + op->peer] = TRUE;
    }
  return used;
}

static gboolean make_channels(Executor *executor, GError **error) {
  const Layout *layout = &executor->execution->workload->layout;
  const int n = executor->program->n_ranks, own = executor->execution->rank;
  g_autofree gboolean *used = used_channels(executor->program);
  for (int direction = 0; direction < 2; direction++)
    for (int from = 0; from < n; from++)
      for (int to = 0; to < n; to++) {
        if (!used[(direction * n + from) * n + to] || (from != executor->pp && to != executor->pp))
          continue;
        const int stride = layout->stride[AXIS_PP];
        CommGroup **channel = channel_at(executor, direction == 0, from, to);
        *channel = executor->comm->type->channel_new(executor->comm, own + (from - executor->pp) * stride,
                                                     own + (to - executor->pp) * stride, direction == 0, error);
        if (*channel == NULL)
          return FALSE;
      }
  return TRUE;
}

/* --- setup and teardown --- */

static gboolean make_streams(Executor *executor, GError **error) {
  gboolean used[N_STREAMS] = {[STREAM_COMPUTE] = TRUE};
  for (int i = 0; i < executor->list->n_ops; i++)
    used[executor->list->ops[i].stream] = TRUE;
  for (int stream = 0; stream < N_STREAMS; stream++) {
    if (!used[stream] || stream == STREAM_HOST)
      continue;
    executor->streams[stream] = executor->device->type->stream_new(executor->device, (Stream)stream, error);
    if (executor->streams[stream] == NULL)
      return FALSE;
  }
  return TRUE;
}

static gboolean make_events(Executor *executor, GError **error) {
  for (int i = 0; i < executor->list->n_ops; i++) {
    executor->start[i] = executor->device->type->event_new(executor->device, error);
    executor->end[i] = executor->start[i] ? executor->device->type->event_new(executor->device, error) : NULL;
    if (executor->end[i] == NULL)
      return FALSE;
  }
  return TRUE;
}

/* Allocated once: pinned host memory takes a while to allocate, and freeing it waits for the whole GPU. */
static gboolean make_step_end(Executor *executor, GError **error) {
  const DeviceType *device = executor->device->type;
  const gint64 bytes =
      (gint64)sizeof *executor->step_end + training_n_losses(executor->execution->workload) * (gint64)sizeof(double);
  executor->step_end = device->allocate_host(executor->device, bytes, error);
  executor->normed = executor->step_end != NULL ? device->event_new(executor->device, error) : NULL;
  return executor->normed != NULL;
}

static void size_tables(Executor *executor) {
  const Program *program = executor->program;
  const gsize n = (gsize)executor->list->n_ops, places = (gsize)program->n_stages * program->n_micro_batches;
  ExecutionResult *result = executor->result;
  result->n_ops = (int)n;
  result->start_ns = g_new0(gint64, n + 1);
  result->end_ns = g_new0(gint64, n + 1);
  result->issue_ns = g_new0(gint64, n + 1);
  result->issued_ns = g_new0(gint64, n + 1);
  result->losses = g_new0(double, program->n_steps);
  executor->start = g_new0(DeviceEvent *, n + 1);
  executor->end = g_new0(DeviceEvent *, n + 1);
  executor->groups = g_new0(CommGroup *, program->groups->len + 1);
  executor->channels = g_new0(CommGroup *, (gsize)2 * program->n_ranks * program->n_ranks);
  executor->is_first = g_new0(guint8, n + 1);
  executor->is_last = g_new0(guint8, n + 1);
  executor->outgoing[0] = g_new0(PoolPiece *, places);
  executor->outgoing[1] = g_new0(PoolPiece *, places);
  executor->gather_buffer = g_new0(char *, n + 1);
  executor->stage_reduce = g_new(int, program->n_stages);
  for (int stage = 0; stage < program->n_stages; stage++)
    executor->stage_reduce[stage] = -1;
}

/* Items whose times are wanted, collectives among them counted too. */
static int count_items(const Executor *executor) {
  int n = 0;
  for (int i = 0; i < executor->list->n_ops; i++) {
    const Op *op = &executor->list->ops[i];
    if (op->kind != OP_COMPUTE || op->step < executor->execution->visit_from)
      continue;
    const Work *work = &g_array_index(executor->program->works, Work, op->work);
    n += work->piece >= 0 && work->phase != PHASE_OPTIMIZER ? work->last_item - work->first_item + 1 : 0;
  }
  return n;
}

gboolean executor_open(Executor *executor, GError **error) {
  const Execution *execution = executor->execution;
  executor->program = execution->program;
  executor->pp = layout_coordinates(&execution->workload->layout, execution->rank).at[AXIS_PP];
  executor->list = &executor->program->ranks[executor->pp];
  executor->device = comm_open_device(execution->world, execution->device, execution->capacity_bytes, error);
  if (executor->device == NULL)
    return FALSE;
  executor->result->device_name = executor->device->type->describe(executor->device);
  executor->result->clock_Hz = executor->device->type->clock_Hz(executor->device);
  return make_streams(executor, error);
}

gboolean executor_setup(Executor *executor, GError **error) {
  const Execution *execution = executor->execution;
  executor->open_reduce = executor->used_by = executor->served_step = -1;
  size_tables(executor);
  find_actions(executor);
  executor->comm = comm_start(execution->comm, execution->world, executor->device, error);
  if (executor->comm == NULL || !make_events(executor, error))
    return FALSE;
  const TrainerPlace place = {execution->rank, executor->device, executor->comm, executor->streams,
                              .says_lost = execution->hook != NULL};
  executor->trainer = trainer_new(execution->workload, executor->program, &place, &execution->training, error);
  if (executor->trainer == NULL || !make_step_end(executor, error))
    return FALSE;
  executor_saved_init(executor);
  if (execution->visit_item != NULL &&
      !items_log_init(executor->trainer, count_items(executor), execution->visit_from, error))
    return FALSE;
  return make_groups(executor, error) && make_parts(executor, error) && make_channels(executor, error);
}

static void free_comm(Executor *executor) {
  const int n = executor->program->n_ranks;
  for (guint i = 0; i < executor->program->groups->len; i++)
    if (executor->groups[i] != NULL)
      executor->comm->type->group_free(executor->groups[i]);
  for (int i = 0; i < 2 * n * n; i++)
    if (executor->channels[i] != NULL)
      executor->comm->type->group_free(executor->channels[i]);
  if (executor->parts != NULL)
    executor->comm->type->group_free(executor->parts);
  comm_stop(executor->comm, executor->execution->world);
}

static void free_parts(Executor *executor) {
  const DeviceType *device = executor->device->type;
  executor_saved_clear(executor);
  trainer_free(executor->trainer);
  device->event_free(executor->normed);
  device->release_host(executor->device, executor->step_end);
  for (int i = 0; i < executor->list->n_ops; i++) {
    device->event_free(executor->start[i]);
    device->event_free(executor->end[i]);
  }
}

void executor_clear(Executor *executor) {
  if (executor->comm != NULL)
    free_comm(executor);
  if (executor->start != NULL)
    free_parts(executor);
  void *const tables[] = {executor->start,         executor->end,         executor->groups,      executor->channels,
                          executor->is_first,      executor->is_last,     executor->outgoing[0], executor->outgoing[1],
                          executor->gather_buffer, executor->stage_reduce};
  for (gsize i = 0; i < G_N_ELEMENTS(tables); i++)
    g_free(tables[i]);
}

void executor_close(Executor *executor) {
  if (executor->device == NULL)
    return;
  const DeviceType *device = executor->device->type;
  for (int stream = 0; stream < N_STREAMS; stream++)
    device->stream_free(executor->streams[stream]);
  device->close(executor->device);
}
