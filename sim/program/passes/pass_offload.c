/* offload: what a GPU does not keep is copied out and back (Plan.offload). Copies out run on the stream copy_out,
 * copies in on copy, concurrently with each other and with compute.
 *
 *     weights      every gather of ZeRO-3 waits for the fetch of this rank's shard, which takes over its
 *                  dependencies; with a single shard the fetch replaces the gather
 *     gradients    each bucket is copied out once reduced. From ZeRO-2 on that happens after every micro-batch, and
 *                  a bucket is not started until the one two before it is out; else once per step. Later reductions
 *                  (tied, whole, two copies) are copied out again. The host's accumulation of what arrives is not
 *                  modelled
 *     activations  what a layer saves is copied out after its forward and back before its backward, two layers at a
 *                  time: a forward waits until the activations of the one two before it are out, a backward's are
 *                  fetched when the op two before it has ended. What is needed again within three ops stays
 *     update       by the host, chunk by chunk: below
 *
 *     compute   | F0 | F1 | F2 | …                     | B2 | B1 | B0 |
 *     copy_out       | out 0 | out 1 |                      | grad 2 | grad 1 | …
 *     copy                                   | in 1 | in 0 |
 *
 * ZeRO-Offload, arXiv 2101.06840 §4.1; ZeRO-Infinity, arXiv 2104.07857 §6.2; activations as in the offloading of FSDP
 * and Transformer Engine, with two buffers. */
#include "lowering.h"

#include <math.h>

/* --- copies --- */

/* `moved`: whose parameters; NULL: not recorded. */
static Op copy_of(Program *program, ActionKind action, CopyRoute route, int stage, double bytes,
                  const Transfer *moved) {
  const Group group = {.name = "copy", .pp_first = -1, .pp_last = -1, .charge = AXIS_DP, .route = (guint8)route};
  Transfer transfer = moved != NULL ? *moved : (Transfer){.source = -1, .target = -1};
  transfer.group = program_group(program, &group);
  transfer.collective = COLLECTIVE_SEND_RECV;
  transfer.size = SIZE_GIVEN;
  transfer.bytes = bytes;
  transfer.n_calls = transfer.n_listed = 0;
  const gboolean is_out = (route & (ROUTE_LINK_OUT | ROUTE_NVME_WRITE)) != 0;
  Op op = op_new(OP_COLLECTIVE, is_out ? STREAM_COPY_OUT : STREAM_COPY, action, stage, -1);
  op.work = program_transfer(program, &transfer);
  return op;
}

/* A copy of `bytes` between the rank and its node's memory, on copy_out if the route leads outward, else on copy. No
 * dependencies yet. */
static Op copy_new(Program *program, ActionKind action, CopyRoute route, int stage, double bytes) {
  return copy_of(program, action, route, stage, bytes, NULL);
}

/* A copy that replaces a gather over one rank; like the gather, it records whose parameters it brings. */
static Op copy_of_gather(Program *program, CopyRoute route, const Op *gather, double bytes) {
  const Transfer moved = g_array_index(program->transfers, Transfer, gather->work);
  return copy_of(program, ACTION_UNSHARD, route, gather->stage, bytes, &moved);
}

/* Makes `op` wait for the latest op on `stream` in the new list, if any. */
static void add_after_last(Op *op, const OpEditor *editor, Stream stream) {
  for (gint32 i = editor->n_ops; i-- > 0;)
    if (editor->ops[i].stream == stream) {
      op_add_after(op, i);
      return;
    }
}

/* --- the update ---
 *
 * The host thread updates chunk by chunk; an updated chunk is copied while the next
 * one is updated. With the state on NVMe, two chunks are being read while one is updated:
 *
 *     copy      | read 0 | read 1 |   | back 0 | read 2 | back 1 | …        weights to the GPU, if kept there
 *     host               | update 0 | update 1 |···| update 2 | …
 *     copy_out                      | write 0 | write 1 | …
 *
 * Where the GPU updates a share of the parameters itself (Offload.share), it does so as the first chunk is updated, and
 * the last copy of weights waits for it. Its share of every bucket's gradient stays there.
 *
 * No chunk is updated before all gradients of the step have arrived and their norm is known. Gradients on NVMe are
 * read with the rest, and no read begins before the last of them has been written. Modelled on DeepSpeed's CPU Adam
 * (arXiv 2101.06840 §5.1), its optimizer swapper (arXiv 2104.07857 §6.3) and Megatron-LM's hybrid optimizer.
 *
 * A chunk is at most a gradient bucket, but a rank has at most MOST_CHUNKS. More would only change how much of the
 * last copy is exposed, by less than one part in MOST_CHUNKS. */

