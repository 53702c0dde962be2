/* One walk over every rank's list with a cell for each (step, stage, micro-batch): what of it has been received,
 * computed and sent so far. */

#include "checks.h"

#include "clocks.h"
#include "error.h"
#include "fail_op.h"

enum { FORWARD, BACKWARD, N_DIRECTIONS };
/* State of one (step, stage, micro-batch): indices into the list of the rank that holds the stage. */
typedef struct {
  gint32 last[ACTION_B + 1];    /* F I W B: last part so far; −1 = not yet */
  gint32 receive[N_DIRECTIONS]; /* −1 = not yet */
  guint8 sent[N_DIRECTIONS];
} Cell;

typedef struct {
  const Program *program;
  gint32 *stage_rank; /* [stages] −1 = no compute op seen; owned */
  Cell *cells;        /* [step][stage][micro-batch]; owned */
  Clocks clocks;
  int rank;
  const Op *ops;
  gint32 computed; /* latest op on the compute stream; −1 = none */
} Walk;

static gboolean fail_at(const Walk *walk, gint32 i, const char *what, GError **error) {
  return fail_at_op(walk->program, walk->rank, i, error, "%s", what);
}

/* The same, naming an action related to op i: "… before its receive 1RECV_F0". */
static gboolean fail_action(const Walk *walk, gint32 i, const char *what, int stage, ActionKind kind, GError **error) {
  g_autoptr(GString) text = g_string_new(what);
  action_print(&(Action){stage, walk->ops[i].micro_batch, (guint8)kind}, text);
  return fail_at(walk, i, text->str, error);
}

static inline Cell *cell_of(const Walk *walk, const Op *op, int stage) {
  const Program *program = walk->program;
  gsize row = (gsize)op->step * program->n_stages + stage;
  return &walk->cells[row * program->n_micro_batches + op->micro_batch];
}

static inline gboolean is_part(const Op *op) {
  return op->kind == OP_COMPUTE && op->stream == STREAM_COMPUTE && action_info(op->action)->is_compute;
}

/* Whether both are parts of the same action. */
static inline gboolean same_action(const Op *part, const Op *op) {
  return op->stage == part->stage && op->micro_batch == part->micro_batch && op->action == part->action &&
         op->step == part->step && is_part(op);
}

static gint32 gradient_of(const Cell *cell) {
  return MAX(cell->last[ACTION_I], cell->last[ACTION_B]);
}

/* The activation from the previous stage, or the gradient from the next one. `own`: cell of the op's stage. */
static gboolean check_input(Walk *walk, gint32 i, const Cell *own, int direction, GError **error) {
  const Op *op = &walk->ops[i];
  int source = stage_next(op->stage, direction == BACKWARD, walk->program->n_stages, walk->program->n_pipes);
  if (source < 0)
    return TRUE;
  if (walk->stage_rank[source] == walk->rank) {
    const Cell *cell = cell_of(walk, op, source);
    if ((direction == FORWARD ? cell->last[ACTION_F] : gradient_of(cell)) >= 0)
      return TRUE;
    return fail_action(walk, i, "it runs before its input ", source, direction == FORWARD ? ACTION_F : ACTION_B, error);
  }
  gint32 receive = own->receive[direction];
  ActionKind kind = direction == FORWARD ? ACTION_RECV_F : ACTION_RECV_B;
  if (receive < 0)
    return fail_action(walk, i, "it runs before its receive ", op->stage, kind, error);
  return clocks_has_ended(&walk->clocks, i, receive) ||
         fail_action(walk, i, "it does not wait for its receive ", op->stage, kind, error);
}

/* With two pipes, a micro-batch passes the stages of only one of them. */
static gboolean goes_through(const Program *program, gsize cell) {
  if (program->n_pipes == 1)
    return TRUE;
  int micro_batch = (int)(cell % program->n_micro_batches),
      stage = (int)(cell / program->n_micro_batches) % program->n_stages;
  return micro_batch_pipe(micro_batch, program->n_micro_batches, program->n_pipes) ==
         stage / (program->n_stages / program->n_pipes);
}

/* What must have ended before the first part of an action. The compute stream runs in order, so for what this rank
 * computes itself list order is enough. */
