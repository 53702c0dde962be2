/* memory: what each op holds and drops, and what a rank holds all the time.
 *
 *     F        holds what its pieces save for backward
 *     B        drops it;  I drops a part and holds the output gradients that W will need;  W drops the rest
 *     B, I     while running: recomputed activations, those of the largest piece
 *     step     the optimizer's, while running: copies of gradients, which some frameworks make under fp16
 *     receive  holds a boundary tensor until the op that consumes it has ended
 *     gather   ZeRO-3: holds the gathered piece until the last op that uses it has ended
 *     B        ZeRO ≥ 2: holds the whole gradient of its pieces until their reduce-scatter has ended; if a stage is
 *              reduced only once, by the order or by the framework, its first B holds the whole stage's
 *     table    a matrix shared by embedding and head is held once, however many micro-batches have it gathered or add
 *              to its gradient
 *     copy     a fetched shard is held until it has been gathered, a gradient shard while it is copied out;
 *              what a layer saves is dropped once copied out, and held again from the start of the copy back */
#include "effect_chains.h"
#include "lowering.h"

#include <string.h>

void program_set_residents(Program *program, const Workload *workload) {
  for (int rank = 0; rank < program->n_ranks; rank++)
    memset(program->ranks[rank].resident, 0, sizeof program->ranks[rank].resident);
  for (int stage = 0; stage < program->n_stages; stage++) {
    StateBytes tiers[N_TIERS];
    workload_stage_tiers(workload, stage, tiers);
    double *resident = program->ranks[workload->placement->stage_rank[stage]].resident;
    resident[MEMORY_WEIGHTS] += tiers[TIER_GPU].weights_bytes;
    resident[MEMORY_GRADIENTS] += tiers[TIER_GPU].gradients_bytes;
    resident[MEMORY_OPTIMIZER] += tiers[TIER_GPU].optimizer_bytes;
  }
  for (int rank = 0; rank < program->n_ranks; rank++)
    program->ranks[rank].resident[MEMORY_BUFFERS] += workload->framework_bytes;
}

static gboolean holds_buffer(const Op *op, const Method *method) {
  return op->kind == OP_RECV ||
         (op->kind == OP_COLLECTIVE && op->action == ACTION_UNSHARD && zero_shards_weights(method->zero));
}

static gboolean is_reduce_of(const Op *op, gint32 backward) {
  return op->kind == OP_COLLECTIVE && (op->action == ACTION_REDUCE_GRAD || op->action == ACTION_GRAD_OUT) &&
         op->after[0] == backward;
}

static gboolean is_read_by_heads(const Program *program, const Workload *workload, const Op *backward) {
  return workload_heads_read_embedding(workload) && part_of_op(program, backward).n_embedding > 0;
}

/* Until all terms of an op are known, op->effect is the chain of those known so far. */
static void add_term(EffectChains *chains, const OpList *list, gint32 op, TermKind kind, ActionKind action, gint32 of) {
  effect_chains_add(chains, &list->ops[op].effect, kind, action, of);
}

/* ZeRO ≥ 2: the unreduced gradient of a backward lives until the last collective, or copy out, that reads it. Only
 * the next `n_behind` ops can be such ones; for a table that heads look words up in, any later op. */
static void add_gradient_buffers(EffectChains *chains, const OpList *list, int index, int n_behind) {
  int last = -1;
  for (int i = index + 1; i < list->n_ops && i <= index + n_behind; i++)
    if (is_reduce_of(&list->ops[i], index))
      last = i;
  if (last < 0)
    return;
  add_term(chains, list, index, TERM_HOLD_GRADIENT, 0, list->ops[index].work);
  add_term(chains, list, last, TERM_DROP_GRADIENT, 0, list->ops[index].work);
}

/* The same for a stage reduced only once: its gradient is held from its first backward to the end of its
 * collectives. */
static void add_stage_gradients(EffectChains *chains, const Program *program, const OpList *list) {
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
    add_term(chains, list, first[stage], TERM_HOLD_STAGE_GRADIENT, 0, stage);
    add_term(chains, list, last[stage], TERM_DROP_STAGE_GRADIENT, 0, stage);
  }
}

enum { NO_USER = -1, OF_ANOTHER = -2 }; /* instead of the last op that uses what arrives */

/* A host wait counts too: it releases a gather that nothing else waits for; other users come later. */
static gboolean op_uses_arrivals(const Op *op) {
  return op->kind == OP_COMPUTE || op->kind == OP_HOST;
}

/* Whether the op computes with what arrived, or is a host wait that may release it. In a pair that runs as one, each
 * half waits for both inputs but uses only its own. */
static gboolean uses(const Op *op, const Op *arrived) {
  return arrived->kind == OP_COLLECTIVE ||
         (arrived->kind == OP_RECV && arrived->stage == op->stage && arrived->micro_batch == op->micro_batch);
}