enum { MOST_CHUNKS = 32, CHUNKS_AHEAD = 2 };

typedef struct {
  Program *program;
  OpEditor *editor;
  const Method *method;
  double parameters; /* per chunk */
} Update;

static gint32 add_copy(const Update *update, ActionKind action, CopyRoute route, double bytes_per_parameter, int chunk,
                       gint32 after) {
  Op op = copy_new(update->program, action, route, -1, round(update->parameters * bytes_per_parameter));
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
  Op op = copy_new(update->program, ACTION_STATE_READ, ROUTE_NVME_READ, -1, bytes);
  op.unit = chunk;
  if (chunk == 0 && has_gradients)
    add_after_last(&op, update->editor, STREAM_COPY_OUT);
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
  add_after_last(&op, editor, STREAM_COMPUTE);
  add_after_last(&op, editor, STREAM_COPY_OUT);
  return op;
}

/* The GPU's own update, of so many parameters; −1: of none. */
static gint32 add_kept_step(Program *program, OpEditor *editor, int index, double parameters) {
  if (parameters == 0)
    return -1;
  Op op = op_editor_translate(editor, index);
  Work work = g_array_index(program->works, Work, op.work);
  work.parameters = parameters;
  op.work = program_work(program, &work);
  return op_editor_add(editor, &op);
}

/* Replaces old op `index`, the GPU's Adam step, by that of the node's processors, chunk by chunk, with all its
 * copies. Ops that waited for the step now wait until its last weights have arrived where they are kept. */
static void add_update(Program *program, OpEditor *editor, const Workload *workload, int rank, int index) {
  const Method *method = workload->method;
  const double owned = optimizer_parameters(workload, rank);
  const double parameters = offload_share(&method->offload) * owned;
  const double chunks = ceil(parameters / (double)MAX(method->bucket_parameters, 1));
  const int n_chunks = (int)CLAMP(chunks, 1, MOST_CHUNKS);
  const Update update = {program, editor, method, parameters / n_chunks};
  const Op step = step_op(editor, index);
  const gint32 kept = add_kept_step(program, editor, index, offload_kept_share(&method->offload) * owned);
  gint32 reads[MOST_CHUNKS], settled = -1;
  int n_read = 0;
  for (int chunk = 0; chunk < n_chunks; chunk++) {
    for (; n_read < MIN(chunk + CHUNKS_AHEAD, n_chunks); n_read++)
      reads[n_read] = method->offload.optimizer == TIER_NVME ? add_read(&update, n_read) : -1;
    settled = add_copies_behind(&update, chunk, add_step(&update, &step, chunk, reads[chunk]));
  }
  op_add_after(&editor->ops[settled], kept);
  op_editor_set_moved(editor, index, settled);
}

/* The latest two of a kind: with two buffers, the third waits for the first. */
typedef struct {
  gint32 older, newer; /* new indices; −1 none */
} LatestTwo;

static void two_push(LatestTwo *two, gint32 index) {
  two->older = two->newer;
  two->newer = index;
}

typedef struct {
  Program *program;
  const Workload *workload;
  const Order *order;
  int rank;
  OpEditor editor;
  gint32 *last_backward; /* [stages] micro-batch of each stage's last op that completes a gradient; owned */
  GHashTable *saved_out; /* layer pass → new index of its copy out (gint64 → gint32); owned */
  GHashTable *stays;     /* set of layer passes whose activations stay on the GPU; owned */
  LatestTwo computed, grads, saved;
} Mover;

static const Transfer *transfer_at(const Program *program, const Op *op) {
  return &g_array_index(program->transfers, Transfer, op->work);
}

static const Group *group_at(const Program *program, const Op *op) {
  return &g_array_index(program->groups, Group, transfer_at(program, op)->group);
}

/* --- activations --- */

static gint64 *pass_key(int stage, int micro_batch, int layer) {
  gint64 *key = g_new(gint64, 1);
  *key = ((gint64)stage << 40) + ((gint64)micro_batch << 16) + layer;
  return key;
}

