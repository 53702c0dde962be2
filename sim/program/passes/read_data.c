/* What readers have prepared for a micro-batch (data_stream.h), as a copy to the rank that takes it, on the
 * stream copy. A forward that runs an embedding or a head waits for its own, once per micro-batch; when it has ended
 * there is room for the next that far ahead, also of the next step:
 *
 *     compute   | F0 | F1 |    B0 …  | F0 …                   readers are two micro-batches ahead
 *     copy      d0|d1|  d2 |  d3 |   | …
 *
 * All steps are there, as readers do not wait for one to end. The first begins with empty queues. */
#include "lowering.h"

static gboolean takes_data(const Program *program, const Op *op) {
  if (op->kind != OP_COMPUTE || op->action != ACTION_F)
    return FALSE;
  const Work *work = &g_array_index(program->works, Work, op->work);
  return work->n_embedding + work->n_head > 0;
}

/* Places of the forwards that take data, in order; the first of a micro-batch. */
static GArray *find_takers(const Program *program, const OpList *list) {
  const gsize n = (gsize)program->n_steps * program->n_micro_batches;
  g_autofree gboolean *is_taken = g_new0(gboolean, n);
  GArray *takers = g_array_new(FALSE, FALSE, sizeof(int));
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    if (!takes_data(program, op) || is_taken[op->step * program->n_micro_batches + op->micro_batch])
      continue;
    is_taken[op->step * program->n_micro_batches + op->micro_batch] = TRUE;
    g_array_append_val(takers, i);
  }
  return takers;
}

static gint32 add_copy(OpEditor *editor, gint32 transfer, const Op *taker, gint32 after) {
  Op op = op_new(OP_COLLECTIVE, STREAM_COPY, ACTION_DATA, taker->stage, taker->micro_batch);
  op.work = transfer;
  op.step = taker->step;
  op_add_after(&op, after);
  return op_editor_add(editor, &op);
}

static void read_ahead(Program *program, gint32 transfer, int n_ahead, OpList *list) {
  g_autoptr(GArray) takers = find_takers(program, list);
  const int n = (int)takers->len;
  const int *at = (const int *)(void *)takers->data;
  if (n == 0)
    return;
  g_autofree gint32 *arrived = g_new(gint32, n);
  OpEditor editor;
  op_editor_init(&editor, list);
  for (int k = 0; k < MIN(n_ahead, n); k++)
    arrived[k] = add_copy(&editor, transfer, &list->ops[at[k]], -1);
  for (int i = 0, k = 0; i < list->n_ops; i++) {
    Op *op = op_editor_copy_op(&editor, i);
    if (k == n || at[k] != i)
      continue;
    op_add_after(op, arrived[k]);
    const gint32 taker = editor.n_ops - 1;
    if (k + n_ahead < n)
      arrived[k + n_ahead] = add_copy(&editor, transfer, &list->ops[at[k + n_ahead]], taker);
    k++;
  }
  op_editor_finish(&editor);
}

void add_data(Program *program, const Lowering *lowering) {
  const Workload *workload = lowering->workload;
  const DataStream *data = workload != NULL ? &workload->method->data : NULL;
  if (data == NULL || data->sample_bytes == 0)
    return;
  const Group group = {.name = "data", .pp_first = -1, .pp_last = -1, .charge = AXIS_DP, .route = ROUTE_STORAGE};
  const Transfer transfer = {.group = program_group(program, &group),
                             .source = -1,
                             .target = -1,
                             .collective = COLLECTIVE_SEND_RECV,
                             .bytes = (double)workload->method->micro_batch * data->sample_bytes};
  const gint32 number = program_transfer(program, &transfer);
  for (int rank = 0; rank < program->n_ranks; rank++)
    read_ahead(program, number, DATA_AHEAD_OF_READER * data->readers, &program->ranks[rank]);
}
