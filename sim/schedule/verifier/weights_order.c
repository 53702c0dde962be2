/* One pass over each rank's list. What gathers bring are places: embedding, head and each layer of a stage.
 *
 *     dp        | UNSHARD0 a | UNSHARD0 b |        | UNSHARD0 b |
 *     compute                | F0 of a    | F0 of b    | B0 of b |
 *                                            └ waits for the first of b; the one for its B may still be in flight
 *
 * What the compute stream has waited for directly it need not wait for again. Only if that does not answer a question
 * are ended ops worked out (ended.h). */
#include "weights_order.h"

#include "ended.h"
#include "error.h"
#include "fail_op.h"

#include <string.h>

static const Stream watched[N_WATCHED] = {STREAM_DP, STREAM_COPY, STREAM_COMPUTE};

enum { PLACE_EMBEDDING, PLACE_HEAD, PLACE_FIRST_LAYER };
enum { OF_OTHERS, OF_EXPERTS, N_KINDS };
enum { MOST_LAYERS = 1 << 12, MOST_CELLS = 1 << 24 };

/* Gathers so far; −1 none. */
typedef struct {
  gint32 first, last;
} Cell;

/* Per stage of the rank. */
typedef struct {
  gint32 n_layers;          /* layers that may be gathered; −1: nothing of the stage is */
  gint32 first_place;       /* first place of the stage, if anything of it is gathered */
  gint32 micro_batch, step; /* of its latest gather; −1 none */
  gint64 end[N_KINDS];      /* end of the layers gathered so far in the step */
  guint8 ends[N_KINDS];     /* bits gathered so far: embedding, head */
  gboolean is_apart;        /* gathered for several micro-batches of a step */
} StagePlaces;

typedef struct {
  const Program *program;
  int rank;
  const OpList *list;
  EndedList ended;
  StagePlaces *stages; /* [stages] */
  gint32 n_places;
  gint32 n_own;  /* micro-batches with cells of their own: all, or 0 if nothing is gathered twice in a step */
  GArray *cells; /* Cell[1 + steps · n_own][n_places][N_KINDS]; the first row is for gathers of any micro-batch */
  gint32 has_ended[N_STREAMS];      /* latest op that the compute stream has waited for; −1 none */
  gint32 gathered[N_STREAMS];       /* latest gather so far; −1 none */
  gint32 first_gather, last_gather; /* in the list */
  gboolean is_apart;                /* true for some stage */
  const Op *kept;                   /* latest op that names a gather in its `after`; NULL none */
} Walk;

static gboolean gathers(const Op *op) {
  return op->action == ACTION_UNSHARD && op->stage >= 0 && op->kind == OP_COLLECTIVE &&
         (op->stream == STREAM_DP || op->stream == STREAM_COPY);
}

static gboolean reads(const Op *op) {
  return op->kind == OP_COMPUTE && op->stream == STREAM_COMPUTE &&
         (op->action == ACTION_F || op->action == ACTION_I || op->action == ACTION_B);
}

static const Transfer *transfer_of(const Walk *walk, const Op *op) {
  return &g_array_index(walk->program->transfers, Transfer, op->work);
}

/* `micro_batch` −1: the cell for any micro-batch, whatever the step. */
static Cell *cell_of(const Walk *walk, gint32 step, gint32 micro_batch, gint32 place, int kind) {
  const gsize row = micro_batch < 0 ? 0 : 1 + (gsize)step * (gsize)walk->n_own + (gsize)micro_batch;
  return &g_array_index(walk->cells, Cell, (row * (gsize)walk->n_places + (gsize)place) * N_KINDS + (gsize)kind);
}

/* --- gathers --- */

static void note_place(Walk *walk, gint32 i, gint32 place, int kind) {
  const Op *op = &walk->list->ops[i];
  const gint32 micro_batches[] = {-1, op->micro_batch};
  for (int k = 0; k < (op->micro_batch >= 0 && walk->n_own > 0 ? 2 : 1); k++) {
    Cell *cell = cell_of(walk, op->step, micro_batches[k], place, kind);
    cell->first = cell->first < 0 ? i : cell->first;
    cell->last = i;
  }
}

static void note_gather(Walk *walk, gint32 i) {
  const Op *op = &walk->list->ops[i];
  const Transfer *transfer = transfer_of(walk, op);
  const StagePlaces *stage = &walk->stages[op->stage];
  const int kind = transfer->of_experts ? OF_EXPERTS : OF_OTHERS;
  const gint32 end = (gint32)MIN((gint64)op->unit + transfer->n_layers, stage->n_layers);
  walk->gathered[op->stream] = i;
  if (transfer->n_embedding > 0)
    note_place(walk, i, stage->first_place + PLACE_EMBEDDING, kind);
  if (transfer->n_head > 0)
    note_place(walk, i, stage->first_place + PLACE_HEAD, kind);
  for (gint32 layer = MAX(op->unit, 0); layer < end; layer++)
    note_place(walk, i, stage->first_place + PLACE_FIRST_LAYER + layer, kind);
}