/* A single layer: embedding and head keep what they save. */
static gboolean is_layer_pass(const Program *program, const Op *op, ActionKind kind) {
  if (op->kind != OP_COMPUTE || op->action != kind)
    return FALSE;
  const Part part = part_of_op(program, op);
  return part.n_layers == 1 && part.n_embedding + part.n_head == 0;
}

static gboolean needs_saved(const Program *program, const Op *op) {
  return is_layer_pass(program, op, ACTION_B) || is_layer_pass(program, op, ACTION_I);
}

/* Cuts every forward and backward into its layers. */
static void cut_passes(Mover *mover, OpList *list) {
  g_autoptr(GArray) cuts = g_array_new(FALSE, FALSE, sizeof(Part));
  op_editor_init(&mover->editor, list);
  for (int i = 0; i < list->n_ops; i++) {
    const Op *old = &list->ops[i];
    if (old->kind != OP_COMPUTE || !action_info(old->action)->is_compute) {
      op_editor_copy(&mover->editor, i);
      continue;
    }
    const Part whole = part_of_op(mover->program, old);
    g_array_set_size(cuts, 0);
    part_cut(mover->workload, &whole, old->action != ACTION_F, 0, cuts);
    for (guint c = 0; c < cuts->len; c++) {
      const Part *part = &g_array_index(cuts, Part, c);
      Op *op = op_editor_copy_op(&mover->editor, i);
      for (int a = 0; c > 0 && a < OP_MAX_AFTER; a++)
        op->after[a] = -1; /* the first part has waited already */
      op->unit = part->first_layer;
      op->work = part_work(mover->program, mover->workload, phase_of_action(op->action), part);
    }
  }
  op_editor_finish(&mover->editor);
}

/* Finds forwards whose backward follows so soon that a copy out would hardly have ended. */
static void find_stays(Mover *mover, const OpList *list) {
  enum { OPS_STAYING = 3 };
  g_autoptr(GHashTable) place = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
  gint64 n_computed = 0;
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    if (op->kind != OP_COMPUTE)
      continue;
    n_computed++;
    const gboolean is_forward = is_layer_pass(mover->program, op, ACTION_F);
    if (!is_forward && !needs_saved(mover->program, op))
      continue; /* an optimizer op has no stage, so no key */
    gint64 *key = pass_key(op->stage, op->micro_batch, op->unit);
    if (is_forward) {
      g_hash_table_insert(place, key, GSIZE_TO_POINTER((gsize)n_computed));
      continue;
    }
    gint64 forward = (gint64)GPOINTER_TO_SIZE(g_hash_table_lookup(place, key));
    if (forward > 0 && n_computed - forward <= OPS_STAYING)
      g_hash_table_add(mover->stays, key);
    else
      g_free(key);
  }
}

static Op saved_copy(const Mover *mover, const Op *pass, gboolean is_out) {
  const Part part = part_of_op(mover->program, pass);
  const PieceMemory memory = part_memory(mover->workload, &part);
  Op op = copy_new(mover->program, is_out ? ACTION_SAVED_OUT : ACTION_SAVED_IN, is_out ? ROUTE_LINK_OUT : ROUTE_LINK_IN,
                   pass->stage, memory.saved_bytes);
  op.micro_batch = pass->micro_batch;
  op.unit = pass->unit;
  return op;
}

/* Before a backward: copies its activations back. Returns the copy; −1: they stayed on the GPU. */
static gint32 bring_saved(Mover *mover, const Op *backward) {
  g_autofree gint64 *key = pass_key(backward->stage, backward->micro_batch, backward->unit);
  gpointer out;
  if (!g_hash_table_lookup_extended(mover->saved_out, key, NULL, &out))
    return -1;
  Op op = saved_copy(mover, backward, FALSE);
  op_add_after(&op, GPOINTER_TO_INT(out));
  op_add_after(&op, mover->computed.older);
  return op_editor_add(&mover->editor, &op);
}

/* After a forward: copies its activations out. */
static void put_saved_out(Mover *mover, const Op *forward, gint32 index) {
  gint64 *key = pass_key(forward->stage, forward->micro_batch, forward->unit);
  if (g_hash_table_contains(mover->stays, key)) {
    g_free(key);
    return;
  }
  Op op = saved_copy(mover, forward, TRUE);
  op_add_after(&op, index);
  const gint32 copy = op_editor_add(&mover->editor, &op);
  g_hash_table_insert(mover->saved_out, key, GINT_TO_POINTER(copy));
  two_push(&mover->saved, copy);
}

