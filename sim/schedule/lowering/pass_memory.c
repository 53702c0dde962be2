/* memory: what each op holds and drops, and what a rank holds all the time.
 *
 *     F        holds what its pieces save for backward
 *     B        drops it;  I drops a part and holds the output gradients W will need;  W drops the rest
 *     B, I     while they run: what is recomputed, the largest piece's
 *     receive  holds a boundary tensor until the op that consumes it has ended
 *     gather   ZeRO-3: holds the gathered piece until the last op that uses it has ended
 *     B        ZeRO ≥ 2: holds the whole gradient of its pieces until their reduce-scatter has ended; where the order
 *              says when to reduce, a stage's first B holds the whole stage's */
#include "lowering.h"
#include "state_memory.h"

static void set_residents(Program *program, const Lowering *lowering) {
  const Plan *plan = lowering->workload->plan;
  for (int stage = 0; stage < program->n_stages; stage++) {
    double parameters = lowering->workload->stages[stage].parameters;
    StateBytes state = state_memory(&plan->recipe, parameters, plan->zero, lowering_shards(lowering->workload));
    double *resident = program->ranks[lowering->order->placement->stage_rank[stage]].resident;
    resident[MEMORY_WEIGHTS] += state.weights_bytes;
    resident[MEMORY_GRADIENTS] += state.gradients_bytes;
    resident[MEMORY_OPTIMIZER] += state.optimizer_bytes;
  }
  for (int rank = 0; rank < program->n_ranks; rank++)
    program->ranks[rank].resident[MEMORY_BUFFERS] += lowering->workload->framework_bytes;
}

PieceMemory part_memory(const Workload *workload, const Part *part) {
  int counts[N_PIECES] = {
      [PIECE_EMBEDDING] = part->n_embedding, [PIECE_LAYER] = part->n_layers, [PIECE_HEAD] = part->n_head};
  PieceMemory sum = {0};
  for (int piece = 0; piece < N_PIECES; piece++) {
    const PieceMemory *one = &workload->memory[piece];
    sum.saved_bytes += counts[piece] * one->saved_bytes;
    sum.released_by_I += counts[piece] * one->released_by_I;
    sum.held_for_W += counts[piece] * one->held_for_W;
    if (counts[piece] > 0 && piece != PIECE_EMBEDDING)
      sum.transient_bytes = MAX(sum.transient_bytes, one->transient_bytes);
  }
  if (part->n_embedding > 0) { /* last of all in a backward: what the others saved is gone by then */
    const PieceMemory *embedding = &workload->memory[PIECE_EMBEDDING];
    const double gone = sum.saved_bytes - counts[PIECE_EMBEDDING] * embedding->saved_bytes;
    sum.transient_bytes = MAX(sum.transient_bytes, embedding->transient_bytes - gone);
  }
  return sum;
}

static void add_activations(Effect *effect, const Op *op, const PieceMemory *memory) {
  double *hold = &effect->hold[MEMORY_ACTIVATIONS], *drop = &effect->drop[MEMORY_ACTIVATIONS];
  switch ((ActionKind)op->action) {
  case ACTION_F:
    *hold += memory->saved_bytes;
    break;
  case ACTION_B:
    *hold += memory->transient_bytes;
    *drop += memory->transient_bytes + memory->saved_bytes;
    break;
  case ACTION_I:
    *hold += memory->transient_bytes + memory->held_for_W;
    *drop += memory->transient_bytes + memory->released_by_I;
    break;
  case ACTION_W:
    *drop += memory->saved_bytes - memory->released_by_I + memory->held_for_W;
    break;
  default:
    break; /* optimizer: in place */
  }
}

/* Bytes a collective or a receive keeps in a buffer until its user has ended. */
static double buffered_bytes(const Program *program, const Workload *workload, const Op *op) {
  const Transfer *transfer = &g_array_index(program->transfers, Transfer, op->work);
  if (op->kind == OP_RECV)
    return transfer->bytes;
  if (op->kind == OP_COLLECTIVE && op->action == ACTION_UNSHARD && workload->plan->zero == 3)
    return transfer->bytes;
  return 0;
}

/* ZeRO-3: what embedding and head share stays from the embedding's forward, which drops that much less, to the head's.
 */
static double kept_bytes(const Workload *workload, const Op *op, const Part *part) {
  if (workload->plan->zero < 3 || lowering_shards(workload) == 1 || op->action != ACTION_F)
    return 0;
  double parameters =
      part_parameters_once(workload, part, PIECE_HEAD) - part_parameters_once(workload, part, PIECE_EMBEDDING);
  return parameters * workload->plan->recipe.weights;
}

static gboolean is_reduce_of(const Op *op, gint32 backward) {
  return op->kind == OP_COLLECTIVE && op->action == ACTION_REDUCE_GRAD && op->after[0] == backward;
}

/* ZeRO ≥ 2: the unreduced gradient of a backward lives until the last collective that reads it. */
static void add_gradient_buffers(OpList *list, Effect *effects, int index, double bytes) {
  int last = -1;
  for (int i = index + 1; i < list->n_ops && i <= index + 2; i++)
    if (is_reduce_of(&list->ops[i], index))
      last = i;
  if (last < 0)
    return;
  effects[index].hold[MEMORY_BUFFERS] += bytes;
  effects[last].drop[MEMORY_BUFFERS] += bytes;
}

