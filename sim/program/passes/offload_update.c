/* The optimizer step on the host. The host thread updates chunk by chunk; an updated chunk is copied while the next
 * one is updated. With the state on NVMe, two chunks are being read while one is updated:
 *
 *     copy      | read 0 | read 1 |   | back 0 | read 2 | back 1 | …        weights to the GPU, if kept there
 *     host               | update 0 | update 1 |···| update 2 | …
 *     copy_out                      | write 0 | write 1 | …
 *
 * No chunk is updated before all gradients of the step have arrived and their norm is known. Gradients on NVMe are
 * read with the rest, and no read begins before the last of them has been written. Modelled on DeepSpeed's CPU Adam
 * (arXiv 2101.06840 §5.1), its optimizer swapper (arXiv 2104.07857 §6.3) and Megatron-LM's hybrid optimizer.
 *
 * A chunk is at most a gradient bucket, but a rank has at most MOST_CHUNKS. More would only change how much of the
 * last copy is exposed, by less than one part in MOST_CHUNKS. */
#include "offload_parts.h"

enum { MOST_CHUNKS = 32, CHUNKS_AHEAD = 2 };

typedef struct {
  Program *program;
  OpEditor *editor;
  const Method *method;
  double parameters; /* per chunk */
} Update;

static gint32 add_copy(const Update *update, ActionKind action, CopyRoute route, double bytes_per_parameter, int chunk,
                       gint32 after) {
  Op op = offload_copy(update->program, action, route, -1, round(update->parameters * bytes_per_parameter));
  op.unit = chunk;
  op_add_after(&op, after);
  return op_editor_add(update->editor, &op);
}

/* Reads master copy and moments from the drives, and gradients if they are there; by then all of them must be. */
static gint32 add_read(const Update *update, int chunk) {
  const Method *method = update->method;
  const gboolean has_gradients = method_gradient_tier(method, method->zero) == TIER_NVME;
  const double gradients = has_gradients ? method->recipe.gradients : 0;
  const double bytes = round(update->parameters * (recipe_optimizer_bytes(&method->recipe) + gradients));
  Op op = offload_copy(update->program, ACTION_STATE_READ, ROUTE_NVME_READ, -1, bytes);
  op.unit = chunk;
  if (chunk == 0 && has_gradients)
    offload_add_after_last(&op, update->editor, STREAM_COPY_OUT);
  return op_editor_add(update->editor, &op);
}

static gint32 add_step(const Update *update, const Op *step, int chunk, gint32 read) {
  const Work work = {.phase = PHASE_OPTIMIZER,
                     .on_host = TRUE,
                     .stage = -1,
                     .piece = -1,
                     .first_item = -1,
                     .last_item = -1,
                     .parameters = update->parameters};
  Op op = *step;
  if (chunk > 0) /* the first chunk has waited for the gradients */
    for (int i = 0; i < OP_MAX_AFTER; i++)
      op.after[i] = -1;
  op.work = program_work(update->program, &work);
  op.unit = chunk;
  op_add_after(&op, read);
  return op_editor_add(update->editor, &op);
}

/* The copies that follow a chunk's update; returns the op after which its weights are where they are kept. */
static gint32 add_copies_behind(const Update *update, int chunk, gint32 step) {
  const Offload *offload = &update->method->offload;
  const Recipe *recipe = &update->method->recipe;
  gint32 settled = step;
  if (offload->weights == TIER_GPU)
    settled = add_copy(update, ACTION_WEIGHTS_BACK, ROUTE_LINK_IN, recipe->weights, chunk, step);
  if (offload->weights == TIER_NVME)
    settled = add_copy(update, ACTION_WEIGHTS_STORE, ROUTE_NVME_WRITE, recipe->weights, chunk, step);
  if (offload->optimizer == TIER_NVME)
    add_copy(update, ACTION_STATE_WRITE, ROUTE_NVME_WRITE, recipe_optimizer_bytes(recipe), chunk, step);
  return settled;
}

/* The host's counterpart of the GPU's step: waits for the gradients, and for everything copied out. */
static Op step_op(const OpEditor *editor, int index) {
  const Op old = op_editor_translate(editor, index);
  Op op = op_new(OP_HOST, STREAM_HOST, ACTION_OPTIMIZER, -1, -1);
  for (int i = 0; i < OP_MAX_AFTER; i++)
    op_add_after(&op, old.after[i]);
  offload_add_after_last(&op, editor, STREAM_COMPUTE);
  offload_add_after_last(&op, editor, STREAM_COPY_OUT);
  return op;
}

void offload_add_update(Program *program, OpEditor *editor, const Workload *workload, int rank, int index) {
  const Method *method = workload->method;
  const double parameters = optimizer_parameters(workload, rank);
  const double chunks = ceil(parameters / (double)MAX(method->bucket_parameters, 1));
  const int n_chunks = (int)CLAMP(chunks, 1, MOST_CHUNKS);
  const Update update = {program, editor, method, parameters / n_chunks};
  const Op step = step_op(editor, index);
  gint32 reads[MOST_CHUNKS], settled = -1;
  int n_read = 0;
  for (int chunk = 0; chunk < n_chunks; chunk++) {
    for (; n_read < MIN(chunk + CHUNKS_AHEAD, n_chunks); n_read++)
      reads[n_read] = method->offload.optimizer == TIER_NVME ? add_read(&update, n_read) : -1;
    settled = add_copies_behind(&update, chunk, add_step(&update, &step, chunk, reads[chunk]));
  }
  op_editor_set_moved(editor, index, settled);
}