/* --- readers --- */

static gboolean await(Walk *walk, gint32 i, gint32 gather, GError **error) {
  gint32 *known = &walk->has_ended[walk->list->ops[gather].stream];
  if (*known >= gather)
    return TRUE;
  if (!ended_list_has(&walk->ended, i, gather))
    return fail_at_op(walk->program, walk->rank, i, "it reads weights and does not wait for", gather,
                      ", which gathers them", error);
  *known = gather;
  return TRUE;
}

static gboolean fail_released(const Walk *walk, gint32 i, const char *what, GError **error) {
  return fail_at_op(walk->program, walk->rank, i, what, -1, "", error);
}

static gboolean names(const Op *op, gint32 gather) {
  for (int k = 0; k < OP_MAX_AFTER && op->after[k] >= 0; k++)
    if (op->after[k] == gather)
      return TRUE;
  return FALSE;
}

/* A layer of a stage that must be gathered for each of its readers. */
static gboolean check_apart(const Walk *walk, gint32 i, const Cell *own, GError **error) {
  const Op *op = &walk->list->ops[i];
  if (own->first < 0)
    return fail_released(walk, i, "no UNSHARD of its micro-batch gathers the weights of its layer", error);
  const gboolean is_kept = walk->kept != NULL && op_same_action(walk->kept, op) && walk->kept->unit == op->unit &&
                           names(walk->kept, own->first);
  return op->action == ACTION_F || own->last > own->first || is_kept ||
         fail_released(walk, i, "no UNSHARD gathers the weights of its layer again, which its forward has used", error);
}

static gboolean check_place(Walk *walk, gint32 i, gint32 place, gboolean is_layer, GError **error) {
  const Op *op = &walk->list->ops[i];
  for (int kind = 0; kind < N_KINDS; kind++) {
    const Cell *any = cell_of(walk, op->step, -1, place, kind);
    if (any->last < 0)
      continue;
    const Cell *own = walk->n_own > 0 ? cell_of(walk, op->step, op->micro_batch, place, kind) : any;
    if (is_layer && walk->stages[op->stage].is_apart && !check_apart(walk, i, own, error))
      return FALSE;
    const gint32 gather = own == any || own->first < 0 ? any->last : op->action == ACTION_F ? own->first : own->last;
    if (!await(walk, i, gather, error))
      return FALSE;
  }
  return TRUE;
}

static gboolean check_layers(Walk *walk, gint32 i, gint64 first, gint64 n, GError **error) {
  const StagePlaces *stage = &walk->stages[walk->list->ops[i].stage];
  const gint64 end = MIN(first + n, stage->n_layers);
  for (gint64 layer = first; layer < end; layer++)
    if (!check_place(walk, i, stage->first_place + PLACE_FIRST_LAYER + (gint32)layer, TRUE, error))
      return FALSE;
  return TRUE;
}

/* What the op waits for directly, all later ops on the compute stream have waited for too. */
static void note_waits(Walk *walk, gint32 i) {
  const Op *op = &walk->list->ops[i];
  for (int k = 0; k < OP_MAX_AFTER && op->after[k] >= 0; k++) {
    const Op *before = &walk->list->ops[op->after[k]];
    walk->has_ended[before->stream] = MAX(walk->has_ended[before->stream], op->after[k]);
    if (gathers(before))
      walk->kept = op;
  }
}

/* Whether the compute stream has waited for every gather so far. */
static gboolean has_all(const Walk *walk) {
  return walk->has_ended[STREAM_DP] >= walk->gathered[STREAM_DP] &&
         walk->has_ended[STREAM_COPY] >= walk->gathered[STREAM_COPY];
}

static gboolean check_reader(Walk *walk, gint32 i, GError **error) {
  const Op *op = &walk->list->ops[i];
  const StagePlaces *stage = &walk->stages[op->stage];
  note_waits(walk, i);
  if (stage->n_layers < 0 || (!stage->is_apart && has_all(walk)))
    return TRUE;
  const Work *work = &g_array_index(walk->program->works, Work, op->work);
  const gboolean is_layer = work->piece == PIECE_LAYER || work->piece == PIECE_DENSE_LAYER;
  if ((work->n_embedding > 0 || work->piece == PIECE_EMBEDDING) &&
      !check_place(walk, i, stage->first_place + PLACE_EMBEDDING, FALSE, error))
    return FALSE;
  if ((work->n_head > 0 || work->piece == PIECE_HEAD) &&
      !check_place(walk, i, stage->first_place + PLACE_HEAD, FALSE, error))
    return FALSE;
  return check_layers(walk, i, op->unit, work->piece < 0 ? work->n_layers : is_layer, error);
}

/* --- the walk --- */

