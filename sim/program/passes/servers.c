/* Parameter servers (servers.h) in place of sums over dp and of the optimizer. Each bucket is pushed as soon as it is
 * complete; when every worker has pushed it (sync), or at once (async), servers update what it is of, and the worker
 * pulls that. The next step begins when all has been pulled:
 *
 *     compute    | … B1 | B0 |                        | F of the next step
 *     dp         | push 2 | push 1 | push 0 |
 *     copy_out            | serve 2 | serve 1 | serve 0 |
 *     copy                          | pull 2 | pull 1 | pull 0 |
 *
 * In the list, updates and pulls stand where the optimizer stood.
 *
 * Ranks that sum first scatter the bucket among themselves, each pushes and pulls its part, and they gather the parts
 * (ep, whose stream nobody else uses). Which worker may begin a step is said by a clock, a number that all share when
 * they have ended one: with a staleness s, step k + s + 1 waits for that of step k. It is on a stream where nothing
 * waits for it but that. */
#include "lowering.h"

typedef struct {
  Program *program;
  const Workload *workload;
  OpEditor editor;
  GArray *pushed; /* of Pushed; borrowed */
  gint32 pulled;  /* new index of the latest; −1: none */
} Serving;

static const Servers *servers_of(const Serving *serving) {
  return &serving->workload->method->servers;
}

static Group server_group(CopyRoute route, AxisSet axes) {
  return (Group){
      .name = "servers", .axes = axes, .pp_first = -1, .pp_last = -1, .charge = AXIS_DP, .route = (guint8)route};
}

/* Of a bucket whose reduction was `of`. */
static gint32 add(Serving *serving, const Op *of, ActionKind action, Stream stream, const Group *group,
                  Collective collective, double bytes, gint32 after) {
  Transfer transfer = g_array_index(serving->program->transfers, Transfer, of->work);
  transfer.group = program_group(serving->program, group);
  transfer.collective = (guint8)collective;
  transfer.size = SIZE_GIVEN;
  transfer.bytes = bytes;
  transfer.n_calls = transfer.n_listed = 0;
  Op op = op_new(OP_COLLECTIVE, stream, action, of->stage, -1);
  op.unit = of->unit;
  op.work = program_transfer(serving->program, &transfer);
  op_add_after(&op, after);
  return op_editor_add(&serving->editor, &op);
}

/* Ranks that push their parts of the same bucket. */
static AxisSet workers(const Servers *servers) {
  return servers->local > 1 ? AXIS_BIT_DP_REPLICA : AXIS_BIT(AXIS_DP);
}

/* A bucket that has been pushed. */
typedef struct {
  Op of;       /* its reduction */
  gint32 push; /* new index */
} Pushed;

static double bytes_of(const Serving *serving, const Op *reduction) {
  return g_array_index(serving->program->transfers, Transfer, reduction->work).bytes;
}

static void copy_after(Serving *serving, gint32 index, const Op *from) {
  for (int i = 0; i < OP_MAX_AFTER && from->after[i] >= 0; i++)
    op_add_after(&serving->editor.ops[index], from->after[i]);
}

/* The reduction becomes a push, which those that waited for it now wait for. */
static void push(Serving *serving, int index) {
  const Servers *servers = servers_of(serving);
  const Op of = op_editor_translate(&serving->editor, index);
  const double bytes = bytes_of(serving, &of);
  const Group local = dp_group(serving->workload, AXIS_BIT_DP_SHARD), to = server_group(ROUTE_PUSH, 0);
  gint32 sum = -1;
  if (servers->local > 1) {
    sum = add(serving, &of, ACTION_REDUCE_GRAD, STREAM_DP, &local, COLLECTIVE_REDUCE_SCATTER, bytes, -1);
    copy_after(serving, sum, &of);
  }
  const Pushed pushed = {
      of, add(serving, &of, ACTION_PUSH, STREAM_DP, &to, COLLECTIVE_SEND_RECV, bytes / servers->local, sum)};
  if (sum < 0)
    copy_after(serving, pushed.push, &of);
  g_array_append_val(serving->pushed, pushed);
  op_editor_set_moved(&serving->editor, index, pushed.push);
}

