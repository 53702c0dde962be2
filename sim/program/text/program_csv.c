/* Two passes over each list, up to the optimizer. The first counts, per stage, what is still to come: gathers, parts
 * that need gathered parameters, reductions. The second counts down and writes a cell where something begins:
 *
 *     gathers   g0 g1            g0
 *     compute         0F0 (2 parts)     0B0
 *     cells     0UNSHARD 0F0 0RESHARD 0UNSHARD 0B0 0RESHARD
 *
 * A stage that still computes after its last gather keeps its parameters: it is gathered once per step, as in ZeRO-1
 * and 2, and not resharded in between. */
#include "program_csv.h"
#include "action.h"

typedef struct {
  int n_gathers, n_reduces; /* still to come */
  int n_users;              /* F, I and B parts still to come */
  int n_gathered;           /* total */
  int n_ahead;              /* gathers whose last user is still to come */
  gboolean is_whole;        /* UNSHARD written, but not RESHARD */
} StageState;

typedef struct {
  const OpList *list;
  StageState *stages; /* [n_stages]; owned */
  gint32 *last_user;  /* [n_ops] for a gather, the last op that waits for it; −1 none; owned */
  GString *out;
  gboolean is_begun; /* the row has at least one cell */
} Row;

static gboolean is_part(const Op *op) {
  return op->kind == OP_COMPUTE && action_info(op->action)->is_compute;
}

static gboolean needs_parameters(const Op *op) {
  return is_part(op) && op->action != ACTION_W;
}

static gboolean is_gather(const Op *op) {
  return op->kind == OP_COLLECTIVE && op->action == ACTION_UNSHARD;
}

static gboolean is_reduce(const Op *op) {
  return op->kind == OP_COLLECTIVE && op->action == ACTION_REDUCE_GRAD;
}

/* Ops of the first step before its optimizer. */
static int length_of(const OpList *list) {
  int n = 0;
  while (n < list->n_ops && list->ops[n].step == 0 && list->ops[n].action != ACTION_OPTIMIZER)
    n++;
  return n;
}

static gboolean same_action(const Op *a, const Op *b) {
  return a->action == b->action && a->stage == b->stage && a->micro_batch == b->micro_batch;
}

/* The part before or after op i; NULL: none. */
static const Op *part_beside(const OpList *list, int i, int direction) {
  for (i += direction; i >= 0 && i < list->n_ops; i += direction)
    if (list->ops[i].kind == OP_COMPUTE)
      return is_part(&list->ops[i]) && list->ops[i].step == 0 ? &list->ops[i] : NULL;
  return NULL;
}

/* The first part of the action that follows op i's; NULL: none. */
static const Op *action_behind(const OpList *list, int i) {
  for (int k = i + 1; k < list->n_ops; k++)
    if (is_part(&list->ops[k]) && list->ops[k].step == 0 && !same_action(&list->ops[i], &list->ops[k]))
      return &list->ops[k];
  return NULL;
}

static void begin_cell(Row *row) {
  if (row->is_begun)
    g_string_append_c(row->out, ',');
  row->is_begun = TRUE;
}

static void write_cell(Row *row, ActionKind kind, int stage, int micro_batch) {
  begin_cell(row);
  action_print(&(Action){.stage = stage, .micro_batch = micro_batch, .kind = (guint8)kind}, row->out);
}

static void unshard(Row *row, int stage) {
  if (row->stages[stage].is_whole)
    return;
  row->stages[stage].is_whole = TRUE;
  write_cell(row, ACTION_UNSHARD, stage, -1);
}

/* Writes UNSHARD before an op that needs its stage, if no gather since the last RESHARD has written it: those of a
 * pair's backward may come after the pair's cell. */
static void unshard_for(Row *row, const Op *op) {
  if (needs_parameters(op) && row->stages[op->stage].n_gathered > 0)
    unshard(row, op->stage);
}

static Action action_of(const Op *op) {
  return (Action){.stage = op->stage, .micro_batch = op->micro_batch, .kind = op->action};
}

/* Whether a forward runs as one with the backward after it. */
static gboolean begins_pair(const Op *op, const Op *behind) {
  return op->overlapped && op->action == ACTION_F && behind != NULL && behind->overlapped && behind->action == ACTION_B;
}

