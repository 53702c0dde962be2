/* One pass forward over each op list: the host clock runs along it, and each stream remembers its last op so far.
 *
 * Sends and receives are paired on the way. Passes place the sends from one rank to another and their receives in the
 * same order, so the k-th send of a pair of ranks meets its k-th receive and no table of tags is needed. The ops of a
 * pair that still wait for partners form a chain through their `match`. Programs whose tags turn out to be in
 * different orders along such a pair are matched by program_match() instead. */
#include "task.h"

#include "op_batches.h"
#include "saturate.h"

/* Ops of one pair of pipeline ranks (source, target) that have no partner yet; all of one kind. */
typedef struct {
  gint32 first, last; /* −1: none */
  guint8 kind;        /* OpKind of the waiting ops */
} Unpaired;

typedef struct {
  const Program *program;
  const Timing *timing;
  Meetings *meetings;
  TaskList *lists;
  Unpaired *unpaired; /* [source · ranks + target]; NULL: left to program_match() */
  gboolean tags_agree;
  gint64 eager_bytes;
  int peer_stride; /* number of recorded ranks from one pipeline rank to the next */
} Builder;

/* The state of a walk along one op list. */
typedef struct {
  gint32 last_on_stream[N_STREAMS];
  gint32 barrier;
  gint64 host_ns; /* since the barrier; without one: since 0 */
  gint32 *batch;  /* as returned by op_list_batches(); owned */
} Walk;

static inline const OpTime *time_of(const Builder *builder, const Op *op) {
  switch ((OpKind)op->kind) {
  case OP_COMPUTE:
    return &builder->timing->works[op->work];
  case OP_HOST:
    return timing_of_host(builder->timing, op->work);
  default:
    return &builder->timing->transfers[op->work];
  }
}

static void assert_times(const OpTime *times, int n_times, guint n_needed) {
  g_assert((guint)n_times >= n_needed);
  for (int i = 0; i < n_times; i++)
    g_assert(times[i].run_ns >= 0 && times[i].tail_ns >= 0 && times[i].host_ns >= 0);
}

static void pair_up(Builder *builder, int rank, gint32 index) {
  const Op *op = &builder->lists[rank].ops[index];
  Task *tasks = builder->lists[rank].tasks;
  int source = op->kind == OP_SEND ? rank : op->peer, target = op->kind == OP_SEND ? op->peer : rank;
  Unpaired *unpaired = &builder->unpaired[(gsize)source * builder->program->n_ranks + target];
  if (unpaired->first < 0 || unpaired->kind == op->kind) {
    tasks[index].match = -1;
    *(unpaired->first < 0 ? &unpaired->first : &tasks[unpaired->last].match) = index;
    unpaired->last = index;
    unpaired->kind = op->kind;
    return;
  }
  gint32 partner = unpaired->first;
  gint32 *partner_match = &builder->lists[op->peer].tasks[partner].match;
  unpaired->first = *partner_match;
  *partner_match = index;
  tasks[index].match = partner;
  builder->tags_agree &= builder->lists[op->peer].ops[partner].tag == op->tag;
}

static gboolean all_paired(const Builder *builder) {
  gsize n_pairs = (gsize)builder->program->n_ranks * builder->program->n_ranks;
  if (builder->unpaired == NULL || !builder->tags_agree)
    return FALSE;
  for (gsize i = 0; i < n_pairs; i++)
    if (builder->unpaired[i].first >= 0)
      return FALSE;
  return TRUE;
}

static void match_by_tag(Builder *builder) {
  gint32 **match;
  g_autoptr(GError) error = NULL;
  if (!program_match(builder->program, &match, &error))
    g_error("engine: unverified program: %s", error->message);
  for (int rank = 0; rank < builder->program->n_ranks; rank++)
    for (int i = 0; i < builder->lists[rank].n_tasks; i++)
      if (match[rank][i] >= 0)
        builder->lists[rank].tasks[i].match = match[rank][i];
  program_match_free(builder->program, match);
}

static void meet(Builder *builder, int rank, gint32 index, Task *task) {
  const Op *op = &builder->lists[rank].ops[index];
  const Transfer *transfer = &g_array_index(builder->program->transfers, Transfer, op->work);
  if (op->kind == OP_COLLECTIVE) {
    task->group = transfer->group;
    task->slot = meetings_number(builder->meetings, transfer->group, op->stream);
    return;
  }
  task->peer_offset = (op->peer - rank) * builder->peer_stride;
  if (transfer->bytes <= builder->eager_bytes)
    task->flags |= TASK_IS_EAGER;
  if (builder->unpaired != NULL)
    pair_up(builder, rank, index);
}

static gint32 *new_op_numbers(int n) {
  gint32 *numbers = g_new(gint32, n);
  for (int i = 0; i < n; i++)
    numbers[i] = -1;
  return numbers;
}

/* Members that share a stream follow one another; only the first of each stream can hold the batch back. */
static void join_batch(TaskList *list, gint32 index, gint32 first) {
  gint32 *next = list->next_in_batch;
  if (first == index) {
    next[index] = index;
    return;
  }
  gint32 last = first;
  for (gint32 member = first;; member = next[member]) {
    if (list->ops[member].stream == list->ops[index].stream)
      return;
    last = member;
    if (next[member] == first)
      break;
  }
  next[index] = first;
  next[last] = index;
  list->tasks[first].flags |= TASK_IN_BATCH;
  list->tasks[index].flags |= TASK_IN_BATCH;
}

