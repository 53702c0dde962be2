/* Copies between a rank and the memory of its node. */
#include "offload_parts.h"

Op offload_copy(Program *program, ActionKind action, CopyRoute route, int stage, double bytes) {
  const Group group = {.name = "copy", .pp_first = -1, .pp_last = -1, .charge = AXIS_DP, .route = (guint8)route};
  const Transfer transfer = {.group = program_group(program, &group),
                             .source = -1,
                             .target = -1,
                             .collective = COLLECTIVE_SEND_RECV,
                             .bytes = bytes};
  const gboolean is_out = (route & (ROUTE_LINK_OUT | ROUTE_NVME_WRITE)) != 0;
  Op op = op_new(OP_COLLECTIVE, is_out ? STREAM_COPY_OUT : STREAM_COPY, action, stage, -1);
  op.work = program_transfer(program, &transfer);
  return op;
}

void offload_add_after_last(Op *op, const OpEditor *editor, Stream stream) {
  for (gint32 i = editor->n_ops; i-- > 0;)
    if (editor->ops[i].stream == stream) {
      op_add_after(op, i);
      return;
    }
}