/* The gather behind `gather`, before any computing, that fills the same buffer again; −1: none. */
static gint32 gathered_again(const OpList *list, gint32 gather) {
  const Op *op = &list->ops[gather];
  for (gint32 i = gather + 1; i < list->n_ops && list->ops[i].kind != OP_COMPUTE; i++)
    if (list->ops[i].action == ACTION_UNSHARD && list->ops[i].work == op->work && list->ops[i].unit == op->unit &&
        list->ops[i].micro_batch == op->micro_batch)
      return i;
  return -1;
}

/* A gather that nothing waits for, because it is made again, is used by what uses the other, which has no buffer of its
 * own. */
static void join_gathers(const OpList *list, const Method *method, gint32 *user) {
  for (gint32 i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    const gint32 again =
        op->action == ACTION_UNSHARD && holds_buffer(op, method) && user[i] == NO_USER ? gathered_again(list, i) : -1;
    if (again < 0)
      continue;
    user[i] = user[again];
    user[again] = OF_ANOTHER;
  }
}

/* What arrives is held from the start of its transfer, and dropped when the last op that uses it has ended. */
static void add_arrivals(EffectChains *chains, const OpList *list, const Method *method) {
  g_autofree gint32 *user = g_new(gint32, list->n_ops + 1);
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    user[i] = NO_USER;
    for (int a = 0; op_uses_arrivals(op) && a < OP_MAX_AFTER && op->after[a] >= 0; a++)
      if (uses(op, &list->ops[op->after[a]]))
        user[op->after[a]] = i;
  }
  join_gathers(list, method, user);
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    if (!holds_buffer(op, method) || user[i] == OF_ANOTHER)
      continue;
    add_term(chains, list, i, TERM_HOLD_BUFFER, 0, op->work);
    if (user[i] >= 0)
      add_term(chains, list, user[i], TERM_DROP_BUFFER, 0, op->work);
  }
}

/* Holds and drops the table of embedding and head: where several spans of ops need it, their union. */
typedef struct {
  EffectChains *chains;
  const OpList *list;
  TermKind hold, drop;
  gint32 of;
  gint32 first, last; /* of the span that is open; −1: none */
} TableSpans;

static void end_span(TableSpans *spans) {
  if (spans->first < 0)
    return;
  add_term(spans->chains, spans->list, spans->first, spans->hold, 0, spans->of);
  add_term(spans->chains, spans->list, spans->last, spans->drop, 0, spans->of);
}

/* Spans come by their first op. */
static void add_span(TableSpans *spans, gint32 first, gint32 last) {
  if (spans->first < 0 || first > spans->last) {
    end_span(spans);
    spans->first = first;
  }
  spans->last = MAX(spans->last, last);
}

/* Whether the op computes with the word table. */
static gboolean reads_table(const Program *program, const Op *op) {
  if (op->kind != OP_COMPUTE || op->action > ACTION_B || op->action == ACTION_W)
    return FALSE;
  const Part part = part_of_op(program, op);
  return part.n_head > 0 || (op->action == ACTION_F && part.n_embedding > 0);
}

static gboolean gathers_table(const Program *program, const Op *op) {
  return op->action == ACTION_UNSHARD &&
         transfer_moves_table(&g_array_index(program->transfers, Transfer, op->work), TRUE);
}

/* ZeRO-3: a matrix shared by embedding and head is held from each gather of it until the last op that waits for that,
 * or that reads it and waits for a later gather of something else: gathers end in order. */
static void add_shared_table(EffectChains *chains, const Program *program, const OpList *list) {
  g_autofree gint32 *table = g_new(gint32, list->n_ops + 1); /* [ops] latest gather of the table so far; −1: none */
  g_autofree gint32 *user = g_new(gint32, list->n_ops + 1);  /* [ops] last user, if it is one */
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    table[i] = gathers_table(program, op) ? i : i > 0 ? table[i - 1] : -1;
    user[i] = i;
    const gboolean reads = reads_table(program, op);
    for (int a = 0; op_uses_arrivals(op) && a < OP_MAX_AFTER && op->after[a] >= 0; a++) {
      const Op *before = &list->ops[op->after[a]];
      const gint32 gather = before->action == ACTION_UNSHARD ? table[op->after[a]] : -1;
      if (gather >= 0 && (reads || gather == op->after[a]))
        user[gather] = i;
    }
  }
  TableSpans spans = {chains, list, TERM_HOLD_TABLE, TERM_DROP_TABLE, 0, -1, -1};
  for (int i = 0; i < list->n_ops; i++)
    if (table[i] == i)
      add_span(&spans, i, user[i]);
  end_span(&spans);
}