/* --- gradients --- */

static void put_gradient_out(Mover *mover, const Op *source, double parameters, gint32 after) {
  if (parameters <= 0)
    return;
  const Method *method = mover->workload->method;
  const CopyRoute route =
      ROUTE_LINK_OUT | (method_gradient_tier(method, method->zero) == TIER_NVME ? ROUTE_NVME_WRITE : 0);
  const double bytes = round(offload_share(&method->offload) * parameters * method->recipe.gradients);
  Op op = copy_new(mover->program, ACTION_GRAD_OUT, route, source->stage, bytes);
  op.micro_batch = source->micro_batch;
  op.unit = source->unit;
  op_add_after(&op, after);
  two_push(&mover->grads, op_editor_add(&mover->editor, &op));
}

/* Parameters that no other rank holds: their gradients need no reduction. */
static double unreduced_parameters(const Mover *mover, const Op *backward, gboolean of_experts) {
  const Workload *workload = mover->workload;
  const int copies = of_experts ? lowering_expert_copies(workload) : workload->method->data_ranks;
  const Moved moved = {part_of_op(mover->program, backward), PIECE_EMBEDDING, of_experts};
  const gboolean is_last = mover->last_backward[backward->stage] == backward->micro_batch;
  if (copies > 1 || (!is_last && !workload_gradients_leave(workload, of_experts)))
    return 0;
  return moved_gradients(workload, &moved);
}

/* Whether `reduction` is the last of its bucket. */
static gboolean ends_bucket(const Program *program, const OpList *list, int index) {
  const Op *op = &list->ops[index], *next = op + 1;
  if (index + 1 == list->n_ops || next->action != ACTION_REDUCE_GRAD)
    return TRUE;
  return transfer_at(program, next)->of_experts != transfer_at(program, op)->of_experts ||
         group_at(program, next)->axes != AXIS_BIT_DP_REPLICA;
}

/* Parameters of this rank's shard after a reduction. */
static double reduced_parameters(const Mover *mover, const Op *reduction) {
  const Workload *workload = mover->workload;
  const Transfer *transfer = transfer_at(mover->program, reduction);
  const double parameters = transfer->bytes / workload->method->gradient_sum_bytes;
  if (group_at(mover->program, reduction)->axes == AXIS_BIT_DP_REPLICA)
    return parameters; /* already those of a shard */
  return parameters / (transfer->of_experts ? lowering_expert_shards(workload) : lowering_shards(workload));
}

/* A later reduction of gradients that have been copied out before. */
static gboolean is_late_sum(const Op *op) {
  return op->action == ACTION_TIED_GRAD || op->action == ACTION_COPY_GRAD || op->action == ACTION_WHOLE_GRAD;
}

/* After old op `index`, which is new op `copy`. */
static void put_gradients_out(Mover *mover, const OpList *list, int index, gint32 copy) {
  const Op *old = &list->ops[index];
  if (mover->workload->method->offload.optimizer == TIER_GPU)
    return;
  if (old->kind == OP_COMPUTE && action_completes_gradient(old->action)) {
    put_gradient_out(mover, old, unreduced_parameters(mover, old, FALSE), copy);
    put_gradient_out(mover, old, unreduced_parameters(mover, old, TRUE), copy);
  } else if (old->action == ACTION_REDUCE_GRAD && ends_bucket(mover->program, list, index)) {
    put_gradient_out(mover, old, reduced_parameters(mover, old), copy);
  } else if (is_late_sum(old)) {
    put_gradient_out(mover, old, transfer_at(mover->program, old)->bytes / mover->workload->method->recipe.gradients,
                     copy);
  }
}

/* --- weights --- */

/* A gather and its fetch. Over one rank there is nothing to gather: users wait for the fetch instead. */
static void copy_gather(Mover *mover, int index) {
  const Workload *workload = mover->workload;
  Op gather = op_editor_translate(&mover->editor, index);
  const Transfer *transfer = transfer_at(mover->program, &gather);
  const int shards = transfer->of_experts ? lowering_expert_shards(workload) : lowering_shards(workload);
  const gboolean from_nvme = workload->method->offload.weights == TIER_NVME;
  const CopyRoute route = ROUTE_LINK_IN | (from_nvme ? ROUTE_NVME_READ : 0);
  const double bytes = round(transfer->bytes / shards);
  Op fetch = shards > 1 ? copy_new(mover->program, ACTION_FETCH, route, gather.stage, bytes)
                        : copy_of_gather(mover->program, route, &gather, bytes);
  fetch.micro_batch = gather.micro_batch;
  fetch.unit = gather.unit;
  for (int i = 0; i < OP_MAX_AFTER && gather.after[i] >= 0; i++) {
    op_add_after(&fetch, gather.after[i]);
    gather.after[i] = -1;
  }
  gint32 arrived = op_editor_add(&mover->editor, &fetch);
  if (shards > 1) {
    op_add_after(&gather, arrived);
    arrived = op_editor_add(&mover->editor, &gather);
  }
  op_editor_set_moved(&mover->editor, index, arrived);
}

