/* place: one compute op per action, in the order's order. Communication that the order names gets its place here, as
 * an op without a transfer, to be filled in by the pass it belongs to. The place is omitted if there is nothing to
 * gather or reduce, or if the optimizer gathers. */
#include "lowering.h"

static gint32 place_work(Program *program, const Workload *workload, const Action *action, gboolean overlapped) {
  Phase phase = phase_of_action(action->kind);
  if (workload != NULL) {
    Part part = part_of_stage(workload, action->stage);
    part.lengths = workload_lengths(workload, action->micro_batch);
    return part_work(program, workload, phase, &part);
  }
  Work bare = {.phase = phase,
               .overlapped = overlapped != FALSE,
               .stage = action->stage,
               .piece = -1,
               .first_item = -1,
               .last_item = -1};
  return program_work(program, &bare);
}

/* Works by (stage, phase, overlapped): they are the same for every micro-batch, unless these have lengths of their
 * own. */
typedef struct {
  Program *program;
  const Workload *workload;
  gint32 *works; /* [stage][phase][overlapped]; −1 not yet; owned */
} Placer;

/* Whether the forward and backward of a round hide each other's expert exchanges, as some frameworks run them. */
static gboolean takes_turns(const Workload *workload, const Action *action) {
  return action->joins_next && workload != NULL && lowering_takes_turns(workload);
}

static void place_compute(Placer *placer, const Action *action, gboolean overlapped, Op *op) {
  gint32 *work = &placer->works[(action->stage * N_PHASES + phase_of_action(action->kind)) * 2 + (overlapped != FALSE)];
  if (*work < 0 || workload_lengths(placer->workload, action->micro_batch) > 0)
    *work = place_work(placer->program, placer->workload, action, overlapped);
  op_init(op, OP_COMPUTE, STREAM_COMPUTE, action->kind, action->stage, action->micro_batch);
  op->work = *work;
  op->overlapped = overlapped != FALSE;
  op->takes_turns = takes_turns(placer->workload, action) != FALSE;
}

/* Whether a pass will fill in this communication. */
static gboolean has_place(const Workload *workload, const Action *action) {
  switch ((ActionKind)action->kind) {
  case ACTION_UNSHARD:
    return workload != NULL && lowering_gathers_early(workload);
  case ACTION_RESHARD: /* nothing to do: a buffer is dropped when its last user has ended */
    return FALSE;
  case ACTION_REDUCE_GRAD:
    return workload != NULL && lowering_reduces(workload);
  default:
    return TRUE;
  }
}

static OpKind kind_of_place(const Action *action) {
  if (action->kind == ACTION_UNSHARD || action->kind == ACTION_REDUCE_GRAD)
    return OP_COLLECTIVE;
  return action->kind == ACTION_SEND_F || action->kind == ACTION_SEND_B ? OP_SEND : OP_RECV;
}

static Stream stream_of_place(const Action *action) {
  static const Stream streams[] = {
      [ACTION_SEND_F] = STREAM_SEND_F, [ACTION_RECV_F] = STREAM_RECV_F, [ACTION_SEND_B] = STREAM_SEND_B,
      [ACTION_RECV_B] = STREAM_RECV_B, [ACTION_UNSHARD] = STREAM_DP,    [ACTION_REDUCE_GRAD] = STREAM_DP};
  return streams[action->kind];
}

static void place_rank(Placer *placer, const GArray *actions, OpList *list) {
  list->ops = g_new(Op, actions->len + 1);
  list->n_ops = 0;
  gboolean in_pair = FALSE; /* the previous action overlaps with this one */
  for (guint i = 0; i < actions->len; i++) {
    const Action *action = &g_array_index(actions, Action, i);
    Op *op = &list->ops[list->n_ops];
    if (action_info(action->kind)->is_compute)
      place_compute(placer, action, action->overlaps_next || in_pair, op);
    else if (has_place(placer->workload, action))
      op_init(op, kind_of_place(action), stream_of_place(action), action->kind, action->stage, action->micro_batch);
    else
      continue;
    list->n_ops++;
    in_pair = action->overlaps_next;
  }
}

void pass_place(Program *program, const Lowering *lowering) {
  gsize n_works = (gsize)program->n_stages * N_PHASES * 2;
  Placer placer = {program, lowering->workload, g_new(gint32, n_works)};
  for (gsize i = 0; i < n_works; i++)
    placer.works[i] = -1;
  for (int rank = 0; rank < program->n_ranks; rank++)
    place_rank(&placer, lowering->order->actions[rank], &program->ranks[rank]);
  g_free(placer.works);
}