static gboolean is_second_of_pair(const OpList *list, int i) {
  const Op *op = &list->ops[i];
  const Op *before = part_beside(list, i, -1);
  return op->overlapped && op->action == ACTION_B && before != NULL && begins_pair(before, op);
}

static void write_action(Row *row, int i) {
  const Op *op = &row->list->ops[i], *before = part_beside(row->list, i, -1);
  if ((before != NULL && same_action(before, op)) || is_second_of_pair(row->list, i))
    return;
  const Op *behind = op->overlapped ? action_behind(row->list, i) : NULL;
  gboolean is_pair = begins_pair(op, behind);
  unshard_for(row, op);
  if (is_pair)
    unshard_for(row, behind);
  Action first = action_of(op), second = is_pair ? action_of(behind) : first;
  first.overlaps_next = is_pair;
  begin_cell(row);
  action_print_cell(&first, &second, row->out);
}

/* After the last part of an action: reshards its stage if all gathers for it have been used and it will be gathered
 * again or is no longer needed. */
static void reshard_behind(Row *row, int i) {
  const Op *op = &row->list->ops[i], *next = part_beside(row->list, i, 1);
  StageState *stage = &row->stages[op->stage];
  gboolean is_last_part = next == NULL || !same_action(op, next);
  gboolean is_gathered_anew = stage->n_gathers > 0 || stage->n_users == 0;
  if (!stage->is_whole || !is_last_part || stage->n_ahead > 0 || !is_gathered_anew || stage->n_gathered == 1)
    return;
  stage->is_whole = FALSE;
  write_cell(row, ACTION_RESHARD, op->stage, -1);
}

/* Gathers whose last user is op i are used up. */
static void use_gathers(Row *row, int i) {
  const Op *op = &row->list->ops[i];
  for (int k = 0; k < OP_MAX_AFTER && op->after[k] >= 0; k++)
    if (row->last_user[op->after[k]] == i)
      row->stages[row->list->ops[op->after[k]].stage].n_ahead--;
}

static void write_part(Row *row, int i) {
  const Op *op = &row->list->ops[i];
  write_action(row, i);
  row->stages[op->stage].n_users -= needs_parameters(op);
  use_gathers(row, i);
  if (needs_parameters(op))
    reshard_behind(row, i);
}

static void write_op(Row *row, int i) {
  const Op *op = &row->list->ops[i];
  if (is_part(op))
    write_part(row, i);
  else if (op->kind == OP_SEND || op->kind == OP_RECV)
    write_cell(row, op->action, op->stage, op->micro_batch);
  else if (is_gather(op)) {
    row->stages[op->stage].n_gathers--;
    row->stages[op->stage].n_ahead++;
    unshard(row, op->stage);
  } else if (is_reduce(op) && --row->stages[op->stage].n_reduces == 0)
    write_cell(row, ACTION_REDUCE_GRAD, op->stage, -1);
}

/* First pass. */
static void count_ahead(Row *row, int n) {
  for (int i = 0; i < n; i++) {
    const Op *op = &row->list->ops[i];
    row->last_user[i] = -1;
    for (int k = 0; is_part(op) && k < OP_MAX_AFTER && op->after[k] >= 0; k++)
      if (is_gather(&row->list->ops[op->after[k]]))
        row->last_user[op->after[k]] = i;
    if (op->stage < 0)
      continue;
    StageState *stage = &row->stages[op->stage];
    stage->n_gathers += is_gather(op);
    stage->n_gathered += is_gather(op);
    stage->n_reduces += is_reduce(op);
    stage->n_users += needs_parameters(op);
  }
}

static void write_row(const Program *program, const OpList *list, GString *out) {
  int n = length_of(list);
  Row row = {.list = list,
             .stages = g_new0(StageState, program->n_stages),
             .last_user = g_new(gint32, list->n_ops + 1),
             .out = out};
  count_ahead(&row, n);
  for (int i = 0; i < n; i++)
    write_op(&row, i);
  g_string_append_c(out, '\n');
  g_free(row.stages);
  g_free(row.last_user);
}

char *program_to_csv(const Program *program) {
  GString *out = g_string_new(NULL);
  for (int rank = 0; rank < program->n_ranks; rank++)
    write_row(program, &program->ranks[rank], out);
  return g_string_free(out, FALSE);
}