/* --- the list --- */

static void copy_compute(Mover *mover, const OpList *list, int index) {
  const Op *old = &list->ops[index];
  const gboolean saves = mover->workload->method->offload.activations != TIER_GPU;
  const gint32 brought = saves && needs_saved(mover->program, old) ? bring_saved(mover, old) : -1;
  Op op = op_editor_translate(&mover->editor, index);
  const gboolean put_out = saves && is_layer_pass(mover->program, old, ACTION_F);
  op_add_after(&op, brought);
  if (put_out)
    op_add_after(&op, mover->saved.older);
  if (action_completes_gradient(op.action) && workload_gradients_leave(mover->workload, FALSE))
    op_add_after(&op, mover->grads.older);
  const gint32 copy = op_editor_add(&mover->editor, &op);
  op_editor_set_moved(&mover->editor, index, copy);
  two_push(&mover->computed, copy);
  if (put_out)
    put_saved_out(mover, old, copy);
  put_gradients_out(mover, list, index, copy);
}

/* The host's reading of the loss ends the step: all copies must have ended by then. */
static void copy_sync(Mover *mover, int index) {
  Op op = op_editor_translate(&mover->editor, index);
  add_after_last(&op, &mover->editor, STREAM_COPY);
  add_after_last(&op, &mover->editor, STREAM_COPY_OUT);
  op_editor_set_moved(&mover->editor, index, op_editor_add(&mover->editor, &op));
}

static void copy_other(Mover *mover, const OpList *list, int index) {
  const Op *old = &list->ops[index];
  const Offload *offload = &mover->workload->method->offload;
  if (old->action == ACTION_UNSHARD && offload->weights != TIER_GPU)
    copy_gather(mover, index);
  else if (old->action == ACTION_OPTIMIZER && offload->optimizer != TIER_GPU)
    add_update(mover->program, &mover->editor, mover->workload, mover->rank, index);
  else if (old->action == ACTION_SYNC)
    copy_sync(mover, index);
  else
    put_gradients_out(mover, list, index, op_editor_copy(&mover->editor, index));
}

static void move_rank(Mover *mover, OpList *list) {
  for (int stage = 0; stage < mover->program->n_stages; stage++)
    mover->last_backward[stage] = -1;
  for (int i = 0; i < list->n_ops; i++)
    if (list->ops[i].kind == OP_COMPUTE && action_completes_gradient(list->ops[i].action))
      mover->last_backward[list->ops[i].stage] = list->ops[i].micro_batch;
  if (mover->workload->method->offload.activations != TIER_GPU) {
    cut_passes(mover, list);
    find_stays(mover, list);
  }
  op_editor_init(&mover->editor, list);
  for (int i = 0; i < list->n_ops; i++)
    if (list->ops[i].kind == OP_COMPUTE && action_info(list->ops[i].action)->is_compute)
      copy_compute(mover, list, i);
    else
      copy_other(mover, list, i);
  op_editor_finish(&mover->editor);
}

void pass_offload(Program *program, const Lowering *lowering) {
  const Workload *workload = lowering->workload;
  if (workload == NULL || !offload_is_any(&workload->method->offload))
    return;
  for (int rank = 0; rank < program->n_ranks; rank++) {
    const LatestTwo none = {-1, -1};
    Mover mover = {.program = program,
                   .workload = workload,
                   .order = lowering->order,
                   .rank = rank,
                   .last_backward = g_new(gint32, program->n_stages),
                   .saved_out = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL),
                   .stays = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL),
                   .computed = none,
                   .grads = none,
                   .saved = none};
    move_rank(&mover, &program->ranks[rank]);
    g_free(mover.last_backward);
    g_hash_table_unref(mover.saved_out);
    g_hash_table_unref(mover.stays);
  }
}
