/* One pass over each rank's list; for every step it keeps the latest op of each kind:
 *
 *     compute    B0 | B1 |                                    | OPTIMIZER |          | F0 of the next step
 *     dp              | REDUCE_GRAD | TIED_GRAD |      | NORM |           | UNSHARD |
 *     tp                                        | WHOLE_GRAD |
 *     host                                                                          | SYNC
 *
 * The latest op of a stream is the last to end, so one per kind and stream is enough. One number per op and stream
 * tells what is sure to have ended (ended.h). */
#include "update_order.h"

#include "ended.h"
#include "error.h"
#include "fail_op.h"

static const Stream watched[N_WATCHED] = {STREAM_COMPUTE, STREAM_DP, STREAM_TP};

/* Per step, what its update waits for; −1 none yet. */
typedef struct {
  gint32 addition;       /* to any gradient */
  gint32 sum_dp, sum_tp; /* on these streams */
  gint32 norm;
  gint32 update; /* on the GPU */
} Step;

typedef struct {
  const Program *program;
  int rank;
  const Op *ops;
  EndedList ended;
  Step *steps;           /* [steps] */
  gint32 update, gather; /* latest update of any step, latest gather after it; −1 none */
} Walk;

static gboolean fail_late(const Walk *walk, gint32 i, const char *what, gint32 other, GError **error) {
  return fail_at_op(walk->program, walk->rank, i, what, other, ", which works with the whole gradient", error);
}

/* Op i must not start before `awaited` (−1: none) has ended. */
static gboolean await(Walk *walk, gint32 i, gint32 awaited, const char *what, GError **error) {
  return awaited < 0 || ended_list_has(&walk->ended, i, awaited) ||
         fail_at_op(walk->program, walk->rank, i, what, awaited, "", error);
}

/* An addition or a sum must come before anything uses the complete gradient. */
static gboolean check_early(const Walk *walk, gint32 i, const char *what, GError **error) {
  const Step *step = &walk->steps[walk->ops[i].step];
  if (step->update >= 0)
    return fail_late(walk, i, what, step->update, error);
  return step->norm < 0 || fail_late(walk, i, what, step->norm, error);
}

static gboolean check_addition(const Walk *walk, gint32 i, GError **error) {
  walk->steps[walk->ops[i].step].addition = i;
  return check_early(walk, i, "it adds to a gradient behind", error);
}

static gboolean check_stream(const Walk *walk, gint32 i, Stream one, Stream other, GError **error) {
  const Op *op = &walk->ops[i];
  if (op->kind == OP_COLLECTIVE && (op->stream == one || op->stream == other))
    return TRUE;
  g_autofree char *what =
      g_strdup_printf("expected a collective on the stream %s or %s", stream_info(one)->name, stream_info(other)->name);
  return fail_at_op(walk->program, walk->rank, i, what, -1, "", error);
}

static gboolean check_sum(const Walk *walk, gint32 i, GError **error) {
  const Op *op = &walk->ops[i];
  Step *step = &walk->steps[op->step];
  if (!check_stream(walk, i, STREAM_DP, STREAM_TP, error) || !check_early(walk, i, "it sums a gradient behind", error))
    return FALSE;
  *(op->stream == STREAM_DP ? &step->sum_dp : &step->sum_tp) = i;
  return TRUE;
}

static gboolean check_norm(Walk *walk, gint32 i, GError **error) {
  static const char what[] = "it is of the step's whole gradient and does not wait for";
  Step *step = &walk->steps[walk->ops[i].step];
  const gint32 before = step->norm;
  step->norm = i;
  return check_stream(walk, i, STREAM_DP, STREAM_TP, error) && await(walk, i, before, what, error) &&
         await(walk, i, step->addition, what, error) && await(walk, i, step->sum_dp, what, error) &&
         await(walk, i, step->sum_tp, what, error);
}

static gboolean check_update(Walk *walk, gint32 i, GError **error) {
  static const char what[] = "it updates with the step's whole gradient and does not wait for";
  const Op *op = &walk->ops[i];
  if (op->kind != OP_COMPUTE)
    return TRUE; /* a host update: offload_order.h */
  Step *step = &walk->steps[op->step];
  step->update = walk->update = i;
  walk->gather = -1;
  return await(walk, i, step->addition, what, error) && await(walk, i, step->sum_dp, what, error) &&
         await(walk, i, step->sum_tp, what, error) && await(walk, i, step->norm, what, error);
}

static gboolean check_gather(Walk *walk, gint32 i, GError **error) {
  if (!check_stream(walk, i, STREAM_DP, STREAM_COPY, error))
    return FALSE;
  if (walk->ops[i].stream == STREAM_DP)
    walk->gather = i;
  return await(walk, i, walk->update, "it gathers weights and does not wait for", error);
}

static gboolean check_end(Walk *walk, gint32 i, GError **error) {
  static const char what[] = "it ends a step and does not wait for";
  return await(walk, i, walk->update, what, error) && await(walk, i, walk->gather, what, error);
}

static inline gboolean check_op(Walk *walk, gint32 i, GError **error) {
  switch ((ActionKind)walk->ops[i].action) {
  case ACTION_B:
  case ACTION_W:
    return walk->ops[i].kind != OP_COMPUTE || check_addition(walk, i, error);
  case ACTION_REDUCE_GRAD:
  case ACTION_TIED_GRAD:
  case ACTION_COPY_GRAD:
  case ACTION_WHOLE_GRAD:
    return check_sum(walk, i, error);
  case ACTION_NORM:
    return check_norm(walk, i, error);
  case ACTION_OPTIMIZER:
    return check_update(walk, i, error);
  case ACTION_UNSHARD:
    return check_gather(walk, i, error);
  case ACTION_SYNC:
    return check_end(walk, i, error);
  default:
    return TRUE;
  }
}

static gboolean walk_rank(Walk *walk, int rank, GError **error) {
  const OpList *list = &walk->program->ranks[rank];
  walk->rank = rank;
  walk->ops = list->ops;
  walk->update = walk->gather = -1;
  for (int step = 0; step < walk->program->n_steps; step++)
    walk->steps[step] = (Step){-1, -1, -1, -1, -1};
  ended_list_begin(&walk->ended, list->ops);
  for (gint32 i = 0; i < list->n_ops; i++)
    if (!check_op(walk, i, error))
      return FALSE;
  return TRUE;
}

gboolean update_order_check(const Program *program, GError **error) {
  int longest = 0;
  for (int rank = 0; rank < program->n_ranks; rank++)
    longest = MAX(longest, program->ranks[rank].n_ops);
  g_autofree Ended *ended = g_new(Ended, longest);
  g_autofree Step *steps = g_new(Step, program->n_steps);
  Walk walk = {.program = program, .ended = {.watched = watched, .ended = ended}, .steps = steps};
  for (int rank = 0; rank < program->n_ranks; rank++)
    if (!walk_rank(&walk, rank, error))
      return FALSE;
  return TRUE;
}
