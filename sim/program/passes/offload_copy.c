/* Copies between a rank and the memory of its node. */
#include "offload_parts.h"

/* `moved`: whose parameters; NULL: not recorded. */
static Op copy_of(Program *program, ActionKind action, CopyRoute route, int stage, double bytes,
                  const Transfer *moved) {
  const Group group = {.name = "copy", .pp_first = -1, .pp_last = -1, .charge = AXIS_DP, .route = (guint8)route};
  Transfer transfer = moved != NULL ? *moved : (Transfer){.source = -1, .target = -1};
  transfer.group = program_group(program, &group);
  transfer.collective = COLLECTIVE_SEND_RECV;
  transfer.bytes = bytes;
  transfer.n_calls = 0;
  const gboolean is_out = (route & (ROUTE_LINK_OUT | ROUTE_NVME_WRITE)) != 0;
  Op op = op_new(OP_COLLECTIVE, is_out ? STREAM_COPY_OUT : STREAM_COPY, action, stage, -1);
  op.work = program_transfer(program, &transfer);
  return op;
}

Op offload_copy(Program *program, ActionKind action, CopyRoute route, int stage, double bytes) {
  return copy_of(program, action, route, stage, bytes, NULL);
}

Op offload_gather(Program *program, CopyRoute route, const Op *gather, double bytes) {
  const Transfer moved = g_array_index(program->transfers, Transfer, gather->work);
  return copy_of(program, ACTION_UNSHARD, route, gather->stage, bytes, &moved);
}

void offload_add_after_last(Op *op, const OpEditor *editor, Stream stream) {
  for (gint32 i = editor->n_ops; i-- > 0;)
    if (editor->ops[i].stream == stream) {
      op_add_after(op, i);
      return;
    }
}