static gboolean check_start(Walk *walk, gint32 i, const Cell *cell, GError **error) {
  const Op *op = &walk->ops[i];
  if (!goes_through(walk->program, (gsize)(cell - walk->cells)))
    return fail_at(walk, i, "it is of a micro-batch that goes through the other pipe", error);
  if (cell->last[op->action] >= 0)
    return fail_at(walk, i, "it runs a second time, apart from the first", error);
  gboolean in_halves = cell->last[ACTION_I] >= 0 || cell->last[ACTION_W] >= 0;
  if (op->action == ACTION_B ? in_halves : op->action != ACTION_F && cell->last[ACTION_B] >= 0)
    return fail_at(walk, i, "it repeats a gradient: a micro-batch has either B, or I and W", error);
  if (op->action == ACTION_F)
    return check_input(walk, i, cell, FORWARD, error);
  if (cell->last[ACTION_F] < 0)
    return fail_action(walk, i, "it runs before its forward ", op->stage, ACTION_F, error);
  if (op->action == ACTION_W)
    return cell->last[ACTION_I] >= 0 ||
           fail_action(walk, i, "it runs before its input gradient ", op->stage, ACTION_I, error);
  return check_input(walk, i, cell, BACKWARD, error);
}

/* The halves of an overlapped pair may alternate: all compute between two parts of one half are parts of the
 * other. */
static gboolean takes_turns(const Walk *walk, const Cell *cell, gint32 i) {
  const Op *op = &walk->ops[i], *other = NULL;
  const gint32 last = op->action == ACTION_F || op->action == ACTION_B ? cell->last[op->action] : -1;
  for (gint32 k = last + 1; k < i && op->overlapped && last >= 0; k++) {
    const Op *between = &walk->ops[k];
    if (between->kind != OP_COMPUTE)
      continue;
    if (other == NULL && (!between->overlapped || between->action == op->action))
      return FALSE;
    if (other != NULL && !(is_part(other) && same_action(other, between)))
      return FALSE;
    other = between;
  }
  return other != NULL;
}

static gboolean check_part(Walk *walk, gint32 i, GError **error) {
  const Op *op = &walk->ops[i];
  Cell *cell = cell_of(walk, op, op->stage);
  gint32 previous = walk->computed;
  if ((previous < 0 || !same_action(op, &walk->ops[previous])) && !takes_turns(walk, cell, i)) {
    if (!check_start(walk, i, cell, error))
      return FALSE;
  } else if (op->action != ACTION_W && cell->sent[op->action == ACTION_F ? FORWARD : BACKWARD])
    return fail_at(walk, i, "it goes on after its result was sent", error);
  cell->last[op->action] = i;
  return TRUE;
}

static gboolean check_receive(const Walk *walk, gint32 i, int direction, GError **error) {
  const Op *op = &walk->ops[i];
  gint32 *receive = &cell_of(walk, op, op->stage)->receive[direction];
  if (*receive >= 0)
    return fail_at(walk, i, "it is received a second time", error);
  *receive = i;
  return TRUE;
}

static gboolean check_send(Walk *walk, gint32 i, int direction, GError **error) {
  const Op *op = &walk->ops[i];
  Cell *cell = cell_of(walk, op, op->stage);
  gint32 source = direction == FORWARD ? cell->last[ACTION_F] : gradient_of(cell);
  ActionKind kind = direction == FORWARD ? ACTION_F : ACTION_B;
  if (source < 0)
    return fail_action(walk, i, "it is sent before it is computed by ", op->stage, kind, error);
  if (!clocks_has_ended(&walk->clocks, i, source))
    return fail_action(walk, i, "it does not wait for ", op->stage, walk->ops[source].action, error);
  cell->sent[direction] = TRUE;
  return TRUE;
}

static gboolean check_op(Walk *walk, gint32 i, GError **error) {
  const Op *op = &walk->ops[i];
  if (is_part(op))
    return check_part(walk, i, error);
  if (op->kind == OP_RECV && (op->action == ACTION_RECV_F || op->action == ACTION_RECV_B))
    return check_receive(walk, i, op->action == ACTION_RECV_F ? FORWARD : BACKWARD, error);
  if (op->kind == OP_SEND && (op->action == ACTION_SEND_F || op->action == ACTION_SEND_B))
    return check_send(walk, i, op->action == ACTION_SEND_F ? FORWARD : BACKWARD, error);
  return TRUE;
}