/* Whether the op reduces the gradient of the table, or copies it out unreduced. */
static gboolean moves_table(const Program *program, const Workload *workload, const OpList *list, const Op *op) {
  if (op->action == ACTION_GRAD_OUT) {
    const Op *source = &list->ops[op->after[0]];
    return source->kind == OP_COMPUTE && part_of_op(program, source).n_embedding > 0;
  }
  return op->action == ACTION_REDUCE_GRAD &&
         transfer_moves_table(&g_array_index(program->transfers, Transfer, op->work), workload->shared_parameters > 0);
}

/* ZeRO ≥ 2: the gradient of a table that embedding and head both add to is held from an addition until the last
 * collective of the next reduction that moves it: one buffer, while none of these is in flight. */
static void add_table_gradient(EffectChains *chains, const Program *program, const Workload *workload,
                               const OpList *list, gboolean by_stages) {
  g_autofree gint32 *until = g_new(gint32, list->n_ops + 1); /* [ops] end of the next reduction; −1: none */
  gint32 next = -1;
  for (int i = list->n_ops - 1; i >= 0; i--) {
    const Op *op = &list->ops[i];
    if (moves_table(program, workload, list, op) && (next < 0 || list->ops[next].after[0] != op->after[0]))
      next = i;
    until[i] = next;
  }
  TableSpans spans = {chains, list, TERM_HOLD_TABLE_GRADIENT, TERM_DROP_TABLE_GRADIENT, by_stages, -1, -1};
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    if (op->kind != OP_COMPUTE || !action_completes_gradient(op->action) || until[i] < 0)
      continue;
    const Part part = part_of_op(program, op);
    if (part.n_embedding + part.n_head > 0)
      add_span(&spans, i, until[i]);
  }
  end_span(&spans);
}

static void add_copies(EffectChains *chains, const OpList *list, const Method *method) {
  for (int i = 0; i < list->n_ops && offload_is_any(&method->offload); i++) {
    const Op *op = &list->ops[i];
    if (op->action == ACTION_SAVED_OUT || op->action == ACTION_SAVED_IN)
      add_term(chains, list, i, op->action == ACTION_SAVED_OUT ? TERM_DROP_SAVED : TERM_HOLD_SAVED, 0, op->work);
    const gboolean is_fetch = op->action == ACTION_FETCH,
                   is_shard = op->action == ACTION_GRAD_OUT && zero_shards_gradients(method->zero);
    if (!is_fetch && !(is_shard && list->ops[op->after[0]].kind == OP_COLLECTIVE))
      continue;
    add_term(chains, list, i, TERM_HOLD_BUFFER, 0, op->work);
    add_term(chains, list, is_fetch ? i + 1 : i, TERM_DROP_BUFFER, 0, op->work); /* its gather is the next op */
  }
}

static void add_terms(EffectChains *chains, const Program *program, const OpList *list, const Lowering *lowering) {
  const Workload *workload = lowering->workload;
  const Order *order = lowering->order;
  const int n_behind = offload_is_any(&workload->method->offload) ? 3 * MOST_REDUCTIONS : MOST_REDUCTIONS;
  add_arrivals(chains, list, workload->method);
  add_copies(chains, list, workload->method);
  gboolean holds_gradients = zero_shards_gradients(workload->method->zero);
  const gboolean by_stages = order->has_reduce_grad || workload->method->reduces_once;
  if (holds_gradients && by_stages)
    add_stage_gradients(chains, program, list);
  if (zero_shards_weights(workload->method->zero) && workload->shared_parameters > 0)
    add_shared_table(chains, program, list);
  if (holds_gradients && lowering_common_table(workload) > 0 &&
      (workload->shared_parameters > 0 || workload_heads_read_embedding(workload)))
    add_table_gradient(chains, program, workload, list, by_stages);
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    if (op->kind != OP_COMPUTE)
      continue;
    if (op->action == ACTION_OPTIMIZER) {
      add_term(chains, list, i, TERM_GRADIENT_COPIES, 0, op->work);
      continue;
    }
    add_term(chains, list, i, TERM_ACTIVATIONS, op->action, op->work);
    if (holds_gradients && !by_stages && action_completes_gradient(op->action))
      add_gradient_buffers(chains, list, i, is_read_by_heads(program, workload, op) ? list->n_ops : n_behind);
  }
}

/* A bare order: a chunk's share of what the rank holds. */
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
  program_set_residents(program, lowering->workload);
  g_autoptr(EffectChains) chains = effect_chains_new(program, lowering->workload);
  for (int rank = 0; rank < program->n_ranks; rank++) {
    add_terms(chains, program, &program->ranks[rank], lowering);
    effect_chains_number(chains, &program->ranks[rank]);
  }
}