/* The same where the order says when to reduce: a stage's gradient is held from its first backward to its collectives'
 * end. */
static void add_stage_gradients(const Program *program, const OpList *list, const Workload *workload, Effect *effects) {
  g_autofree gint32 *first = g_new(gint32, program->n_stages), *last = g_new(gint32, program->n_stages);
  for (int stage = 0; stage < program->n_stages; stage++)
    first[stage] = last[stage] = -1;
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    if (op->kind == OP_COMPUTE && action_completes_gradient(op->action) && first[op->stage] < 0)
      first[op->stage] = i;
    if (op->kind == OP_COLLECTIVE && op->action == ACTION_REDUCE_GRAD)
      last[op->stage] = i;
  }
  for (int stage = 0; stage < program->n_stages; stage++) {
    if (last[stage] < 0)
      continue;
    Part part = part_of_stage(workload, stage);
    double bytes = part_parameters(workload, &part) * workload->plan->recipe.gradients;
    effects[first[stage]].hold[MEMORY_BUFFERS] += bytes;
    effects[last[stage]].drop[MEMORY_BUFFERS] += bytes;
  }
}

/* Whether the op computes with what came: of a pair that runs as one, each half waits for both inputs. */
static gboolean uses(const Op *op, const Op *arrived) {
  return arrived->kind == OP_COLLECTIVE ||
         (arrived->kind == OP_RECV && arrived->stage == op->stage && arrived->micro_batch == op->micro_batch);
}

/* What arrives is held when it is under way, and dropped when the last op that waits for it has ended. */
static void add_arrivals(const Program *program, const OpList *list, const Workload *workload, Effect *effects) {
  g_autofree gint32 *user = g_new(gint32, list->n_ops + 1);
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    user[i] = -1;
    for (int a = 0; op->kind == OP_COMPUTE && a < OP_MAX_AFTER && op->after[a] >= 0; a++)
      if (uses(op, &list->ops[op->after[a]]))
        user[op->after[a]] = i;
  }
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    if (op->kind == OP_COMPUTE || op->kind == OP_HOST)
      continue;
    double bytes = buffered_bytes(program, workload, op);
    effects[i].hold[MEMORY_BUFFERS] += bytes;
    if (user[i] >= 0)
      effects[user[i]].drop[MEMORY_BUFFERS] += bytes;
  }
}

static void annotate_rank(Program *program, OpList *list, const Lowering *lowering) {
  const Workload *workload = lowering->workload;
  g_autofree Effect *effects = g_new0(Effect, list->n_ops + 1);
  add_arrivals(program, list, workload, effects);
  gboolean holds_gradients = workload->plan->zero >= 2;
  if (holds_gradients && lowering->order->has_reduce_grad)
    add_stage_gradients(program, list, workload, effects);
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    if (op->kind != OP_COMPUTE || op->action == ACTION_OPTIMIZER)
      continue;
    Part part = part_of_op(program, op);
    PieceMemory memory = part_memory(workload, &part);
    add_activations(&effects[i], op, &memory);
    if (!lowering->order->has_unshard)
      effects[i].drop[MEMORY_BUFFERS] += kept_bytes(workload, op, &part);
    if (holds_gradients && !lowering->order->has_reduce_grad && action_completes_gradient(op->action))
      add_gradient_buffers(list, effects, i, part_parameters(workload, &part) * workload->plan->recipe.gradients);
  }
  for (int i = 0; i < list->n_ops; i++)
    list->ops[i].effect = program_effect(program, &effects[i]);
}

/* A bare order: shares of the rank's whole, one per chunk. */
static void hold_shares(Program *program, const HeldShares *held) {
  const double f = held->f_holds, i = held->i_drops, w = held->w_drops;
  const Effect of_kind[] = {
      [ACTION_F] = {.hold = {[MEMORY_ACTIVATIONS] = f}},
      [ACTION_I] = {.hold = {[MEMORY_ACTIVATIONS] = MAX(-i, 0)}, .drop = {[MEMORY_ACTIVATIONS] = MAX(i, 0)}},
      [ACTION_W] = {.drop = {[MEMORY_ACTIVATIONS] = w}},
      [ACTION_B] = {.drop = {[MEMORY_ACTIVATIONS] = i + w}}};
  const double share = (double)program->n_ranks * program->n_pipes / program->n_stages;
  for (int rank = 0; rank < program->n_ranks; rank++)
    for (int k = 0; k < program->ranks[rank].n_ops; k++) {
      Op *op = &program->ranks[rank].ops[k];
      if (op->kind != OP_COMPUTE)
        continue;
      Effect effect = of_kind[op->action];
      effect.hold[MEMORY_ACTIVATIONS] *= share;
      effect.drop[MEMORY_ACTIVATIONS] *= share;
      op->effect = program_effect(program, &effect);
    }
}

void pass_memory(Program *program, const Lowering *lowering) {
  if (lowering->workload == NULL) {
    if (lowering->held != NULL)
      hold_shares(program, lowering->held);
    return;
  }
  set_residents(program, lowering);
  for (int rank = 0; rank < program->n_ranks; rank++)
    annotate_rank(program, &program->ranks[rank], lowering);
}