static void update_and_pull(Serving *serving, const Pushed *pushed) {
  const Method *method = serving->workload->method;
  const Servers *servers = &method->servers;
  const double parameters = bytes_of(serving, &pushed->of) / method->gradient_sum_bytes,
               part = parameters / servers->local;
  const Group local = dp_group(serving->workload, AXIS_BIT_DP_SHARD),
              at = server_group(ROUTE_SERVE, servers->is_async ? 0 : workers(servers)),
              from = server_group(ROUTE_PULL, 0);
  const gint32 update = add(serving, &pushed->of, ACTION_SERVE, STREAM_COPY_OUT, &at, COLLECTIVE_SEND_RECV,
                            workload_optimizer_item(serving->workload, part).bytes, pushed->push);
  serving->pulled = add(serving, &pushed->of, ACTION_PULL, STREAM_COPY, &from, COLLECTIVE_SEND_RECV,
                        method->recipe.weights * part, update);
  if (servers->local > 1)
    serving->pulled = add(serving, &pushed->of, ACTION_SPREAD, STREAM_EP, &local, COLLECTIVE_ALL_GATHER,
                          method->recipe.weights * parameters, serving->pulled);
}

static void serve_rank(Serving *serving, OpList *list) {
  op_editor_init(&serving->editor, list);
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    if (op->action == ACTION_REDUCE_GRAD) {
      push(serving, i);
    } else if (op->action == ACTION_OPTIMIZER) {
      for (guint k = 0; k < serving->pushed->len; k++)
        update_and_pull(serving, &g_array_index(serving->pushed, Pushed, k));
      op_editor_set_moved(&serving->editor, i, serving->pulled);
    } else {
      Op *copy = op_editor_copy_op(&serving->editor, i);
      if (op->action == ACTION_SYNC)
        op_add_after(copy, serving->pulled);
    }
  }
  op_editor_finish(&serving->editor);
}

void add_servers(Program *program, const Lowering *lowering) {
  const Workload *workload = lowering->workload;
  for (int rank = 0; rank < program->n_ranks && servers_are_used(&workload->method->servers); rank++) {
    g_autoptr(GArray) pushed = g_array_new(FALSE, FALSE, sizeof(Pushed));
    Serving serving = {.program = program, .workload = workload, .pushed = pushed, .pulled = -1};
    serve_rank(&serving, &program->ranks[rank]);
  }
}

/* --- clocks --- */

static gint32 add_clock(const Serving *serving, OpEditor *editor, int step, gint32 after) {
  const Group group = dp_group(serving->workload, AXIS_BIT(AXIS_DP));
  const Transfer transfer = {.group = program_group(serving->program, &group),
                             .source = -1,
                             .target = -1,
                             .collective = COLLECTIVE_ALL_REDUCE,
                             .bytes = sizeof(float)};
  Op op = op_new(OP_COLLECTIVE, STREAM_EP, ACTION_CLOCK, -1, -1);
  op.step = step;
  op.work = program_transfer(serving->program, &transfer);
  op_add_after(&op, after);
  return op_editor_add(editor, &op);
}

static void clock_rank(Serving *serving, OpList *list) {
  const int staleness = servers_of(serving)->staleness;
  g_autofree gint32 *clocks = g_new(gint32, serving->program->n_steps);
  OpEditor *editor = &serving->editor;
  gint32 served = -1;
  op_editor_init(editor, list);
  for (int i = 0, begun = -1; i < list->n_ops; i++) {
    const int step = list->ops[i].step;
    if (list->ops[i].action == ACTION_SYNC)
      clocks[step] = add_clock(serving, editor, step, served);
    Op *op = op_editor_copy_op(editor, i);
    if (op->action == ACTION_SERVE)
      served = editor->n_ops - 1;
    if (op->kind == OP_COMPUTE && step > begun) {
      begun = step;
      if (step > staleness)
        op_add_after(op, clocks[step - staleness - 1]);
    }
  }
  op_editor_finish(editor);
}

void add_clocks(Program *program, const Lowering *lowering) {
  const Workload *workload = lowering->workload;
  if (workload == NULL || !workload->method->servers.is_async ||
      workload->method->servers.staleness == STALENESS_UNBOUNDED)
    return;
  for (int rank = 0; rank < program->n_ranks; rank++) {
    Serving serving = {.program = program, .workload = workload, .pulled = -1};
    clock_rank(&serving, &program->ranks[rank]);
  }
}