/* Whether part of it was already gathered in the step, or the stage for another micro-batch. */
static gboolean gathers_again(StagePlaces *stage, const Op *op, const Transfer *transfer) {
  const int kind = transfer->of_experts ? OF_EXPERTS : OF_OTHERS;
  const guint8 ends = (guint8)((transfer->n_embedding > 0) | (transfer->n_head > 0) << 1);
  if (stage->step != op->step) {
    memset(stage->end, 0, sizeof stage->end);
    memset(stage->ends, 0, sizeof stage->ends);
  } else {
    stage->is_apart |= stage->micro_batch != op->micro_batch;
  }
  const gboolean is_again = (transfer->n_layers > 0 && op->unit < stage->end[kind]) || (stage->ends[kind] & ends) != 0;
  stage->end[kind] = MAX(stage->end[kind], (gint64)op->unit + transfer->n_layers);
  stage->ends[kind] |= ends;
  stage->micro_batch = op->micro_batch;
  stage->step = op->step;
  return is_again || stage->is_apart;
}

/* Whether the rank gathers anything. */
static gboolean find_gathers(Walk *walk) {
  walk->n_own = 0;
  walk->first_gather = walk->last_gather = -1;
  walk->is_apart = FALSE;
  for (int stage = 0; stage < walk->program->n_stages; stage++)
    walk->stages[stage] = (StagePlaces){.n_layers = -1, .micro_batch = -1, .step = -1};
  for (gint32 i = 0; i < walk->list->n_ops; i++) {
    const Op *op = &walk->list->ops[i];
    if (!gathers(op))
      continue;
    const Transfer *transfer = transfer_of(walk, op);
    StagePlaces *stage = &walk->stages[op->stage];
    const gint64 end = MAX((gint64)op->unit + transfer->n_layers, 0);
    walk->first_gather = walk->first_gather < 0 ? i : walk->first_gather;
    walk->last_gather = i;
    stage->n_layers = (gint32)MAX(stage->n_layers, transfer->n_layers > 0 ? MIN(end, MOST_LAYERS + 1) : 0);
    if (op->micro_batch >= 0 && gathers_again(stage, op, transfer))
      walk->n_own = walk->program->n_micro_batches;
    walk->is_apart |= stage->is_apart;
  }
  return walk->last_gather >= 0;
}

/* FALSE: beyond the limits, so not checked. */
static gboolean lay_out(Walk *walk) {
  gint64 n_places = 0;
  for (int i = 0; i < walk->program->n_stages; i++) {
    StagePlaces *stage = &walk->stages[i];
    if (stage->n_layers < 0)
      continue;
    stage->first_place = (gint32)n_places;
    n_places += PLACE_FIRST_LAYER + stage->n_layers;
    if (n_places > MOST_LAYERS)
      return FALSE;
  }
  const gint64 n_rows = 1 + (gint64)walk->program->n_steps * walk->n_own;
  if (n_rows > MOST_CELLS / (n_places * N_KINDS))
    return FALSE;
  walk->n_places = (gint32)n_places;
  g_array_set_size(walk->cells, (guint)(n_rows * n_places * N_KINDS));
  memset(walk->cells->data, -1, walk->cells->len * sizeof(Cell)); /* −1: none */
  return TRUE;
}

static gboolean walk_rank(Walk *walk, int rank, GError **error) {
  walk->rank = rank;
  walk->list = &walk->program->ranks[rank];
  if (!find_gathers(walk) || !lay_out(walk))
    return TRUE;
  ended_list_begin(&walk->ended, walk->list->ops);
  memset(walk->has_ended, -1, sizeof walk->has_ended);
  memset(walk->gathered, -1, sizeof walk->gathered);
  walk->kept = NULL;
  for (gint32 i = walk->first_gather; i < walk->list->n_ops; i++) {
    const Op *op = &walk->list->ops[i];
    if (i > walk->last_gather && !walk->is_apart && has_all(walk))
      return TRUE; /* so has everything after it */
    if (gathers(op))
      note_gather(walk, i);
    else if (reads(op) && !check_reader(walk, i, error))
      return FALSE;
  }
  return TRUE;
}

gboolean weights_order_check(const Program *program, GError **error) {
  int longest = 0;
  for (int rank = 0; rank < program->n_ranks; rank++)
    longest = MAX(longest, program->ranks[rank].n_ops);
  g_autofree Ended *ended = g_new(Ended, longest);
  g_autofree StagePlaces *stages = g_new(StagePlaces, program->n_stages);
  g_autoptr(GArray) cells = g_array_new(FALSE, FALSE, sizeof(Cell));
  Walk walk = {.program = program, .ended = {.watched = watched, .ended = ended}, .stages = stages, .cells = cells};
  for (int rank = 0; rank < program->n_ranks; rank++)
    if (!walk_rank(&walk, rank, error))
      return FALSE;
  return TRUE;
}