/* What belongs to a stage is on the stage's rank. */
static gboolean check_rank(const Walk *walk, gint32 i, GError **error) {
  const int stage = walk->ops[i].stage, rank = stage >= 0 ? walk->stage_rank[stage] : walk->rank;
  return rank == walk->rank || rank < 0 ||
         fail_at_op(walk->program, walk->rank, i, error, "it is of stage %d, which is computed on rank %d", stage,
                    rank);
}

static gboolean walk_rank(Walk *walk, int rank, GError **error) {
  const OpList *list = &walk->program->ranks[rank];
  walk->rank = rank;
  walk->ops = list->ops;
  walk->computed = -1;
  clocks_begin(&walk->clocks, list);
  for (gint32 i = 0; i < list->n_ops; i++) {
    if (!check_rank(walk, i, error) || !check_op(walk, i, error))
      return FALSE;
    if (list->ops[i].stream == STREAM_COMPUTE)
      walk->computed = i;
  }
  return TRUE;
}

/* Finds the rank of each stage, which must be only one. */
static gboolean find_stage_ranks(const Walk *walk, GError **error) {
  const Program *program = walk->program;
  for (int stage = 0; stage < program->n_stages; stage++)
    walk->stage_rank[stage] = -1;
  for (int rank = 0; rank < program->n_ranks; rank++)
    for (int i = 0; i < program->ranks[rank].n_ops; i++) {
      const Op *op = &program->ranks[rank].ops[i];
      if (!is_part(op))
        continue;
      gint32 *known = &walk->stage_rank[op->stage];
      if (*known >= 0 && *known != rank)
        return fail_impossible(error, "stage %d is computed on ranks %d and %d", op->stage, *known, rank);
      *known = rank;
    }
  return TRUE;
}

static gboolean fail_missing(const Program *program, gsize cell, const char *what, GError **error) {
  gsize micro_batch = cell % program->n_micro_batches, row = cell / program->n_micro_batches;
  return fail_impossible(
      error, "stage %" G_GSIZE_FORMAT ", micro-batch %" G_GSIZE_FORMAT ", step %" G_GSIZE_FORMAT ": %s is missing",
      row % program->n_stages, micro_batch, row / program->n_stages, what);
}

static gboolean check_all_there(const Walk *walk, gsize n_cells, GError **error) {
  for (gsize i = 0; i < n_cells; i++) {
    if (!goes_through(walk->program, i))
      continue;
    const gint32 *last = walk->cells[i].last;
    if (last[ACTION_F] < 0)
      return fail_missing(walk->program, i, "F", error);
    if (last[ACTION_B] < 0 && last[ACTION_I] < 0)
      return fail_missing(walk->program, i, "its backward (B, or I and W)", error);
    if (last[ACTION_B] < 0 && last[ACTION_W] < 0)
      return fail_missing(walk->program, i, "W", error);
  }
  return TRUE;
}

/* Number of cells; 0 and an error if the ops cannot fill them with at least two each. So a program's counts cannot
 * request memory that its ops do not justify. */
static gsize count_cells(const Program *program, GError **error) {
  gsize n_ops = 0;
  for (int rank = 0; rank < program->n_ranks; rank++)
    n_ops += program->ranks[rank].n_ops;
  double n_cells = (double)program->n_steps * program->n_stages * program->n_micro_batches;
  if (2 * n_cells / program->n_pipes <= (double)n_ops)
    return (gsize)n_cells;
  fail_impossible(error,
                  "%d steps of %d stages and %d micro-batches are at least %.0f compute ops, the program has "
                  "%" G_GSIZE_FORMAT " ops",
                  program->n_steps, program->n_stages, program->n_micro_batches, 2 * n_cells, n_ops);
  return 0;
}

gboolean actions_check(const Program *program, GError **error) {
  const gsize n_cells = count_cells(program, error);
  if (n_cells == 0)
    return FALSE;
  Walk walk = {.program = program, .stage_rank = g_new(gint32, program->n_stages), .cells = g_new(Cell, n_cells)};
  clocks_init(&walk.clocks, program);
  for (gsize i = 0; i < n_cells; i++)
    walk.cells[i] = (Cell){.last = {-1, -1, -1, -1}, .receive = {-1, -1}};
  gboolean ok = find_stage_ranks(&walk, error);
  for (int rank = 0; ok && rank < program->n_ranks; rank++)
    ok = walk_rank(&walk, rank, error);
  ok = ok && check_all_there(&walk, n_cells, error);
  g_free(walk.stage_rank);
  g_free(walk.cells);
  clocks_clear(&walk.clocks);
  return ok;
}
