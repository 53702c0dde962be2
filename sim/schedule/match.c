/* Who talks to whom. A lane is (source rank, target rank, tag); its k-th send meets its k-th receive. One pass over all
 * ops: an op that finds a partner waiting in its lane takes the oldest, else it waits there itself. All that wait in a
 * lane at one time are of one kind, so one first-in-first-out chain per lane is enough. */
#include "error.h"
#include "program.h"

typedef struct {
  gint32 source, target, tag;
  guint8 used;
  guint8 kind;        /* OpKind of those who wait */
  gint32 first, last; /* oldest and newest waiting op, as indices into its rank's list; −1 = none */
} Lane;

typedef struct {
  const Program *program;
  gint32 **match; /* the result */
  gint32 **next;  /* [rank][op] the op that came to wait in the same lane after it */
  Lane *lanes;    /* open addressing */
  guint n_lanes;  /* a power of two, more than twice the sends and receives */
} Matcher;

static gint32 **new_op_numbers(const Program *program) {
  gint32 **numbers = g_new(gint32 *, program->n_ranks);
  for (int rank = 0; rank < program->n_ranks; rank++) {
    int n_ops = program->ranks[rank].n_ops;
    numbers[rank] = g_new(gint32, n_ops);
    for (int i = 0; i < n_ops; i++)
      numbers[rank][i] = -1;
  }
  return numbers;
}

static gboolean is_transfer(const Op *op) {
  return op->kind == OP_SEND || op->kind == OP_RECV;
}

static void allocate_lanes(Matcher *matcher) {
  guint n_transfers = 0;
  for (int rank = 0; rank < matcher->program->n_ranks; rank++) {
    const OpList *list = &matcher->program->ranks[rank];
    for (int i = 0; i < list->n_ops; i++)
      n_transfers += is_transfer(&list->ops[i]);
  }
  matcher->n_lanes = 16;
  while (matcher->n_lanes < 2 * n_transfers)
    matcher->n_lanes *= 2;
  matcher->lanes = g_new0(Lane, matcher->n_lanes);
}

static Lane *find_lane(Matcher *matcher, gint32 source, gint32 target, gint32 tag) {
  guint64 hash = (guint)source * 0x9E3779B97F4A7C15u;
  hash = (hash ^ (guint)target) * 0x9E3779B97F4A7C15u;
  hash = (hash ^ (guint)tag) * 0x9E3779B97F4A7C15u;
  for (guint at = (guint)(hash >> 32) & (matcher->n_lanes - 1);; at = (at + 1) & (matcher->n_lanes - 1)) {
    Lane *lane = &matcher->lanes[at];
    if (!lane->used)
      *lane = (Lane){source, target, tag, .used = TRUE, .first = -1, .last = -1};
    if (lane->source == source && lane->target == target && lane->tag == tag)
      return lane;
  }
}

static void match_op(Matcher *matcher, int rank, gint32 i) {
  const Op *op = &matcher->program->ranks[rank].ops[i];
  gboolean is_send = op->kind == OP_SEND;
  Lane *lane = find_lane(matcher, is_send ? rank : op->peer, is_send ? op->peer : rank, op->tag);
  if (lane->first >= 0 && lane->kind != op->kind) {
    gint32 partner = lane->first;
    lane->first = matcher->next[op->peer][partner];
    matcher->match[rank][i] = partner;
    matcher->match[op->peer][partner] = i;
    return;
  }
  if (lane->first < 0)
    lane->first = i;
  else
    matcher->next[rank][lane->last] = i;
  lane->last = i;
  lane->kind = op->kind;
}

static gboolean fail_unmatched(const Program *program, int rank, int i, GError **error) {
  const Op *op = &program->ranks[rank].ops[i];
  g_autoptr(GString) name = g_string_new(NULL);
  action_print(&(Action){op->stage, op->micro_batch, op->action}, name);
  return fail_impossible(error, "rank %d, op %d: %s with tag %d has no %s on rank %d to match it", rank, i, name->str,
                         op->tag, op->kind == OP_SEND ? "receive" : "send", op->peer);
}

static gboolean all_matched(const Matcher *matcher, GError **error) {
  for (int rank = 0; rank < matcher->program->n_ranks; rank++) {
    const OpList *list = &matcher->program->ranks[rank];
    for (int i = 0; i < list->n_ops; i++)
      if (is_transfer(&list->ops[i]) && matcher->match[rank][i] < 0)
        return fail_unmatched(matcher->program, rank, i, error);
  }
  return TRUE;
}

gboolean program_match(const Program *program, gint32 ***match, GError **error) {
  Matcher matcher = {.program = program, .match = new_op_numbers(program), .next = new_op_numbers(program)};
  allocate_lanes(&matcher);
  for (int rank = 0; rank < program->n_ranks; rank++)
    for (gint32 i = 0; i < program->ranks[rank].n_ops; i++)
      if (is_transfer(&program->ranks[rank].ops[i]))
        match_op(&matcher, rank, i);
  gboolean ok = all_matched(&matcher, error);
  program_match_free(program, matcher.next);
  g_free(matcher.lanes);
  if (ok)
    *match = matcher.match;
  else
    program_match_free(program, matcher.match);
  return ok;
}

void program_match_free(const Program *program, gint32 **match) {
  for (int rank = 0; match && rank < program->n_ranks; rank++)
    g_free(match[rank]);
  g_free(match);
}