/* The host issues op after op without pause, and starts anew at the end of an OP_HOST. */
static void issue(TaskList *list, Walk *walk, gint32 index, gint64 host_ns) {
  Task *task = &list->tasks[index];
  if (walk->barrier >= 0) {
    list->barrier[index] = walk->barrier;
    task->flags |= TASK_AFTER_HOST;
  }
  task->issue_offset_ns = walk->host_ns;
  if (task->kind != OP_HOST) {
    walk->host_ns = add_ns(walk->host_ns, host_ns);
    return;
  }
  if (list->barrier == NULL)
    list->barrier = new_op_numbers(list->n_tasks);
  walk->barrier = index;
  walk->host_ns = 0;
}

static void add_task(Builder *builder, int rank, gint32 index, Walk *walk) {
  TaskList *list = &builder->lists[rank];
  const Op *op = &list->ops[index];
  Task *task = &list->tasks[index];
  task->next = -1;
  task->work = program_host_work(op);
  task->after = op->after[0];
  task->after_stream = op->after[0] >= 0 ? list->ops[op->after[0]].stream : 0;
  task->kind = op->kind;
  task->stream = op->stream;
  task->flags = op->after[1] >= 0 ? TASK_AFTER_OTHERS : 0;
  gint32 before = walk->last_on_stream[op->stream];
  *(before < 0 ? &list->head[op->stream] : &list->tasks[before].next) = index;
  walk->last_on_stream[op->stream] = index;
  issue(list, walk, index, time_of(builder, op)->host_ns);
  if (op->batch >= 0)
    join_batch(list, index, walk->batch[index]);
  if (op->kind == OP_SEND || op->kind == OP_RECV || op->kind == OP_COLLECTIVE)
    meet(builder, rank, index, task);
}

static void build_list(Builder *builder, int rank) {
  TaskList *list = &builder->lists[rank];
  Walk walk = {.barrier = -1, .batch = op_list_batches(&builder->program->ranks[rank])};
  if (walk.batch != NULL)
    list->next_in_batch = new_op_numbers(list->n_tasks);
  for (int stream = 0; stream < N_STREAMS; stream++)
    walk.last_on_stream[stream] = list->head[stream] = -1;
  meetings_begin_list(builder->meetings);
  for (gint32 i = 0; i < list->n_tasks; i++)
    add_task(builder, rank, i, &walk);
  g_free(walk.batch);
}

/* A table of all pairs of ranks pays only while it is small compared with the lists. */
static Unpaired *unpaired_new(const Program *program) {
  gsize n_pairs = (gsize)program->n_ranks * program->n_ranks, n_ops = 0;
  for (int rank = 0; rank < program->n_ranks; rank++)
    n_ops += program->ranks[rank].n_ops;
  if (n_pairs > n_ops)
    return NULL;
  Unpaired *unpaired = g_new(Unpaired, n_pairs);
  for (gsize i = 0; i < n_pairs; i++)
    unpaired[i] = (Unpaired){.first = -1};
  return unpaired;
}

static void place_lists(Builder *builder) {
  const Program *program = builder->program;
  gsize n_tasks = 0;
  for (int rank = 0; rank < program->n_ranks; rank++)
    n_tasks += program->ranks[rank].n_ops;
  /* so that no task lies across two lines */
  Task *tasks = g_aligned_alloc(MAX(n_tasks, 1), sizeof(Task), CACHE_LINE_BYTES);
  for (int rank = 0; rank < program->n_ranks; rank++) {
    TaskList *list = &builder->lists[rank];
    list->ops = program->ranks[rank].ops;
    list->n_tasks = program->ranks[rank].n_ops;
    list->tasks = tasks;
    tasks += list->n_tasks;
  }
}

TaskList *task_lists_new(const Trace *trace, gint64 eager_bytes, Meetings *meetings) {
  const Program *program = trace->program;
  Builder builder = {.program = program,
                     .timing = trace->timing,
                     .meetings = meetings,
                     .lists = g_new0(TaskList, program->n_ranks),
                     .unpaired = unpaired_new(program),
                     .tags_agree = TRUE,
                     .eager_bytes = eager_bytes,
                     .peer_stride = trace->folded ? 1 : trace->layout.stride[AXIS_PP]};
  assert_times(trace->timing->works, trace->timing->n_works, program->works->len);
  assert_times(trace->timing->transfers, trace->timing->n_transfers, program->transfers->len);
  assert_times(&trace->timing->host_sync, 1, 1);
  place_lists(&builder);
  for (int rank = 0; rank < program->n_ranks; rank++)
    build_list(&builder, rank);
  if (!all_paired(&builder))
    match_by_tag(&builder);
  g_free(builder.unpaired);
  return builder.lists;
}

void task_lists_free(TaskList *lists, int n_lists) {
  if (lists == NULL)
    return;
  g_aligned_free(lists[0].tasks);
  for (int i = 0; i < n_lists; i++) {
    g_free(lists[i].barrier);
    g_free(lists[i].next_in_batch);
  }
  g_free(lists);
}
