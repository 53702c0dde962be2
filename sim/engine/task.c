/* One pass forward over each op list: the host clock runs along it, and each stream remembers its last op so far. */
#include "task.h"

#include "saturate.h"

typedef struct {
  const Program *program;
  const Timing *timing;
  const Trace *trace;
  gint32 **match;
  gint64 eager_bytes;
} Builder;

/* What a walk along one op list remembers. */
typedef struct {
  gint32 last_on_stream[N_STREAMS];
  gint32 barrier;
  gint64 host_ns;          /* since the barrier */
  GHashTable *batch_first; /* batch → first op of it + 1; NULL until a batch shows up */
} Walk;

/* Both ends of a transfer take the send's time, whichever of them comes last. */
static const Op *sender_of(const Builder *builder, int rank, int index) {
  const Op *op = &builder->program->ranks[rank].ops[index];
  return op->kind == OP_SEND ? op : &builder->program->ranks[op->peer].ops[builder->match[rank][index]];
}

static void set_transfer(const Builder *builder, int rank, int index, Task *task) {
  const Op *op = &builder->program->ranks[rank].ops[index], *send = sender_of(builder, rank, index);
  int stride = builder->trace->folded ? 1 : builder->trace->layout.stride[AXIS_PP];
  task->run_ns = builder->timing->transfers[send->work].run_ns;
  task->launch_ns = builder->timing->transfers[op->work].host_ns;
  task->peer_offset = (op->peer - rank) * stride;
  task->match = builder->match[rank][index];
  task->is_eager = g_array_index(builder->program->transfers, Transfer, send->work).bytes <= builder->eager_bytes;
}

static OpTime time_of(const Builder *builder, const Op *op) {
  switch ((OpKind)op->kind) {
  case OP_COMPUTE:
    return builder->timing->works[op->work];
  case OP_HOST:
    return builder->timing->host_sync;
  default:
    return builder->timing->transfers[op->work];
  }
}

static gboolean batch_has_stream(const Task *tasks, gint32 first, guint8 stream) {
  gint32 member = first;
  do {
    if (tasks[member].stream == stream)
      return TRUE;
    member = tasks[member].next_in_batch;
  } while (member >= 0 && member != first);
  return FALSE;
}

/* Members that share a stream follow one another; only the first of each stream can hold the batch back. */
static void join_batch(Walk *walk, Task *tasks, gint32 index, gint32 batch) {
  if (walk->batch_first == NULL)
    walk->batch_first = g_hash_table_new(NULL, NULL);
  gint32 first = GPOINTER_TO_INT(g_hash_table_lookup(walk->batch_first, GINT_TO_POINTER(batch))) - 1;
  if (first < 0) {
    g_hash_table_insert(walk->batch_first, GINT_TO_POINTER(batch), GINT_TO_POINTER(index + 1));
    return;
  }
  if (batch_has_stream(tasks, first, tasks[index].stream))
    return;
  gint32 second = tasks[first].next_in_batch;
  tasks[index].next_in_batch = second < 0 ? first : second;
  tasks[first].next_in_batch = index;
}

static void add_task(const Builder *builder, int rank, int index, TaskList *list, Walk *walk) {
  const Op *op = &builder->program->ranks[rank].ops[index];
  Task *task = &list->tasks[index];
  OpTime time = time_of(builder, op);
  *task = (Task){.run_ns = time.run_ns,
                 .tail_ns = op->kind == OP_COMPUTE ? time.tail_ns : time.host_ns,
                 .issue_offset_ns = walk->host_ns,
                 .barrier = walk->barrier,
                 .next = -1,
                 .next_in_batch = -1,
                 .kind = op->kind,
                 .stream = op->stream};
  for (int i = 0; i < OP_MAX_AFTER; i++)
    task->after[i] = op->after[i];
  while (task->n_after < OP_MAX_AFTER && op->after[task->n_after] >= 0)
    task->n_after++;

  gint32 before = walk->last_on_stream[op->stream];
  *(before < 0 ? &list->head[op->stream] : &list->tasks[before].next) = index;
  walk->last_on_stream[op->stream] = index;
  if (op->batch >= 0)
    join_batch(walk, list->tasks, index, op->batch);
  if (op->kind == OP_SEND || op->kind == OP_RECV)
    set_transfer(builder, rank, index, task);
  if (op->kind == OP_HOST) {
    walk->barrier = index;
    walk->host_ns = 0;
  } else {
    walk->host_ns = add_ns(walk->host_ns, time.host_ns);
  }
}

static void build_list(const Builder *builder, int rank, TaskList *list) {
  Walk walk = {.barrier = -1};
  for (int stream = 0; stream < N_STREAMS; stream++)
    walk.last_on_stream[stream] = list->head[stream] = -1;
  list->n_tasks = builder->program->ranks[rank].n_ops;
  list->tasks = g_aligned_alloc(MAX(list->n_tasks, 1), sizeof(Task), sizeof(Task));
  for (int i = 0; i < list->n_tasks; i++)
    add_task(builder, rank, i, list, &walk);
  g_clear_pointer(&walk.batch_first, g_hash_table_unref);
}

TaskList *task_lists_new(const Trace *trace, gint64 eager_bytes) {
  Builder builder = {.program = trace->program, .timing = trace->timing, .trace = trace, .eager_bytes = eager_bytes};
  g_autoptr(GError) error = NULL;
  if (!program_match(trace->program, &builder.match, &error))
    g_error("engine: unverified program: %s", error->message);
  TaskList *lists = g_new0(TaskList, trace->program->n_ranks);
  for (int rank = 0; rank < trace->program->n_ranks; rank++)
    build_list(&builder, rank, &lists[rank]);
  program_match_free(trace->program, builder.match);
  return lists;
}

void task_lists_free(TaskList *lists, int n_lists) {
  for (int i = 0; lists != NULL && i < n_lists; i++)
    g_aligned_free(lists[i].tasks);
  g_free(lists);
}
